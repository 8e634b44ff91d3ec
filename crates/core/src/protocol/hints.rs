//! The ring of hints in a slot: critical reads that missed, from one thread to the agent.
//!
//! The thread alone writes `hints_head`, the agent alone `hints_tail`. A hint is written before the head that names it, and
//! read before the tail that gives its place away. Hints are advice: a ring that makes no sense is taken for empty.

use super::shared::{Counter, HINTS_MAX, Slot};
use super::sync::Ordering;
use crate::counters::Served;
use crate::policy::Decision;
use crate::request::{Direction, Range, Request};

/// In a hint's benefit: not worth the disks' time while programs use them.
pub const WHEN_IDLE: u64 = 1 << 63;

impl Slot {
    /// Leaves a hint for the agent; counts it as lost if the ring is full.
    pub fn hint(&self, file: u32, range: Range, benefit_ns: u64) {
        let head = self.hints_head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.hints_tail.load(Ordering::Acquire)) as usize >= HINTS_MAX {
            self.count(Counter::HintsLost, 1);
            return;
        }
        let hint = &self.hints[head as usize % HINTS_MAX];
        hint.file.store(file.into(), Ordering::Relaxed);
        hint.offset.store(range.offset, Ordering::Relaxed);
        hint.length.store(range.length, Ordering::Relaxed);
        hint.benefit_ns.store(benefit_ns, Ordering::Relaxed);
        self.hints_head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest hint: file, range, benefit in nanoseconds, with [`WHEN_IDLE`] or without. Only the agent calls this.
    pub fn take_hint(&self) -> Option<(u32, Range, u64)> {
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
        let taken = (
            hint.file.load(Ordering::Relaxed) as u32,
            Range::new(hint.offset.load(Ordering::Relaxed), hint.length.load(Ordering::Relaxed)),
            hint.benefit_ns.load(Ordering::Relaxed),
        );
        self.hints_tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(taken)
    }

    /// Counts `bytes` read from the slow file as the first of `request`, and leaves hints of those that flash would have served
    /// sooner, as `decide` says of the first part of what is asked; why the disk served them: of the parts that policies answer
    /// differently, the first that flash was wanted for speaks for all, else the first.
    #[inline]
    pub fn read_by_disk(
        &self,
        file: u32,
        request: Request,
        bytes: u64,
        decide: impl Fn(&Request) -> (Request, Decision),
    ) -> Served {
        let mut rest = Range::new(request.range.offset, bytes);
        let mut served = Served::ReadEnd;
        while !rest.is_empty() {
            let (part, decision) = decide(&Request { range: rest, ..request });
            let leave_hint = |benefit_ns| {
                self.count(Counter::CriticalReadMisses, 1);
                self.hint(file, part.range, benefit_ns);
                Served::ReadMiss
            };
            let by_part = match decision {
                Decision::Fetch { benefit_ns } => leave_hint(benefit_ns),
                Decision::FetchWhenIdle { benefit_ns } => leave_hint(benefit_ns | WHEN_IDLE),
                Decision::Flash { .. } => Served::ReadMiss,
                Decision::Disk(reason) => Served::by_disk(Direction::Read, reason),
                Decision::Pass => Served::ReadOff,
            };
            if served == Served::ReadEnd || by_part == Served::ReadMiss {
                served = by_part;
            }
            rest = Range::between(part.range.end(), rest.end());
        }
        if let Some(moved) = served.counters().1 {
            self.count(moved, bytes);
        }
        served
    }

    /// Forgets the hints of the slot's owner before this one.
    pub fn forget_hints(&self) {
        self.hints_tail.store(self.hints_head.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adds to a counter; only the owner calls this.
    pub fn count(&self, counter: Counter, amount: u64) {
        let cell = &self.counters[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Counts a request that moved `bytes`; only the owner calls this.
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

    #[test]
    fn hints_keep_their_order_and_a_full_ring_counts_what_it_loses() {
        let slot = Slot::default();
        for k in 0..HINTS_MAX as u64 + 3 {
            slot.hint(1, Range::new(k, 1), k);
        }
        assert_eq!(slot.counters[Counter::HintsLost as usize].load(Ordering::Relaxed), 3);
        for k in 0..HINTS_MAX as u64 {
            assert_eq!(slot.take_hint(), Some((1, Range::new(k, 1), k)));
        }
        assert_eq!(slot.take_hint(), None);
    }

    #[test]
    fn a_ring_that_makes_no_sense_is_taken_for_empty_and_works_again() {
        let slot = Slot::default();
        slot.hints_head.store(4_000_000_000, Ordering::Relaxed);
        assert_eq!(slot.take_hint(), None);
        slot.hint(1, Range::new(7, 1), 7);
        assert_eq!(slot.take_hint(), Some((1, Range::new(7, 1), 7)));
    }
}
