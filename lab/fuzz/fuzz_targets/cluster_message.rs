//! Messages of the protocol between agents, and views.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::membership::message(bytes));
