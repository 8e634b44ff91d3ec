//! What parallel programs ask of storage: the request streams of well-known benchmarks, rank by rank.
//!
//! ```text
//! Description (TOML) --check, program--> Program --steps of a rank--> Step, Step, ...     for a simulator
//!                  \__ Pattern __/
//! lab/bench/patterns (C) --c_interface--/        the same offsets, for MPI-IO
//! trace --Replay--> Program
//! ```
//!
//! A [`Program`] is the description; [`Program::steps`] is what one of its ranks does, one [`Step`] after
//! another, made as it is asked for. Which bytes request number `i` of a rank is for is a function of the
//! pattern, the seed, the rank and `i` alone: there is no table of requests, so that memory is a few numbers
//! a rank however long a program runs, and the same seed gives the same requests on every machine (floating
//! point goes through `libm`, not through the system's library).
//!
//! Nothing here does I/O or knows a clock: a simulator or a real program carries the steps out.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod c_interface;
mod description;
mod pattern;
mod permutation;
mod plan;
mod program;
mod random;
mod repetition;
mod replay;
mod sequence;
mod step;
mod zipf;

pub use description::{Common, Description, Job, Operation, Problem};
pub use pattern::Rate;
pub use pattern::btio::{Btio, Class};
pub use pattern::hpio::{Hpio, Shape};
pub use pattern::ior::{Ior, Order};
pub use pattern::iozone::Iozone;
pub use pattern::mpi_io_test::MpiIoTest;
pub use pattern::tile::Tile;
pub use repetition::{Repeat, Repetition};
pub use replay::{Replay, Survey};
pub use sequence::{Sequence, Succession};
pub use step::{Phase, Program, Step};
