//! The wire: connecting, the first message, requests and answers, and what happens when the agent is gone.
//!
//! A process that was never connected fails at once, with ENOTCONN where nobody owns the managed directory;
//! unless a socket is left of an agent that was killed, as another agent may be starting. A process that was
//! connected waits: its clear bits stay valid, but only the agent knows what lies behind a set bit. It connects
//! again for up to [`PATIENCE_MS`](super::wire::PATIENCE_MS), says `Hello` for the same slot, opens its files
//! again and repeats the pending request unchanged. `Hello` and these repeated `Open`s carry number zero.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use headstart_protocol::counters::Counter;
use headstart_protocol::message::{Envelope, MESSAGE_MAX, NO_SLOT, Reply, Request};
use headstart_protocol::shared::Slot;
use libc::c_int;

use super::complaints::complain;
use super::joining::{greet, hello, not_connected, patiently};
use super::wire::{Answer, Lost, PATIENCE_MS, answer_of, connect_socket, exchange, exchange_for_descriptor};
use super::{mapping, slots};
use crate::files::descriptors::own;
use crate::kernel::{self, Errno};
use crate::process;

/// One thread's slot and connection.
pub(crate) struct Session {
    /// The slot; only its owner writes it, but for what the agent grants.
    pub slot: &'static Slot,
    /// The slot's number.
    pub(crate) index: u32,
    /// Process and start time that the agent knows it by: those that its own namespace shows.
    owner: (u32, u64),
    thread: u32,
    /// Whether it serves a signal handler that interrupted a request of its thread.
    pub nested: bool,
    pub(crate) socket: Option<i32>,
    packet: Vec<u8>,
    answer: Vec<u8>,
}

/// What a session asks of the files that the process has open. The library hands these functions over when it
/// starts: in all other matters files ask sessions, so that sessions must not name them.
pub(crate) struct OpenFiles {
    /// Opens them all again at an agent that was restarted.
    pub reopen: fn(&mut Session) -> Result<(), Errno>,
    /// Gives up a descriptor of the library; no, if it has none that it can spare.
    pub give_descriptor_back: fn() -> bool,
}

static OPEN_FILES: OnceLock<OpenFiles> = OnceLock::new();

/// Called once, before any session.
pub(crate) fn start(files: OpenFiles) {
    let _ = OPEN_FILES.set(files);
}

fn open_files() -> &'static OpenFiles {
    OPEN_FILES.get().expect("sessions begin after the library has started")
}

impl Session {
    /// Connects and gets a slot, for thread `thread` of this process.
    // Inlined: a handler may have a small stack.
    #[inline]
    pub(crate) fn join(thread: u32, nested: bool) -> Result<Session, Errno> {
        loop {
            match Session::join_as(process::number(), process::start_time(), thread, nested) {
                Err(libc::EMFILE) if !nested && (open_files().give_descriptor_back)() => {}
                joined => return joined,
            }
        }
    }

    /// The same for thread `thread` of process `pid`.
    pub(crate) fn join_as(pid: u32, start_time: u64, thread: u32, nested: bool) -> Result<Session, Errno> {
        let without_socket = if mapping::shared().is_some() { PATIENCE_MS } else { 0 };
        let joined = patiently(PATIENCE_MS, without_socket, || hello(pid, start_time, thread, NO_SLOT))?;
        Ok(Session::begin(joined, thread, nested))
    }

    /// The same by the socket in `spare`, which stays there until it is connected. Where it is lost for
    /// nothing its number is free.
    pub(crate) fn join_by(spare: &mut Option<c_int>, thread: u32) -> Result<Session, Errno> {
        let joined = patiently(PATIENCE_MS, PATIENCE_MS, || {
            let (pid, start_time) = (process::number(), process::start_time());
            let Some(socket) = *spare else { return hello(pid, start_time, thread, NO_SLOT) };
            connect_socket(socket).map_err(not_connected)?;
            *spare = None;
            greet(socket, pid, start_time, thread, NO_SLOT)
        })?;
        Ok(Session::begin(joined, thread, false))
    }

