//! Requests for figures.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headstart_parsers::text::metrics_request(bytes));
