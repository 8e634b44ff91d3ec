//! Files of recorded processes, of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::traces::bytes(bytes));
