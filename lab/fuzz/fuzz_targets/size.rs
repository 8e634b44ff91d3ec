//! Sizes and capacities as people write them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::packets::size(bytes));
