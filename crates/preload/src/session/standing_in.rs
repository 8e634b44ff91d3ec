//! A connection that a process makes before it forks, over which nobody ever speaks. Its children keep it open.
//!
//! A process may use a file unseen, by a stream or a mapping. Its children inherit that use and make no call
//! that the library would see. To the agent a process lives as long as any of its connections is open, and what
//! it said of its files stands so long. As the children share this connection, that is until the last of them
//! has ended or executed a program, whoever ends first.
//!
//! Limit: an agent that is started anew after the parent has ended knows nothing of the children until they use
//! the files by a call.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

use super::connection::Session;
use crate::files::descriptors::own::{self, Own};
use crate::kernel;

const NONE: c_int = -1;

/// The connection of this process; those that it inherited are nobody's to close.
static CONNECTION: AtomicI32 = AtomicI32::new(NONE);

/// Sees to it that there is one, if an agent can be reached.
pub(crate) fn stand_in() {
    let saved = kernel::errno();
    let known = CONNECTION.load(Ordering::Acquire);
    if known == NONE || kernel::is_hung_up(known) {
        if known != NONE {
            own::close_own(known);
        }
        CONNECTION.store(connection().unwrap_or(NONE), Ordering::Release);
    }
    kernel::set_errno(saved);
}

fn connection() -> Option<c_int> {
    let mut session = Session::join(kernel::thread(), true).ok()?;
    // Not closed in a child, as connections that are spoken over are.
    let socket = session.socket.take()?;
    let copy = kernel::fcntl(socket, libc::F_DUPFD_CLOEXEC, 3);
    own::close_own(socket);
    let socket = copy.and_then(|copy| own::make_own(copy, Own::File)).ok();
    // Its slot is this process's as long as the agent sees the connection.
    std::mem::forget(session);
    socket
}

/// In a forked child: the parent's is kept open as it is; the next is this process's own.
pub(crate) fn stands_in_for_the_parent() {
    CONNECTION.store(NONE, Ordering::Relaxed);
}
