//! Heads: clean copies of the begins of segments, in slots on flash, as the log says.
//!
//! A head is in the replay from the moment its HEAD record may be on flash until what ended it is durable:
//! another record that ends it (NOHEAD, or DATA or ZERO that touches it), or a checkpoint that leaves it out.
//! So long its slot is not used again, and the disk beneath it is not written (rule 5).
//!
//! ```text
//! recording --HEAD completes--> live --forgotten--> doomed --NOHEAD appended--> ending --durable--> gone
//!     '------ DATA, ZERO appended --'---------------------------------------------^                  ^
//!     '--the record failed--> doomed --a checkpoint begins--> excluded --it is in force--------------'
//!                                                                '------ DATA, ZERO appended --> ending
//! ```
//!
//! Only live ones are read. That a copy is clean rests on one invariant: the log names nothing of a head's
//! range. HEAD is appended only where it does not, and DATA ends the heads it touches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headstart_policy::server::segments::Segments;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// How far a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its record is in flight.
    Recording,
    /// It may be read.
    Live,
    /// It is in the replay, and should not be.
    Doomed,
    /// This record ends it.
    Ending(u64),
    /// The checkpoint that is being made leaves it out.
    Excluded,
}

/// A head that a replay may find.
#[derive(Clone, Debug)]
pub struct Head {
    /// Bytes of the disk, whole blocks.
    pub range: Range,
    /// Where its copy is.
    pub slot: u32,
    /// CRC32C of each block.
    pub crcs: Arc<[u32]>,
    state: State,
}

impl Head {
    /// Checksums of the blocks of a part of it that begins and ends with blocks.
    pub fn crcs_of(&self, blocks: Range) -> &[u32] {
        let first = ((blocks.offset - self.range.offset) / BLOCK_BYTES) as usize;
        &self.crcs[first..first + (blocks.length / BLOCK_BYTES) as usize]
    }

    /// Most bytes it takes in a checkpoint.
    pub fn encoded_bytes(blocks: u64) -> u64 {
        24 + 4 * blocks
    }
}

/// All heads that a replay may find, by address; none overlaps another.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    by_offset: BTreeMap<u64, Head>,
    by_slot: BTreeMap<u32, u64>,
    /// Begins of those on their way out: asked for at every step, so they are not searched for.
    leaving: BTreeSet<u64>,
    encoded_bytes: u64,
}

impl Heads {
    /// A head that the replay names; older ones that it touches, or whose slot it has, are gone.
    pub fn replay(&mut self, range: Range, slot: u32, crcs: &[u32]) {
        self.replay_end(range);
        if let Some(&same) = self.by_slot.get(&slot) {
            self.remove(same);
        }
        self.insert(Head { range, slot, crcs: crcs.into(), state: State::Live });
    }

    /// A record of the replay ends heads that it touches.
    pub fn replay_end(&mut self, range: Range) {
        for offset in self.touched(range) {
            self.remove(offset);
        }
    }

    fn insert(&mut self, head: Head) {
        self.encoded_bytes += Head::encoded_bytes(head.crcs.len() as u64);
        self.by_slot.insert(head.slot, head.range.offset);
        self.by_offset.insert(head.range.offset, head);
    }

    fn remove(&mut self, offset: u64) -> Option<Head> {
        let head = self.by_offset.remove(&offset)?;
        self.by_slot.remove(&head.slot);
        self.leaving.remove(&offset);
        self.encoded_bytes -= Head::encoded_bytes(head.crcs.len() as u64);
        Some(head)
    }

    fn touched(&self, range: Range) -> Vec<u64> {
        self.overlapping(range).map(|head| head.range.offset).collect()
    }

