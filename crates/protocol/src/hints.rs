//! The ring of hints in a slot: critical reads that missed, from one thread to the agent.
//!
//! The thread alone writes `hints_head`, the agent alone `hints_tail`. A hint is written before the head that
//! names it, and read before the tail that gives its place away. The thread fences behind the head and marks its slot,
//! and the agent takes the mark before it looks ([`super::marks`]): a hint that it does not find has a mark that it
//! finds later.
//! Hints are advice: a ring that makes no sense is taken for empty.

use super::read_times::is_measured;
use super::shared::{Counter, FileEntry, HINTS_MAX, Shared, Slot};
use crate::counters::Served;
use headstart_policy::client::Request;
use headstart_policy::client::s4d::Critical;
use headstart_policy::client::{Decision, FetchTurn};
use headstart_policy::order::Distance;
use headstart_units::atomics::{Ordering, fence};
use headstart_units::request::{Direction, Range};

/// In a hint's benefit, its [`FetchTurn`]; else soon.
const IDLE: u64 = 1 << 63;

/// Cheap reads of which one is measured: a clock is read twice for it (assumed: a sixteenth of that is not
/// felt, and as many reads as the judgement needs come soon).
const MEASURED_ONE_OF: u64 = 16;

/// Benefit and turn as a hint has them.
fn in_one(benefit_ns: u64, turn: FetchTurn) -> u64 {
    let bits = match turn {
        FetchTurn::Soon => 0,
        FetchTurn::Idle => IDLE,
    };
    benefit_ns & !IDLE | bits
}

/// The other way.
fn apart(both: u64) -> (u64, FetchTurn) {
    let turn = if both & IDLE != 0 { FetchTurn::Idle } else { FetchTurn::Soon };
    (both & !IDLE, turn)
}

impl Shared<'_> {
    /// The thread of the slot leaves a hint, and a mark: the agent looks at marked slots alone. Whether it sleeps, and
    /// is to be told.
    pub fn hint(&self, slot: u32, file: u32, range: Range, benefit_ns: u64, turn: FetchTurn) -> bool {
        self.slots[slot as usize].hint(file, range, benefit_ns, turn);
        self.mark_left(slot)
    }

    /// The same of what the slot's thread left just now.
    pub(crate) fn mark_left(&self, slot: u32) -> bool {
        fence(Ordering::SeqCst);
        self.mark(slot)
    }
}

