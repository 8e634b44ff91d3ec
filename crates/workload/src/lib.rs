//! What parallel programs ask of storage: the request streams of well-known benchmarks, rank by rank.
//!
//! A [`Program`] is the description; [`Program::steps`] is what one of its ranks does, one [`Step`] after another, made as it is
//! asked for. Nothing here does I/O or knows a clock: a simulator or a real program carries the steps out.
#![forbid(unsafe_code)]

mod step;

pub use step::{Program, Step};
