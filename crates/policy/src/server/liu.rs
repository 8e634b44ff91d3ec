//! LiU (MASCOTS 2013): the *head* of a segment on flash, its body on the disk. Flash answers while the disk
//! moves to the body.
//!
//! Segments are of disk addresses. This file decides; the engine moves (`engine/loading.rs`, `engine/lifting.rs`).
//!
//! ```text
//!             read of a segment (a write stops at the stack)
//!                        |
//!      [`Stack`]: on top, its blocks flagged ----------------- what leaves: locality
//!                        |                                             |
//!            strong? ----+---- weak or unknown               >= threshold    < threshold
//!               |                   |                             |               |
//!   load: body in four parts     a ghost: each part from       *strong*         *weak*
//!   from the disk, head from     where it is (head: flash)        |               |
//!   flash at once                                        not lifted: lift     lifted: stays, is not loaded
//! ```
//!
//! **What is asked for** is what is read and what is written: data that a program has written it may read
//! next, and a head that is written again goes to flash.
//!
//! **When it is loaded.** A strong segment that is new in the stack, or a ghost of which a block is read for
//! the second time. And any ghost, weak or unknown, when reads of blocks that were read before have cost the
//! disk what a load costs (`reads_that_pay`): they may go on coming. It is strong by that, for had it been
//! loaded at the first of them the disk would have had less to do; as it leaves the buffer, it stays so if as
//! many reads that came again were answered there.
//!
//! **When a segment is strong** (section II-D measures it as it leaves the stack): blocks that were asked for
//! stay asked for, so a ghost with enough of them is known to be strong before it leaves, and may be lifted
//! while it is in use. So is a segment that a stream or a guess of one brought into the buffer: when the
//! buffer is emptied its blocks are forgotten.
//!
//! **Which heads stay.** Every lifted segment keeps the time of its last use. When no slot is free the least
//! recently used head makes room, unless it was used after the newcomer's last use, or has been idle for less
//! long than the newcomer was before it came back: of segments that are read round and round, more than there
//! are slots for, the least recently used is the next to be read. What has to make room is still strong, and
//! loaded when it is read; it comes back to flash when it is found strong once more.
//!
//! **What is written** to a lifted head goes to flash, unless most of the last writes followed closely behind
//! each other and kept the disk busy (a client's write-back): there is no positioning to hide then, and the
//! head would be written to the disk later, by itself.
//!
//! **When.** A lift is a read of the disk: only when the foreground has been quiet for [`Settings::idle`]. A
//! strong segment that has no head yet is loaded as a lifted one is, wholly from the disk; the engine takes
//! the head from there, which costs the disk nothing.

pub mod sizes;
pub mod stack;

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{Load, SegmentCounts, SegmentRead};
use crate::order::TrailingWrites;
use crate::server::segments::Segments;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;
use headstart_units::{MIB, Nanos};
pub use sizes::{Basis, HEAD_BYTES_MAX, Origin, Probe, Sizes};
use stack::{Left, Stack};

/// What may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of segments in memory (the paper's 256 MB).
    pub buffer_bytes: u64,
    /// Segments in the stack for each that the buffer has room for, ghosts with them (assumed: a ghost has as
    /// long to be read as a segment in the buffer, twice).
    pub stack_per_buffer: u32,
    /// Percent of a segment's blocks from which on it is strong. The paper does not say; a sweep does:
    /// docs/internals/models.md.
    pub threshold_percent: u32,
    /// The foreground is quiet after so long without a request (assumed: several times a disk's positioning).
    pub idle: Nanos,
}

impl Default for Settings {
    fn default() -> Settings {
        let idle = Nanos(50_000_000);
        Settings { buffer_bytes: 256 * MIB, stack_per_buffer: 2, threshold_percent: 30, idle }
    }
}

/// A segment that was found strong, or is lifted.
#[derive(Clone, Copy, Debug)]
struct Known {
    is_strong: bool,
    is_lifted: bool,
    /// Its head was on flash until a write made it the log's, and will be again.
    is_written: bool,
    used: u64,
    /// Uses of other segments before it came into the stack, since it was used last; none for one that was
    /// never seen before.
    interval: u64,
}

