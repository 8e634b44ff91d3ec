//! The wire: connecting, the first message, requests and answers, and what happens when the agent is gone.
//!
//! A process that was never connected fails at once, with ENOTCONN where nobody owns the managed directory,
//! unless a socket tells of an agent that was killed: another one may be on its way. One that was connected
//! waits: its clear bits stay valid, but what a set bit speaks for only the agent knows. It connects again
//! for up to [`PATIENCE_MS`], says `Hello` for the same slot, opens its files again and repeats the pending
//! request unchanged. `Hello` and these repeated `Open`s carry number zero.

use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use headstart_policy::client::s4d::S4d;
use headstart_protocol::counters::Counter;
use headstart_protocol::message::{Envelope, MESSAGE_MAX, NO_SLOT, Reply, Request, THE_SHARED_FILE};
use headstart_protocol::shared::{SLOTS_MAX, Slot};
use headstart_protocol::{MARK_PREFIX, PROTOCOL_VERSION, SOCKET_FILE};
use libc::c_int;

use super::{SITE, Session, Site, door, mapping, own_socket};
use crate::files::{data_files, descriptors, records};
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::settings::settings;
use crate::{location, process};

/// How long a process that has lost the agent waits for another one.
pub(super) const PATIENCE_MS: u64 = 30_000;
/// Pause between attempts to connect.
pub(super) const RETRY_MS: u64 = 50;
/// Lines one process writes to stderr at most.
const COMPLAINTS_MAX: u32 = 20;

/// Set once the wait was in vain: from then on every call tries only once.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
static COMPLAINTS: AtomicU32 = AtomicU32::new(0);

/// An answer without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// `Reply::Opened`: the file's index, and whether it is excluded.
    Opened(u32, bool),
    /// `Reply::Done`.
    Done,
    /// `Reply::NoSpace`.
    NoSpace,
    /// `Reply::Bypassed`.
    Bypassed,
    /// `Reply::HeldUp`.
    HeldUp,
    /// `Reply::Flash`.
    Flash(u64),
    /// `Reply::Disk`.
    Disk(u64),
    /// `Reply::Sooner`.
    Sooner(u64),
    /// `Reply::Go`.
    Go,
    /// `Reply::Regions`: length of the packet, and whether it is the last.
    Regions(usize, bool),
}

/// Why an exchange brought no answer.
enum Lost {
    /// The agent is gone.
    Agent,
    /// So is its socket: it was stopped, or never was.
    Socket,
    /// It answered: no.
    Refused(Errno),
}

struct Line {
    text: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let count = text.len().min(self.text.len() - 1 - self.length);
        self.text[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// One line on stderr, unless that is a managed file.
#[cold]
#[inline(never)]
pub(crate) fn complain(what: Arguments) {
    if COMPLAINTS.fetch_add(1, Ordering::Relaxed) >= COMPLAINTS_MAX || descriptors::known_managed(libc::STDERR_FILENO) {
        return;
    }
    let mut line = Line { text: [0; 512], length: 0 };
    let _ = write!(line, "headstart: {what}");
    line.text[line.length] = b'\n';
    let element = libc::iovec { iov_base: line.text.as_mut_ptr().cast(), iov_len: line.length + 1 };
    // SAFETY: the element is the line's text.
    let _ = unsafe { kernel::write(libc::STDERR_FILENO, &[element]) };
}

/// Whether nobody said it yet of the program `facts` are of: the first to ask leaves a mark in the runtime directory,
/// which `headstart run` removes when it begins.
pub(crate) fn say_once(facts: &kernel::Facts) -> bool {
    let name = format!("{MARK_PREFIX}{:x}.{:x}", facts.device, facts.inode);
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
    match mapping::runtime_path(&name).and_then(|path| kernel::openat(libc::AT_FDCWD, &path, flags, 0o600)) {
        Ok(fd) => kernel::close(fd).is_ok(),
        Err(errno) => errno != libc::EEXIST,
    }
}

pub(super) fn unconnected() -> Result<c_int, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) }
        .map(|socket| socket as c_int)
}

/// A socket of the library's own, for a connection later.
pub(super) fn spare_socket() -> Result<c_int, Errno> {
    own_socket(unconnected()?)
}

fn connect() -> Result<c_int, Errno> {
    if let Some(socket) = door::enter() {
        return own_socket(socket);
    }
    own_socket(connected()?)
}

/// A socket connected by its path, not marked as the library's.
pub(super) fn connected() -> Result<c_int, Errno> {
    let socket = unconnected()?;
    if let Err(errno) = connect_socket(socket) {
        let _ = kernel::close(socket);
        return Err(errno);
    }
    Ok(socket)
}

