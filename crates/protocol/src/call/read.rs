//! Reads: from the slow file while nothing of the range is on flash, else part by part under leases.

use headstart_policy::client::Request;
use headstart_units::request::Range;

use super::step::{Answer, EIO, Failure, FlashFault, Looked, Moved, Step, Thread, Unexpected};
use crate::counters::{Counter, Served};
use crate::message::Request as Message;
use crate::shared::KIND_READ;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Published as CHEAP.
    Published,
    /// At the slow file without the agent.
    Cheap,
    /// `Read` is asked.
    Asked,
    /// At a piece of a flash-read lease: `left` bytes of the lease are not read yet, of which it has
    /// `length`.
    Flash {
        piece: usize,
        left: u64,
        length: u64,
    },
    /// At the slow file under a slow-read lease.
    Slow {
        part: Range,
        is_sooner: bool,
    },
    /// `WriteBack` is asked of what flash cannot give; then `FlashFailed` is.
    WriteBackAsked(Range),
    /// `FlashFailed` is asked.
    DropAsked,
    Over,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    file: u32,
    request: Request,
    /// Bytes read, and those that flash served.
    done: u64,
    flash: u64,
    served: Served,
    failure: Option<Failure>,
    stage: Stage,
}

impl Read {
    pub(super) fn begin(thread: &impl Thread, file: u32, request: Request) -> (Read, Step) {
        publish(thread, file, request.range);
        (Read::new(file, request, Stage::Published), Step::Look)
    }

    /// Goes on from a look at bits of which one is set.
    #[cold]
    #[inline(never)]
    pub(super) fn told(file: u32, request: Request) -> (Read, Step) {
        let mut read = Read::new(file, request, Stage::Published);
        let step = read.ask_read(request.range);
        (read, step)
    }

    fn new(file: u32, request: Request, stage: Stage) -> Read {
        Read { file, request, done: 0, flash: 0, served: Served::ReadEnd, failure: None, stage }
    }

    pub(super) fn result(&self) -> Result<u64, Failure> {
        self.failure.map_or(Ok(self.done), Err)
    }

    pub(super) fn flash_bytes(&self) -> u64 {
        self.flash
    }

    fn rest(&self) -> Range {
        Range::between(self.request.range.offset + self.done, self.request.range.end())
    }

