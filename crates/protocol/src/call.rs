//! The thread's side of the client protocol: one request, as a machine that says what comes next.
//!
//! The library, the simulator and the crash tests of overlay and agent all drive this one. It makes every
//! store to the thread's slot and every load of bits in the order of `spec/client.md`; what only its
//! driver can do (kernel calls, messages) it hands out as a [`Step`], and waits to be told what came of
//! it. It has no clock, makes no system call, and allocates nothing.
//!
//! ```text
//! read     publish, fence -> Look -> clear: Slow, free
//!                                 -> set:   ask -> Ask(Read) -> Flash, piece by piece | Slow; release;
//!                                           again for the rest -> free
//! write    part by part as policies answer: absorbed, or direct
//!  absorb  publish as asking -> slab at hand, or Ask(Slab) -> Flash -> Ask(Commit) -> ... -> free;
//!          refused: the rest is direct
//!  direct  publish, fence -> Look -> clear: Slow, free
//!                                 -> set:   ask -> Ask(Write) -> Slow -> Ask(WriteDone) -> free
//! extend   as direct, for everything from the known size on; truncate, rearrange: Ask -> Slow -> Ask(..Done)
//! sync     load the count -> Sync -> it was not zero: Ask(Sync)
//! ```
//!
//! The rules of `spec/client.md`, and where they are kept:
//!
//! | rule | kept by |
//! |---|---|
//! | no-fence-rank, read-no-slot | `Look` follows a publication that fences ([`handshake`](crate::handshake)) |
//! | slot-kept | the slot is in ASKING state before any `Ask` |
//! | slow-while-down | there is no way from a set bit to `Slow` but through the agent's answer |
//! | read-no-lease, no-read-lease | a read lease is released after [`Call::on_moved`] of the last byte read under it |
//! | drop-first | `WriteDone` is asked after [`Call::on_moved`] of the write |
//! | bit-after-commit, commit-twice | `Commit` follows [`Call::on_moved`] of the flash write |
//! | in-place-dead, in-place-never | bytes are absorbed by slabs alone, which hold nothing |
//! | slab-reclaimed | a thread that writes to a slab has published its request |
//! | wait-slot, wait-lease | a refused commit goes on as a direct write, and the slab stays the thread's |
//!
//! Most requests are for bytes of which none is on flash, and must cost next to nothing: [`Call::read_at_once`]
//! and [`Call::write_at_once`] make those steps in a straight line, and hand out a call where there are others. A
//! call is a state in memory; in a straight line the compiler knows where it stands, and little is left of it.
//!
//! [`Step::Look`] is a step of its own so that a driver may let others come in between; it needs nothing
//! but [`Call::look`].
//!
//! What is not here: numbers of messages and sending one again after the agent's death (rule of the
//! messages; the library's session does it), and opening, closing and naming files, which hold no bytes.

mod absorb;
mod at_once;
mod direct;
mod read;
mod settle;
mod write;

use headstart_policy::client::{Decision, Request};
use headstart_units::request::Range;

use crate::message::Request as Message;
use crate::shared::{Shared, Slot};
use direct::Direct;
use read::Read;
use settle::Settle;
use write::Write;

/// What a thread brings to its requests. The calls of a `Call` are made with the same one from begin to
/// end.
pub trait Thread {
    /// The thread's slot.
    fn slot(&self) -> &Slot;

    /// The shared file.
    fn shared(&self) -> Shared<'_>;

    /// What policies want of the first part of a request, which is not empty; how far that reaches is
    /// where the part ends.
    fn decide(&self, request: &Request) -> (Request, Decision);

    /// Whether the descriptor still means the file, which is asked after the request was published:
    /// whoever closes it waits for requests that are.
    #[inline]
    fn is_still_open(&self) -> bool {
        true
    }

