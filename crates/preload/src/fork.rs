//! What a fork does to the library. The parent takes the locks before, so that the child finds what they guard
//! whole. The child then forgets what belongs to its parent: slots and sockets, asynchronous operations and their
//! threads, the recording.
//!
//! `vfork` and its kin run no handler: the child shares the memory, and leaves the tables alone
//! (`process::is_own`).

use crate::calls::aio;
use crate::files::{descriptors, records, ring_state};
use crate::{gate, process, recording, session};

/// Called once, before any fork.
pub(crate) fn start() {
    // SAFETY: the handlers live as long as the library, which a program cannot unload while it is preloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// `_Fork`, and `fork` by its number, which run no handlers.
pub(crate) fn forked<R: From<bool> + PartialEq>(pass: impl FnOnce() -> R) -> R {
    // SAFETY: as libc calls them around a fork.
    unsafe {
        before_fork();
        let child = pass();
        if child == R::from(false) {
            in_child()
        } else {
            after_fork()
        }
        child
    }
}

/// `vfork`, and what starts programs inside libc, which run no handlers: the child has the descriptors that
/// this process has.
pub(crate) fn bequeath() -> bool {
    process::may_be_child();
    records::bequeath_all();
    true
}

unsafe extern "C" fn before_fork() {
    if records::any_bypassed() {
        session::stand_in();
    }
    gate::GATE.take();
    gate::QUEUE.take();
    gate::RECORDING.take();
    records::bequeath_all();
}

unsafe extern "C" fn after_fork() {
    gate::RECORDING.release();
    gate::QUEUE.release();
    gate::GATE.release();
}

/// Only stores and system calls: another thread may have held any lock of libc.
unsafe extern "C" fn in_child() {
    process::begin_child();
    session::abandon();
    session::stands_in_for_the_parent();
    descriptors::settle_inherited();
    aio::abandon();
    ring_state::abandon();
    recording::abandon();
    gate::RECORDING.release();
    gate::QUEUE.release();
    gate::GATE.release();
}
