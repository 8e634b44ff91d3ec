//! Traces: every data request of every process of a run, in Headstart's own form or as other tools wrote it down.
//!
//! ```text
//! library --Encoder--> blocks of a process's file --decode--> Record --Merge--> records by start time
//! Darshan DXT text --dxt::Reader--\
//! fio iolog ----------iolog::Reader+--> Record, in the order of the text
//! ```
//!
//! | who | uses |
//! |---|---|
//! | a library that records | [`header::Header`] once, then [`block::Encoder`] for each thread's blocks |
//! | who reads what it wrote | [`header::Header::decode`], [`block::Head`], [`block::Decoder`] |
//! | who reads other tools' traces | [`dxt::Reader`], [`iolog::Reader`]: a line in, a [`Record`] out |
//! | who wants one order | [`Merge`] |
//!
//! Nothing is guessed: what a trace does not hold whole is left out, and counted by kind in [`Losses`].
#![forbid(unsafe_code)]

pub mod block;
pub mod dxt;
mod encoding;
mod files;
pub mod header;
pub mod iolog;
mod losses;
mod merge;
mod record;
#[cfg(test)]
mod tests;

pub use files::Files;
pub use losses::{Loss, Losses};
pub use merge::Merge;
pub use record::{Operation, Record};
