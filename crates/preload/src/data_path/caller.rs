//! What a thread of the program brings to its calls of the protocol, and how it asks the agent for them.

use headstart_policy::client::{Decision, Reason, Request};
use headstart_protocol::call::{self, Call, Failure, Moved, Step};
use headstart_protocol::message::Request as Message;
use headstart_protocol::shared::{Shared, Slot};
use headstart_units::request::{Direction, Range};

use crate::files::decisions;
use crate::files::descriptors::{CHANGED, Target};
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::session::{self, Answer, Session};

/// Alignment that O_DIRECT requests to any disk accept.
pub(super) const DIRECT_ALIGNMENT: u64 = 4096;
/// The least alignment that disks ask of O_DIRECT requests and their memory: a logical block of 512 bytes.
const SECTOR_BYTES: u64 = 512;

/// Whether a disk may take a request past the page cache. One that is not in whole sectors is the kernel's to refuse.
pub(super) fn is_in_sectors(buffers: &Buffers, range: Range) -> bool {
    let whole = [range.offset, range.length].iter().all(|bytes| bytes.is_multiple_of(SECTOR_BYTES));
    whole && buffers.are_aligned(SECTOR_BYTES as usize)
}

/// The mapping that every session implies.
#[inline]
pub(super) fn shared() -> Shared<'static> {
    session::shared().expect("a session maps the shared file before it begins")
}

/// A thread with a request. Of calls that only change a file's size there may be no descriptor.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub slot: &'static Slot,
    index: u32,
    target: Option<&'a Target>,
    buffers: Option<&'a Buffers<'a>>,
    /// Not in a signal handler that interrupted a request: the commit would wait for that request.
    may_commit: bool,
}

impl<'a> Caller<'a> {
    /// Of a read or write.
    #[inline]
    pub fn new(session: &Session, target: &'a Target, buffers: &'a Buffers<'a>) -> Caller<'a> {
        let (slot, index) = (session.slot, session.index);
        Caller { slot, index, target: Some(target), buffers: Some(buffers), may_commit: !session.nested }
    }

    /// Of another change.
    pub fn without_buffers(session: &Session, target: Option<&'a Target>) -> Caller<'a> {
        Caller { slot: session.slot, index: session.index, target, buffers: None, may_commit: false }
    }
}

impl call::Thread for Caller<'_> {
    #[inline]
    fn slot(&self) -> &Slot {
        self.slot
    }

    #[inline]
    fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    fn shared(&self) -> Shared<'_> {
        shared()
    }

    #[inline]
    fn time_of_day_ns(&self) -> u64 {
        kernel::unix_coarse_ns()
    }

    #[inline]
    fn decide(&self, request: &Request) -> (Request, Decision) {
        let (Some(target), Some(buffers)) = (self.target, self.buffers) else {
            return (*request, Decision::Disk(Reason::NoBenefit));
        };
        if request.direction == Direction::Write && target.uncached() {
            let (part, decision) = decisions::decide(target, request);
            return uncached(buffers, request, part, decision);
        }
        decisions::decide(target, request)
    }

    #[inline]
    fn is_still_open(&self) -> bool {
        self.target.is_none_or(Target::still_open)
    }

    #[inline]
    fn has_stayed_open(&self) -> bool {
        self.target.is_none_or(Target::means_the_file)
    }

    #[cold]
    fn wake_agent(&self) {
        session::wake_agent(self.index);
    }

    /// Whether the slow file would take a call past the page cache is seen before the agent is asked.
    fn may_read_listed(&self) -> bool {
        self.target.is_none_or(|target| !target.uncached())
    }

    fn file_bytes_max(&self) -> u64 {
        kernel::file_size_limit()
    }

    #[inline]
    fn may_commit(&self) -> bool {
        self.may_commit
    }
}

/// The first part of a write past the page cache, where only whole blocks can be written: one that ends within
/// a block takes the rest along. What no disk with smaller blocks would take either is left to the kernel to
/// refuse.
#[cold]
fn uncached(buffers: &Buffers, whole: &Request, part: Request, decision: Decision) -> (Request, Decision) {
    if !is_in_sectors(buffers, whole.range) {
        return (*whole, Decision::Disk(Reason::NoBenefit));
    }
    (if part.range.end().is_multiple_of(DIRECT_ALIGNMENT) { part } else { *whole }, decision)
}

