//! Descriptors between the decision to close or replace them and the kernel's doing so.
//!
//! Calls of other threads that are under way on the number end first, however long they take (`session::uses`).
//! A handler that interrupted a call of its own thread waits for none of them, as they may wait for that call.
//!
//! Other threads that call on the descriptor meanwhile wait until it is closed. So nothing may hold up the
//! closing thread: signals are blocked and it cannot be cancelled. (A handler would wait for the thread it
//! interrupts; one that jumps away, or a cancellation, would leave all others waiting.) `freopen` alone leaves
//! signals unblocked, as it may wait for a pipe's other end; a handler that interrupts it finds the descriptor
//! closed.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use libc::c_int;

use super::descriptions::release;
use super::table::{CLOSING, CLOSING_MANAGED, MANAGED, TABLE, UNKNOWN, UNMANAGED, WANTED};
use crate::calls::aio::list;
use crate::gate::gate;
use crate::kernel;
use crate::process;
use crate::session::uses;

thread_local! {
    /// The descriptor that this thread's `freopen` replaces.
    static REOPENING: Cell<c_int> = const { Cell::new(-1) };
}

/// Whether the calling thread is in a `freopen` of this descriptor.
pub(super) fn is_reopening(fd: c_int) -> bool {
    REOPENING.get() == fd
}

/// Waits for the calls under way on descriptors that were just marked; calls that begin meanwhile wait in
/// turn. While it waits none is CLOSING_MANAGED: handlers wait for one that is.
#[inline]
fn settle_calls(marked: &[Closing]) {
    let managed = || marked.iter().filter_map(|closing| Some((closing.fd, MANAGED + closing.description?)));
    while !managed().all(|(fd, _)| uses::is_unused(fd)) {
        if uses::is_in_call() {
            return;
        }
        managed().for_each(|(fd, entry)| TABLE[fd as usize].store(entry | WANTED, Ordering::Release));
        managed().for_each(|(fd, _)| uses::wait_for(fd));
        managed().for_each(|(fd, _)| TABLE[fd as usize].store(CLOSING_MANAGED, Ordering::Release));
    }
}

/// While it lives, no handler runs in this thread and nobody can cancel it.
pub(crate) struct Undisturbed {
    mask: Option<libc::sigset_t>,
    cancellation: c_int,
}

impl Undisturbed {
    /// From here on; `signals`: whether they are blocked.
    pub(crate) fn begin(signals: bool) -> Undisturbed {
        let cancellation = kernel::forbid_cancellation();
        let mask = signals.then(|| {
            let (mut before, mut all) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            // SAFETY: both sets are writable; `sigfillset` fills `all` before it is used, and the old mask is stored.
            unsafe {
                libc::sigfillset(all.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
                before.assume_init()
            }
        });
        Undisturbed { mask, cancellation }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        kernel::restore_cancellation(self.cancellation);
        // Last: a handler that waited may jump away.
        if let Some(mask) = &self.mask {
            // SAFETY: the mask came from pthread_sigmask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
        }
    }
}

/// A descriptor between the decision to close it and the kernel's having done so. Dropping it settles the table: the
/// number may be anything then, and the file loses a descriptor.
#[must_use]
pub(crate) struct Closing {
    fd: c_int,
    mark: u32,
    description: Option<u32>,
    reopens: bool,
    /// Ends after the table is settled.
    _undisturbed: Option<Undisturbed>,
}

impl Closing {
    /// Takes the descriptor out of the table, once the asynchronous operations and the calls on it have
    /// ended. Nothing happens in a `vfork` child, which shares the table but not the descriptors.
    #[inline]
    pub(crate) fn begin(fd: c_int) -> Option<Closing> {
        Closing::of(fd, false)
    }

    /// The same for `freopen`, which may wait for long before it replaces the descriptor.
    pub(crate) fn begin_reopening(fd: c_int) -> Option<Closing> {
        Closing::of(fd, true)
    }

    /// The same for several descriptors.
    pub(crate) fn begin_all(fds: impl Iterator<Item = c_int>) -> Vec<Closing> {
        let marked: Vec<Closing> = fds.filter_map(|fd| Closing::mark(fd, false)).collect();
        settle_calls(&marked);
        marked
    }

    #[inline]
    fn of(fd: c_int, reopens: bool) -> Option<Closing> {
        let marked = Closing::mark(fd, reopens)?;
        settle_calls(std::slice::from_ref(&marked));
        Some(marked)
    }

    #[inline]
    fn mark(fd: c_int, reopens: bool) -> Option<Closing> {
        let cell = TABLE.get(fd as usize)?;
        let mut entry = cell.load(Ordering::Acquire);
        if entry >= MANAGED && !list::is_empty() && process::is_own() && !uses::is_in_call() {
            list::settle(fd);
        }
        let mut undisturbed = None;
        loop {
            let mark = match entry {
                UNMANAGED => CLOSING,
                // Another thread is about to close it as well, and does so first.
                WANTED.. if process::is_own() && REOPENING.get() != fd && !uses::is_in_call() => {
                    kernel::sleep_ms(1);
                    entry = cell.load(Ordering::Acquire);
                    continue;
                }
                MANAGED..WANTED if process::is_own() => CLOSING_MANAGED,
                _ => {
                    if reopens {
                        REOPENING.set(-1);
                    }
                    return None;
                }
            };
            if mark == CLOSING_MANAGED && undisturbed.is_none() {
                undisturbed = Some(Undisturbed::begin(!reopens));
                if reopens {
                    REOPENING.set(fd);
                }
            }
            match cell.compare_exchange_weak(entry, mark, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let description = entry.checked_sub(MANAGED);
                    return Some(Closing { fd, mark, description, reopens, _undisturbed: undisturbed });
                }
                Err(found) => entry = found,
            }
        }
    }
}

impl Closing {
    /// The kernel closed them all. The table says so of each before what one waits for may wait for another.
    pub(crate) fn end_all(mut closed: Vec<Closing>) {
        for closing in &mut closed {
            closing.settle(UNKNOWN);
        }
    }

    /// Puts `entry` in the mark's place, once; whether the mark was still there. It is not where the number
    /// was given out again before this thread came to say so.
    #[inline]
    fn settle(&mut self, entry: u32) -> bool {
        let mark = std::mem::replace(&mut self.mark, UNKNOWN);
        let cell = &TABLE[self.fd as usize];
        mark != UNKNOWN && cell.compare_exchange(mark, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The kernel refused: the descriptor is what it was.
    pub(crate) fn undo(mut self) {
        let entry = self.description.map_or(UNMANAGED, |description| MANAGED + description);
        if self.settle(entry) {
            self.description = None;
        }
    }
}

impl Drop for Closing {
    #[inline]
    fn drop(&mut self) {
        self.settle(UNKNOWN);
        if self.reopens {
            REOPENING.set(-1);
        }
        if let Some(description) = self.description {
            let errno = kernel::errno();
            release(&gate(), description);
            kernel::set_errno(errno);
        }
    }
}
