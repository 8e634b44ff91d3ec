//! How long the disks take for a write, and so how long another one may wait for flash instead.

/// A write waits for space no longer: the disks take it then (assumed: what a request takes behind a deep queue of
/// write-backs).
const SPACE_WAIT_NS: u64 = 100_000_000;
/// Nor longer than so many times what the disks took for the last direct writes and write-backs, if that is not less
/// than a message and a barrier take on a tmpfs (assumed).
const SPACE_WAIT_TIMES: u64 = 4;
const SPACE_WAIT_NS_MIN: u64 = 1_000_000;
/// One part in so many of a new duration counts beside those before (assumed).
const SHARE: u64 = 8;

/// A mean over the last direct writes and write-backs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskWrites {
    mean_ns: Option<u64>,
}

impl DiskWrites {
    /// A direct write took so long, from its lease to its end, or a write-back.
    pub(crate) fn took(&mut self, ns: u64) {
        let ns = ns.min(SPACE_WAIT_NS);
        let before = self.mean_ns.unwrap_or(ns);
        self.mean_ns = Some(before - before / SHARE + ns / SHARE);
    }

    /// How long a write may wait for space: what a disk that is busy takes, but no multiple of what this one does.
    pub(crate) fn space_wait_ns(&self) -> u64 {
        let taken_ns = self.mean_ns.map(|ns| ns.saturating_mul(SPACE_WAIT_TIMES).max(SPACE_WAIT_NS_MIN));
        taken_ns.map_or(SPACE_WAIT_NS, |ns| ns.min(SPACE_WAIT_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_space_some_times_as_long_as_the_disks_take_and_within_bounds() {
        let mut writes = DiskWrites::default();
        assert_eq!(writes.space_wait_ns(), SPACE_WAIT_NS, "nothing is known of them");
        writes.took(5_000_000);
        assert_eq!(writes.space_wait_ns(), 20_000_000);
        (0..100).for_each(|_| writes.took(10_000));
        assert_eq!(writes.space_wait_ns(), SPACE_WAIT_NS_MIN);
        (0..100).for_each(|_| writes.took(u64::MAX));
        assert_eq!(writes.space_wait_ns(), SPACE_WAIT_NS);
    }
}
