//! Connecting, and the first message, by which a thread gets its slot; again where the agent was started anew.

use std::sync::atomic::{AtomicBool, Ordering};

use headstart_policy::client::s4d::S4d;
use headstart_protocol::PROTOCOL_VERSION;
use headstart_protocol::message::{Envelope, MESSAGE_MAX, Reply, Request, THE_SHARED_FILE};
use headstart_protocol::shared::{SLOTS_MAX, Slot};
use libc::c_int;

use super::complaints::complain;
use super::site::{SITE, Site};
use super::wire::{Lost, RETRY_MS, connected, exchange, exchange_for_descriptor, own_socket, refused};
use super::{door, elsewhere, mapping};
use crate::files::descriptors::own;
use crate::kernel::{self, Errno};
use crate::location;
use crate::settings::settings;

/// Set once the wait was in vain: from then on every call tries only once.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Tries `attempt` until it succeeds, is refused, or `patience_ms` are over, `without_socket_ms` where no
/// agent was killed.
pub(crate) fn patiently<R>(
    patience_ms: u64,
    without_socket_ms: u64,
    mut attempt: impl FnMut() -> Result<R, Lost>,
) -> Result<R, Errno> {
    let start = kernel::monotonic_ms();
    let mut may_start = true;
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
        if elsewhere::is_elsewhere() {
            // Other nodes of the run may have newer bytes, whatever of their claims is to be seen here already.
            may_start &= !GIVEN_UP.load(Ordering::Relaxed);
            if std::mem::take(&mut may_start) && elsewhere::start_agent() {
                continue;
            }
        } else if location::is_nobodys() && mapping::shared().is_none() {
            return Err(libc::ENOTCONN);
        }
        if GIVEN_UP.load(Ordering::Relaxed) || kernel::monotonic_ms() - start >= limit_ms {
            GIVEN_UP.store(true, Ordering::Relaxed);
            complain_of_silence();
            return Err(libc::EIO);
        }
        kernel::sleep_ms(RETRY_MS);
    }
}

fn complain_of_silence() {
    let slow = settings().slow.escape_ascii();
    if elsewhere::is_elsewhere() {
        complain(format_args!(
            "no agent serves {slow} on this node, where the run did not begin; managed files cannot be used here"
        ));
    } else {
        complain(format_args!(
            "the agent of {slow} does not answer; managed files cannot be used without it. See `headstart status`"
        ));
    }
}

/// Connects, introduces the thread, which may have a slot, and maps the shared file: socket, slot index, slot.
pub(crate) fn hello(pid: u32, start_time: u64, thread: u32, had: u32) -> Result<(c_int, u32, &'static Slot), Lost> {
    greet(connect().map_err(not_connected)?, pid, start_time, thread, had)
}

fn connect() -> Result<c_int, Errno> {
    if let Some(socket) = door::enter() {
        return own_socket(socket);
    }
    own_socket(connected()?)
}

pub(crate) fn not_connected(errno: Errno) -> Lost {
    match errno {
        libc::EMFILE | libc::ENFILE | libc::EACCES | libc::EPERM => Lost::Refused(errno),
        libc::ENOENT => Lost::Socket,
        _ => Lost::Agent,
    }
}

/// The same over a socket that is connected; it is closed if nothing comes of it.
pub(crate) fn greet(
    socket: c_int,
    pid: u32,
    start_time: u64,
    thread: u32,
    had: u32,
) -> Result<(c_int, u32, &'static Slot), Lost> {
    let welcomed = introduce(socket, pid, start_time, thread, had);
    if welcomed.is_err() {
        own::close_own(socket);
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
