//! Reads: from the slow file while nothing of the range is on flash, else part by part: as a listing says, or the agent.
//!
//! Who reads the slow file holds nobody up. The thread loads the generation of its range before it looks at the bits,
//! or before it asks, and again after the bytes are read: where it is another one, bytes may have come to flash and
//! been written beneath since, so that what was read may be what nobody is to see, and is read again. Reads for which
//! this is so again and again ask for a lease, which commits and fetches spare.
//!
//! Where a bit is set and a listing says where the first bytes lie, these are read on flash without a lease, and count
//! if the listing is still the same behind them ([`listing`](crate::listing)). After one that was in vain the rest of
//! the request is asked for.

use headstart_policy::client::Request;
use headstart_units::atomics::{Ordering, fence};
use headstart_units::request::Range;

use super::listed::ListedPart;
use super::step::{Answer, EIO, Failure, FlashFault, Moved, Step, Thread, Unexpected};
use crate::counters::{Counter, Served};
use crate::message::Request as Message;
use crate::shared::KIND_READ;

/// A read that was in vain so often asks for a lease (assumed: one commit or fetch nearby is likely, others right
/// behind it less so, and a lease holds others up).
const READS_IN_VAIN_MAX: u32 = 3;

/// How a part of the slow file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// As its bits are clear.
    Bits,
    /// As the agent says.
    Agent,
    /// As it says that the disks are sooner.
    Sooner,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing is looked at.
    Begun,
    /// At so many bytes of the slow file without a lease.
    Bare {
        length: u64,
        by: By,
    },
    /// They are read.
    BareMoved {
        length: u64,
        by: By,
        moved: Moved,
    },
    /// `Read` is asked.
    Asked,
    /// `Confirm` is asked of bytes of flash of another node; what came of them where they could not be read.
    ConfirmAsked(Option<Failure>),
    /// The same of bytes of the slow file.
    ConfirmDiskAsked {
        part: Range,
        moved: Moved,
    },
    /// At a piece of a flash-read lease: `left` bytes of the lease are not read yet, of which it has
    /// `length`.
    Flash {
        piece: usize,
        left: u64,
        length: u64,
    },
    /// At a piece of a listing, or about to look whether all pieces count.
    Listed(ListedPart),
    /// At the slow file under a slow-read lease.
    Leased {
        part: Range,
        by: By,
    },
    /// `WriteBack` is asked of what flash cannot give; then `FlashFailed` is.
    WriteBackAsked(Range),
    /// `FlashFailed` is asked.
    DropAsked,
    Over,
}

impl Stage {
    fn awaits_answer(self) -> bool {
        matches!(
            self,
            Stage::Asked
                | Stage::ConfirmAsked(_)
                | Stage::ConfirmDiskAsked { .. }
                | Stage::WriteBackAsked(_)
                | Stage::DropAsked
        )
    }
}

/// What a look at the generation came to, after a read of the slow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// What was read counts.
    Counts,
    /// It does not.
    InVain,
    /// The descriptor means something else by now; the slot is free.
    Closed,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    file: u32,
    request: Request,
    /// Bytes read, and those that flash served.
    done: u64,
    flash: u64,
    /// What the generation of the rest was before it was looked at or asked for.
    generation: u64,
    /// How often a read of the slow file did not count.
    in_vain: u32,
    /// No read by a listing was in vain.
    lists: bool,
    /// Bytes read before the part that is to be confirmed, and those that flash served.
    confirms: Option<(u64, u64)>,
    served: Served,
    failure: Option<Failure>,
    stage: Stage,
}

impl Read {
    pub(super) fn begin(file: u32, request: Request) -> (Read, Step) {
        (Read::new(file, request), Step::Look)
    }

    /// Goes on from a look at bits of which one is set, or from a read of the slow file that was in vain.
    #[cold]
    #[inline(never)]
    pub(super) fn told(thread: &impl Thread, file: u32, request: Request, is_in_vain: bool) -> (Read, Step) {
        let mut read = Read::new(file, request);
        let step = if is_in_vain { read.ask_again(thread) } else { read.read_rest(thread) };
        (read, step)
    }

