//! Packets from the agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::packets::reply(bytes));
