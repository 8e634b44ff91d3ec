//! Fetches under way: runs of the disk, each read in one order for whoever waits for parts of it and, for
//! the rest, for staging.
//!
//! *Valid* is what of a fetch's range is the newest there is. What is not valid is neither given to readers
//! nor installed.

use std::collections::{BTreeMap, BTreeSet};

use super::waiter::{Joined, Waiter};
use crate::order::{OrderId, Part};
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Reading,
    /// Orders that are missing, and whether all that have completed are on flash.
    Staging {
        missing: usize,
        is_whole: bool,
    },
}

/// A fetch under way.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    range: Range,
    valid: Ranges<()>,
    waiters: Vec<Waiter>,
    slots: Vec<u32>,
    stage: Stage,
    /// The order that reads it.
    order: OrderId,
}

impl Fetch {
    /// What is read.
    pub(super) fn range(&self) -> Range {
        self.range
    }

    /// The order that reads it, whose buffer has the bytes.
    pub(super) fn order(&self) -> OrderId {
        self.order
    }

    /// A part of its bytes.
    pub(super) fn part(&self, range: Range) -> Part {
        Part::Buffer { order: self.order, offset: range.offset - self.range.offset, length: range.length }
    }

    /// Whether all of a range is valid.
    pub(super) fn is_valid(&self, range: Range) -> bool {
        let covered: u64 = self.valid.overlapping(range).map(|(held, _)| held.intersection(range).length).sum();
        covered == range.length
    }

    /// A range is not valid any more, or somebody has it.
    pub(super) fn carve(&mut self, range: Range) {
        self.valid.carve(range);
    }

    /// Its turn on the disk has come, with these slots of staging for what nobody waits for.
    pub(super) fn begin_read(&mut self, slots: Vec<u32>) {
        (self.slots, self.stage) = (slots, Stage::Reading);
    }

