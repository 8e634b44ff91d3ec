//! Acts of a probe between nodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::act(bytes));
