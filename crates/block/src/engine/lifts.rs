//! Heads on their way to flash.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::order::OrderId;
use headstart_units::request::Range;

/// How far a lift is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The disk reads the head.
    Reading,
    /// It is written to its slot.
    Writing,
    /// What was read is to be durable.
    Flushing,
}

/// Who has read a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The lift itself.
    Disk,
    /// A load, whose order this is.
    Load(OrderId),
}

/// A head on its way to flash.
#[derive(Clone, Debug)]
pub(super) struct Lift {
    pub segment: u64,
    pub range: Range,
    pub slot: u32,
    pub crcs: Arc<[u32]>,
    /// Whose buffer has the bytes; none: nobody's any more.
    pub order: Option<OrderId>,
    pub stage: Stage,
    /// A write of the range has begun, or the slot could not be written.
    pub is_cancelled: bool,
    /// Writes of the disk that have to be durable before the HEAD.
    pub disk_writes: u64,
    pub origin: Origin,
}

impl Lift {
    /// Of a segment's head, to a slot.
    pub(super) fn new(segment: u64, range: Range, slot: u32, origin: Origin, disk_writes: u64) -> Lift {
        let (order, stage) = match origin {
            Origin::Disk => (None, Stage::Reading),
            Origin::Load(order) => (Some(order), Stage::Writing),
        };
        let crcs = Vec::new().into();
        Lift { segment, range, slot, crcs, order, stage, is_cancelled: false, disk_writes, origin }
    }
}

/// All of them, and what they and others wait for.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifts {
    under_way: BTreeMap<u64, Lift>,
    begun: u64,
    reading: usize,
    /// A write waits for the end of a head, or a lift for a slot.
    await_heads: bool,
    /// A lift waits until the log names its range no more.
    await_cleans: bool,
}

impl Lifts {
    /// One begins; its name.
    pub(super) fn begin(&mut self, lift: Lift) -> u64 {
        self.begun += 1;
        self.reading += usize::from(lift.stage == Stage::Reading);
        self.under_way.insert(self.begun, lift);
        self.begun
    }

    /// The disk is done with one.
    pub(super) fn end_read(&mut self, id: u64) -> &Lift {
        self.reading -= 1;
        self.get(id)
    }

    /// One that is under way.
    pub(super) fn get(&self, id: u64) -> &Lift {
        &self.under_way[&id]
    }

    /// One that is under way.
    pub(super) fn get_mut(&mut self, id: u64) -> &mut Lift {
        self.under_way.get_mut(&id).expect("it is under way")
    }

    /// One has ended.
    pub(super) fn end(&mut self, id: u64) -> Lift {
        self.under_way.remove(&id).expect("it is under way")
    }

    /// Those that wait for what was read to be durable.
    pub(super) fn flushing(&self) -> Vec<u64> {
        let ready = self.under_way.iter().filter(|(_, lift)| lift.stage == Stage::Flushing);
        ready.map(|(id, _)| *id).collect()
    }

    /// Whether one shares a byte with a range.
    pub(super) fn touch(&self, range: Range) -> bool {
        self.under_way.values().any(|lift| lift.range.overlaps(range))
    }

    /// A write of `range` begins or ends.
    pub(super) fn cancel(&mut self, range: Range) {
        for lift in self.under_way.values_mut().filter(|lift| lift.range.overlaps(range)) {
            lift.is_cancelled = true;
        }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How many the disk reads.
    pub(super) fn reading(&self) -> usize {
        self.reading
    }

    /// Somebody waits for the end of a head.
    pub(super) fn await_heads(&mut self) {
        self.await_heads = true;
    }

    /// Somebody waits for CLEANs of a head's range, if so; whether anybody does.
    pub(super) fn await_cleans(&mut self, awaits: bool) -> bool {
        self.await_cleans |= awaits;
        self.await_cleans
    }

    /// Whether somebody waits for the end of a head.
    pub(super) fn are_heads_awaited(&self) -> bool {
        self.await_heads
    }

    /// Whether somebody waits for CLEANs.
    pub(super) fn are_cleans_awaited(&self) -> bool {
        self.await_cleans
    }

    /// Nobody waits for what cannot come any more: no head is ending, no CLEAN is owed.
    pub(super) fn settle(&mut self, is_head_ending: bool, is_clean_owed: bool) {
        self.await_heads &= is_head_ending;
        self.await_cleans &= is_clean_owed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_cancels_the_lifts_of_its_range_alone() {
        let mut lifts = Lifts::default();
        let one = lifts.begin(Lift::new(0, Range::new(0, 4096), 0, Origin::Disk, 0));
        let other = lifts.begin(Lift::new(1, Range::new(8192, 4096), 1, Origin::Load(7), 0));
        lifts.cancel(Range::new(4096, 8192));
        assert_eq!((lifts.get(one).is_cancelled, lifts.get(other).is_cancelled), (false, true));
        assert_eq!((lifts.get(one).order, lifts.get(other).order), (None, Some(7)));
        assert_eq!((lifts.reading(), lifts.end_read(one).slot, lifts.reading()), (1, 0, 0));
        lifts.get_mut(other).stage = Stage::Flushing;
        assert_eq!(lifts.flushing(), [other]);
        assert!(lifts.touch(Range::new(9000, 1)) && lifts.end(other).segment == 1 && lifts.len() == 1);
    }

    #[test]
    fn who_waits_does_so_until_nothing_can_come_of_it() {
        let mut lifts = Lifts::default();
        lifts.await_heads();
        assert!(lifts.await_cleans(true) && lifts.await_cleans(false));
        lifts.settle(true, false);
        assert_eq!((lifts.are_heads_awaited(), lifts.are_cleans_awaited()), (true, false));
        lifts.settle(false, true);
        assert!(!lifts.are_heads_awaited());
    }
}