    /// It is read: who waits is served.
    pub(super) fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiters)
    }

    /// The slots it has, and the part of its range that each is for.
    pub(super) fn slots(&self, slot_bytes: u64) -> impl Iterator<Item = (u32, Range)> {
        let range = move |index: usize| Range::new(self.range.offset + index as u64 * slot_bytes, slot_bytes);
        self.slots.iter().enumerate().map(move |(index, slot)| (*slot, range(index).intersection(self.range)))
    }

    /// What is valid of a range.
    pub(super) fn valid(&self, range: Range) -> impl Iterator<Item = Range> {
        self.valid.overlapping(range).map(move |(held, _)| held.intersection(range))
    }

    /// The blocks of each slot that hold something valid: their first byte in the slot, and which they are.
    fn staged_blocks(&self, slot_bytes: u64) -> impl Iterator<Item = (u32, u64, Range)> {
        self.slots(slot_bytes).filter_map(|(slot, within)| {
            let span = self.valid(within).reduce(|first, last| Range::between(first.offset, last.end()))?;
            let begin = span.offset / BLOCK_BYTES * BLOCK_BYTES;
            let blocks = Range::between(begin, span.end().next_multiple_of(BLOCK_BYTES).min(within.end()));
            Some((slot, blocks.offset - within.offset, blocks))
        })
    }

    /// What goes to staging: bytes of the area, and of the disk; slots that lie side by side in one write.
    pub(super) fn begin_stage(&mut self, slot_bytes: u64, place_of: impl Fn(u32) -> u64) -> Vec<(u64, Range)> {
        let mut writes: Vec<(u64, Range)> = Vec::new();
        for (slot, skip, blocks) in self.staged_blocks(slot_bytes) {
            let place = place_of(slot) + skip;
            match writes.last_mut() {
                Some((at, last)) if *at + last.length == place && last.end() == blocks.offset => {
                    *last = Range::between(last.offset, blocks.end());
                }
                _ => writes.push((place, blocks)),
            }
        }
        self.stage = Stage::Staging { missing: writes.len(), is_whole: true };
        writes
    }

    /// A write to staging has ended; whether it was the last.
    pub(super) fn end_stage(&mut self, ok: bool) -> bool {
        let Stage::Staging { missing, is_whole } = &mut self.stage else { unreachable!("it is being staged") };
        *missing -= 1;
        *is_whole &= ok;
        *missing == 0
    }

    /// Whether all that was to be staged is on flash.
    pub(super) fn is_staged(&self) -> bool {
        matches!(self.stage, Stage::Staging { is_whole: true, .. })
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Fetches {
    under_way: BTreeMap<u64, Fetch>,
    begun: u64,
    /// Those that wait for their turn, by address.
    queue: BTreeSet<(u64, u64)>,
    cursor: u64,
    reading: usize,
}

impl Fetches {
    /// One waits for its turn: `valid` is what of its range is the newest there is.
    pub(super) fn add(&mut self, range: Range, valid: Ranges<()>, order: OrderId) {
        self.begun += 1;
        let fetch = Fetch { range, valid, waiters: Vec::new(), slots: Vec::new(), stage: Stage::Waiting, order };
        self.under_way.insert(self.begun, fetch);
        self.queue.insert((range.offset, self.begun));
    }

    /// A read wants a part of one. Bytes that it has at once are not staged for others.
    pub(super) fn join(&mut self, waiter: Waiter) -> Joined {
        let range = waiter.range;
        let found = self.under_way.values_mut().find(|fetch| fetch.range.contains(range) && fetch.is_valid(range));
        let Some(fetch) = found else { return Joined::No };
        if matches!(fetch.stage, Stage::Staging { .. }) {
            fetch.valid.carve(range);
            return Joined::Has(fetch.order, fetch.part(range));
        }
        fetch.waiters.push(waiter);
        Joined::Waits
    }

    /// A write of `range` begins or ends.
    pub(super) fn cancel(&mut self, range: Range) {
        for fetch in self.under_way.values_mut().filter(|fetch| fetch.range.overlaps(range)) {
            fetch.valid.carve(range);
        }
    }

    /// The next one upwards from where the last one was and around.
    pub(super) fn next(&self) -> Option<u64> {
        let upwards = self.queue.range((self.cursor, 0)..).next();
        upwards.or_else(|| self.queue.first()).map(|(_, id)| *id)
    }

    /// Its turn has come.
    pub(super) fn begin(&mut self, id: u64, slots: Vec<u32>) -> &Fetch {
        let fetch = self.under_way.get_mut(&id).expect("it waits");
        fetch.begin_read(slots);
        self.queue.remove(&(fetch.range.offset, id));
        self.cursor = fetch.range.end();
        self.reading += 1;
        fetch
    }

    /// The disk is done with one.
    pub(super) fn end_read(&mut self, id: u64) -> &mut Fetch {
        self.reading -= 1;
        self.get_mut(id)
    }

    /// One that is under way.
    pub(super) fn get(&self, id: u64) -> &Fetch {
        &self.under_way[&id]
    }

    /// One that is under way.
    pub(super) fn get_mut(&mut self, id: u64) -> &mut Fetch {
        self.under_way.get_mut(&id).expect("it is under way")
    }

    /// One has ended.
    pub(super) fn end(&mut self, id: u64) -> Fetch {
        self.under_way.remove(&id).expect("it is under way")
    }

    /// What all of them read.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range> {
        self.under_way.values().map(|fetch| fetch.range)
    }

    /// How many wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How many the disk has.
    pub(super) fn reading(&self) -> usize {
        self.reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::Nanos;

    fn fetches(ranges: &[Range]) -> Fetches {
        let mut fetches = Fetches::default();
        for (order, range) in (10..).zip(ranges) {
            let mut valid = Ranges::default();
            valid.insert(*range, ());
            fetches.add(*range, valid, order);
        }
        fetches
    }

    fn blocks(first: u64, count: u64) -> Range {
        Range::new(first * BLOCK_BYTES, count * BLOCK_BYTES)
    }

    #[test]
    fn turns_go_upwards_and_around() {
        let mut fetches = fetches(&[blocks(8, 1), blocks(4, 1), blocks(6, 1)]);
        fetches.begin(3, Vec::new());
        assert_eq!(fetches.next(), Some(1));
        fetches.begin(1, Vec::new());
        assert_eq!((fetches.next(), fetches.waiting(), fetches.reading()), (Some(2), 1, 2));
    }

    #[test]
    fn a_read_joins_what_no_write_has_touched_and_has_it_at_once_when_it_is_there() {
        let mut fetches = fetches(&[blocks(0, 4)]);
        let waiter = |range| Waiter { tag: 1, segment: 0, range, since: Nanos::ZERO };
        fetches.cancel(blocks(1, 1));
        assert_eq!(fetches.join(waiter(blocks(1, 2))), Joined::No);
        assert_eq!(fetches.join(waiter(blocks(2, 1))), Joined::Waits);
        fetches.begin(1, vec![0, 1]);
        let fetch = fetches.end_read(1);
        assert_eq!(fetch.take_waiters().len(), 1);
        // Slots of two blocks, side by side: one write of what is valid.
        let writes = fetch.begin_stage(2 * BLOCK_BYTES, |slot| u64::from(slot) * 2 * BLOCK_BYTES);
        assert_eq!(writes, [(0, blocks(0, 1)), (2 * BLOCK_BYTES, blocks(2, 2))]);
        let part = Part::Buffer { order: 10, offset: 3 * BLOCK_BYTES, length: BLOCK_BYTES };
        assert_eq!(fetches.join(waiter(blocks(3, 1))), Joined::Has(10, part));
        assert_eq!(fetches.join(waiter(blocks(3, 1))), Joined::No, "it is staged for nobody else");
        let fetch = fetches.get_mut(1);
        assert!(!fetch.end_stage(true) && fetch.end_stage(false) && !fetches.end(1).is_staged());
    }
}
