//! Views of a cluster.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::view(bytes));
