//! Attributes of dirty files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::text::attribute(bytes));
