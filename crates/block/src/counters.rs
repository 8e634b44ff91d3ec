//! What a volume counts: why bytes went where they did. Names follow Prometheus.

use serde::{Deserialize, Serialize};

use headstart_units::Nanos;

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
    /// Bytes read from the disk by fetches.
    pub fetched_bytes_total: u64,
    /// Bytes of those written to staging.
    pub staged_bytes_total: u64,
    /// Bytes read from staging.
    pub staged_read_bytes_total: u64,
    /// Heads that came to flash.
    pub lifts_total: u64,
    /// Those whose bytes a load had already.
    pub lifts_from_loads_total: u64,
    /// Heads that made room for others.
    pub de_lifts_total: u64,
    /// Heads that a write ended.
    pub written_heads_total: u64,
    /// Segments that came into the buffer.
    pub loads_total: u64,
    /// Those whose head was there before the first part of their body: the disk's way to it was hidden.
    pub seeks_hidden_total: u64,
    /// Bytes of bodies, and of heads that were not on flash, that loads read from the disk.
    pub loaded_disk_bytes_total: u64,
    /// Bytes of heads that loads read from flash.
    pub loaded_head_bytes_total: u64,
    /// Bytes that reads got from heads at once.
    pub head_read_bytes_total: u64,
    /// Bytes that reads got from segments in the buffer or on their way there.
    pub buffer_read_bytes_total: u64,
    /// What background work has added to foreground orders of the disk: while it had the disk and they waited.
    pub held: Waits,
    /// How long writes were kept from the log, for its pace or for room.
    pub paced: Waits,
    /// How long reads waited for the fetch of their own stream.
    pub fetch_waits: Waits,
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

/// How long requests waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Requests.
    pub count: u64,
    /// Of all together.
    pub sum: Nanos,
    /// The longest.
    pub max: Nanos,
    /// How many by length, in steps of 2.5 ms; the last are longer.
    steps: [u32; 32],
}

/// A step of a wait's length.
const STEP: Nanos = Nanos(2_500_000);

impl Waits {
    /// One more.
    pub fn add(&mut self, wait: Nanos) {
        self.count += 1;
        self.sum += wait;
        self.max = self.max.max(wait);
        let step = (wait.0 / STEP.0).min(self.steps.len() as u64 - 1);
        self.steps[step as usize] += 1;
    }

    /// What all but a hundredth do not exceed, rounded up to a step.
    pub fn p99(&self) -> Nanos {
        let mut left = self.count - self.count / 100;
        for (step, count) in (1..).zip(self.steps) {
            left = left.saturating_sub(u64::from(count));
            if left == 0 {
                return self.max.min(Nanos(step * STEP.0));
            }
        }
        self.max
    }
}
