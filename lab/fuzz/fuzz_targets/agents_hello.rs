//! What another agent says of itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::frames::hello(bytes));
