//! How much space is kept free ahead of need.
//!
//! A place is free only after a barrier, so that what programs absorb in the time of one barrier has to be free when it begins.
//! That amount depends on the site; it is found by doubling while writes find no space and shrinking while they do.

/// One part in so many of the capacity is always kept.
const LEAST_SHARE: u64 = 32;
/// At most one part in so many: the rest stays for bytes that will be read again.
const MOST_SHARE: u64 = 2;

/// The reserve.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserve {
    /// A write found no space since the last barrier.
    pub(super) starved: bool,
    grown_bytes: u64,
}

impl Reserve {
    /// Bytes to keep free of `capacity_bytes`.
    pub(super) fn bytes(&self, capacity_bytes: u64) -> u64 {
        (capacity_bytes / LEAST_SHARE).max(self.grown_bytes.min(capacity_bytes / MOST_SHARE))
    }

    /// A barrier is done: learns from what happened during it.
    pub(super) fn adapt(&mut self, capacity_bytes: u64) {
        let now = self.bytes(capacity_bytes);
        let next = if self.starved { now.saturating_mul(2) } else { now - now / 4 };
        self.grown_bytes = next.min(capacity_bytes / MOST_SHARE);
        self.starved = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_doubles_while_writes_starve_and_shrinks_to_its_least_share() {
        let mut reserve = Reserve::default();
        assert_eq!(reserve.bytes(3200), 100);
        for expected in [200, 400, 800, 1600, 1600] {
            reserve.starved = true;
            reserve.adapt(3200);
            assert_eq!(reserve.bytes(3200), expected);
        }
        for _ in 0..20 {
            reserve.adapt(3200);
        }
        assert_eq!(reserve.bytes(3200), 100);
    }
}
