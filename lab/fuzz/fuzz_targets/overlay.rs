//! Messages in any order, and scribbles in the shared file.
#![no_main]

use headstart_parsers as checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::hostile::run(bytes);
});
