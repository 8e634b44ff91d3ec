//! Absorbed bytes: written to slabs that the thread holds, and committed. Always into new space.
//!
//! A commit within the file's known size and within one granule whose word is open is pushed to the thread's ring
//! ([`crate::ring`]), and needs no answer unless the word has changed by then. All others are asked for.
//!
//! Of a file that is left alone ([`crate::shared::FileEntry::is_left_alone`]) nothing is absorbed, and nothing asked.

use headstart_units::request::Range;

use super::step::{Answer, Failure, FlashFault, Moved, Step, Thread, Unexpected};
use crate::counters::Served;
use crate::lease::Place;
use crate::message::Request as Message;
use crate::shared::KIND_EXTEND;
use headstart_units::atomics::Ordering;

/// Writes that would make a file this much longer are not absorbed (assumed): whether the slow file
/// system has files that long only its kernel knows.
const EXTENSION_BYTES_MAX: u64 = 1 << 40;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// `Slab` is asked.
    SlabAsked,
    /// At a slab, which takes so many bytes.
    Flash(Place),
    /// The slab is written; the granule was open under that number.
    Written {
        slab: Place,
        open: u64,
    },
    /// The commit is pushed.
    Pushed {
        slab: Place,
        open: u64,
    },
    /// It counts; the agent is told that the ring fills.
    Told,
    /// `Commit` is asked of so many bytes.
    CommitAsked {
        length: u64,
    },
    Over,
}

/// How it ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Everything is on flash.
    Absorbed,
    /// What is left goes to the disk; why.
    Refused(Served),
    /// What is left is not written.
    Failed(Failure),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absorb {
    file: u32,
    part: Range,
    /// Bytes committed.
    done: u64,
    /// The longest that the process may make a file.
    file_bytes_max: u64,
    stage: Stage,
    end: End,
}

impl Absorb {
    /// Begins where it may, and ends at once where not.
    pub(super) fn begin(thread: &impl Thread, file: u32, part: Range) -> (Absorb, Step) {
        let (slot, shared) = (thread.slot(), thread.shared());
        let mut absorb = Absorb { file, part, done: 0, file_bytes_max: 0, stage: Stage::Over, end: End::Absorbed };
        let entry = &shared.files[file as usize];
        if entry.is_left_alone() {
            absorb.end = End::Refused(Served::WriteBypassed);
            return (absorb, Step::Done);
        }
        if shared.header.free_bytes.load(Ordering::Relaxed) == 0 && slot.whole_slab(file, part).is_none() {
            shared.refuse_write(file, part);
            thread.mark_left();
            absorb.end = End::Refused(Served::WriteNoSpace);
            return (absorb, Step::Done);
        }
        absorb.file_bytes_max = thread.file_bytes_max();
        let size = entry.size.load(Ordering::Relaxed);
        if part.end() > absorb.file_bytes_max.min(size.saturating_add(EXTENSION_BYTES_MAX)) {
            absorb.end = End::Refused(Served::WriteTooFar);
            return (absorb, Step::Done);
        }
        slot.publish_asking(KIND_EXTEND, file, part);
        let step = if thread.is_still_open() {
            absorb.write_rest(thread)
        } else {
            absorb.over(thread, End::Failed(Failure::Changed))
        };
        (absorb, step)
    }

    /// Bytes on flash.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// How it has ended.
    pub(super) fn end(&self) -> End {
        self.end
    }

    fn rest(&self) -> Range {
        Range::between(self.part.offset + self.done, self.part.end())
    }

    fn write_rest(&mut self, thread: &impl Thread) -> Step {
        let Range { offset, length } = self.rest();
        if length == 0 {
            return self.over(thread, End::Absorbed);
        }
        match thread.slot().good_slab(self.file, self.rest()) {
            Some(found) => self.write_slab(thread, found),
            None => {
                self.stage = Stage::SlabAsked;
                Step::Ask(Message::Slab { file: self.file, offset, length })
            }
        }
    }

