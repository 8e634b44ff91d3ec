//! What a call and its driver say to each other.

use headstart_policy::client::{Decision, Request};
use headstart_units::request::Range;

use crate::message::Request as Message;
use crate::shared::{Shared, Slot};

/// What a thread brings to its requests. The calls of a `Call` are made with the same one from begin to
/// end.
pub trait Thread {
    /// The thread's slot.
    fn slot(&self) -> &Slot;

    /// Its index.
    fn index(&self) -> u32;

    /// The shared file.
    fn shared(&self) -> Shared<'_>;

    /// The time of day in nanoseconds since 1970, as exact as the kernel's file times are. Zero: nobody asks for it.
    fn time_of_day_ns(&self) -> u64 {
        0
    }

    /// What policies want of the first part of a request, which is not empty; how far that reaches is
    /// where the part ends.
    fn decide(&self, request: &Request) -> (Request, Decision);

    /// Whether the descriptor still means the file, which is asked after the request was published:
    /// whoever closes it waits for requests that are.
    #[inline]
    fn is_still_open(&self) -> bool {
        true
    }

    /// Whether it has meant the file since the call began, which is asked after bytes were read for which nobody who
    /// closes it had to wait.
    #[inline]
    fn has_stayed_open(&self) -> bool {
        true
    }

    /// Whether it may read bytes on flash as a listing says. Not if the agent has to be asked first whether the call is
    /// one that the slow file would take.
    #[inline]
    fn may_read_listed(&self) -> bool {
        true
    }

    /// The longest that the process may make a file.
    fn file_bytes_max(&self) -> u64 {
        u64::MAX
    }

    /// Tells the agent, which sleeps, that the slot is marked: [`Message::Marked`]. It does not answer.
    fn wake_agent(&self) {}

    /// Marks the slot: the thread left something for the agent, and has not fenced since.
    fn mark_left(&self) {
        if self.shared().mark_left(self.index()) {
            self.wake_agent();
        }
    }

    /// Whether it may wait for a commit: not while another request of the thread is under way, for which
    /// the commit would wait.
    #[inline]
    fn may_commit(&self) -> bool {
        true
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Look whether words of the shared file forbid to go on without the agent, or whether what was read or pushed counts:
    /// [`Call::look`](super::Call::look).
    Look,
    /// Move these bytes of the slow file, or change its size; then [`Call::on_moved`](super::Call::on_moved).
    Slow(Range),
    /// Move bytes of a data file; then [`Call::on_moved`](super::Call::on_moved).
    Flash {
        /// The bytes of the slow file that they are.
        range: Range,
        /// The data file.
        data_file: u32,
        /// Where in it.
        place: u64,
    },
    /// Sync the slow file; then [`Call::on_moved`](super::Call::on_moved).
    Sync,
    /// Push the commit of what was written: [`Call::push`](super::Call::push).
    Push,
    /// Ask the agent; then [`Call::on_answer`](super::Call::on_answer).
    Ask(Message<'static>),
    /// The same, under the number that the slot has: that of the push before.
    AskPushed(Message<'static>),
    /// Tell the agent, which does not answer; then [`Call::on_told`](super::Call::on_told).
    Tell(Message<'static>),
    /// All is done: [`Call::result`](super::Call::result).
    Done,
}

/// What came of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many were moved, from the first on. Of a rearranged file: so long it is now.
    Bytes(u64),
    /// None, for a reason that the program is told.
    Failed(i32),
    /// None, since flash or the way there failed: the slow file takes its place.
    FlashFailed(FlashFault),
}

/// Why bytes of a data file were not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashFault {
    /// The fast directory is full.
    Full,
    /// The process has no descriptor for it; the bytes there are good.
    Unreachable,
    /// It failed.
    Broken,
}

/// What the agent answers to a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// No space on flash.
    NoSpace,
    /// Nothing of the file may come to flash now.
    Bypassed,
    /// Others' requests are in the way of a commit and do not end.
    HeldUp,
    /// A flash-read lease on so many bytes.
    Flash(u64),
    /// The slow file has so many bytes; a slow-read lease on them if one was asked for.
    Disk(u64),
    /// The same, and flash has them as well.
    Sooner(u64),
    /// Bytes that another node has, or that would be others without it: on flash under a lease, or in the slow file as
    /// with [`Answer::Disk`]. What is read counts once it is confirmed.
    Remote {
        /// How many.
        length: u64,
        /// Where they lie.
        on_flash: bool,
    },
    /// A direct-write lease.
    Go,
    /// No: the program's error. Also of an agent that cannot be reached.
    Refused(i32),
    /// An answer to something else.
    Other,
}

/// The agent's answer answers nothing that was asked. The request waits still: [`Answer::Refused`] ends
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexpected;

/// Why nothing was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The descriptor means something else by now: the call is to be made again.
    Changed,
    /// The program's error.
    Errno(i32),
}

/// What a look at the bits came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The slow file may be used.
    Clear,
    /// Only the agent knows; nobody waits for the slot any more.
    Set,
    /// The descriptor means something else by now; the slot is free.
    Changed,
}

impl Looked {
    /// Looks, for a request that is published.
    #[inline(always)]
    pub(super) fn at(thread: &impl Thread, is_clear: impl FnOnce() -> bool) -> Looked {
        if !thread.is_still_open() {
            thread.slot().free();
            return Looked::Changed;
        }
        if is_clear() {
            return Looked::Clear;
        }
        thread.slot().ask();
        Looked::Set
    }
}

/// EIO: the agent promised something that is not there.
pub(super) const EIO: i32 = 5;
