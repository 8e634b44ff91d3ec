//! Clean extents give way, least recently used first: to fetches of more benefit, and ahead of need to
//! writes. Those of regions that are to stay give way last, and only to the least reserve that writes need.

use std::sync::atomic::Ordering;

use crate::extent_map::{Benefit, Mapped};
use crate::journal::Record;
use crate::overlay::Overlay;
use headstart_protocol::counters::Dropped;
use headstart_protocol::shared::Shared;
use headstart_units::PAGE_BYTES;

/// A barrier for the sake of space frees one part in so many of flash, unless nothing more is about to be
/// removed or the last one ended so long ago (assumed).
const BARRIER_SHARE: u64 = 16;
const BARRIER_PERIOD_NS: u64 = 25_000_000;

impl Overlay {
    /// What a fetch leaves to writes: of regions, which give way to the least reserve alone, no more than
    /// that, and nothing while nobody writes.
    pub(crate) fn reserve_beside(&self, spared: Option<Benefit>) -> u64 {
        match spared {
            None => self.pacing.reserve().beside_regions(self.space.capacity_bytes(), self.measured_ns),
            Some(_) => self.reserve_bytes(),
        }
    }

    /// Drops clean extents, least recently used first, to make room for `pages`, but none of `spared` benefit
    /// or more. True if the room will be there after a barrier.
    pub(crate) fn displace(&mut self, pages: u64, spared: Option<Benefit>) -> bool {
        let wanted = pages.saturating_mul(PAGE_BYTES).saturating_add(self.reserve_beside(spared));
        if wanted > self.space.capacity_bytes() {
            return false;
        }
        while self.room_bytes() < wanted {
            let Some((file, mapped)) = self.least_recently_used() else { return false };
            if spared.is_some_and(|spared| mapped.benefit >= spared) {
                return false;
            }
            self.evict(file, &mapped);
            self.mapping.evicted().remember(file, mapped);
        }
        self.barrier.want_if(self.space.awaits_barrier());
        true
    }

    /// What is free, or will be after a barrier.
    pub(crate) fn room_bytes(&self) -> u64 {
        (self.space.available_bytes() + self.space.removed_bytes()).saturating_sub(self.space.excess_bytes())
    }

    pub(crate) fn evict(&mut self, file: u32, mapped: &Mapped) {
        debug_assert!(!mapped.dirty, "only clean extents are evicted");
        self.append(&Record::Drop { file, offset: mapped.range.offset, length: mapped.range.length });
        self.carve(file, mapped.range, Dropped::Eviction);
        self.outbox.counters.evicted_extents_total += 1;
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.pacing.reserve().bytes(self.space.capacity_bytes(), self.measured_ns)
    }

    /// Drops clean extents ahead of need, least recently used first, so that a reserve of places becomes free
    /// with the next barrier; asks for that barrier when space runs short.
    pub(crate) fn keep_reserve(&mut self, shared: Shared<'_>) {
        let refused = shared.header.refused_bytes.load(Ordering::Relaxed);
        if self.pacing.reserve_mut().hear_of_refused(refused, self.measured_ns) {
            self.expect_refused(shared);
        }
        let reserve = self.reserve_bytes();
        let available = self.space.available_bytes();
        // All that is clean may be of regions.
        let nothing_to_gain = || !self.mapping.has_clean() && !self.space.awaits_barrier();
        let beside = self.reserve_beside(None);
        if self.space.excess_bytes() == 0 && (available >= reserve || (available >= beside && nothing_to_gain())) {
            return;
        }
        self.free_read(shared);
        loop {
            let exceeds = self.space.excess_bytes() > self.space.removed_bytes();
            if self.room_bytes() >= reserve && !exceeds {
                break;
            }
            let needs = self.room_bytes() < beside || exceeds;
            let found = self.least_recently_used().or_else(|| if needs { self.least_wanted() } else { None });
            let Some((file, mapped)) = found else { break };
            self.evict(file, &mapped);
            self.mapping.evicted().remember(file, mapped);
        }
        self.barrier.want_if(self.is_worth_a_barrier());
    }

    /// Whether places that wait for a barrier are worth one now. In FUSE nobody writes to a data file while
    /// it is synced; and each sync costs the flash something: better few barriers that free much.
    pub(crate) fn is_worth_a_barrier(&self) -> bool {
        let awaiting = self.space.awaiting_bytes();
        let more_is_coming = || self.copies.any_write_back();
        let is_due = || self.measured_ns.saturating_sub(self.barrier.ended_ns()) > BARRIER_PERIOD_NS;
        awaiting > 0 && (awaiting >= self.space.capacity_bytes() / BARRIER_SHARE || is_due() || !more_is_coming())
    }
}
