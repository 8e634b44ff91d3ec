//! A load: requests of one kind, and what measuring them brought.

use headstart_units::Nanos;
use headstart_units::request::Direction;
use serde::Serialize;

use super::latencies::Latencies;

/// The smallest request: a block that every device and file system takes.
pub const BLOCK_BYTES: u64 = 4096;

/// Where the requests of a load go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Uniform over the span, at multiples of the request size.
    Random,
    /// One stream, which all lanes take their next request from.
    Sequential,
    /// A stream for each lane, in its own part of the span, as ranks of a program have it.
    Parts,
    /// As parts, each request leaving out a block behind the one before: what joins neighbours has nothing to join.
    Gapped,
    /// One stream that all lanes take their next request from, each `stride_bytes` behind the begin of the
    /// one before: short pieces as they are written back.
    Pieces {
        /// From the start of one to the start of the next.
        stride_bytes: u64,
    },
    /// A read anywhere, then one `distance_bytes` further, which alone counts.
    Seek {
        /// From the start of one to the start of the other.
        distance_bytes: u64,
    },
    /// A read anywhere, then the same again, which alone counts: what a read costs without arm or spindle.
    Again,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Where they go.
    pub pattern: Pattern,
    /// Reads or writes.
    pub direction: Direction,
    /// Bytes of each.
    pub size_bytes: u64,
    /// How many are under way.
    pub depth: u32,
    /// The part of file or device they go to, from its start.
    pub span_bytes: u64,
}

/// A load and the latencies it had.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The load.
    pub load: Load,
    /// Of each request that counts.
    pub latencies: Latencies,
    /// Bytes of all requests.
    pub bytes: u64,
    /// From the first request to the last reply.
    pub elapsed: Nanos,
}

impl Measured {
    /// Bytes per second; none if nothing was measured.
    pub fn bytes_per_s(&self) -> Option<f64> {
        (self.bytes > 0 && self.elapsed > Nanos::ZERO).then(|| self.bytes as f64 / self.elapsed.seconds())
    }

    /// The mean latency in seconds, from the rate: requests that found the queue empty or leave it so do not tell.
    pub fn mean_s(&self) -> Option<f64> {
        Some(f64::from(self.load.depth) * self.load.size_bytes as f64 / self.bytes_per_s()?)
    }
}
