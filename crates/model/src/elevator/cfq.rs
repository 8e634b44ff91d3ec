//! CFQ's settings.

use headstart_core::units::Nanos;

/// How CFQ shares a drive. The defaults are those of Linux 2.6.18 (general knowledge; WORKLOADS 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfqConfig {
    /// How long a queue of reads is served before the next one's turn.
    pub slice: Nanos,
    /// The same of the queue of all writes.
    pub async_slice: Nanos,
    /// Writes served in one turn.
    pub async_requests_max: usize,
    /// How long the drive waits for the next read of a rank whose queue ran dry; zero is not at all.
    pub idle_rank: Nanos,
    /// The same for the reads of a file's read-ahead.
    pub idle_read_ahead: Nanos,
    /// Commands of one queue in the drive at a time.
    pub quantum: usize,
}

impl Default for CfqConfig {
    fn default() -> CfqConfig {
        CfqConfig {
            slice: Nanos(100_000_000),
            async_slice: Nanos(40_000_000),
            async_requests_max: 16,
            idle_rank: Nanos(8_000_000),
            idle_read_ahead: Nanos(8_000_000),
            quantum: 4,
        }
    }
}
