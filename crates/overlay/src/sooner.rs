//! Which side answers reads of a file sooner ([`FasterSide`]), by what threads have measured ([`ReadTimes`]).
//!
//! Bytes that lie on both sides are read from the disks where these are, and none are fetched.

use headstart_policy::order::FasterSide;
use headstart_protocol::read_times::{ReadTimes, Side};

/// What is known of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sooner(FasterSide);

impl Sooner {
    /// Whether the disks answer sooner, by what was measured by now.
    pub(crate) fn is_disk(&mut self, times: &ReadTimes) -> bool {
        self.0.is_disk(times.measured(Side::Disk), times.measured(Side::Flash))
    }

    /// The same for a read of bytes that both sides have, unless it is a trial of flash.
    pub(crate) fn prefers_disk(&mut self, times: &ReadTimes) -> bool {
        self.0.prefers_disk(times.measured(Side::Disk), times.measured(Side::Flash))
    }
}
