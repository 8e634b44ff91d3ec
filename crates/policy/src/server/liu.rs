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

mod heads;
mod sizes;
mod stack;

use super::policy::{Load, SegmentCounts, SegmentRead};
use crate::order::TrailingWrites;
use crate::server::segments::Segments;
use heads::Heads;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;
use headstart_units::{MIB, Nanos};
pub use sizes::{
    Basis, HEAD_BYTES_MAX, Origin, PROBE_READ_BYTES, PROBE_SEQUENTIAL_BYTES, PROBED_BYTES, Probe, Sizes, usual_s,
};
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

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Liu {
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
    heads: Heads,
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
    pub(crate) fn new(segments: Segments, settings: Settings) -> Liu {
        let loaded_max = (settings.buffer_bytes / segments.segment_bytes().max(1)) as usize;
        let threshold = u64::from(segments.segment_blocks) * u64::from(settings.threshold_percent);
        Liu {
            settings,
            head_bytes: segments.head_bytes(),
            threshold_blocks: threshold.div_ceil(100) as u32,
            reads_that_pay: 1 + segments.segment_blocks.div_ceil(segments.head_blocks.max(1)),
            whole: Range::new(0, segments.segment_bytes()),
            stack: Stack::new(segments.segment_blocks, loaded_max, loaded_max * settings.stack_per_buffer as usize),
            heads: Heads::default(),
            evicted: Vec::new(),
            writes: TrailingWrites::default(),
            not_before: Nanos::ZERO,
        }
    }

    /// A part of a segment is read, perhaps by a stream that goes on through `ahead`; what of the segment is
    /// to be loaded.
    pub(crate) fn on_segment_read(&mut self, read: SegmentRead, ahead: Option<Range>) -> Option<Range> {
        let SegmentRead { segment, part } = read;
        let asked_before = self.touch(segment);
        let asked = self.stack.ask(segment, part);
        let held = self.stack.held(segment);
        let is_held = held.is_some_and(|held| held.contains(part));
        // A ghost that is half read is not loaded for the rest; one that is read again is.
        let is_again = asked_before == Some(asked) && covers_block(part);
        let has_paid = is_again && self.stack.read_again(segment, is_held) >= self.reads_that_pay;
        let begins = asked_before.is_none() || is_again;
        let is_strong = self.heads.is_strong(segment);
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
                    self.heads.on_strong(segment);
                }
            }
            // What is in the buffer and known to be strong had its turn: it is measured again as it leaves.
            Some(_) if is_strong => {}
            _ if asked >= self.threshold_blocks || has_paid => self.heads.on_strong(segment),
            _ => {}
        }
        self.measure_left();
        wanted
    }

    /// A write comes, while so many bytes of writes are under way.
    pub(crate) fn on_write(&mut self, range: Range, under_way_bytes: u64) {
        self.writes.on_write(range, self.head_bytes, under_way_bytes);
    }

    /// A part of a segment is written: that counts for its locality as reads do, and it may be read next.
    pub(crate) fn on_segment_write(&mut self, segment: u64, part: Range) {
        self.touch(segment);
        if self.stack.ask(segment, part) >= self.threshold_blocks {
            self.heads.on_strong(segment);
        }
        self.measure_left();
    }

    /// A segment is used; how many of its blocks were asked for before, if it is in the stack.
    fn touch(&mut self, segment: u64) -> Option<u32> {
        let asked_before = self.stack.asked_blocks(segment);
        self.heads.touch(segment, asked_before.is_none());
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
            self.heads.on_strong(left.segment);
        } else {
            self.heads.on_weak(left.segment);
        }
    }

    /// The buffer is empty, and so is the stack.
    pub(crate) fn forget(&mut self) {
        self.stack.clear();
        self.evicted.clear();
    }

    /// See [`Policy::next_eviction`](super::policy::Policy::next_eviction).
    pub(crate) fn next_eviction(&mut self) -> Option<u64> {
        self.evicted.pop()
    }

    /// When the next lift may begin, as things stand; none: not before they change.
    fn lifts_from(&self, load: &Load) -> Option<Nanos> {
        let is_quiet = load.waiting == 0 && load.in_flight == 0 && load.background() == 0 && load.lifts == 0;
        is_quiet.then(|| (load.foreground_at + self.settings.idle).max(self.not_before))
    }

    /// See [`Policy::next_lift`](super::policy::Policy::next_lift).
    pub(crate) fn next_lift(&mut self, load: &Load) -> Option<u64> {
        if self.lifts_from(load).is_none_or(|from| load.now < from) {
            return None;
        }
        self.heads.next()
    }

    /// A lift could not begin, or came to nothing.
    pub(crate) fn on_lift_refused(&mut self, now: Nanos, segment: u64, again: bool) {
        self.not_before = now + RETRY;
        self.heads.on_refused(segment, again);
    }

    /// When to ask for the next lift though nothing has happened.
    pub(crate) fn next_timer(&self, load: &Load) -> Option<Nanos> {
        if self.heads.waiting() == 0 {
            return None;
        }
        self.lifts_from(load).filter(|from| *from > load.now)
    }

    /// A head is on flash, or was when the volume started: then it is taken for strong.
    pub(crate) fn on_lifted(&mut self, segment: u64) {
        self.heads.on_lifted(segment);
    }

    /// A head is not on flash any more.
    pub(crate) fn on_head_lost(&mut self, segment: u64, again: bool) {
        self.heads.on_lost(segment, again);
    }

    /// The least recently used head, if the segment that wants its room was used later, and has come back
    /// sooner than that head by now.
    pub(crate) fn next_de_lift(&self, newcomer: u64) -> Option<u64> {
        self.heads.victim(newcomer)
    }

    /// Whether flash takes what is written to a segment's head: it is there, or was until a write before; and
    /// the disk would have to move there.
    pub(crate) fn takes_writes(&self, segment: u64) -> bool {
        !self.writes.are_most() && self.heads.takes_writes(segment)
    }

    /// Segments that the buffer has room for.
    pub(crate) fn loaded_max(&self) -> u64 {
        self.stack.loaded_max() as u64
    }

    /// Whether a part of a segment is in the buffer, or on its way there.
    pub(crate) fn holds(&self, segment: u64, part: Range) -> bool {
        self.stack.held(segment).is_some_and(|held| held.contains(part))
    }

    /// For status.
    pub(crate) fn counts(&self) -> SegmentCounts {
        let (loaded, ghosts) = self.stack.counts();
        SegmentCounts { loaded: loaded as u64, ghosts: ghosts as u64, lifts_waiting: self.heads.waiting() as u64 }
    }
}

#[cfg(test)]
mod tests;
