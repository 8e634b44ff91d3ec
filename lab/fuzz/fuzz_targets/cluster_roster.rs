//! Lists of a directory's nodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::roster(bytes));
