//! What a file server costs.
#![forbid(unsafe_code)]

pub mod server;