/// What the slow file gave or took.
#[inline]
pub(super) fn moved(result: Result<usize, Errno>) -> Moved {
    match result {
        Ok(bytes) => Moved::Bytes(bytes as u64),
        Err(errno) => Moved::Failed(errno),
    }
}

/// What the program is told.
#[inline]
pub(super) fn outcome(result: Result<u64, Failure>) -> Result<usize, Errno> {
    match result {
        Ok(bytes) => Ok(bytes as usize),
        Err(Failure::Changed) => Err(CHANGED),
        Err(Failure::Errno(errno)) => Err(errno),
    }
}

/// Asks the agent, and tells the call what it answered.
pub(super) fn ask(session: &mut Session, caller: &Caller, call: &mut Call, message: &Message) -> Step {
    let answered = session.call(message);
    hear(session, caller, call, answered)
}

/// Asks for a commit that was pushed, under the number that it was pushed under.
pub(super) fn ask_pushed(session: &mut Session, caller: &Caller, call: &mut Call, message: &Message) -> Step {
    let answered = session.call_again(message);
    hear(session, caller, call, answered)
}

fn hear(session: &Session, caller: &Caller, call: &mut Call, answered: Result<Answer, Errno>) -> Step {
    let heard = match answered {
        Ok(Answer::Done) => call::Answer::Done,
        Ok(Answer::NoSpace) => call::Answer::NoSpace,
        Ok(Answer::Bypassed) => call::Answer::Bypassed,
        Ok(Answer::HeldUp) => call::Answer::HeldUp,
        Ok(Answer::Flash(length)) => call::Answer::Flash(length),
        Ok(Answer::Disk(length)) => call::Answer::Disk(length),
        Ok(Answer::Sooner(length)) => call::Answer::Sooner(length),
        Ok(Answer::Remote(length, on_flash)) => call::Answer::Remote { length, on_flash },
        Ok(Answer::Go) => call::Answer::Go,
        Ok(Answer::Opened(..) | Answer::Regions(..)) => call::Answer::Other,
        Err(errno) => call::Answer::Refused(errno),
    };
    match (call.on_answer(caller, heard), answered) {
        (Ok(step), _) => step,
        (Err(_), Ok(answer)) => refuse(caller, call, session.unexpected(answer)),
        (Err(_), Err(errno)) => refuse(caller, call, errno),
    }
}

/// Ends a call that waits for an answer.
pub(super) fn refuse(caller: &Caller, call: &mut Call, errno: Errno) -> Step {
    call.on_answer(caller, call::Answer::Refused(errno)).unwrap_or(Step::Done)
}

/// Changes the slow file by a call of the kernel's that the library cannot make in pieces of its own, or syncs it.
/// `kernel` says how many bytes it changed from the first of the range on; what else it says is returned, if
/// the call came to it.
pub(super) fn change<R>(
    session: &mut Session,
    caller: &Caller,
    begun: (Call, Step),
    kernel: impl FnOnce() -> Result<(u64, R), Errno>,
) -> Result<Option<R>, Errno> {
    let ((mut call, mut step), mut kernel, mut value) = (begun, Some(kernel), None);
    loop {
        step = match step {
            Step::Look => call.look(caller),
            Step::Slow(_) | Step::Sync => {
                let kernel = kernel.take().expect("a change is made once");
                let moved = match kernel() {
                    Ok((bytes, result)) => {
                        value = Some(result);
                        Moved::Bytes(bytes)
                    }
                    Err(errno) => Moved::Failed(errno),
                };
                call.on_moved(caller, moved)
            }
            Step::Ask(message) => ask(session, caller, &mut call, &message),
            Step::Flash { .. } | Step::Push | Step::AskPushed(_) | Step::Tell(_) => {
                unreachable!("a change is never absorbed")
            }
            Step::Done => return outcome(call.result()).map(|_| value),
        };
    }
}

/// Where a range of the file lies in the buffers of a request that begins at `offset`.
#[inline]
pub(super) fn place(range: Range, offset: u64) -> (usize, usize) {
    ((range.offset - offset) as usize, range.length as usize)
}
