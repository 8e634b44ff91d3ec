//! Commands and answers of the command line.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::text::control(bytes));