    fn begin((socket, index, slot): (c_int, u32, &'static Slot), thread: u32, nested: bool) -> Session {
        let (packet, answer) = (Vec::with_capacity(256), vec![0; MESSAGE_MAX]);
        let owner = (slot.owner_pid.load(Ordering::Acquire), slot.owner_start.load(Ordering::Relaxed));
        let session = Session { slot, index, owner, thread, nested, socket: Some(socket), packet, answer };
        slots::own(session.index, true);
        slots::connect(session.index, session.socket);
        session
    }

    /// Delivers `packet` and decodes what comes back.
    pub(crate) fn deliver(&mut self, envelope: Envelope) -> Result<Answer, Errno> {
        loop {
            let sent = match self.socket {
                Some(socket) => exchange(socket, Some(envelope), &self.packet, &mut self.answer),
                None => Err(Lost::Agent),
            };
            match sent.and_then(|length| answer_of(&self.answer[..length])) {
                Ok(answer) => return Ok(answer),
                Err(Lost::Refused(errno)) => return Err(errno),
                Err(Lost::Agent | Lost::Socket) => {
                    let since = kernel::monotonic_ms();
                    let joined = self.join_again();
                    self.slot.count(Counter::AgentAwayWaits, 1);
                    self.slot.count(Counter::AgentAwayNs, (kernel::monotonic_ms() - since) * 1_000_000);
                    joined?
                }
            }
        }
    }

    /// A descriptor of a data file, from the agent: this process cannot open it by its path. Where the agent
    /// is gone there is none now.
    pub(crate) fn data_file(&mut self, number: u32) -> Result<c_int, Errno> {
        let seq = self.slot.seq.load(Ordering::Relaxed) + 1;
        self.slot.seq.store(seq, Ordering::Release);
        let socket = self.socket.ok_or(libc::EIO)?;
        exchange_for_descriptor(socket, Envelope { slot: self.index, seq }, number).map_err(|lost| match lost {
            Lost::Refused(errno) => errno,
            // As if there were no number for it: what is on flash is not lost for that.
            Lost::Agent | Lost::Socket => libc::ENFILE,
        })
    }

    /// The regions of the packet of `length` bytes that came last.
    pub(crate) fn packed(&self, length: usize) -> Option<&[u8]> {
        match Reply::decode(self.answer.get(..length)?) {
            Ok((_, Reply::Regions { packed, .. })) => Some(packed),
            _ => None,
        }
    }

    /// A request while the session joins again: number zero, and no second attempt.
    pub(crate) fn call_joining(&mut self, request: &Request) -> Result<Answer, Errno> {
        let envelope = Envelope { slot: self.index, seq: 0 };
        let mut packet = Vec::new();
        request.encode(envelope, &mut packet);
        let socket = self.socket.ok_or(libc::EIO)?;
        let sent = exchange(socket, Some(envelope), &packet, &mut self.answer);
        sent.and_then(|length| answer_of(&self.answer[..length])).map_err(|lost| match lost {
            Lost::Agent | Lost::Socket => libc::ENOTCONN,
            Lost::Refused(errno) => errno,
        })
    }

    #[cold]
    #[inline(never)]
    fn join_again(&mut self) -> Result<(), Errno> {
        self.hang_up();
        let (mut patience, start) = (PATIENCE_MS, kernel::monotonic_ms());
        loop {
            let had = self.index;
            let again = || hello(self.owner.0, self.owner.1, self.thread, had);
            let (socket, index, _) = patiently(patience, patience, again)?;
            self.socket = Some(socket);
            slots::connect(self.index, self.socket);
            if index != self.index {
                self.hang_up();
                complain(format_args!(
                    "the agent was started anew and knows nothing of this run; see `headstart status`"
                ));
                return Err(libc::EIO);
            }
            match (open_files().reopen)(self) {
                Err(libc::ENOTCONN) => self.hang_up(),
                other => return other,
            }
            patience = PATIENCE_MS.saturating_sub(kernel::monotonic_ms() - start);
        }
    }
}

impl Session {
    /// Sends a request under the slot's next number and waits for the answer, over a restart of the agent if need be.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Answer, Errno> {
        let seq = self.slot.seq.load(Ordering::Relaxed) + 1;
        self.slot.seq.store(seq, Ordering::Release);
        self.call_again(request)
    }

    /// The same under the slot's number as it is: that of a commit that was pushed.
    pub(crate) fn call_again(&mut self, request: &Request) -> Result<Answer, Errno> {
        let seq = self.slot.seq.load(Ordering::Relaxed);
        self.slot.count(Counter::RoundTrips, 1);
        let envelope = Envelope { slot: self.index, seq };
        request.encode(envelope, &mut self.packet);
        let answered = self.deliver(envelope);
        if answered.is_err() {
            self.give_up();
        }
        answered
    }

    /// Tells the agent something that needs no answer, and that it finds by itself where there is none now.
    pub(crate) fn tell(&mut self, request: &Request) {
        let Some(socket) = self.socket else { return };
        request.encode(Envelope { slot: self.index, seq: 0 }, &mut self.packet);
        let _ = kernel::send(socket, &self.packet);
    }

    /// The agent answered with something that is no answer to the request.
    pub(crate) fn unexpected(&self, answer: Answer) -> Errno {
        self.give_up();
        complain(format_args!("the agent gave an unexpected answer ({answer:?}); library and agent differ"));
        libc::EIO
    }

    /// A request is given up: no call of the kernel is under way for it, and nobody must wait for what was
    /// granted. Unless the slot is another's by now.
    fn give_up(&self) {
        if self.owns_slot() {
            self.slot.give_up();
        }
    }

    fn owns_slot(&self) -> bool {
        let owner = (self.slot.owner_pid.load(Ordering::Acquire), self.slot.owner_tid.load(Ordering::Acquire));
        owner == (self.owner.0, self.thread)
    }

    /// A parked session goes on with another thread: an agent that starts while a request is under way looks
    /// whether it lives.
    pub(crate) fn belongs_to(&mut self, thread: u32) {
        if self.thread != thread {
            self.thread = thread;
            self.slot.owner_tid.store(thread, Ordering::Release);
        }
    }

    fn hang_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            slots::connect(self.index, None);
            own::close_own(socket);
        }
    }
}

/// Tells the agent, which sleeps, that the calling thread's slot is marked. One that has ended needs no telling: the
/// next looks by itself.
pub(crate) fn wake_agent(index: u32) {
    if let Some(socket) = slots::socket(index) {
        let mut packet = Vec::with_capacity(32);
        Request::Marked.encode(Envelope { slot: index, seq: 0 }, &mut packet);
        let _ = kernel::send(socket, &packet);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        slots::own(self.index, false);
        // Where no agent hears of the end of the socket, the next one sees it here.
        if self.owns_slot() {
            self.slot.owner_tid.store(0, Ordering::Release);
        }
        self.hang_up();
    }
}
