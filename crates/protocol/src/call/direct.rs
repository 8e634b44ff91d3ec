//! Changes of the slow file: cheap while the bits are clear, else under a direct-write lease.

use headstart_units::request::Range;

use super::step::{Answer, Failure, Looked, Moved, Step, Thread, Unexpected};
use crate::counters::Counter;
use crate::message::Request as Message;
use crate::shared::KIND_EXTEND;
use headstart_units::atomics::Ordering;

/// What is changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Bytes of the range.
    Bytes,
    /// Whatever lies behind the known end, and from this offset on.
    Tail { from: u64 },
    /// The size, to where the range begins.
    Size,
    /// Where bytes of the range lie.
    Order,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Published as CHEAP; whether the write may make the file longer.
    Published {
        extends: bool,
    },
    /// At the slow file without the agent.
    Cheap,
    /// `Write`, `Truncate` or `Rearrange` is asked.
    GoAsked,
    /// At the slow file under a direct-write lease.
    Leased,
    /// The change is made, and the agent is told.
    DoneAsked,
    Over,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    file: u32,
    change: Change,
    range: Range,
    stage: Stage,
    result: Result<u64, Failure>,
}

impl Direct {
    fn new(file: u32, change: Change, range: Range, stage: Stage) -> Direct {
        Direct { file, change, range, stage, result: Ok(0) }
    }

    pub(super) fn write(thread: &impl Thread, file: u32, range: Range) -> (Direct, Step) {
        let extends = publish(thread, file, range);
        (Direct::new(file, Change::Bytes, range, Stage::Published { extends }), Step::Look)
    }

    /// Goes on from a look at bits of which one is set.
    pub(super) fn told(thread: &impl Thread, file: u32, range: Range, extends: bool) -> (Direct, Step) {
        let mut direct = Direct::new(file, Change::Bytes, range, Stage::Published { extends });
        let step = direct.ask_leave(thread, extends);
        (direct, step)
    }

    pub(super) fn extend(thread: &impl Thread, file: u32, from: u64) -> (Direct, Step) {
        let range = tail(thread, file, from);
        thread.slot().publish_cheap(KIND_EXTEND, file, range);
        (Direct::new(file, Change::Tail { from }, range, Stage::Published { extends: true }), Step::Look)
    }

    /// Rule 8.
    pub(super) fn truncate(file: u32, size: u64) -> (Direct, Step) {
        let direct = Direct::new(file, Change::Size, Range::between(size, u64::MAX), Stage::GoAsked);
        (direct, Step::Ask(Message::Truncate { file, size }))
    }

    pub(super) fn rearrange(file: u32, from: u64) -> (Direct, Step) {
        let direct = Direct::new(file, Change::Order, Range::between(from, u64::MAX), Stage::GoAsked);
        (direct, Step::Ask(Message::Rearrange { file, from }))
    }

    pub(super) fn result(&self) -> Result<u64, Failure> {
        self.result
    }

    pub(super) fn range(&self) -> Range {
        self.range
    }

    pub(super) fn look(&mut self, thread: &impl Thread) -> Step {
        let Stage::Published { extends } = self.stage else { unreachable!("nothing is published to look for") };
        let looked = match self.change {
            Change::Tail { .. } => Looked::at(thread, || thread.shared().append_is_cheap(self.file)),
            _ => look(thread, self.file, self.range, extends),
        };
        match looked {
            Looked::Clear => {
                self.stage = Stage::Cheap;
                Step::Slow(self.range)
            }
            Looked::Set => self.ask_leave(thread, extends),
            Looked::Changed => {
                self.stage = Stage::Over;
                self.result = Err(Failure::Changed);
                Step::Done
            }
        }
    }

    fn ask_leave(&mut self, thread: &impl Thread, extends: bool) -> Step {
        if let Change::Tail { from } = self.change {
            self.range = tail(thread, self.file, from);
        }
        self.stage = Stage::GoAsked;
        let Range { offset, length } = self.range;
        Step::Ask(Message::Write { file: self.file, offset, length, extends })
    }

    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        match self.stage {
            Stage::Cheap => {
                self.stage = Stage::Over;
                self.result = end_cheap(thread, moved);
                Step::Done
            }
            Stage::Leased => self.say_done(changed(moved)),
            stage => unreachable!("a thread that is at {stage:?} moves nothing"),
        }
    }

    /// What was not written keeps its bytes on flash.
    fn say_done(&mut self, result: Result<u64, Failure>) -> Step {
        self.result = result;
        self.stage = Stage::DoneAsked;
        let (file, offset) = (self.file, self.range.offset);
        Step::Ask(match self.change {
            Change::Bytes | Change::Tail { .. } => Message::WriteDone { file, offset, length: result.unwrap_or(0) },
            Change::Size => Message::TruncateDone { file, size: offset, changed: result.is_ok() },
            Change::Order => Message::RearrangeDone { file, from: offset, size: result.unwrap_or(offset) },
        })
    }

    pub(super) fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        Ok(match (self.stage, answer) {
            (Stage::GoAsked, Answer::Go) => {
                self.stage = Stage::Leased;
                Step::Slow(self.range)
            }
            (Stage::DoneAsked, Answer::Done) => self.end(thread, self.result),
            (Stage::GoAsked | Stage::DoneAsked, Answer::Refused(errno)) => self.end(thread, Err(Failure::Errno(errno))),
            (Stage::GoAsked | Stage::DoneAsked, _) => return Err(Unexpected),
            (stage, _) => unreachable!("a thread that is at {stage:?} awaits no answer"),
        })
    }

    fn end(&mut self, thread: &impl Thread, result: Result<u64, Failure>) -> Step {
        // The other two publish nothing.
        if matches!(self.change, Change::Bytes | Change::Tail { .. }) {
            thread.slot().free();
        }
        self.result = result;
        self.stage = Stage::Over;
        Step::Done
    }
}

fn tail(thread: &impl Thread, file: u32, from: u64) -> Range {
    let size = thread.shared().files[file as usize].size.load(Ordering::Acquire);
    Range::between(size.min(from), u64::MAX)
}

/// Publishes a write; whether it may make the file longer.
#[inline(always)]
pub(super) fn publish(thread: &impl Thread, file: u32, range: Range) -> bool {
    thread.slot().publish_write(&thread.shared().files[file as usize], file, range)
}

/// Looks at the bits of a write that is published.
#[inline(always)]
pub(super) fn look(thread: &impl Thread, file: u32, range: Range, extends: bool) -> Looked {
    Looked::at(thread, || thread.shared().write_is_cheap(file, range, extends))
}

/// Ends a change of the slow file that asked nobody.
#[inline(always)]
pub(super) fn end_cheap(thread: &impl Thread, moved: Moved) -> Result<u64, Failure> {
    thread.slot().free();
    thread.slot().count(Counter::CheapRequests, 1);
    changed(moved)
}

#[inline(always)]
fn changed(moved: Moved) -> Result<u64, Failure> {
    match moved {
        Moved::Bytes(bytes) => Ok(bytes),
        Moved::Failed(errno) => Err(Failure::Errno(errno)),
        Moved::FlashFailed(_) => unreachable!("the slow file was changed"),
    }
}
