//! The access patterns of well-known parallel I/O benchmarks, each reduced to plans.

pub mod btio;
pub mod hpio;
pub mod ior;
pub mod iozone;
pub mod mpi_io_test;
pub mod tile;

use headstart_units::request::Direction;

use crate::description::{Operation, Problem};
use crate::plan::Plan;
use crate::step::Phase;

/// How the benchmark computes the rate that it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// All bytes over the time from the first open to the last close.
    OpenToClose,
    /// All bytes over the time that the slowest rank spent in its requests.
    SlowestRequests,
    /// All bytes times the mean over ranks of 1 / the time spent in requests.
    MeanOfRanks,
    /// The sum of the ranks' own rates, open and close left out.
    SumOfRanks,
}

/// A pattern with its parameters, which were found to make sense.
pub trait Pattern: Send + Sync {
    /// Ranks that take part; surplus ones idle.
    fn ranks(&self) -> u32;

    /// Its timed passes over the file or files.
    fn phases(&self) -> Vec<Phase>;

    /// What a rank does in a phase, by its number in [`Pattern::phases`].
    fn plan(&self, phase: usize, rank: u32) -> Plan;

    /// Bytes of each file once all ranks have written.
    fn file_bytes(&self) -> u64;

    /// Whether each rank has a file of its own, of the rank's number.
    fn has_file_per_rank(&self) -> bool {
        false
    }

    /// No request moves more.
    fn request_bytes_max(&self) -> u64;

    /// Requests of the rank that makes most, in a phase.
    fn requests_max(&self, phase: usize) -> u64 {
        self.plan(phase, 0).requests()
    }

    /// What it reports.
    fn rate(&self) -> Rate;
}

/// A pass that writes, one that reads, or both.
fn phases_of(operation: Operation) -> Vec<Phase> {
    let both =
        [Phase { name: "write", direction: Direction::Write }, Phase { name: "read", direction: Direction::Read }];
    both.into_iter().filter(|phase| operation.has(phase.direction)).collect()
}

/// Offsets are signed where they go through MPI and the kernel, and sums of two of them must not overflow.
const FILE_BYTES_MAX: u64 = 1 << 61;

fn check_file_bytes(bytes: u64) -> Result<(), Problem> {
    if bytes > FILE_BYTES_MAX {
        return Err(Problem::new("the file would exceed 2^61 bytes; lower the sizes or counts"));
    }
    Ok(())
}
