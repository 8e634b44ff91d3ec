//! Files of origin of fast directories.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::text::origin(bytes));
