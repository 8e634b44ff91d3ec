//! The directory's capacity, shared out among its nodes: what this one needs, and may take
//! ([`headstart_cluster::Shares`]).
//!
//! A node whose programs run needs what is on its flash and what it had to evict of late; one without programs needs what
//! is dirty. So nodes where nothing runs leave their flash to the others.
//!
//! A capacity that is a size is the directory's. One that is a share of the files is of those that a node uses, so that
//! there is nothing to share out.

use std::time::{Duration, Instant};

use headstart_cluster::{MemberId, Note, Shares, View};
use headstart_membership::now_ns;
use headstart_units::{Capacity, Nanos};

use super::EventLoop;
use super::notes::Telling;

/// How often needs are looked at; assumed: what eviction takes to follow.
const PERIOD: Duration = Duration::from_secs(1);
/// What was needed is forgotten by this part in a period; assumed: programs write in bursts some seconds apart.
const FORGOTTEN_PART: u64 = 8;

/// See the module.
#[derive(Default)]
pub(super) struct SharedCapacity {
    shares: Shares,
    looked: Option<Instant>,
    /// What was found to be needed, and how much had been evicted by then.
    need: u64,
    evicted: u64,
}

impl SharedCapacity {
    /// How long until there is something to look at.
    pub(super) fn left(&self) -> Option<Duration> {
        let looked = self.looked.filter(|_| self.shares.grows())?;
        Some(PERIOD.saturating_sub(looked.elapsed()))
    }

    /// It is shared with these, and with those whose bytes are still on flash.
    pub(super) fn on_view(&mut self, own: MemberId, view: &View) {
        let seated = view.seats().iter().map(|seat| seat.member).filter(|member| *member != own);
        self.shares.on_members(seated.chain(view.gone().map(|(member, _)| member)));
    }

    pub(super) fn heard(&mut self, member: MemberId, bytes: u64) {
        self.shares.heard(member, bytes);
        self.looked = None;
    }

    /// What is needed where programs run, of which so much is on flash, and so much was evicted since the agent began.
    fn needed(&mut self, used: u64, evicted: u64) -> u64 {
        let found = used + evicted.saturating_sub(std::mem::replace(&mut self.evicted, evicted));
        self.need = found.max(self.need - self.need / FORGOTTEN_PART);
        self.need
    }

    /// What a member that is new is to be told.
    pub(super) fn told(&self) -> Option<Note> {
        self.shares.told().map(|bytes| Note::Needs { bytes })
    }
}

impl EventLoop<'_> {
    /// What is due by time.
    pub(super) fn tend_capacity(&mut self) {
        let Some(shared) = self.shared_capacity() else { return };
        if shared.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return;
        }
        shared.looked = Some(Instant::now());
        let Capacity::Bytes(capacity) = self.tiers.overlay.capacity() else {
            self.tiers.overlay.limit_capacity(u64::MAX);
            return;
        };
        let overlay = &self.tiers.overlay;
        let (used, dirty) = (overlay.mapped_bytes(), overlay.dirty_bytes());
        let (evicted, idle) = (overlay.counters().dropped_eviction_bytes_total, self.clients.have_no_threads());
        let Some(shared) = self.shared_capacity() else { return };
        let needed = shared.needed(used, evicted);
        let need = if idle { dirty } else { needed.min(capacity) };
        let is_news = shared.shares.needs(capacity, need);
        let share = shared.shares.share(capacity, Nanos(now_ns()));
        self.tiers.overlay.limit_capacity(share);
        if is_news {
            self.tell_all(&Note::Needs { bytes: need });
        }
    }

    fn shared_capacity(&mut self) -> Option<&mut SharedCapacity> {
        self.cluster.telling_mut().map(Telling::capacity_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_of_late_is_needed_and_that_is_forgotten_bit_by_bit() {
        let mut shared = SharedCapacity::default();
        assert_eq!(shared.needed(100, 0), 100);
        assert_eq!(shared.needed(100, 700), 800);
        assert_eq!(shared.needed(100, 700), 700);
        assert_eq!(shared.needed(700, 750), 750);
        (0..100).for_each(|_| _ = shared.needed(100, 750));
        assert_eq!(shared.needed(100, 750), 100);
    }
}
