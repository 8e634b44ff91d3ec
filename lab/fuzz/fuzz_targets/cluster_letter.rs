//! What agents of several nodes send to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::letter(bytes));