impl Slot {
    /// Leaves a hint for the agent, or counts it as lost if the ring is full.
    pub fn hint(&self, file: u32, range: Range, benefit_ns: u64, turn: FetchTurn) {
        let head = self.hints_head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.hints_tail.load(Ordering::Acquire)) as usize >= HINTS_MAX {
            self.count(Counter::HintsLost, 1);
            return;
        }
        let hint = &self.hints[head as usize % HINTS_MAX];
        hint.file.store(file.into(), Ordering::Relaxed);
        hint.offset.store(range.offset, Ordering::Relaxed);
        hint.length.store(range.length, Ordering::Relaxed);
        hint.benefit_ns.store(in_one(benefit_ns, turn), Ordering::Relaxed);
        self.hints_head.store(head.wrapping_add(1), Ordering::Release);
        self.count(Counter::HintsLeft, 1);
    }

    /// Takes the oldest hint. Only the agent calls this.
    pub fn take_hint(&self) -> Option<Critical> {
        let tail = self.hints_tail.load(Ordering::Relaxed);
        let head = self.hints_head.load(Ordering::Acquire);
        if head.wrapping_sub(tail) as usize > HINTS_MAX {
            self.hints_tail.store(head, Ordering::Release);
            return None;
        }
        if tail == head {
            return None;
        }
        let hint = &self.hints[tail as usize % HINTS_MAX];
        let file = hint.file.load(Ordering::Relaxed) as u32;
        let range = Range::new(hint.offset.load(Ordering::Relaxed), hint.length.load(Ordering::Relaxed));
        let (benefit_ns, turn) = apart(hint.benefit_ns.load(Ordering::Relaxed));
        self.hints_tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(Critical { file, range, benefit_ns, turn })
    }

    /// Counts `bytes` read from the slow file as the first of `request`, and leaves hints of those that flash
    /// would have served sooner, as `decide` says of the first part of what is asked; why the disk served
    /// them: of the parts that policies answer differently, the first that flash was wanted for speaks for
    /// all, else the first.
    #[inline]
    pub(crate) fn read_by_disk(
        &self,
        file: u32,
        request: &Request,
        bytes: u64,
        decide: impl Fn(&Request) -> (Request, Decision),
    ) -> Served {
        let mut rest = Request { range: Range::new(request.range.offset, bytes), ..*request };
        let mut served = Served::ReadEnd;
        while !rest.range.is_empty() {
            let (part, decision) = decide(&rest);
            let by_part = match decision {
                Decision::Fetch { benefit_ns, turn } => {
                    self.hint(file, part.range, benefit_ns, turn);
                    Served::ReadMiss
                }
                Decision::Flash { .. } => Served::ReadMiss,
                Decision::Disk(reason) => Served::by_disk(Direction::Read, reason),
                Decision::Pass => Served::ReadOff,
            };
            if served == Served::ReadEnd || by_part == Served::ReadMiss {
                served = by_part;
            }
            rest.range = Range::between(part.range.end(), rest.range.end());
        }
        if let Some(moved) = served.counters().1 {
            self.count(moved, bytes);
        }
        served
    }

    /// Whether a cheap read of a file, the next one, is to be measured: one of [`MEASURED_ONE_OF`], where
    /// flash has anything to compare with.
    #[inline]
    pub fn measures(&self, entry: &FileEntry, distance: Distance) -> bool {
        let is_next =
            || self.counters[Counter::CheapRequests as usize].load(Ordering::Relaxed).is_multiple_of(MEASURED_ONE_OF);
        entry.set_bits.load(Ordering::Relaxed) != 0 && is_next() && is_measured(distance)
    }

    /// Forgets the hints of the slot's owner before this one.
    pub fn forget_hints(&self) {
        self.hints_tail.store(self.hints_head.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adds to a counter; only the owner calls this.
    #[inline]
    pub fn count(&self, counter: Counter, amount: u64) {
        let cell = &self.counters[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Counts a request that moved `bytes`; only the owner calls this.
    #[inline]
    pub fn served(&self, served: Served, bytes: u64) {
        let (requests, moved) = served.counters();
        self.count(requests, 1);
        if let Some(moved) = moved {
            self.count(moved, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(k: u64, turn: FetchTurn) -> Critical {
        Critical { file: 1, range: Range::new(k, 1), benefit_ns: k, turn }
    }

    #[test]
    fn hints_keep_their_order_and_a_full_ring_counts_what_it_loses() {
        let slot = Slot::default();
        for k in 0..HINTS_MAX as u64 + 3 {
            slot.hint(1, Range::new(k, 1), k, FetchTurn::Soon);
        }
        let counted =
            [Counter::HintsLeft, Counter::HintsLost].map(|it| slot.counters[it as usize].load(Ordering::Relaxed));
        assert_eq!(counted, [HINTS_MAX as u64, 3]);
        for k in 0..HINTS_MAX as u64 {
            assert_eq!(slot.take_hint(), Some(hint(k, FetchTurn::Soon)));
        }
        assert_eq!(slot.take_hint(), None);
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_taken_for_empty_and_works_again() {
        let slot = Slot::default();
        slot.hints_head.store(4_000_000_000, Ordering::Relaxed);
        assert_eq!(slot.take_hint(), None);
        slot.hint(1, Range::new(7, 1), 7, FetchTurn::Soon);
        assert_eq!(slot.take_hint(), Some(hint(7, FetchTurn::Soon)));
    }

    #[test]
    fn a_hint_says_when_it_is_worth_a_fetch() {
        let slot = Slot::default();
        for turn in [FetchTurn::Soon, FetchTurn::Idle] {
            slot.hint(1, Range::new(9, 1), 9, turn);
            assert_eq!(slot.take_hint(), Some(hint(9, turn)));
        }
    }
}
