//! What an engine has done and made wait, for `status`.

use crate::units::Nanos;

/// Counters, from a start on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes that the log took, and their bytes.
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
    /// Bytes read from the disk by fetches.
    pub fetched_bytes_total: u64,
    /// Bytes of those written to staging.
    pub staged_bytes_total: u64,
    /// Bytes read from staging.
    pub staged_read_bytes_total: u64,
    /// Checkpoints that became durable.
    pub checkpoints_total: u64,
    /// What background work has added to foreground orders of the disk: while it had the disk and they waited.
    pub held: Waits,
    /// How long writes were kept from the log, for its pace or for room.
    pub paced: Waits,
    /// How long reads waited for the fetch of their own stream.
    pub fetch_waits: Waits,
}

/// How long requests waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
