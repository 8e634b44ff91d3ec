//! The asynchronous operations under way, in the order of their submission.
//!
//! ```text
//! submitted: WAITING --no earlier operation in its way--> RUNNING --done--> out of the list, outcome in the block
//!                   \--aio_cancel--> out of the list, ECANCELED
//! ```
//!
//! An operation leaves the list and gets its outcome in one step, under the lock: whatever begins because it is gone, a
//! sync above all, ends when the program can see that it has ended.
//!
//! Operations on one descriptor keep their order where it can be seen: a write and whatever overlaps it, appends and
//! everything, a sync and everything before it. All others overlap, up to [`THREADS_MAX`] at a time in a process; glibc
//! serves one operation of a descriptor after the other. The list is made of the control blocks themselves.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use super::block::{ControlBlock, Kind, RUNNING};
use super::notice::{ENDED, Notice, finish};
use crate::gate::QUEUE;
use crate::kernel::{self, Errno};

/// Operations from the list's head on among which a thread looks for one that may run.
const LOOK_MAX: usize = 64;

/// The list's ends; under the lock.
static FIRST: AtomicPtr<ControlBlock> = AtomicPtr::new(ptr::null_mut());
static LAST: AtomicPtr<ControlBlock> = AtomicPtr::new(ptr::null_mut());
/// Members of the list.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Adds a member behind the others; the lock is held.
///
/// # Safety
/// The block stays where it is until its outcome is stored in it.
pub(crate) unsafe fn push(block: *mut ControlBlock) {
    let last = LAST.swap(block, Ordering::Relaxed);
    if last.is_null() {
        FIRST.store(block, Ordering::Relaxed);
    } else {
        // SAFETY: members of the list live until they are taken out.
        unsafe { (*last).next = block.cast() };
    }
    COUNT.fetch_add(1, Ordering::AcqRel);
}

/// How many members there are.
pub(crate) fn count() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// Whether there is none; the lock is held.
pub(crate) fn has_none() -> bool {
    FIRST.load(Ordering::Relaxed).is_null()
}

/// Whether any operation is under way.
#[inline]
pub(crate) fn is_empty() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// The list's members; the lock is held.
fn members() -> impl Iterator<Item = *mut ControlBlock> {
    let first = FIRST.load(Ordering::Relaxed);
    // SAFETY: members of the list live until they are taken out.
    std::iter::successors((!first.is_null()).then_some(first), |&block| {
        // SAFETY: the same.
        let next: *mut ControlBlock = unsafe { (*block).next }.cast();
        (!next.is_null()).then_some(next)
    })
}

/// The first operation that no earlier one is in the way of; the lock is held.
pub(crate) fn next() -> Option<*mut ControlBlock> {
    members().take(LOOK_MAX).find(|&block| {
        // SAFETY: members of the list live until they are taken out.
        let candidate = unsafe { &*block };
        candidate.state.load(Ordering::Relaxed) != RUNNING
            && !members()
                .take_while(|&earlier| !ptr::eq(earlier, block))
                // SAFETY: the same.
                .any(|earlier| in_the_way(unsafe { &*earlier }, candidate))
    })
}

/// Whether `later` has to wait for `earlier`.
fn in_the_way(earlier: &ControlBlock, later: &ControlBlock) -> bool {
    let data = |block: &ControlBlock| matches!(block.kind(), Kind::Read | Kind::Write);
    if earlier.fd != later.fd {
        return false;
    }
    if later.kind() == Kind::Append || earlier.kind() == Kind::Append || later.kind() == Kind::Sync {
        return true;
    }
    let writes = earlier.kind() == Kind::Write || later.kind() == Kind::Write;
    data(earlier) && data(later) && writes && earlier.range().overlaps(later.range())
}

/// Takes a member out and stores its outcome; the lock is held.
///
/// # Safety
/// `block` is a member of the list, and nobody else stores its outcome.
pub(crate) unsafe fn end(block: *mut ControlBlock, result: Result<usize, Errno>) -> Notice {
    remove(block);
    // SAFETY: the caller's contract; it is in no list any more.
    unsafe { finish(block, result) }
}

/// Takes a member out; the lock is held.
fn remove(block: *mut ControlBlock) {
    // SAFETY: members of the list live until they are taken out.
    unsafe {
        let next: *mut ControlBlock = (*block).next.cast();
        let before = members().take_while(|&member| !ptr::eq(member, block)).last();
        match before {
            Some(before) => (*before).next = next.cast(),
            None => FIRST.store(next, Ordering::Relaxed),
        }
        if next.is_null() {
            LAST.store(before.unwrap_or(ptr::null_mut()), Ordering::Relaxed);
        }
        (*block).next = ptr::null_mut();
    }
    COUNT.fetch_sub(1, Ordering::AcqRel);
}

/// What became of operations that were to be cancelled.
#[derive(Default)]
pub(crate) struct Cancelled {
    /// Of those that had not begun, and now have ended.
    pub notices: Vec<Notice>,
    /// Whether any had begun.
    pub running: bool,
}

/// Ends operations of `fd` that have not begun: one, or all.
pub(crate) fn cancel(fd: c_int, only: *const ControlBlock) -> Cancelled {
    let _held = QUEUE.hold();
    let mut cancelled = Cancelled::default();
    let mut rest = FIRST.load(Ordering::Relaxed);
    while !rest.is_null() {
        let block = rest;
        // SAFETY: members of the list live until they are taken out; nobody has begun one that does not run.
        unsafe {
            rest = (*block).next.cast();
            if (*block).fd != fd || !only.is_null() && !ptr::eq(only, block) {
                continue;
            }
            if (*block).state.load(Ordering::Relaxed) == RUNNING {
                cancelled.running = true;
                continue;
            }
            cancelled.notices.push(end(block, Err(libc::ECANCELED)));
        }
    }
    cancelled
}

/// Whether a block is a member of the list.
pub(crate) fn holds(block: *const ControlBlock) -> bool {
    let _held = QUEUE.hold();
    members().any(|member| ptr::eq(member, block))
}

/// Waits until nothing is under way on a descriptor.
pub(crate) fn settle(fd: c_int) {
    loop {
        let ended = ENDED.load(Ordering::Acquire);
        let held = QUEUE.hold();
        // SAFETY: members of the list live until they are taken out.
        let busy = members().any(|block| unsafe { (*block).fd } == fd);
        drop(held);
        if !busy {
            return;
        }
        let _ = kernel::wait(&ENDED, ended, None);
    }
}

/// In a forked child, with the lock held: none is the child's.
pub(crate) fn abandon() {
    FIRST.store(ptr::null_mut(), Ordering::Relaxed);
    LAST.store(ptr::null_mut(), Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
}