    fn new(file: u32, request: Request) -> Read {
        let (served, stage) = (Served::ReadEnd, Stage::Begun);
        let (lists, confirms) = (true, None);
        let (done, flash, generation, in_vain) = (0, 0, 0, 0);
        Read { file, request, done, flash, generation, in_vain, lists, confirms, served, failure: None, stage }
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
        match self.stage {
            Stage::Begun => {
                let part = self.request.range;
                self.generation = begin(thread, self.file, part);
                if !is_clear(thread, self.file, part) {
                    return self.read_rest(thread);
                }
                self.stage = Stage::Bare { length: part.length, by: By::Bits };
                Step::Slow(part)
            }
            Stage::BareMoved { length, by, moved } => match judge(thread, self.file, self.rest(), self.generation) {
                Judged::Counts if by == By::Bits => self.end_cheap(thread, moved),
                Judged::Counts if self.confirms.is_some() => {
                    self.confirm_disk(thread, Range::new(self.rest().offset, length), moved)
                }
                Judged::Counts => {
                    thread.slot().end_reading();
                    self.take_part(thread, Range::new(self.rest().offset, length), by, moved)
                }
                Judged::InVain => self.ask_again(thread),
                Judged::Closed => self.closed(),
            },
            Stage::Listed(part) => self.judge_listed(thread, part),
            stage => unreachable!("a thread that is at {stage:?} looks at nothing"),
        }
    }

    fn end_cheap(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        match end_cheap(thread, self.file, &self.request, moved) {
            Ok(bytes) => self.done = bytes,
            Err(failure) => self.failure = Some(failure),
        }
        self.stage = Stage::Over;
        Step::Done
    }

    /// The call is made again.
    fn closed(&mut self) -> Step {
        self.failure = Some(Failure::Changed);
        self.stage = Stage::Over;
        Step::Done
    }

