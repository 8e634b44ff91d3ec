//! Journals of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::journal::bytes(bytes));
