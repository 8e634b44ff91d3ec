//! The thread's side of the client protocol: one request, as a machine that says what comes next.
//!
//! The library, the simulator and the crash tests of overlay and agent all drive this one. It makes every
//! store to the thread's slot and every load of bits in the order of `spec/client.md`; what only its
//! driver can do (kernel calls, messages) it hands out as a [`Step`], and waits to be told what came of
//! it. It has no clock, makes no system call, and allocates nothing.
//!
//! ```text
//! read     Look -> clear: Slow -> Look -> it counts
//!               -> set, or does not count: publish, ask -> Ask(Read) -> Flash, piece by piece; release
//!                                                                -> Slow -> Look -> it counts, or ask again
//!                                             again for the rest -> free
//!                                                 of another node: Ask(Confirm) -> it counts, or ask again
//! write    part by part as policies answer: absorbed, or direct
//!  absorb  publish as asking -> slab at hand, or Ask(Slab) -> Flash -> Push -> Look -> the same: ... -> free
//!                                                                          -> changed: AskPushed(Commit)
//!                                                              -> Ask(Commit) where the granule is closed
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
//! | no-fence-rank | the `Look` of a write follows a publication that fences ([`handshake`](crate::handshake)) |
//! | no-validate-read, disk-no-bump | a `Look` follows each `Slow` of a read without a lease |
//! | no-gen-read | it compares generations, which never come again, and not bits |
//! | slot-kept | the slot is in ASKING state before any `Ask` |
//! | slow-while-down | there is no way from a set bit to `Slow` but through the agent's answer |
//! | read-no-lease, no-read-lease | a read lease is released after [`Call::on_moved`] of the last byte read under it |
//! | list-no-validate, list-validate-early | a `Look` follows each `Flash` of a read by a listing |
//! | no-alive, no-alive-disk, no-generation-flash | `Confirm` is asked after the last byte read of what another node has |
//! | drop-first | `WriteDone` is asked after [`Call::on_moved`] of the write |
//! | bit-after-commit, commit-twice | `Push` and `Commit` follow [`Call::on_moved`] of the flash write |
//! | ring-no-validate, ring-no-fence | `Look` follows a push that fences ([`ring`](crate::ring)); what does not count is asked for under the same number |
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
mod listed;
mod read;
mod settle;
mod step;
mod write;

use headstart_policy::client::Request;
use headstart_units::request::Range;

pub use step::{Answer, Failure, FlashFault, Moved, Step, Thread, Unexpected};

use direct::Direct;
use read::Read;
use settle::Settle;
use write::Write;

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
    pub fn read(file: u32, request: Request) -> (Call, Step) {
        let (read, step) = Read::begin(file, request);
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
    /// Loads words of the shared file, after [`Step::Look`].
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

    /// Pushes a commit, after [`Step::Push`].
    pub fn push(&mut self, thread: &impl Thread) -> Step {
        self.absorbing().push(thread)
    }

    /// The agent is told, after [`Step::Tell`].
    pub fn on_told(&mut self, thread: &impl Thread) -> Step {
        self.absorbing().on_told(thread)
    }

    fn absorbing(&mut self) -> &mut Write {
        let Kind::Write(write) = &mut self.0 else { unreachable!("only writes are absorbed") };
        write
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
