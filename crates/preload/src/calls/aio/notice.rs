//! The outcome of an operation, and who is told.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::sigevent;

use super::block::{ControlBlock, Group};
use crate::kernel::{self, Errno};

mod libcs {
    use libc::{c_int, sigevent};

    use crate::calls::aio::block::ControlBlock;

    crate::hooks::next::real! {
        lio_listio(mode: c_int, blocks: *const *mut ControlBlock, count: c_int, event: *mut sigevent) -> c_int
    }
}

pub(crate) use libcs::lio_listio;

/// Grows when an operation has ended.
pub(crate) static ENDED: AtomicU32 = AtomicU32::new(0);

pub(crate) fn notifies(event: &sigevent) -> bool {
    matches!(event.sigev_notify, libc::SIGEV_SIGNAL | libc::SIGEV_THREAD)
}

/// Whom to tell that an operation has its outcome.
#[must_use]
pub(crate) struct Notice {
    event: sigevent,
    group: *mut Group,
}

impl Notice {
    /// Wakes who waits, and notifies; no lock is held.
    pub(crate) fn give(self) {
        ENDED.fetch_add(1, Ordering::Release);
        kernel::wake(&ENDED, u32::MAX >> 1);
        notify(self.event);
        // SAFETY: a group lives until its last member has ended.
        if !self.group.is_null() && unsafe { (*self.group).left.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: it came from `Box::into_raw`, and this was the last member.
            notify(unsafe { Box::from_raw(self.group) }.event);
        }
    }
}

/// Stores the outcome of an operation that is in no list; from here on the block is the program's again.
///
/// # Safety
/// `block` was taken, and nobody else stores its outcome.
pub(crate) unsafe fn finish(block: *mut ControlBlock, result: Result<usize, Errno>) -> Notice {
    // SAFETY: the caller's contract.
    unsafe { ended(block, result, (*block).group) }
}

/// # Safety
/// As [`finish`].
pub(crate) unsafe fn ended(block: *mut ControlBlock, result: Result<usize, Errno>, group: *mut Group) -> Notice {
    // SAFETY: the caller's contract; the block is the program's again once `error` is stored.
    unsafe {
        let event = (*block).event;
        (*block).mark.store(0, Ordering::Relaxed);
        (*block).returned.store(result.map_or(-1, |count| count as isize), Ordering::Relaxed);
        (*block).error.store(result.err().unwrap_or(0), Ordering::Release);
        Notice { event, group }
    }
}

/// Notifies as libc does.
pub(crate) fn notify(mut event: sigevent) {
    if notifies(&event) {
        // SAFETY: a list of one member that is no control block.
        unsafe { lio_listio(libc::LIO_NOWAIT, &ptr::null_mut(), 1, &mut event) };
    }
}
