//! LiU's buffer stack (section II-D): segments by their last use, those in the buffer and *ghosts*, of which
//! only the use is known.
//!
//! A block of 4 KiB that is asked for is flagged; a segment's *locality* is the share that is flagged when it
//! leaves the stack. Two bounds: as many in the buffer as it has room for, and so many in all, ghosts with
//! them. The paper has the first alone and takes ghosts off below the last one in the buffer, so that on a
//! volume without heads nothing would ever leave, or be measured. And what was asked for wholly leaves the
//! buffer first: data of HPC is mostly read once, and a stream that waits for its segment has not touched it
//! for longer.

use std::collections::BTreeMap;

use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// A segment in the stack.
#[derive(Clone, Debug)]
struct Entry {
    used: u64,
    /// What of it is in the buffer.
    held: Option<Range>,
    /// All that is there was asked for once so many of its blocks were.
    used_up_blocks: u32,
    /// Which were asked for, and how many.
    asked: Vec<u64>,
    asked_blocks: u32,
    /// Reads of what had been asked for before that the buffer answered since more of it came there, and that
    /// it did not.
    answered_again: u32,
    missed_again: u32,
}

/// One that has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Which.
    pub segment: u64,
    /// It was in the buffer.
    pub was_loaded: bool,
    /// Its locality, blocks of it that were asked for.
    pub asked_blocks: u32,
    /// Reads of what had been asked for before that the buffer answered.
    pub answered_again: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    segment_blocks: u32,
    loaded_max: usize,
    entries_max: usize,
    entries: BTreeMap<u64, Entry>,
    by_use: BTreeMap<u64, u64>,
    /// Those in the buffer of which all was asked for.
    used_up: BTreeMap<u64, u64>,
    uses: u64,
    loaded: usize,
}

impl Stack {
    /// An empty one for so many segments in the buffer, and so many in all.
    pub(crate) fn new(segment_blocks: u32, loaded_max: usize, entries_max: usize) -> Stack {
        let (entries, by_use, used_up) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let loaded_max = loaded_max.max(1);
        let entries_max = entries_max.max(loaded_max);
        Stack { segment_blocks, loaded_max, entries_max, entries, by_use, used_up, uses: 0, loaded: 0 }
    }

    /// A part of a segment, from its begin on, is asked for. The segment is on top, a ghost unless it was
    /// there before; how many of its blocks have been asked for by now.
    pub(crate) fn ask(&mut self, segment: u64, part: Range) -> u32 {
        self.uses += 1;
        let words = (self.segment_blocks as usize).div_ceil(64);
        let entry = self.entries.entry(segment).or_insert_with(|| Entry {
            used: 0,
            held: None,
            used_up_blocks: 0,
            asked: vec![0; words],
            asked_blocks: 0,
            answered_again: 0,
            missed_again: 0,
        });
        self.by_use.remove(&entry.used);
        self.used_up.remove(&entry.used);
        entry.used = self.uses;
        self.by_use.insert(self.uses, segment);
        let last = (part.end().div_ceil(BLOCK_BYTES)).min(self.segment_blocks.into());
        for block in part.offset / BLOCK_BYTES..last {
            let bit = 1u64 << (block % 64);
            let word = &mut entry.asked[(block / 64) as usize];
            entry.asked_blocks += u32::from(*word & bit == 0);
            *word |= bit;
        }
        if entry.held.is_some() && entry.asked_blocks >= entry.used_up_blocks {
            self.used_up.insert(entry.used, segment);
        }
        entry.asked_blocks
    }

    /// Segments that the buffer has room for.
    pub(crate) fn loaded_max(&self) -> usize {
        self.loaded_max
    }

    /// What of a segment is in the buffer, or on its way there.
    pub(crate) fn held(&self, segment: u64) -> Option<Range> {
        self.entries.get(&segment)?.held
    }

    /// How many of its blocks have been asked for; none: it is not in the stack.
    pub(crate) fn asked_blocks(&self, segment: u64) -> Option<u32> {
        self.entries.get(&segment).map(|entry| entry.asked_blocks)
    }

    /// A read found all flagged, and all in the buffer or not; how often the same has been since the segment
    /// came into the stack, or more of it into the buffer.
    pub(crate) fn read_again(&mut self, segment: u64, is_held: bool) -> u32 {
        let entry = self.entries.get_mut(&segment).expect("it was asked for");
        let reads = if is_held { &mut entry.answered_again } else { &mut entry.missed_again };
        *reads += 1;
        *reads
    }

    /// Nothing is in it any more.
    pub(crate) fn clear(&mut self) {
        *self = Stack::new(self.segment_blocks, self.loaded_max, self.entries_max);
    }

