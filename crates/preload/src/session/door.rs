//! A connection for later ones. It is made before the process gives up what connecting by the socket's path
//! takes (its user, its root directory, its mounts), and kept for the life of the process and of its forked
//! children. For a new connection the library makes a pair of sockets and sends one end through the door to the
//! agent. The agent sends nothing back through it, so that any number of processes may use it.

use std::sync::atomic::{AtomicI32, Ordering};

use headstart_protocol::message::{Envelope, Request};

use super::wire::connected;
use crate::files::descriptors::own::{self, Own};
use crate::kernel;

const NONE: i32 = -1;

static DOOR: AtomicI32 = AtomicI32::new(NONE);

/// Makes the door, if it can be made.
pub(crate) fn make() {
    if DOOR.load(Ordering::Acquire) != NONE {
        return;
    }
    // Not a connection's mark: a forked child closes those of its parent.
    let Ok(fd) = connected().and_then(|socket| own::make_own(socket, Own::File)) else { return };
    if DOOR.compare_exchange(NONE, fd, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        own::close_own(fd);
    }
}

/// Whether there is one.
pub(crate) fn is_there() -> bool {
    DOOR.load(Ordering::Acquire) != NONE
}

/// A new connection through the door; nothing if there is none, or nobody is behind it any more.
pub(crate) fn enter() -> Option<i32> {
    let door = Some(DOOR.load(Ordering::Acquire)).filter(|door| *door != NONE)?;
    let [ours, theirs] = kernel::socket_pair().ok()?;
    let mut packet = Vec::new();
    Request::Connect.encode(Envelope { slot: 0, seq: 0 }, &mut packet);
    let sent = loop {
        match kernel::send_with(door, &packet, theirs) {
            Err(libc::EINTR) => {}
            sent => break sent,
        }
    };
    let _ = kernel::close(theirs);
    if sent.is_err() {
        let _ = kernel::close(ours);
        return None;
    }
    Some(ours)
}
