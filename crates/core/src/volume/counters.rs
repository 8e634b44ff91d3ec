//! What a volume counts: why bytes went where they did. Names follow Prometheus.

use serde::{Deserialize, Serialize};

/// The counters; none ever falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Writes and zeros that the log took.
    pub absorbed_writes_total: u64,
    /// Their bytes.
    pub absorbed_bytes_total: u64,
    /// Writes that the policy left to the disk.
    pub bypassed_unwanted_writes_total: u64,
    /// Their bytes.
    pub bypassed_unwanted_bytes_total: u64,
    /// Writes that found no room in the log.
    pub bypassed_full_writes_total: u64,
    /// Their bytes.
    pub bypassed_full_bytes_total: u64,
    /// Writes to a volume that absorbs none.
    pub bypassed_off_writes_total: u64,
    /// Their bytes.
    pub bypassed_off_bytes_total: u64,
    /// Reads that flash alone answered.
    pub flash_reads_total: u64,
    /// Reads that the disk alone answered.
    pub disk_reads_total: u64,
    /// Reads that both answered.
    pub mixed_reads_total: u64,
    /// Reads of zeros that the log names, or of bytes that are lost.
    pub placeless_reads_total: u64,
    /// Blocks that were not what their checksum says.
    pub damaged_reads_total: u64,
    /// Batches that were written back.
    pub write_backs_total: u64,
    /// Their bytes.
    pub written_back_bytes_total: u64,
    /// Batches that could not be read or written.
    pub failed_write_backs_total: u64,
    /// Records.
    pub records_total: u64,
    /// Ranges that CLEAN records named.
    pub cleans_total: u64,
    /// Checkpoints that are in force or were.
    pub checkpoints_total: u64,
}

impl Counters {
    pub(super) fn absorbed(&mut self, bytes: u64) {
        self.absorbed_writes_total += 1;
        self.absorbed_bytes_total += bytes;
    }

    pub(super) fn bypassed_unwanted(&mut self, bytes: u64) {
        self.bypassed_unwanted_writes_total += 1;
        self.bypassed_unwanted_bytes_total += bytes;
    }

    /// A write that was to be absorbed goes to the disk after all.
    pub(super) fn diverted(&mut self, bytes: u64) {
        self.absorbed_writes_total -= 1;
        self.absorbed_bytes_total -= bytes;
        self.bypassed_full_writes_total += 1;
        self.bypassed_full_bytes_total += bytes;
    }

    pub(super) fn bypassed_off(&mut self, bytes: u64) {
        self.bypassed_off_writes_total += 1;
        self.bypassed_off_bytes_total += bytes;
    }
}