    /// The longest that the process may make a file.
    fn file_bytes_max(&self) -> u64 {
        u64::MAX
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
    /// Look whether bits forbid to go on without the agent: [`Call::look`].
    Look,
    /// Move these bytes of the slow file, or change its size; then [`Call::on_moved`].
    Slow(Range),
    /// Move bytes of a data file; then [`Call::on_moved`].
    Flash {
        /// The bytes of the slow file that they are.
        range: Range,
        /// The data file.
        data_file: u32,
        /// Where in it.
        place: u64,
    },
    /// Sync the slow file; then [`Call::on_moved`].
    Sync,
    /// Ask the agent; then [`Call::on_answer`].
    Ask(Message<'static>),
    /// All is done: [`Call::result`].
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
    /// A slow-read lease on so many bytes.
    Disk(u64),
    /// The same, of bytes that flash has as well.
    Sooner(u64),
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
enum Looked {
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
    fn at(thread: &impl Thread, is_clear: impl FnOnce() -> bool) -> Looked {
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
const EIO: i32 = 5;

/// One request of one thread. See the module.
#[derive(Clone, Copy, Debug)]
pub struct Call(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read(Read),
    Write(Write),
    Change(Direct),
    Settle(Settle),
}

/// Begins.
impl Call {
    /// Reads bytes of a file, which has this number at the agent.
    pub fn read(thread: &impl Thread, file: u32, request: Request) -> (Call, Step) {
        let (read, step) = Read::begin(thread, file, request);
        (Call(Kind::Read(read)), step)
    }

    /// Writes bytes of a file, each part where policies want it.
    pub fn write(thread: &impl Thread, file: u32, request: Request) -> (Call, Step) {
        let (write, step) = Write::begin(thread, file, request);
        (Call(Kind::Write(write)), step)
    }

    /// Changes bytes of the slow file by whatever call, never absorbed: those of `range`, of which
    /// [`Moved::Bytes`] says how many.
    #[inline]
    pub fn change(thread: &impl Thread, file: u32, range: Range) -> (Call, Step) {
        let (change, step) = Direct::write(thread, file, range);
        (Call(Kind::Change(change)), step)
    }

    /// Lets the kernel write at the end of the file, wherever that is: everything behind the known size
    /// is claimed, and nothing of it is mapped that had to be dropped, so that it has moved no bytes.
    /// `from`: it may also write what it reads there from this offset on.
    pub fn extend(thread: &impl Thread, file: u32, from: u64) -> (Call, Step) {
        let (change, step) = Direct::extend(thread, file, from);
        (Call(Kind::Change(change)), step)
    }

    /// Changes the size of a file.
    pub fn truncate(file: u32, size: u64) -> (Call, Step) {
        let (change, step) = Direct::truncate(file, size);
        (Call(Kind::Change(change)), step)
    }

    /// Lets the kernel move bytes of the slow file that lie at `from` or behind it.
    pub fn rearrange(file: u32, from: u64) -> (Call, Step) {
        let (change, step) = Direct::rearrange(file, from);
        (Call(Kind::Change(change)), step)
    }

    /// Makes durable what was written: rule 11.
    pub fn sync(thread: &impl Thread, file: u32) -> (Call, Step) {
        let (settle, step) = Settle::sync(thread, file);
        (Call(Kind::Settle(settle)), step)
    }

    /// Makes the slow file hold what flash holds of `range`.
    pub fn write_back(thread: &impl Thread, file: u32, range: Range) -> (Call, Step) {
        let (settle, step) = Settle::write_back(thread, file, range);
        (Call(Kind::Settle(settle)), step)
    }
}

/// Goes on.
impl Call {
    /// Loads the bits, after [`Step::Look`].
    ///
    /// # Panics
    /// If that was not the step, as all of these.
    pub fn look(&mut self, thread: &impl Thread) -> Step {
        match &mut self.0 {
            Kind::Read(read) => read.look(thread),
            Kind::Write(write) => write.look(thread),
            Kind::Change(change) => change.look(thread),
            Kind::Settle(settle) => settle.look(),
        }
    }

    /// The bytes of the step before are moved, or not.
    pub fn on_moved(&mut self, thread: &impl Thread, moved: Moved) -> Step {
        match &mut self.0 {
            Kind::Read(read) => read.on_moved(thread, moved),
            Kind::Write(write) => write.on_moved(thread, moved),
            Kind::Change(change) => change.on_moved(thread, moved),
            Kind::Settle(settle) => settle.on_moved(moved),
        }
    }

    /// The agent has answered.
    pub fn on_answer(&mut self, thread: &impl Thread, answer: Answer) -> Result<Step, Unexpected> {
        match &mut self.0 {
            Kind::Read(read) => read.on_answer(thread, answer),
            Kind::Write(write) => write.on_answer(thread, answer),
            Kind::Change(change) => change.on_answer(thread, answer),
            Kind::Settle(settle) => settle.on_answer(answer),
        }
    }

    /// What came of it, after [`Step::Done`]: bytes moved.
    pub fn result(&self) -> Result<u64, Failure> {
        match &self.0 {
            Kind::Read(read) => read.result(),
            Kind::Write(write) => write.result(),
            Kind::Change(change) => change.result(),
            Kind::Settle(settle) => settle.result(),
        }
    }

    /// Bytes moved so far that flash served.
    pub fn flash_bytes(&self) -> u64 {
        match &self.0 {
            Kind::Read(read) => read.flash_bytes(),
            Kind::Write(write) => write.flash_bytes(),
            Kind::Change(_) | Kind::Settle(_) => 0,
        }
    }
}
