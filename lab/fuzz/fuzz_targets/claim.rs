//! Claims on managed directories.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::text::claim(bytes));
