//! Frames from another agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    headstart_parsers::frames::frames(bytes);
});