    pub(super) fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        match self.stage {
            Stage::Bare { length, by } => {
                self.stage = Stage::BareMoved { length, by, moved };
                Step::Look
            }
            Stage::Flash { piece, left, length } => self.on_piece(thread, moved, (piece, left, length)),
            Stage::Listed(part) => self.on_listed(thread, moved, part),
            Stage::Leased { part, .. } if self.confirms.is_some() => {
                thread.slot().release_read();
                self.confirm_disk(thread, part, moved)
            }
            Stage::Leased { part, by } => {
                thread.slot().release_read();
                self.take_part(thread, part, by, moved)
            }
            stage => unreachable!("a thread that is at {stage:?} moves nothing"),
        }
    }

    /// What was read of the slow file counts.
    fn take_part(&mut self, thread: &impl Thread, part: Range, by: By, moved: Moved) -> Step {
        let bytes = match moved {
            Moved::Bytes(bytes) => bytes,
            Moved::Failed(errno) => return self.fail(thread, errno),
            Moved::FlashFailed(_) => unreachable!("the slow file was read"),
        };
        let served = if by == By::Sooner {
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
        if bytes < part.length { self.finish(thread) } else { self.go_on(thread) }
    }

    /// Asks whether what was read of the slow file counts, as it would be other bytes if some node died.
    fn confirm_disk(&mut self, thread: &impl Thread, part: Range, moved: Moved) -> Step {
        if !self.publish(thread) {
            return self.closed();
        }
        self.stage = Stage::ConfirmDiskAsked { part, moved };
        Step::Ask(Message::Confirm { file: self.file })
    }

    /// The same of what was read on flash of another node, or could not be.
    fn confirm_flash(&mut self, thread: &impl Thread, failure: Option<Failure>) -> Step {
        thread.slot().release_read();
        self.stage = Stage::ConfirmAsked(failure);
        Step::Ask(Message::Confirm { file: self.file })
    }

    /// What was read counts, or does not.
    fn confirmed(&mut self, thread: &impl Thread, counts: bool) -> Step {
        let before = self.confirms.take();
        match self.stage {
            Stage::ConfirmDiskAsked { part, moved } if counts => self.take_part(thread, part, By::Agent, moved),
            Stage::ConfirmAsked(None) if counts => self.go_on(thread),
            Stage::ConfirmAsked(Some(Failure::Errno(errno))) if counts => self.fail(thread, errno),
            _ => {
                (self.done, self.flash) = before.unwrap_or((self.done, self.flash));
                self.ask_again(thread)
            }
        }
    }

    fn on_piece(&mut self, thread: &impl Thread, moved: Moved, (piece, left, length): (usize, u64, u64)) -> Step {
        match moved {
            // What is too short may have become another's place.
            Moved::Bytes(bytes) if self.confirms.is_some() && bytes < length => {
                self.confirm_flash(thread, Some(Failure::Errno(EIO)))
            }
            Moved::Failed(errno) if self.confirms.is_some() => self.confirm_flash(thread, Some(Failure::Errno(errno))),
            Moved::FlashFailed(_) if self.confirms.is_some() => self.confirm_flash(thread, Some(Failure::Errno(EIO))),
            Moved::Bytes(bytes) => {
                self.take_flash(thread, bytes);
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
                let by = if matches!(answer, Answer::Sooner(_)) { By::Sooner } else { By::Agent };
                self.read_slow(thread, part, by)
            }
            (Stage::Asked, Answer::Remote { length, on_flash }) => {
                self.confirms = Some((self.done, self.flash));
                let part = Range::new(self.rest().offset, length.min(self.rest().length));
                match on_flash {
                    true => self.read_piece(thread, 0, part.length),
                    false => self.read_slow(thread, part, By::Agent),
                }
            }
            (Stage::ConfirmAsked(_) | Stage::ConfirmDiskAsked { .. }, Answer::Done) => self.confirmed(thread, true),
            (Stage::ConfirmAsked(_) | Stage::ConfirmDiskAsked { .. }, Answer::NoSpace) => self.confirmed(thread, false),
            (Stage::WriteBackAsked(range), Answer::Done) => self.drop_unread(range),
            (Stage::DropAsked, Answer::Done) => self.go_on(thread),
            (stage, Answer::Refused(errno)) if stage.awaits_answer() => {
                let before = self.confirms.take();
                (self.done, self.flash) = before.unwrap_or((self.done, self.flash));
                self.fail(thread, errno)
            }
            (stage, _) if stage.awaits_answer() => return Err(Unexpected),
            (stage, _) => unreachable!("a thread that is at {stage:?} awaits no answer"),
        })
    }

    /// Reads a part of the slow file as the agent says.
    fn read_slow(&mut self, thread: &impl Thread, part: Range, by: By) -> Step {
        let is_leased = self.wants_lease();
        if part.is_empty() {
            if is_leased {
                thread.slot().release_read();
            }
            return self.fail(thread, EIO);
        }
        if is_leased {
            self.stage = Stage::Leased { part, by };
        } else {
            thread.slot().hint_reading(self.file);
            self.stage = Stage::Bare { length: part.length, by };
        }
        Step::Slow(part)
    }

    fn go_on(&mut self, thread: &impl Thread) -> Step {
        if self.rest().is_empty() { self.finish(thread) } else { self.read_rest(thread) }
    }

    fn wants_lease(&self) -> bool {
        self.in_vain >= READS_IN_VAIN_MAX
    }

    /// What was read of the slow file does not count.
    fn ask_again(&mut self, thread: &impl Thread) -> Step {
        self.confirms = None;
        self.in_vain += 1;
        thread.slot().count(if self.wants_lease() { Counter::ReadsAgainLeased } else { Counter::ReadsAgain }, 1);
        self.ask_read(thread)
    }

    /// Reads the rest, of which something may be on flash, as a listing says, or asks where it lies.
    fn read_rest(&mut self, thread: &impl Thread) -> Step {
        if !self.publish(thread) {
            return self.closed();
        }
        let may_list = self.lists && thread.may_read_listed();
        let listed = may_list.then(|| ListedPart::begin(thread, self.file, self.rest())).flatten();
        let Some((part, step)) = listed else { return self.ask(thread) };
        thread.slot().hint_listed();
        self.stage = Stage::Listed(part);
        step
    }

    /// Asks where the rest lies.
    fn ask_read(&mut self, thread: &impl Thread) -> Step {
        if self.publish(thread) { self.ask(thread) } else { self.closed() }
    }

    /// Whoever closes the file, or a data file, waits from here on, so that a descriptor that still means it does until
    /// the slot is free; false if it does not.
    fn publish(&self, thread: &impl Thread) -> bool {
        thread.slot().publish_asking(KIND_READ, self.file, self.rest());
        let is_open = thread.is_still_open();
        if !is_open {
            thread.slot().free();
        }
        is_open
    }

    fn ask(&mut self, thread: &impl Thread) -> Step {
        let rest = self.rest();
        self.generation = thread.shared().generation_of(self.file, rest);
        self.stage = Stage::Asked;
        let (Range { offset, length }, leased) = (rest, self.wants_lease());
        let in_order = self.request.distance.is_sequential();
        Step::Ask(Message::Read { file: self.file, offset, length, leased, in_order })
    }

    fn on_listed(&mut self, thread: &impl Thread, moved: Moved, mut part: ListedPart) -> Step {
        let Some(step) = part.on_moved(thread, moved) else { return self.ask_instead(thread) };
        self.stage = Stage::Listed(part);
        step
    }

    fn judge_listed(&mut self, thread: &impl Thread, part: ListedPart) -> Step {
        let in_order = self.request.distance.is_sequential();
        let Some((bytes, is_last)) = part.judge(thread, in_order) else { return self.ask_instead(thread) };
        thread.slot().count(Counter::ListedReads, 1);
        self.take_flash(thread, bytes);
        if is_last { self.finish(thread) } else { self.go_on(thread) }
    }

    /// What was read by a listing does not count.
    fn ask_instead(&mut self, thread: &impl Thread) -> Step {
        self.lists = false;
        thread.slot().count(Counter::ListedReadsInVain, 1);
        self.ask_read(thread)
    }

    fn take_flash(&mut self, thread: &impl Thread, bytes: u64) {
        thread.slot().count(Counter::FlashReadBytes, bytes);
        self.served = Served::Flash;
        self.done += bytes;
        self.flash += bytes;
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
            _ if self.confirms.is_some() && !is_lease_of_none => self.confirm_flash(thread, None),
            _ => {
                thread.slot().release_read();
                if is_lease_of_none { self.fail(thread, EIO) } else { self.go_on(thread) }
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

/// Begins a read of the slow file: the generation of its range, which comes before the look at its bits.
#[inline(always)]
pub(super) fn begin(thread: &impl Thread, file: u32, range: Range) -> u64 {
    thread.slot().hint_reading(file);
    thread.shared().generation_of(file, range)
}

/// Whether nothing of the range is on flash.
#[inline(always)]
pub(super) fn is_clear(thread: &impl Thread, file: u32, range: Range) -> bool {
    thread.shared().all_clear(file, range)
}

/// Looks whether a read of the slow file counts, once its bytes are there. The descriptor comes first: once it means
/// something else, the words of the file may be nobody's or another's.
#[inline(always)]
pub(super) fn judge(thread: &impl Thread, file: u32, range: Range, generation: u64) -> Judged {
    fence(Ordering::Acquire);
    if !thread.has_stayed_open() {
        thread.slot().end_reading();
        return Judged::Closed;
    }
    if thread.shared().is_unchanged(file, range, generation) { Judged::Counts } else { Judged::InVain }
}

/// Ends a read of the slow file that asked nobody.
#[inline(always)]
pub(super) fn end_cheap(thread: &impl Thread, file: u32, request: &Request, moved: Moved) -> Result<u64, Failure> {
    let slot = thread.slot();
    slot.end_reading();
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
    let served = thread.slot().read_by_disk(file, request, bytes, |request| thread.decide(request));
    if served == Served::ReadMiss {
        thread.mark_left();
    }
    served
}
