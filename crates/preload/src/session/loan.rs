//! The session of threads for which the program has left no descriptor.
//!
//! When the first thread gets its session, the process puts aside an unconnected socket. When a later thread
//! finds no descriptor for a connection, that socket is connected and becomes a session at which such threads
//! take turns, a request each. (Between two requests a session may pass from thread to thread, as a parked one
//! does.) The thread that has it waits for nobody but the agent, with signals blocked. Each call first tries for
//! a session of its own.
//!
//! Not served: a process that finds no descriptor at its first connection, a `vfork` child, a signal handler
//! that interrupted a request, and `posix_spawn` that cuts files, whose child would find signals blocked.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::connection::Session;
use super::threads::Thread;
use super::wire::spare_socket;
use crate::files::descriptors::own;
use crate::gate::{Held, LOAN};
use crate::kernel::{self, Errno};

const NONE: i32 = -1;

/// The socket in reserve.
static SPARE: AtomicI32 = AtomicI32::new(NONE);
/// The session, once one was needed; for the life of the process. Used under the lock alone.
static LENT: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

/// Keeps a socket in reserve, if there is none and it can be had.
pub(crate) fn provide() {
    if SPARE.load(Ordering::Relaxed) != NONE || !LENT.load(Ordering::Relaxed).is_null() {
        return;
    }
    if let Ok(socket) = spare_socket()
        && SPARE.compare_exchange(NONE, socket, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        own::close_own(socket);
    }
}

/// The session in the hands of a thread, until it is dropped.
pub(crate) struct Loan<'t> {
    thread: &'t Thread,
    _held: Held,
}

impl Loan<'_> {
    /// Waits for the threads before. `errno` says why the thread has no session, and is the error if there is
    /// none to lend either.
    pub(crate) fn take(thread: &Thread, errno: Errno) -> Result<Loan<'_>, Errno> {
        let held = LOAN.hold();
        let mut session = LENT.load(Ordering::Relaxed);
        if session.is_null() {
            session = Box::into_raw(Box::new(join(errno)?));
            LENT.store(session, Ordering::Relaxed);
        }
        // SAFETY: the pointer came from `Box::into_raw`, and whoever has the lock alone uses it.
        unsafe { (*session).belongs_to(kernel::thread()) };
        thread.session.set(session);
        Ok(Loan { thread, _held: held })
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.thread.session.set(ptr::null_mut());
    }
}

fn join(errno: Errno) -> Result<Session, Errno> {
    let mut spare = Some(SPARE.swap(NONE, Ordering::AcqRel)).filter(|socket| *socket != NONE);
    if spare.is_none() {
        return Err(errno);
    }
    let joined = Session::join_by(&mut spare, kernel::thread());
    // No agent took it.
    if let Some(socket) = spare
        && SPARE.compare_exchange(NONE, socket, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        own::close_own(socket);
    }
    joined
}

/// In a forked child: the socket in reserve is the parent's too, and closed with its connections.
pub(crate) fn abandon() {
    LOAN.abandon();
    SPARE.store(NONE, Ordering::Relaxed);
    LENT.store(ptr::null_mut(), Ordering::Relaxed);
}
