//! Letters with notes between agents.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::notes(bytes));