pub(super) fn connect_socket(socket: c_int) -> Result<(), Errno> {
    let path = mapping::runtime_path(SOCKET_FILE)?;
    let mut path = path.as_bytes();
    let mut link = Vec::new();
    let mut directory = None;
    // SAFETY: an address of zeroes is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if path.len() >= address.sun_path.len() {
        // Too long for an address: by way of a descriptor of the directory.
        let runtime = std::ffi::CString::new(settings().runtime.as_slice()).map_err(|_| libc::EINVAL)?;
        let fd = kernel::openat(libc::AT_FDCWD, &runtime, libc::O_PATH | libc::O_CLOEXEC, 0)?;
        let _ = std::io::Write::write_fmt(&mut link, format_args!("/proc/self/fd/{fd}/{SOCKET_FILE}"));
        path = &link;
        directory = Some(fd);
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    // SAFETY: `address` is readable for the length given; a system call is no cancellation point.
    let result = unsafe { syscall!(libc::SYS_connect, socket, &raw const address, size_of::<libc::sockaddr_un>()) };
    if let Some(fd) = directory {
        let _ = kernel::close(fd);
    }
    result.map(drop)
}

/// Sends one packet and waits for the answer that repeats its envelope; its length.
fn exchange(socket: c_int, envelope: Option<Envelope>, packet: &[u8], answer: &mut [u8]) -> Result<usize, Lost> {
    loop {
        match kernel::send(socket, packet) {
            Ok(_) => break,
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
    loop {
        match kernel::receive(socket, answer) {
            Ok(0) => return Err(Lost::Agent),
            Ok(length) => match Reply::decode(&answer[..length]) {
                Ok((found, _)) if envelope.is_none_or(|expected| expected == found) => return Ok(length),
                // The answer to a request that was sent twice.
                Ok(_) => {}
                Err(_) => return Err(Lost::Agent),
            },
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
}

/// Asks for a descriptor, which is the caller's then.
fn exchange_for_descriptor(socket: c_int, envelope: Envelope, data_file: u32) -> Result<c_int, Lost> {
    let (mut packet, mut answer) = (Vec::new(), [0; 256]);
    Request::Descriptor { data_file }.encode(envelope, &mut packet);
    loop {
        match kernel::send(socket, &packet) {
            Ok(_) => break,
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
    loop {
        match kernel::receive_with(socket, &mut answer) {
            Ok((0, _)) => return Err(Lost::Agent),
            Ok((length, Some(fd))) if answer_of(&answer[..length]).is_ok() => return Ok(fd),
            Ok((length, fd)) => {
                if let Some(fd) = fd {
                    let _ = kernel::close(fd);
                }
                // Without one: there was no number for it, or the agent refused.
                return Err(match answer_of(&answer[..length]) {
                    Err(lost) => lost,
                    Ok(_) => Lost::Refused(libc::EMFILE),
                });
            }
            Err(libc::EINTR) => {}
            Err(_) => return Err(Lost::Agent),
        }
    }
}

fn refused(errno: Errno, text: &[u8]) -> Lost {
    if !text.is_empty() {
        complain(format_args!("{}", text.escape_ascii()));
    }
    Lost::Refused(if errno > 0 { errno } else { libc::EIO })
}

fn answer_of(packet: &[u8]) -> Result<Answer, Lost> {
    match Reply::decode(packet) {
        Ok((_, Reply::Opened { file, excluded })) => Ok(Answer::Opened(file, excluded)),
        Ok((_, Reply::Done)) => Ok(Answer::Done),
        Ok((_, Reply::NoSpace)) => Ok(Answer::NoSpace),
        Ok((_, Reply::Bypassed)) => Ok(Answer::Bypassed),
        Ok((_, Reply::HeldUp)) => Ok(Answer::HeldUp),
        Ok((_, Reply::Flash { length })) => Ok(Answer::Flash(length)),
        Ok((_, Reply::Disk { length })) => Ok(Answer::Disk(length)),
        Ok((_, Reply::Sooner { length })) => Ok(Answer::Sooner(length)),
        Ok((_, Reply::Go)) => Ok(Answer::Go),
        Ok((_, Reply::Regions { last, .. })) => Ok(Answer::Regions(packet.len(), last)),
        Ok((_, Reply::Error { errno, text })) => Err(refused(errno, text)),
        Ok((_, Reply::Welcome(_) | Reply::Control { .. })) | Err(_) => Err(Lost::Refused(libc::EIO)),
    }
}

impl Session {
    /// Connects and gets a slot, for thread `thread` of this process.
    pub(super) fn join(thread: u32, nested: bool) -> Result<Session, Errno> {
        loop {
            match Session::join_as(process::number(), process::start_time(), thread, nested) {
                Err(libc::EMFILE) if !nested && data_files::close_one() => {}
                joined => return joined,
            }
        }
    }

    /// The same for thread `thread` of process `pid`.
    pub(super) fn join_as(pid: u32, start_time: u64, thread: u32, nested: bool) -> Result<Session, Errno> {
        let without_socket = if mapping::shared().is_some() { PATIENCE_MS } else { 0 };
        let joined = patiently(PATIENCE_MS, without_socket, || hello(pid, start_time, thread, NO_SLOT))?;
        Ok(Session::begin(joined, thread, nested))
    }

    /// The same by the socket in `spare`, which stays there until it is connected. Where it is lost for
    /// nothing its number is free.
    pub(super) fn join_by(spare: &mut Option<c_int>, thread: u32) -> Result<Session, Errno> {
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
        session.own_slot(true);
        session
    }

    /// Delivers `packet` and decodes what comes back.
    pub(super) fn deliver(&mut self, envelope: Envelope) -> Result<Answer, Errno> {
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
            if index != self.index {
                self.hang_up();
                complain(format_args!(
                    "the agent was started anew and knows nothing of this run; see `headstart status`"
                ));
                return Err(libc::EIO);
            }
            match records::reopen_all(self) {
                Err(libc::ENOTCONN) => self.hang_up(),
                other => return other,
            }
            patience = PATIENCE_MS.saturating_sub(kernel::monotonic_ms() - start);
        }
    }
}

/// Tries `attempt` until it succeeds, is refused, or `patience_ms` are over, `without_socket_ms` where no
/// agent was killed.
fn patiently<R>(
    patience_ms: u64,
    without_socket_ms: u64,
    mut attempt: impl FnMut() -> Result<R, Lost>,
) -> Result<R, Errno> {
    let start = kernel::monotonic_ms();
    loop {
        let limit_ms = match attempt() {
            Ok(result) => {
                GIVEN_UP.store(false, Ordering::Relaxed);
                return Ok(result);
            }
            Err(Lost::Refused(errno)) => return Err(errno),
            Err(Lost::Agent) => patience_ms,
            Err(Lost::Socket) => without_socket_ms,
        };
        if location::is_nobodys() && mapping::shared().is_none() {
            return Err(libc::ENOTCONN);
        }
        if GIVEN_UP.load(Ordering::Relaxed) || kernel::monotonic_ms() - start >= limit_ms {
            GIVEN_UP.store(true, Ordering::Relaxed);
            complain(format_args!(
                "the agent of {} does not answer; managed files cannot be used without it. See `headstart status`",
                settings().slow.escape_ascii()
            ));
            return Err(libc::EIO);
        }
        kernel::sleep_ms(RETRY_MS);
    }
}

/// Connects, introduces the thread, which may have a slot, and maps the shared file: socket, slot index, slot.
fn hello(pid: u32, start_time: u64, thread: u32, had: u32) -> Result<(c_int, u32, &'static Slot), Lost> {
    greet(connect().map_err(not_connected)?, pid, start_time, thread, had)
}

fn not_connected(errno: Errno) -> Lost {
    match errno {
        libc::EMFILE | libc::ENFILE | libc::EACCES | libc::EPERM => Lost::Refused(errno),
        libc::ENOENT => Lost::Socket,
        _ => Lost::Agent,
    }
}

/// The same over a socket that is connected; it is closed if nothing comes of it.
fn greet(socket: c_int, pid: u32, start_time: u64, thread: u32, had: u32) -> Result<(c_int, u32, &'static Slot), Lost> {
    let welcomed = introduce(socket, pid, start_time, thread, had);
    if welcomed.is_err() {
        descriptors::close_own(socket);
    }
    let (index, slot) = welcomed?;
    Ok((socket, index, slot))
}

fn introduce(socket: c_int, pid: u32, start_time: u64, thread: u32, had: u32) -> Result<(u32, &'static Slot), Lost> {
    let request = Request::Hello { version: PROTOCOL_VERSION, pid, tid: thread, start_time, slot: had };
    let (mut packet, mut answer) = (Vec::with_capacity(256), vec![0; MESSAGE_MAX]);
    request.encode(Envelope { slot: 0, seq: 0 }, &mut packet);
    let length = exchange(socket, None, &packet, &mut answer)?;
    let (envelope, welcome) = match Reply::decode(&answer[..length]) {
        Ok((envelope, Reply::Welcome(welcome))) => (envelope, welcome),
        Ok((_, Reply::Error { errno, text })) => return Err(refused(errno, text)),
        _ => return Err(Lost::Refused(libc::EPROTO)),
    };
    let by_agent = || match exchange_for_descriptor(socket, envelope, THE_SHARED_FILE) {
        Ok(fd) => Ok(fd),
        Err(Lost::Refused(errno)) => Err(errno),
        Err(Lost::Agent | Lost::Socket) => Err(libc::ECONNRESET),
    };
    let shared = mapping::map(by_agent).map_err(|errno| {
        if errno == libc::ESTALE {
            return refused(
                libc::EIO,
                b"the agent was started anew and knows nothing of this run; see `headstart status`",
            );
        }
        Lost::Refused(errno)
    })?;
    if envelope.slot as usize >= SLOTS_MAX {
        return Err(Lost::Refused(libc::EPROTO));
    }
    SITE.get_or_init(|| Site { s4d: S4d { read: welcome.read, write: welcome.write }, fast: welcome.fast.to_vec() });
    Ok((envelope.slot, &shared.slots[envelope.slot as usize]))
}
