//! Blocks of requests that say anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::traces::requests(bytes));