    /// This of a segment of the stack comes into the buffer, where perhaps a part of it is; `part` of it is
    /// asked for. Its blocks are flagged anew, or stay as they are: then so many of them were before that
    /// part was asked for.
    pub(crate) fn load(&mut self, segment: u64, wanted: Range, part: Range, flagged_before: Option<u32>) {
        let entry = self.entries.get_mut(&segment).expect("it was asked for");
        if flagged_before.is_none() {
            entry.asked.fill(0);
            entry.asked_blocks = 0;
        }
        (entry.answered_again, entry.missed_again) = (0, 0);
        let all_flagged = flagged_before.unwrap_or(0) + (wanted.length / BLOCK_BYTES) as u32;
        entry.used_up_blocks = all_flagged.min(self.segment_blocks);
        self.loaded += usize::from(entry.held.replace(wanted).is_none());
        self.ask(segment, part);
    }

    /// The next that leaves, if there are too many.
    pub(crate) fn pop(&mut self) -> Option<Left> {
        let (used, segment) = self.by_use.first_key_value().map(|(used, segment)| (*used, *segment))?;
        let bottom = &self.entries[&segment];
        if self.loaded > self.loaded_max {
            // One that is used up, or the last in the buffer; then ghosts below the one that is the last now.
            let loaded = self.used_up.first_key_value();
            let loaded =
                loaded.or_else(|| self.by_use.iter().find(|(_, segment)| self.entries[segment].held.is_some()));
            let (used, segment) = loaded.map(|(used, segment)| (*used, *segment)).expect("some are loaded");
            return Some(self.remove(used, segment));
        }
        let is_below = bottom.held.is_none() && self.loaded == self.loaded_max;
        (is_below || self.entries.len() > self.entries_max).then(|| self.remove(used, segment))
    }

    fn remove(&mut self, used: u64, segment: u64) -> Left {
        self.by_use.remove(&used);
        self.used_up.remove(&used);
        let entry = self.entries.remove(&segment).expect("it is in the stack");
        let (was_loaded, asked_blocks) = (entry.held.is_some(), entry.asked_blocks);
        self.loaded -= usize::from(was_loaded);
        Left { segment, was_loaded, asked_blocks, answered_again: entry.answered_again }
    }

    /// In the buffer, and ghosts.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.loaded, self.entries.len() - self.loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(block: u64) -> Range {
        Range::new(block * BLOCK_BYTES, BLOCK_BYTES)
    }

    #[test]
    fn ghosts_leave_from_the_bottom_when_the_stack_is_full_and_are_measured() {
        let mut stack = Stack::new(100, 2, 4);
        for segment in 0..4 {
            for at in 0..=segment {
                stack.ask(segment, block(at));
            }
        }
        stack.ask(0, Range::new(5, 10));
        assert_eq!(stack.pop(), None);
        stack.ask(9, block(0));
        assert_eq!(stack.pop(), Some(Left { segment: 1, was_loaded: false, asked_blocks: 2, answered_again: 0 }));
        assert_eq!((stack.pop(), stack.counts()), (None, (0, 4)));
    }

    #[test]
    fn the_least_recently_used_segment_makes_room_in_the_buffer_and_ghosts_below_follow() {
        let mut stack = Stack::new(100, 2, 100);
        for segment in 0..6 {
            stack.ask(segment, Range::new(0, 10 * BLOCK_BYTES));
        }
        for segment in [1, 3, 5] {
            stack.load(segment, Range::new(0, 100 * BLOCK_BYTES), block(segment), None);
        }
        let left: Vec<(u64, bool, u32)> =
            std::iter::from_fn(|| stack.pop()).map(|left| (left.segment, left.was_loaded, left.asked_blocks)).collect();
        assert_eq!(left, [(1, true, 1), (0, false, 10), (2, false, 10), (4, false, 10)]);
        assert_eq!(stack.counts(), (2, 0));
    }

    #[test]
    fn what_was_asked_for_wholly_leaves_the_buffer_before_what_is_half_read_for_longer() {
        let mut stack = Stack::new(100, 3, 100);
        for (segment, bytes) in [(0, 100), (1, 4), (2, 100)] {
            stack.ask(segment, block(0));
            stack.load(segment, Range::new(0, bytes * BLOCK_BYTES), block(0), None);
        }
        stack.ask(1, Range::new(0, 4 * BLOCK_BYTES));
        stack.ask(0, block(1));
        for segment in [3, 4] {
            stack.ask(segment, block(0));
            stack.load(segment, Range::new(0, 100 * BLOCK_BYTES), block(0), None);
            let left = stack.pop().unwrap();
            assert_eq!((left.segment, left.was_loaded, stack.pop()), ([1, 2][segment as usize - 3], true, None));
        }
    }
}