    /// Those that a replay may find and that share a byte with a range.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = &Head> {
        let before = self.by_offset.range(..range.offset).next_back().map_or(range.offset, |(offset, _)| *offset);
        let near = self.by_offset.range(before..range.end().max(before)).map(|(_, head)| head);
        near.filter(move |head| head.range.overlaps(range))
    }

    /// Whether a replay may find any that shares a byte with a range.
    pub fn touches(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// The one that may be read and shares a byte with a range, the first of them.
    pub fn live(&self, range: Range) -> Option<&Head> {
        self.overlapping(range).find(|head| head.state == State::Live)
    }

    /// A HEAD record has been appended.
    pub fn record(&mut self, range: Range, slot: u32, crcs: Arc<[u32]>) {
        debug_assert!(!self.touches(range), "a replay finds one head of a range at most");
        self.insert(Head { range, slot, crcs, state: State::Recording });
    }

    /// That record has completed; whether the head is live now.
    pub fn recorded(&mut self, offset: u64) -> bool {
        let Some(head) = self.by_offset.get_mut(&offset).filter(|head| head.state == State::Recording) else {
            return false;
        };
        head.state = State::Live;
        true
    }

    /// That record has failed, but may be on flash.
    pub fn record_failed(&mut self, offset: u64) {
        if self.by_offset.get(&offset).is_some_and(|head| head.state == State::Recording) {
            self.leave(offset, State::Doomed);
        }
    }

    /// Live heads that share a byte with a range are not to be read any more. Their segments' begins.
    pub fn doom(&mut self, range: Range) -> Vec<u64> {
        let mut doomed = self.touched(range);
        doomed.retain(|offset| self.by_offset[offset].state == State::Live);
        doomed.iter().for_each(|&offset| self.leave(offset, State::Doomed));
        doomed
    }

    /// A record has been appended that ends what it touches. The begins of heads that were live, or about to be.
    pub fn end(&mut self, range: Range, seq: u64) -> Vec<u64> {
        let mut ended = Vec::new();
        for offset in self.touched(range) {
            let state = self.by_offset[&offset].state;
            ended.extend(matches!(state, State::Live | State::Recording).then_some(offset));
            if !matches!(state, State::Ending(_)) {
                self.leave(offset, State::Ending(seq));
            }
        }
        ended
    }

    /// Those that wait for a record that ends them.
    pub fn doomed(&self) -> impl Iterator<Item = Range> {
        self.leaving().filter(|head| head.state == State::Doomed).map(|head| head.range)
    }

    /// Whether any is on its way out.
    pub fn is_ending(&self) -> bool {
        !self.leaving.is_empty()
    }

    fn leaving(&self) -> impl Iterator<Item = &Head> {
        self.leaving.iter().map(|offset| &self.by_offset[offset])
    }

    fn leave(&mut self, offset: u64, state: State) {
        self.by_offset.get_mut(&offset).expect("it is there").state = state;
        self.leaving.insert(offset);
    }

    /// What ended up to `durable_to` is gone; the slots that are free by that.
    pub fn settle(&mut self, durable_to: u64) -> Vec<u32> {
        self.take(|state| matches!(state, State::Ending(seq) if seq <= durable_to))
    }

    /// A checkpoint begins, when nothing is in flight: it leaves out what is doomed.
    pub fn begin_checkpoint(&mut self) {
        let doomed: Vec<u64> = self.doomed().map(|range| range.offset).collect();
        doomed.into_iter().for_each(|offset| self.leave(offset, State::Excluded));
    }

    /// The checkpoint is in force; the slots that are free by that.
    pub fn end_checkpoint(&mut self) -> Vec<u32> {
        self.take(|state| state == State::Excluded)
    }

    fn take(&mut self, gone: impl Fn(State) -> bool) -> Vec<u32> {
        let offsets = self.leaving().filter(|head| gone(head.state)).map(|head| head.range.offset);
        let offsets: Vec<u64> = offsets.collect();
        offsets.into_iter().filter_map(|offset| self.remove(offset)).map(|head| head.slot).collect()
    }

    /// Those that the replay of what has completed holds, in address order.
    pub fn logged(&self) -> impl Iterator<Item = &Head> {
        self.by_offset.values().filter(|head| matches!(head.state, State::Live | State::Doomed))
    }

    /// All that may be read.
    pub fn iter_live(&self) -> impl Iterator<Item = &Head> {
        self.by_offset.values().filter(|head| head.state == State::Live)
    }

    /// Whether no replay finds any.
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    /// Most bytes a checkpoint of them takes.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes
    }
}

/// Which slots are free.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    free: BTreeSet<u32>,
    pins: BTreeMap<u32, u32>,
    /// No head's any more, but being read.
    parked: BTreeSet<u32>,
}

impl Slots {
    /// All but those of heads.
    pub(crate) fn new(segments: Segments, heads: &Heads) -> Slots {
        let free = (0..segments.slots).filter(|slot| !heads.by_slot.contains_key(slot)).collect();
        Slots { free, ..Slots::default() }
    }

    /// Whether none is free.
    #[cfg(test)]
    pub fn are_taken(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop_first()
    }

    /// No replay finds a head in it.
    pub(crate) fn give_back(&mut self, slot: u32) {
        if self.pins.contains_key(&slot) {
            self.parked.insert(slot);
        } else {
            self.free.insert(slot);
        }
    }

    /// It is being read.
    pub(crate) fn pin(&mut self, slot: u32) {
        *self.pins.entry(slot).or_default() += 1;
    }

    /// The end of that.
    pub(crate) fn unpin(&mut self, slot: u32) {
        let pins = self.pins.get_mut(&slot).expect("it was pinned");
        *pins -= 1;
        if *pins == 0 {
            self.pins.remove(&slot);
            if self.parked.remove(&slot) {
                self.free.insert(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(block: u64) -> Range {
        Range::new(block * BLOCK_BYTES, BLOCK_BYTES)
    }

    #[test]
    fn a_slot_is_free_when_what_ended_its_head_is_durable_and_nobody_reads_it() {
        let mut heads = Heads::default();
        let segments = Segments { segment_blocks: 4, head_blocks: 1, slots: 1 };
        let mut slots = Slots::new(segments, &heads);
        let slot = slots.take().unwrap();
        heads.record(range(0), slot, vec![7].into());
        assert!(heads.live(range(0)).is_none() && heads.recorded(0));
        slots.pin(slot);
        assert_eq!(heads.doom(range(0)), [0]);
        assert_eq!(heads.end(range(0), 9), [], "it was doomed before");
        assert_eq!(heads.settle(8), []);
        heads.settle(9).into_iter().for_each(|slot| slots.give_back(slot));
        assert!(heads.is_empty() && slots.are_taken());
        slots.unpin(slot);
        assert_eq!(slots.take(), Some(slot));
    }

    #[test]
    fn a_checkpoint_that_leaves_a_head_out_ends_it_and_one_that_began_before_does_not() {
        let mut heads = Heads::default();
        heads.replay(range(0), 0, &[1]);
        heads.replay(range(4), 1, &[1]);
        heads.doom(range(0));
        heads.begin_checkpoint();
        heads.doom(range(4));
        assert_eq!(heads.logged().map(|head| head.slot).collect::<Vec<_>>(), [1]);
        assert_eq!(heads.end_checkpoint(), [0]);
        assert!(heads.touches(range(4)));
    }
}
