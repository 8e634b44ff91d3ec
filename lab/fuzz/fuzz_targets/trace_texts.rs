//! Traces of other tools.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::traces::texts(bytes));