    pub(super) fn look(&mut self, thread: &impl Thread) -> Step {
        assert!(matches!(self.stage, Stage::Published), "nothing is published to look for");
        match look(thread, self.file, self.request.range) {
            Looked::Clear => {
                self.stage = Stage::Cheap;
                Step::Slow(self.request.range)
            }
            Looked::Set => self.ask_read(self.request.range),
            Looked::Changed => {
                self.failure = Some(Failure::Changed);
                self.stage = Stage::Over;
                Step::Done
            }
        }
    }

    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        if !matches!(self.stage, Stage::Cheap) {
            return self.leased_moved(thread, moved);
        }
        match end_cheap(thread, self.file, &self.request, moved) {
            Ok(bytes) => self.done = bytes,
            Err(failure) => self.failure = Some(failure),
        }
        self.stage = Stage::Over;
        Step::Done
    }

    fn leased_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        match self.stage {
            Stage::Flash { piece, left, length } => self.on_piece(thread, moved, (piece, left, length)),
            Stage::Slow { part, is_sooner } => {
                let bytes = match moved {
                    Moved::Bytes(bytes) => bytes,
                    Moved::Failed(errno) => {
                        thread.slot().release_read();
                        return self.fail(thread, errno);
                    }
                    Moved::FlashFailed(_) => unreachable!("the slow file was read"),
                };
                thread.slot().release_read();
                let served = if is_sooner {
                    thread.slot().count(Counter::DiskReadSoonerBytes, bytes);
                    Served::ReadSooner
                } else {
                    count_disk(thread, self.file, &Request { range: part, ..self.request }, bytes)
                };
                // Where it went to both sides it counts as served from flash.
                if self.served == Served::ReadEnd {
                    self.served = served;
                }
                self.done += bytes;
                if bytes < part.length { self.finish(thread) } else { self.ask_rest(thread) }
            }
            stage => unreachable!("a thread that is at {stage:?} moves nothing"),
        }
    }

    fn on_piece(&mut self, thread: &impl Thread, moved: Moved, (piece, left, length): (usize, u64, u64)) -> Step {
        match moved {
            Moved::Bytes(bytes) => {
                thread.slot().count(Counter::FlashReadBytes, bytes);
                self.served = Served::Flash;
                self.done += bytes;
                self.flash += bytes;
                if bytes == length {
                    return self.read_piece(thread, piece + 1, left - bytes);
                }
                thread.slot().release_read();
                self.finish(thread)
            }
            Moved::Failed(errno) => {
                thread.slot().release_read();
                self.served = Served::Flash;
                self.fail(thread, errno)
            }
            // What the disk has as well is read there next.
            Moved::FlashFailed(fault) => {
                thread.slot().release_read();
                let range = Range::new(self.rest().offset, length);
                if fault != FlashFault::Unreachable {
                    return self.drop_unread(range);
                }
                self.stage = Stage::WriteBackAsked(range);
                Step::Ask(Message::WriteBack { file: self.file, offset: range.offset, length: range.length })
            }
        }
    }

    fn drop_unread(&mut self, range: Range) -> Step {
        self.stage = Stage::DropAsked;
        Step::Ask(Message::FlashFailed { file: self.file, offset: range.offset, length: range.length })
    }

    pub(super) fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        Ok(match (self.stage, answer) {
            (Stage::Asked, Answer::Flash(length)) => self.read_piece(thread, 0, length.min(self.rest().length)),
            (Stage::Asked, Answer::Disk(length) | Answer::Sooner(length)) => {
                let part = Range::new(self.rest().offset, length.min(self.rest().length));
                self.stage = Stage::Slow { part, is_sooner: matches!(answer, Answer::Sooner(_)) };
                if part.is_empty() {
                    thread.slot().release_read();
                    return Ok(self.fail(thread, EIO));
                }
                Step::Slow(part)
            }
            (Stage::WriteBackAsked(range), Answer::Done) => self.drop_unread(range),
            (Stage::DropAsked, Answer::Done) => self.ask_rest(thread),
            (Stage::Asked | Stage::WriteBackAsked(_) | Stage::DropAsked, Answer::Refused(errno)) => {
                self.fail(thread, errno)
            }
            (Stage::Asked | Stage::WriteBackAsked(_) | Stage::DropAsked, _) => return Err(Unexpected),
            (stage, _) => unreachable!("a thread that is at {stage:?} awaits no answer"),
        })
    }

    fn ask_rest(&mut self, thread: &impl Thread) -> Step {
        let rest = self.rest();
        if rest.is_empty() { self.finish(thread) } else { self.ask_read(rest) }
    }

    fn ask_read(&mut self, Range { offset, length }: Range) -> Step {
        self.stage = Stage::Asked;
        Step::Ask(Message::Read { file: self.file, offset, length })
    }

    /// Goes on to a piece of the lease, of which `left` bytes are not read yet; the lease ends with them.
    fn read_piece(&mut self, thread: &impl Thread, piece: usize, left: u64) -> Step {
        let is_lease_of_none = piece == 0 && left == 0;
        let next = thread.slot().leased_pieces().enumerate().skip(piece).find(|(_, place)| place.length > 0);
        match next {
            Some((piece, place)) if left > 0 => {
                let length = place.length.min(left);
                self.stage = Stage::Flash { piece, left, length };
                let range = Range::new(self.rest().offset, length);
                Step::Flash { range, data_file: place.data_file, place: place.place }
            }
            None if left > 0 => {
                thread.slot().release_read();
                self.fail(thread, EIO)
            }
            _ => {
                thread.slot().release_read();
                if is_lease_of_none { self.fail(thread, EIO) } else { self.ask_rest(thread) }
            }
        }
    }

    /// Ends as far as it has come, which may be nowhere.
    fn fail(&mut self, thread: &impl Thread, errno: i32) -> Step {
        if self.done == 0 {
            self.failure = Some(Failure::Errno(errno));
            self.served = Served::ReadFailed;
        }
        self.finish(thread)
    }

    fn finish(&mut self, thread: &impl Thread) -> Step {
        thread.slot().free();
        thread.slot().count(self.served.counters().0, 1);
        self.stage = Stage::Over;
        Step::Done
    }
}

/// Publishes a read.
#[inline(always)]
pub(super) fn publish(thread: &impl Thread, file: u32, range: Range) {
    thread.slot().publish_cheap(KIND_READ, file, range);
}

/// Looks at the bits of a read that is published.
#[inline(always)]
pub(super) fn look(thread: &impl Thread, file: u32, range: Range) -> Looked {
    Looked::at(thread, || thread.shared().all_clear(file, range))
}

/// Ends a read of the slow file that asked nobody.
#[inline(always)]
pub(super) fn end_cheap(thread: &impl Thread, file: u32, request: &Request, moved: Moved) -> Result<u64, Failure> {
    let slot = thread.slot();
    slot.free();
    slot.count(Counter::CheapRequests, 1);
    match moved {
        Moved::Bytes(bytes) => {
            if !request.range.is_empty() {
                let served = count_disk(thread, file, request, bytes);
                slot.count(served.counters().0, 1);
            }
            Ok(bytes)
        }
        Moved::Failed(errno) => {
            if !request.range.is_empty() {
                slot.served(Served::ReadFailed, 0);
            }
            Err(Failure::Errno(errno))
        }
        Moved::FlashFailed(_) => unreachable!("the slow file was read"),
    }
}

/// Counts bytes read from the slow file as the first of the request, and leaves hints of those that flash would
/// have served sooner.
#[inline(always)]
fn count_disk(thread: &impl Thread, file: u32, request: &Request, bytes: u64) -> Served {
    thread.slot().read_by_disk(file, request, bytes, |request| thread.decide(request))
}
