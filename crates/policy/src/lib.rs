//! Which bytes are worth flash: one file a paper, and the cost models they decide by.
//!
//! | module | what it decides |
//! |---|---|
//! | [`client`] | which requests of a file go to flash: `s4d`, `carl`, `d_carl`; a [`chain`](client::chain) of them asks one after the other |
//! | [`server`] | which writes a volume's log takes, what is staged and kept of heads: `itransformer`, `liu` |
//! | [`cost`] | what a request costs a disk and flash: S4D's benefit, CARL's regions and gains |
//! | [`order`] | detectors of order: whether the disk serves a request well anyway |
//!
//! A policy sees requests and answers with a decision; it touches no mechanism.
#![forbid(unsafe_code)]

pub mod client;
pub mod cost;
pub mod order;
pub mod server;
