//! How much space is kept free ahead of need.
//!
//! A place is free only after a barrier, so that what programs absorb in the time of one barrier has to be
//! free when it begins. That amount depends on the site; it is found by doubling while writes find no space
//! and shrinking while they do.
//!
//! Programs write in bursts, one much like the last: what is left of a burst as long as the last one is free
//! from its beginning on. In between the bytes stay, as they may be read.

/// One part in so many of the capacity is always kept.
const LEAST_SHARE: u64 = 32;
/// At most one part in so many: the rest stays for bytes that will be read again.
const MOST_SHARE: u64 = 2;
/// A burst ends with so long a time without a write; assumed: longer than the barriers and reads between a
/// program's writes.
pub(crate) const WRITE_PAUSE_NS: u64 = 50_000_000;

/// Programs that wrote so long ago may read alone; assumed: some times the time between the bursts of one
/// that does both.
const WRITES_NS: u64 = 10_000_000_000;

/// A burst is new when it is longer than the last one by one part in so many (assumed).
const BURST_TOLERANCE: u64 = 4;

/// The reserve.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reserve {
    /// A write found no space since the last barrier.
    starved: bool,
    last_starved_ns: Option<u64>,
    grown_bytes: u64,
    burst_bytes: u64,
    last_burst_bytes: u64,
    /// When a write last asked for space or was absorbed.
    last_write_ns: u64,
    /// What the header of the shared file said last of bytes refused.
    refused_bytes: u64,
}

impl Reserve {
    /// When a write last asked for space or was absorbed.
    pub(crate) fn last_write_ns(&self) -> u64 {
        self.last_write_ns
    }

    /// At a start: what the header of the shared file says of bytes refused.
    pub(crate) fn adopt_refused(&mut self, refused_bytes: u64) {
        self.refused_bytes = refused_bytes;
    }

    /// The same later; true if writes found no space since, and did not ask.
    pub(crate) fn hear_of_refused(&mut self, refused_bytes: u64, now_ns: u64) -> bool {
        let before = std::mem::replace(&mut self.refused_bytes, refused_bytes);
        if refused_bytes != before {
            self.on_no_space(refused_bytes.saturating_sub(before), now_ns);
        }
        refused_bytes != before
    }

    /// Bytes that are always kept free of `capacity_bytes`.
    pub(crate) fn least_bytes(capacity_bytes: u64) -> u64 {
        capacity_bytes / LEAST_SHARE
    }

    /// Bytes that regions leave free of `capacity_bytes`: none while nobody writes.
    pub(crate) fn beside_regions(&self, capacity_bytes: u64, now_ns: u64) -> u64 {
        let writes = self.last_write_ns > 0 && now_ns.saturating_sub(self.last_write_ns) < WRITES_NS;
        if writes { Reserve::least_bytes(capacity_bytes) } else { 0 }
    }

    /// Bytes to keep free of `capacity_bytes`.
    pub(crate) fn bytes(&self, capacity_bytes: u64, now_ns: u64) -> u64 {
        let expected = if self.is_pausing(now_ns) { 0 } else { self.last_burst_bytes.saturating_sub(self.burst_bytes) };
        Reserve::least_bytes(capacity_bytes).max(self.grown_bytes.max(expected).min(capacity_bytes / MOST_SHARE))
    }

    /// Whether the burst under way, if it is as long as the last one, needs no more than `room_bytes`.
    pub(crate) fn burst_fits(&self, room_bytes: u64) -> bool {
        let last = self.last_burst_bytes;
        let longer = self.burst_bytes > last.saturating_add(last / BURST_TOLERANCE);
        !longer && last.saturating_sub(self.burst_bytes) <= room_bytes
    }

    /// A write asked for so many bytes of space, or for none as it has some.
    pub(crate) fn on_write(&mut self, bytes: u64, now_ns: u64) {
        if self.is_pausing(now_ns) {
            self.last_burst_bytes = std::mem::take(&mut self.burst_bytes);
        }
        self.burst_bytes = self.burst_bytes.saturating_add(bytes);
        self.last_write_ns = now_ns;
    }

    /// A write of so many bytes found no space.
    pub(crate) fn on_no_space(&mut self, bytes: u64, now_ns: u64) {
        self.on_write(bytes, now_ns);
        self.starved = true;
        self.last_starved_ns = Some(now_ns);
    }

    /// Whether a write found no space in the burst under way, if there is one.
    pub(crate) fn is_starving(&self, now_ns: u64) -> bool {
        self.last_starved_ns.is_some_and(|then| now_ns.saturating_sub(then) <= WRITE_PAUSE_NS)
    }

    /// So many bytes that were asked for were not used.
    pub(crate) fn on_return(&mut self, bytes: u64) {
        self.burst_bytes = self.burst_bytes.saturating_sub(bytes);
    }

    /// A barrier is done: learns from what happened during it.
    pub(crate) fn adapt(&mut self, capacity_bytes: u64) {
        let now = Reserve::least_bytes(capacity_bytes).max(self.grown_bytes);
        let next = if self.starved { now.saturating_mul(2) } else { now - now / 4 };
        self.grown_bytes = next.min(capacity_bytes / MOST_SHARE);
        self.starved = false;
    }

    fn is_pausing(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_write_ns) > WRITE_PAUSE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_doubles_while_writes_starve_and_shrinks_to_its_least_share() {
        let mut reserve = Reserve::default();
        assert_eq!(reserve.bytes(3200, 0), 100);
        for expected in [200, 400, 800, 1600, 1600] {
            reserve.on_no_space(1, 0);
            assert!(reserve.is_starving(WRITE_PAUSE_NS) && !reserve.is_starving(WRITE_PAUSE_NS + 1));
            reserve.adapt(3200);
            assert_eq!(reserve.bytes(3200, 0), expected);
        }
        for _ in 0..20 {
            reserve.adapt(3200);
        }
        assert_eq!(reserve.bytes(3200, 0), 100);
    }

    #[test]
    fn what_is_left_of_a_burst_like_the_last_is_kept_free_until_writes_pause() {
        let mut reserve = Reserve::default();
        let later = |bursts: u64| bursts * 2 * WRITE_PAUSE_NS;
        for step in 0..10 {
            reserve.on_write(100, later(1) + step);
            assert_eq!(reserve.bytes(3200, later(1) + step), 100, "nothing is known of the first");
            assert!(!reserve.burst_fits(u64::MAX));
        }
        assert_eq!(reserve.bytes(3200, later(2)), 100);
        reserve.on_write(100, later(2));
        assert_eq!(reserve.bytes(3200, later(2)), 900);
        assert!(reserve.burst_fits(900) && !reserve.burst_fits(899));
        reserve.on_write(900, later(2));
        reserve.on_return(200);
        assert_eq!(reserve.bytes(3200, later(2)), 200);
        assert_eq!(reserve.bytes(3200, later(3)), 100, "it is over");
        reserve.on_write(1, later(3));
        assert_eq!(reserve.bytes(1000, later(3)), 500, "half is left for bytes that are read");
    }
}
