//! Notes of files that nodes brought back of one that is gone.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::salvaged(bytes));