impl Known {
    fn strong(used: u64) -> Known {
        Known { is_strong: true, is_lifted: false, is_written: false, used, interval: 0 }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Liu {
    settings: Settings,
    head_bytes: u64,
    threshold_blocks: u32,
    /// Reads of blocks that were read before, of a segment that is not in the buffer, that take the disk as
    /// long as loading it: not the paper's, but ski rental's, at most twice the time of who knows the future.
    /// A head takes as long as a positioning, and a read out of order is one.
    reads_that_pay: u32,
    /// A segment, from its begin on.
    whole: Range,
    stack: Stack,
    known: BTreeMap<u64, Known>,
    /// Lifted ones by their last use.
    lifted_by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Strong ones to be lifted, by address, and where the last one was.
    waiting: BTreeSet<u64>,
    cursor: u64,
    evicted: Vec<u64>,
    writes: TrailingWrites,
    /// None is tried before, since the last could not begin.
    not_before: Nanos,
}

/// After a lift that could not begin, no other is tried for so long (assumed; what it waits for takes a flush
/// of a device or longer).
const RETRY: Nanos = Nanos(5_000_000);

/// Whether a part has a whole block: what has none may lie in blocks of its neighbours, so that nothing need
/// be read again.
fn covers_block(part: Range) -> bool {
    part.offset.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES <= part.end()
}

impl Liu {
    /// One that has seen nothing yet.
    pub fn new(segments: Segments, settings: Settings) -> Liu {
        let loaded_max = (settings.buffer_bytes / segments.segment_bytes().max(1)) as usize;
        let threshold = u64::from(segments.segment_blocks) * u64::from(settings.threshold_percent);
        Liu {
            settings,
            head_bytes: segments.head_bytes(),
            threshold_blocks: threshold.div_ceil(100) as u32,
            reads_that_pay: 1 + segments.segment_blocks.div_ceil(segments.head_blocks.max(1)),
            whole: Range::new(0, segments.segment_bytes()),
            stack: Stack::new(segments.segment_blocks, loaded_max, loaded_max * settings.stack_per_buffer as usize),
            known: BTreeMap::new(),
            lifted_by_use: BTreeMap::new(),
            uses: 0,
            waiting: BTreeSet::new(),
            cursor: 0,
            evicted: Vec::new(),
            writes: TrailingWrites::default(),
            not_before: Nanos::ZERO,
        }
    }

    /// A part of a segment is read, perhaps by a stream that goes on through `ahead`; what of the segment is
    /// to be loaded.
    pub fn on_segment_read(&mut self, read: SegmentRead, ahead: Option<Range>) -> Option<Range> {
        let SegmentRead { segment, part } = read;
        let asked_before = self.touch(segment);
        let asked = self.stack.ask(segment, part);
        let held = self.stack.held(segment);
        let is_held = held.is_some_and(|held| held.contains(part));
        // A ghost that is half read is not loaded for the rest; one that is read again is.
        let is_again = asked_before == Some(asked) && covers_block(part);
        let has_paid = is_again && self.stack.read_again(segment, is_held) >= self.reads_that_pay;
        let begins = asked_before.is_none() || is_again;
        let is_strong = self.known.get(&segment).is_some_and(|known| known.is_strong);
        let wanted = match held {
            held if is_held => held,
            _ if has_paid || (begins && is_strong) => Some(self.whole),
            held => held.into_iter().chain(ahead).reduce(Range::hull),
        };
        match wanted {
            // One that is strong is measured anew; of one that nobody knows all counts.
            Some(wanted) if held != Some(wanted) => {
                let flagged = (!is_strong).then(|| asked_before.unwrap_or(0));
                self.stack.load(segment, wanted, part, flagged);
                if has_paid {
                    self.on_strong(segment);
                }
            }
            // What is in the buffer and known to be strong had its turn: it is measured again as it leaves.
            Some(_) if is_strong => {}
            _ if asked >= self.threshold_blocks || has_paid => self.on_strong(segment),
            _ => {}
        }
        self.measure_left();
        wanted
    }

    /// A write comes, while so many bytes of writes are under way.
    pub fn on_write(&mut self, range: Range, under_way_bytes: u64) {
        self.writes.on_write(range, self.head_bytes, under_way_bytes);
    }

    /// A part of a segment is written: that counts for its locality as reads do, and it may be read next.
    pub fn on_segment_write(&mut self, segment: u64, part: Range) {
        self.touch(segment);
        if self.stack.ask(segment, part) >= self.threshold_blocks {
            self.on_strong(segment);
        }
        self.measure_left();
    }

    /// A segment is used; how many of its blocks were asked for before, if it is in the stack.
    fn touch(&mut self, segment: u64) -> Option<u32> {
        self.uses += 1;
        let asked_before = self.stack.asked_blocks(segment);
        if let Some(known) = self.known.get_mut(&segment) {
            if asked_before.is_none() {
                known.interval = self.uses - known.used;
            }
            if known.is_lifted {
                self.lifted_by_use.remove(&known.used);
                self.lifted_by_use.insert(self.uses, segment);
            }
            known.used = self.uses;
        }
        asked_before
    }

    /// Looks at what the stack has no room for any more.
    fn measure_left(&mut self) {
        while let Some(left) = self.stack.pop() {
            self.on_left(left);
        }
    }

    fn on_left(&mut self, left: Left) {
        if left.was_loaded {
            self.evicted.push(left.segment);
        }
        // Of what was in the buffer; a ghost would have been loaded.
        let has_paid = left.answered_again >= self.reads_that_pay;
        if left.asked_blocks >= self.threshold_blocks || has_paid {
            self.on_strong(left.segment);
        } else if let Some(known) = self.known.get_mut(&left.segment) {
            known.is_strong = false;
            self.waiting.remove(&left.segment);
            if !known.is_lifted {
                self.known.remove(&left.segment);
            }
        }
    }

    fn on_strong(&mut self, segment: u64) {
        let used = self.uses;
        let known = self.known.entry(segment).or_insert(Known::strong(used));
        known.is_strong = true;
        if !known.is_lifted {
            self.waiting.insert(segment);
        }
    }

    /// The buffer is empty, and so is the stack.
    pub fn forget(&mut self) {
        self.stack.clear();
        self.evicted.clear();
    }

    /// See [`Policy::next_eviction`](super::Policy::next_eviction).
    pub fn next_eviction(&mut self) -> Option<u64> {
        self.evicted.pop()
    }

    /// When the next lift may begin, as things stand; none: not before they change.
    fn lifts_from(&self, load: &Load) -> Option<Nanos> {
        let is_quiet = load.waiting == 0 && load.in_flight == 0 && load.background() == 0 && load.lifts == 0;
        is_quiet.then(|| (load.foreground_at + self.settings.idle).max(self.not_before))
    }

    /// See [`Policy::next_lift`](super::Policy::next_lift).
    pub fn next_lift(&mut self, load: &Load) -> Option<u64> {
        if self.lifts_from(load).is_none_or(|from| load.now < from) {
            return None;
        }
        let upwards = self.waiting.range(self.cursor..).next().or_else(|| self.waiting.first());
        let segment = *upwards?;
        self.waiting.remove(&segment);
        self.cursor = segment + 1;
        Some(segment)
    }

    /// A lift could not begin, or came to nothing.
    pub fn on_lift_refused(&mut self, now: Nanos, segment: u64, again: bool) {
        self.not_before = now + RETRY;
        let Some(known) = self.known.get_mut(&segment) else { return };
        if again && known.is_strong && !known.is_lifted {
            self.waiting.insert(segment);
        }
        known.is_written &= again;
    }

    /// When to ask for the next lift though nothing has happened.
    pub fn next_timer(&self, load: &Load) -> Option<Nanos> {
        if self.waiting.is_empty() {
            return None;
        }
        self.lifts_from(load).filter(|from| *from > load.now)
    }

    /// A head is on flash, or was when the volume started: then it is taken for strong.
    pub fn on_lifted(&mut self, segment: u64) {
        let used = self.known.get(&segment).map_or(self.uses, |known| known.used);
        self.uses += 1;
        let used = if self.lifted_by_use.contains_key(&used) { self.uses } else { used };
        let known = self.known.entry(segment).or_insert(Known::strong(used));
        (known.is_lifted, known.is_written) = (true, false);
        known.used = used;
        self.lifted_by_use.insert(used, segment);
        self.waiting.remove(&segment);
    }

    /// A head is not on flash any more.
    pub fn on_head_lost(&mut self, segment: u64, again: bool) {
        let Some(known) = self.known.get_mut(&segment) else { return };
        if known.is_lifted {
            self.lifted_by_use.remove(&known.used);
            (known.is_lifted, known.is_written) = (false, true);
        }
        if !known.is_strong {
            self.known.remove(&segment);
        } else if again {
            self.waiting.insert(segment);
        } else {
            known.is_written = false;
        }
    }

    /// The least recently used head, if the segment that wants its room was used later, and has come back
    /// sooner than that head by now.
    pub fn next_de_lift(&self, newcomer: u64) -> Option<u64> {
        let (used, segment) = self.lifted_by_use.first_key_value()?;
        let newcomer = self.known.get(&newcomer)?;
        (*used < newcomer.used && self.uses - used > newcomer.interval).then_some(*segment)
    }

    /// Whether flash takes what is written to a segment's head: it is there, or was until a write before; and
    /// the disk would have to move there.
    pub fn takes_writes(&self, segment: u64) -> bool {
        !self.writes.are_most() && self.known.get(&segment).is_some_and(|known| known.is_lifted || known.is_written)
    }

    /// Segments that the buffer has room for.
    pub fn loaded_max(&self) -> u64 {
        self.stack.loaded_max() as u64
    }

    /// Whether a part of a segment is in the buffer, or on its way there.
    pub fn holds(&self, segment: u64, part: Range) -> bool {
        self.stack.held(segment).is_some_and(|held| held.contains(part))
    }

    /// For status.
    pub fn counts(&self) -> SegmentCounts {
        let (loaded, ghosts) = self.stack.counts();
        SegmentCounts { loaded: loaded as u64, ghosts: ghosts as u64, lifts_waiting: self.waiting.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strong_segment_is_loaded_when_a_block_is_read_again_and_not_for_short_reads_of_one_block() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let mut liu = Liu::new(segments, Settings::default());
        let mut read = |part| liu.on_segment_read(SegmentRead { segment: 3, part }, None);
        let loaded = (0..4000).find_map(|turn| read(Range::new(turn * 1000, 1000)));
        assert_eq!(loaded, None, "in order, four to a block");
        assert_eq!(read(Range::new(5000, 8192)), Some(Range::new(0, segments.segment_bytes())));
    }

    #[test]
    fn a_weak_segment_is_loaded_when_reads_that_came_again_have_cost_what_a_load_does() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let mut liu = Liu::new(segments, Settings::default());
        let all = Some(Range::new(0, segments.segment_bytes()));
        let mut reads_until_loaded = |blocks: [u64; 2]| {
            let part = |turn: usize| Range::new(blocks[turn % 2] * BLOCK_BYTES, BLOCK_BYTES);
            (0..20).find(|turn| liu.on_segment_read(SegmentRead { segment: 3, part: part(*turn) }, None) == all)
        };
        assert_eq!(reads_until_loaded([7, 900]), Some(7), "two that are new, then the sixth");
        assert_eq!(reads_until_loaded([7, 900]), Some(0), "it is in the buffer");
        assert_eq!(liu.counts().lifts_waiting, 1, "and is strong");
        liu.forget();
        assert_eq!(
            liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, BLOCK_BYTES) }, None),
            all,
            "at once"
        );
        let mut liu = Liu::new(segments, Settings::default());
        let mut written = |block| liu.on_segment_write(3, Range::new(block * BLOCK_BYTES, BLOCK_BYTES));
        (0..20).for_each(|turn| written(turn % 2));
        let mut read = |block| {
            liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(block * BLOCK_BYTES, BLOCK_BYTES) }, None)
        };
        assert_eq!((0..200).find_map(&mut read), None, "new ones count nothing, nor do writes");
        assert_eq!((0..6).find(|block| read(*block) == all), Some(3), "the first two came again before");
    }

    #[test]
    fn a_segment_that_a_stream_loaded_is_strong_when_reads_that_came_again_there_have_cost_what_a_load_does() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let mut liu = Liu::new(segments, Settings::default());
        let part = Range::new(7 * BLOCK_BYTES, BLOCK_BYTES);
        let ahead = Range::new(0, segments.segment_bytes());
        assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part }, Some(ahead)), Some(ahead));
        let mut lifts_waiting = || {
            liu.on_segment_read(SegmentRead { segment: 3, part }, None);
            liu.counts().lifts_waiting
        };
        assert_eq!((0..6).map(|_| lifts_waiting()).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_segment_that_paid_for_its_load_is_strong_after_it_has_left_and_one_that_did_not_is_weak() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        for (reads_loaded, is_strong) in [(1, false), (6, true)] {
            let mut liu = Liu::new(segments, Settings::default());
            let mut read = |segment, block| {
                let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
                liu.on_segment_read(SegmentRead { segment, part }, None).is_some()
            };
            assert!((0..7).any(|_| read(3, 7)), "new, and six times again");
            (0..reads_loaded).for_each(|_| assert!(read(3, 7)));
            for segment in 10..500 {
                (0..10).for_each(|_| _ = read(segment, 0));
            }
            assert_eq!(read(3, 900), is_strong, "{reads_loaded}");
        }
    }

    #[test]
    fn blocks_that_were_read_before_a_load_that_had_paid_are_read_again_after_it() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let mut liu = Liu::new(segments, Settings::default());
        let mut read = |segment, block| {
            let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
            liu.on_segment_read(SegmentRead { segment, part }, None).is_some()
        };
        let loads_at = (0..).find(|turn| read(3, turn % 6));
        assert_eq!(loads_at, Some(11), "six blocks, each twice");
        assert!((0..6).all(|block| read(3, block)));
        for segment in 10..500 {
            (0..10).for_each(|_| _ = read(segment, 0));
        }
        assert!(read(3, 900), "one that had six reads of them in the buffer is strong after it has left");
    }

    #[test]
    fn a_segment_that_was_written_is_strong_when_it_is_read() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        for (written_blocks, wanted) in [(383, None), (384, Some(Range::new(0, segments.segment_bytes())))] {
            let mut liu = Liu::new(segments, Settings::default());
            for block in 0..written_blocks {
                liu.on_segment_write(3, Range::new(block * BLOCK_BYTES, BLOCK_BYTES));
            }
            assert_eq!(liu.counts().lifts_waiting, u64::from(wanted.is_some()), "from 30 % on");
            assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), wanted);
        }
    }

    #[test]
    fn flash_takes_all_that_is_written_to_a_head_until_it_is_lifted_again_or_never_will_be() {
        let liu = || {
            let mut liu = Liu::new(Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 }, Settings::default());
            assert!(!liu.takes_writes(3), "it was never lifted");
            liu.on_lifted(3);
            assert!(liu.takes_writes(3));
            liu
        };
        let mut written = liu();
        written.on_head_lost(3, true);
        assert!(written.takes_writes(3), "the first write ended the head");
        written.on_lift_refused(Nanos::ZERO, 3, true);
        assert!(written.takes_writes(3), "it is tried again");
        written.on_lifted(3);
        assert!(written.takes_writes(3));
        written.on_head_lost(3, true);
        written.on_lift_refused(Nanos::ZERO, 3, false);
        assert!(!written.takes_writes(3), "others have the slots");
        let mut displaced = liu();
        displaced.on_head_lost(3, false);
        assert!(!displaced.takes_writes(3));
    }

    #[test]
    fn flash_takes_no_writes_to_heads_that_follow_each_other_closely_while_the_disk_is_kept_busy() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let takes = |step: u64, under_way_bytes| {
            let mut liu = Liu::new(segments, Settings::default());
            liu.on_lifted(3);
            (0..100u64).for_each(|write| liu.on_write(Range::new((write ^ 1) * step, 16384), under_way_bytes));
            liu.takes_writes(3)
        };
        assert!(!takes(16384, 128 << 10) && !takes(300 << 10, 1 << 20), "with gaps as well");
        assert!(takes(1 << 20, 1 << 20), "more than a head away");
        assert!(takes(16384, 64 << 10), "the disk waits for the next");
    }

    #[test]
    fn a_strong_segment_whose_head_made_room_is_loaded_and_comes_back_when_it_is_found_strong_again() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 1 };
        let mut liu = Liu::new(segments, Settings::default());
        liu.on_lifted(3);
        assert_eq!(liu.on_segment_read(SegmentRead { segment: 4, part: Range::new(0, 65536) }, None), None);
        assert_eq!(liu.next_de_lift(4), None, "nobody knows that one");
        for segment in [4, 5] {
            liu.on_segment_write(segment, Range::new(0, 384 * BLOCK_BYTES));
        }
        assert_eq!(liu.next_de_lift(5), Some(3));
        liu.on_head_lost(3, false);
        liu.on_lifted(5);
        assert_eq!(liu.counts().lifts_waiting, 1, "3 does not wait");
        let all = Range::new(0, segments.segment_bytes());
        assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), Some(all));
        liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 384 * BLOCK_BYTES) }, None);
        assert_eq!(liu.counts().lifts_waiting, 1, "nor while it is in the buffer");
        for segment in 10..10 + liu.loaded_max() {
            liu.on_segment_write(segment, Range::new(0, 384 * BLOCK_BYTES));
            liu.on_segment_read(SegmentRead { segment, part: Range::new(0, 65536) }, None);
        }
        assert!(liu.waiting.contains(&3), "it has left: {:?}", liu.waiting);
    }

    #[test]
    fn of_more_segments_than_slots_that_are_read_round_and_round_some_stay_lifted() {
        const SLOTS: u64 = 4;
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: SLOTS as u32 };
        let buffer = Settings { buffer_bytes: segments.segment_bytes(), stack_per_buffer: 1, ..Settings::default() };
        let mut liu = Liu::new(segments, buffer);
        let (mut lifted, mut moved, mut found) = (BTreeSet::new(), 0, 0);
        let mut read = |segment: u64, counted: bool| {
            found += u64::from(counted && lifted.contains(&segment));
            for block in 0..1280 {
                let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
                liu.on_segment_read(SegmentRead { segment, part }, None);
            }
            for wanting in std::mem::take(&mut liu.waiting) {
                if lifted.len() as u64 == SLOTS {
                    let Some(displaced) = liu.next_de_lift(wanting) else { continue };
                    liu.on_head_lost(displaced, false);
                    lifted.remove(&displaced);
                }
                liu.on_lifted(wanting);
                lifted.insert(wanting);
                moved += u64::from(counted);
            }
            (found, moved)
        };
        let rounds = (0..6).flat_map(|round| (0..9).map(move |segment| (round, segment)));
        let (found, moved) = rounds.map(|(round, segment)| read(segment, round > 0)).last().unwrap();
        assert!(found >= 5 * (SLOTS - 1), "{found} of {} found on flash, {moved} moved there", 5 * 9);
        assert!(moved < 9, "{moved} moved");
        // Others take their place as soon as they come back sooner.
        let (_, before) = read(20, true);
        let (_, after) = (0..3 * SLOTS).map(|turn| read(20 + turn % SLOTS, true)).last().unwrap();
        assert_eq!(after - before, SLOTS - 1, "all of the new ones");
    }

    #[test]
    fn a_segment_that_was_loaded_ahead_of_a_stream_is_strong_when_enough_of_it_was_read() {
        let segments = Segments { segment_blocks: 1280, head_blocks: 256, slots: 9 };
        let mut liu = Liu::new(segments, Settings::default());
        let ahead = Range::between(65536, segments.segment_bytes());
        assert_eq!(liu.on_segment_read(SegmentRead { segment: 3, part: Range::new(0, 65536) }, None), None);
        let next = SegmentRead { segment: 3, part: Range::new(65536, 65536) };
        assert_eq!(liu.on_segment_read(next, Some(ahead)), Some(ahead));
        for block in 32..415 {
            let part = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
            assert!(liu.on_segment_read(SegmentRead { segment: 3, part }, None).is_some());
            assert_eq!(liu.counts().lifts_waiting, u64::from(block + 1 >= 384), "block {block}");
        }
        liu.forget();
        let begins = SegmentRead { segment: 3, part: Range::new(0, 65536) };
        assert!(liu.on_segment_read(begins, None).is_some(), "known, though the buffer was emptied");
    }
}