    fn write_slab(&mut self, thread: &impl Thread, (at, slab): (usize, Place)) -> Step {
        let rest = self.rest();
        let length = slab.length.min(rest.length);
        if slab.place + length > self.file_bytes_max {
            // The limit holds for data files too, but it is not meant for them.
            return self.over(thread, End::Refused(Served::WriteTooFar));
        }
        let slab = Place { length, ..slab };
        thread.slot().take_slab(at, slab);
        self.stage = Stage::Flash(slab);
        Step::Flash { range: Range::new(rest.offset, length), data_file: slab.data_file, place: slab.place }
    }

    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        let Stage::Flash(slab) = self.stage else { unreachable!("a thread that is at {:?} moves nothing", self.stage) };
        match moved {
            Moved::Bytes(bytes) if bytes == slab.length => match self.open_for(thread, slab.length) {
                Some(open) => {
                    self.stage = Stage::Written { slab, open };
                    Step::Push
                }
                None => Step::Ask(self.commit(slab)),
            },
            // Cut short: the fast directory is full.
            Moved::Bytes(_) | Moved::FlashFailed(FlashFault::Full) => {
                self.over(thread, End::Refused(Served::WriteNoSpace))
            }
            Moved::FlashFailed(_) => self.over(thread, End::Refused(Served::WriteFlashFailed)),
            Moved::Failed(errno) => self.over(thread, End::Failed(Failure::Errno(errno))),
        }
    }

    /// The bytes that a slab of that length holds.
    fn written(&self, length: u64) -> Range {
        Range::new(self.rest().offset, length)
    }

    /// The number under which they may be committed without an answer.
    fn open_for(&self, thread: &impl Thread, length: u64) -> Option<u64> {
        let (shared, range) = (thread.shared(), self.written(length));
        let is_within = range.end() <= shared.files[self.file as usize].size.load(Ordering::Acquire);
        is_within.then(|| shared.open_for(thread.index(), self.file, range)).flatten()
    }

    fn commit(&mut self, Place { data_file, place, length, .. }: Place) -> Message<'static> {
        self.stage = Stage::CommitAsked { length };
        Message::Commit { file: self.file, data_file, offset: self.rest().offset, length, place }
    }

    /// Pushes what is written.
    pub(super) fn push(&mut self, thread: &impl Thread) -> Step {
        let Stage::Written { slab, open } = self.stage else {
            unreachable!("a thread that is at {:?} pushes nothing", self.stage)
        };
        self.stage = Stage::Pushed { slab, open };
        if thread.shared().push(thread.index(), open, self.written(slab.length), slab) {
            thread.wake_agent();
        }
        Step::Look
    }

    /// Looks whether what was pushed counts.
    pub(super) fn look(&mut self, thread: &impl Thread) -> Step {
        let Stage::Pushed { slab, open } = self.stage else {
            unreachable!("a thread that is at {:?} has pushed nothing", self.stage)
        };
        let (shared, range) = (thread.shared(), self.written(slab.length));
        if !shared.is_open_under(self.file, range, open) {
            return Step::AskPushed(self.commit(slab));
        }
        self.done += slab.length;
        shared.files[self.file as usize].absorbed_at(thread.time_of_day_ns());
        if shared.rings[thread.index() as usize].wants_agent() {
            self.stage = Stage::Told;
            return Step::Tell(Message::Marked);
        }
        self.write_rest(thread)
    }

    pub(super) fn on_told(&mut self, thread: &impl Thread) -> Step {
        assert!(matches!(self.stage, Stage::Told), "a thread that is at {:?} tells nothing", self.stage);
        self.write_rest(thread)
    }

    pub(super) fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        Ok(match (self.stage, answer) {
            (Stage::SlabAsked, Answer::Done) => match thread.slot().slab(self.file, self.rest()) {
                Some(found) => self.write_slab(thread, found),
                None => self.over(thread, End::Refused(Served::WriteNoSpace)),
            },
            (Stage::CommitAsked { length }, Answer::Done) => {
                self.done += length;
                self.write_rest(thread)
            }
            (Stage::SlabAsked | Stage::CommitAsked { .. }, Answer::NoSpace) => {
                self.over(thread, End::Refused(Served::WriteNoSpace))
            }
            (Stage::SlabAsked | Stage::CommitAsked { .. }, Answer::Bypassed) => {
                self.over(thread, End::Refused(Served::WriteBypassed))
            }
            (Stage::CommitAsked { .. }, Answer::HeldUp) => self.over(thread, End::Refused(Served::WriteHeldUp)),
            (Stage::SlabAsked | Stage::CommitAsked { .. }, Answer::Refused(errno)) => {
                self.over(thread, End::Failed(Failure::Errno(errno)))
            }
            (Stage::SlabAsked | Stage::CommitAsked { .. }, _) => return Err(Unexpected),
            (stage, _) => unreachable!("a thread that is at {stage:?} awaits no answer"),
        })
    }

    fn over(&mut self, thread: &impl Thread, end: End) -> Step {
        thread.slot().free();
        self.stage = Stage::Over;
        self.end = end;
        Step::Done
    }
}
