//! What an agent is told once, and how much flash it may use.

use headstart_cluster::MemberId;
use headstart_protocol::shared::FILES_MAX;
use headstart_units::Capacity;
use headstart_units::request::Range;

/// What an agent is told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much flash may be used.
    pub capacity: Capacity,
    /// Write-back starts when more than this share of the capacity is dirty.
    pub dirty_high: f64,
    /// and stops when less than this share is.
    pub dirty_low: f64,
    /// Above this dirty share write-back no longer yields to the foreground.
    pub dirty_full: f64,
    /// The least share of the requests at the disks that write-back keeps then.
    pub write_back_share_min: f64,
    /// Copies in flight at once.
    pub copies_max: usize,
    /// Longest write-back, bytes.
    pub write_back_bytes_max: u64,
    /// What write-back leaps over behind a piece shorter than that, bytes: it comes the next time round, when
    /// the disk has been elsewhere.
    pub write_back_leap_bytes: u64,
    /// Entries of the critical data table.
    pub critical_max: usize,
    /// Largest slab, bytes.
    pub slab_bytes_max: u64,
    /// Whose journal it is.
    pub member: MemberId,
    /// Number of the first data file of this node's.
    pub first_data_file: u32,
    /// Its numbers end before this one, which is another node's.
    pub data_files_end: u32,
    /// Files known at once, if the shared table has as many: each takes descriptors of the runtime.
    pub files_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: Capacity::Share(0.2),
            dirty_high: 0.2,
            dirty_low: 0.1,
            dirty_full: 0.9,
            write_back_share_min: 0.25,
            copies_max: 256,
            write_back_bytes_max: 1 << 20,
            write_back_leap_bytes: 0,
            critical_max: 65536,
            slab_bytes_max: 256 << 10,
            member: MemberId { node: 0, life: 0 },
            first_data_file: 1,
            data_files_end: u32::MAX,
            files_max: FILES_MAX,
        }
    }
}

impl Settings {
    /// Where address order goes on behind what is written back.
    pub(crate) fn behind_write_back(&self, range: Range) -> u64 {
        match range.length < self.write_back_leap_bytes {
            true => range.end().saturating_add(self.write_back_leap_bytes),
            false => range.end(),
        }
    }
}
