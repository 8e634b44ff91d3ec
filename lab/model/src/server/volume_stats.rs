//! What a volume has done.

use serde::{Deserialize, Serialize};

/// What a volume has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// Bytes that only its flash holds.
    pub dirty_bytes: u64,
    /// Time its flash was at work.
    pub flash_busy_ns: u64,
    /// Commands of its flash.
    pub flash_commands: u64,
    /// Writes that the log took.
    pub absorbed_writes_total: u64,
    /// Bytes of them.
    pub absorbed_bytes_total: u64,
    /// Writes that the policy left to the disk.
    pub bypassed_writes_total: u64,
    /// Writes that waited for room in the log and went to the disk.
    pub diverted_writes_total: u64,
    /// Bytes written back.
    pub written_back_bytes_total: u64,
    /// Write orders that wrote them.
    pub write_backs_total: u64,
    /// Bytes that fetches read from the disk.
    pub fetched_bytes_total: u64,
    /// Bytes of those that went to staging.
    pub staged_bytes_total: u64,
    /// Bytes read from there.
    pub staged_read_bytes_total: u64,
    /// Checkpoints.
    pub checkpoints_total: u64,
    /// The most, and the mean, that background work has added to a foreground order.
    pub held_ms_max: f64,
    /// See `held_ms_max`.
    pub held_ms_p99: f64,
    /// See `held_ms_max`.
    pub held_ms_mean: f64,
    /// The most that a write was kept from the log.
    pub paced_ms_max: f64,
    /// The mean.
    pub paced_ms_mean: f64,
    /// The most that a read waited for the fetch of its own stream.
    pub fetch_wait_ms_max: f64,
    /// Heads on flash now, and slots for them.
    pub lifted_segments: u64,
    /// See `lifted_segments`.
    pub slots: u64,
    /// Lengths of a segment and of its head; zero without LiU.
    pub segment_bytes: u64,
    /// See `segment_bytes`.
    pub head_bytes: u64,
    /// See [`Counters`].
    pub lifts_total: u64,
    /// See [`Counters`].
    pub lifts_from_loads_total: u64,
    /// See [`Counters`].
    pub de_lifts_total: u64,
    /// See [`Counters`].
    pub loads_total: u64,
    /// See [`Counters`].
    pub seeks_hidden_total: u64,
    /// See [`Counters`].
    pub loaded_disk_bytes_total: u64,
    /// See [`Counters`].
    pub loaded_head_bytes_total: u64,
    /// See [`Counters`].
    pub head_read_bytes_total: u64,
    /// See [`Counters`].
    pub buffer_read_bytes_total: u64,
}

impl VolumeStats {
    /// What it has done since an earlier report. Waits are those since the start; dirty bytes, heads and
    /// lengths those of now.
    pub fn since(&self, before: &VolumeStats) -> VolumeStats {
        // Without `..`, so that none is forgotten.
        VolumeStats {
            dirty_bytes: self.dirty_bytes,
            flash_busy_ns: self.flash_busy_ns - before.flash_busy_ns,
            flash_commands: self.flash_commands - before.flash_commands,
            absorbed_writes_total: self.absorbed_writes_total.saturating_sub(before.absorbed_writes_total),
            absorbed_bytes_total: self.absorbed_bytes_total.saturating_sub(before.absorbed_bytes_total),
            bypassed_writes_total: self.bypassed_writes_total - before.bypassed_writes_total,
            diverted_writes_total: self.diverted_writes_total - before.diverted_writes_total,
            written_back_bytes_total: self.written_back_bytes_total - before.written_back_bytes_total,
            write_backs_total: self.write_backs_total - before.write_backs_total,
            fetched_bytes_total: self.fetched_bytes_total - before.fetched_bytes_total,
            staged_bytes_total: self.staged_bytes_total - before.staged_bytes_total,
            staged_read_bytes_total: self.staged_read_bytes_total - before.staged_read_bytes_total,
            checkpoints_total: self.checkpoints_total - before.checkpoints_total,
            held_ms_max: self.held_ms_max,
            held_ms_p99: self.held_ms_p99,
            held_ms_mean: self.held_ms_mean,
            paced_ms_max: self.paced_ms_max,
            paced_ms_mean: self.paced_ms_mean,
            fetch_wait_ms_max: self.fetch_wait_ms_max,
            lifted_segments: self.lifted_segments,
            slots: self.slots,
            segment_bytes: self.segment_bytes,
            head_bytes: self.head_bytes,
            lifts_total: self.lifts_total - before.lifts_total,
            lifts_from_loads_total: self.lifts_from_loads_total - before.lifts_from_loads_total,
            de_lifts_total: self.de_lifts_total - before.de_lifts_total,
            loads_total: self.loads_total - before.loads_total,
            seeks_hidden_total: self.seeks_hidden_total - before.seeks_hidden_total,
            loaded_disk_bytes_total: self.loaded_disk_bytes_total - before.loaded_disk_bytes_total,
            loaded_head_bytes_total: self.loaded_head_bytes_total - before.loaded_head_bytes_total,
            head_read_bytes_total: self.head_read_bytes_total - before.head_read_bytes_total,
            buffer_read_bytes_total: self.buffer_read_bytes_total - before.buffer_read_bytes_total,
        }
    }
}
