//! Blocks of a volume of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::volumes::blocks(bytes));
