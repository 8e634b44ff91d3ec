//! The asynchronous operations under way, in the order of their submission, and the threads that carry them out.
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
//!
//! A thread starts when an operation finds none idle, ends when it was idle for [`IDLE_MS`], and blocks every signal. A
//! forked child has none of the threads and none of the operations, as POSIX says.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::c_int;

use super::{ControlBlock, Kind, Notice, RUNNING, finish, transfer};
use crate::gate::QUEUE;
use crate::kernel::{self, Errno};
use crate::{session, settings};

/// Threads of a process at most: each holds one of the agent's 4096 slots, and 128 ranks shall find room.
const THREADS_MAX: u32 = 4;
/// How long a thread waits for work before it ends; as glibc's.
const IDLE_MS: u64 = 1000;
/// Operations from the list's head on among which a thread looks for one that may run.
const LOOK_MAX: usize = 64;

/// The list's ends; under the lock.
static FIRST: AtomicPtr<ControlBlock> = AtomicPtr::new(ptr::null_mut());
static LAST: AtomicPtr<ControlBlock> = AtomicPtr::new(ptr::null_mut());
/// Members of the list.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Threads that serve, those about to, and those that wait; under the lock.
static THREADS: AtomicU32 = AtomicU32::new(0);
static STARTING: AtomicU32 = AtomicU32::new(0);
static IDLE: AtomicU32 = AtomicU32::new(0);
/// Grows when there is work for an idle thread.
static WORK: AtomicU32 = AtomicU32::new(0);
/// Grows when an operation has ended.
pub(crate) static ENDED: AtomicU32 = AtomicU32::new(0);

/// Whether any operation is under way.
#[inline]
pub(crate) fn is_empty() -> bool {
    COUNT.load(Ordering::Acquire) == 0
}

/// Adds an operation, and sees to it that somebody carries it out. Says no if there is no thread and none can be had.
///
/// # Safety
/// The block stays where it is until its outcome is stored in it.
pub(crate) unsafe fn submit(block: *mut ControlBlock) -> bool {
    let mut held = QUEUE.hold();
    if wants_thread() {
        STARTING.fetch_add(1, Ordering::Relaxed);
        drop(held);
        start();
        held = QUEUE.hold();
        STARTING.fetch_sub(1, Ordering::Relaxed);
    }
    // A thread ends only after it has looked at the list under this lock.
    if THREADS.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let last = LAST.swap(block, Ordering::Relaxed);
    if last.is_null() {
        FIRST.store(block, Ordering::Relaxed);
    } else {
        // SAFETY: members of the list live until they are taken out.
        unsafe { (*last).next = block.cast() };
    }
    COUNT.fetch_add(1, Ordering::AcqRel);
    WORK.fetch_add(1, Ordering::Release);
    drop(held);
    kernel::wake(&WORK, 1);
    true
}

/// Whether one more operation is more than the threads that wait can take; the lock is held.
fn wants_thread() -> bool {
    let (threads, idle) = (THREADS.load(Ordering::Relaxed), IDLE.load(Ordering::Relaxed));
    let waiting = COUNT.load(Ordering::Relaxed).saturating_sub(threads - idle);
    waiting + 1 > idle && threads + STARTING.load(Ordering::Relaxed) < THREADS_MAX
}

/// What a new thread tells the one that starts it: not yet, or that it serves or cannot.
struct Report(AtomicU32);

/// Starts a thread with all signals blocked, and waits until it has a session: without one it could only fail
/// operations that the submitting thread can carry out.
fn start() {
    let report = Report(AtomicU32::new(0));
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut thread = 0;
    // SAFETY: the sets and the number are writable; the report outlives its use by the thread, as it is waited for.
    let result = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let argument = (&raw const report).cast_mut().cast();
        let result = libc::pthread_create(&mut thread, ptr::null(), serve, argument);
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        result
    };
    if result != 0 {
        return;
    }
    // SAFETY: nobody else joins or detaches it.
    unsafe { libc::pthread_detach(thread) };
    while report.0.load(Ordering::Acquire) == 0 {
        let _ = kernel::wait(&report.0, 0, None);
    }
}

extern "C" fn serve(report: *mut c_void) -> *mut c_void {
    let able = !settings::served() || session::with(|_| Ok(())).is_ok();
    if able {
        let _held = QUEUE.hold();
        THREADS.fetch_add(1, Ordering::Relaxed);
    }
    let report: *const Report = report.cast();
    // SAFETY: the starting thread waits for this store, and the wake names the address alone.
    unsafe {
        let word = &raw const (*report).0;
        (*word).store(1, Ordering::Release);
        kernel::wake_address(word.cast(), 1);
    }
    if able {
        work();
    }
    ptr::null_mut()
}

/// Carries out operations until there are none for a while.
fn work() {
    let mut held = QUEUE.hold();
    loop {
        if let Some(block) = next() {
            // SAFETY: the block is in the list.
            unsafe { (*block).state.store(RUNNING, Ordering::Relaxed) };
            drop(held);
            // SAFETY: a running member of the list is this thread's.
            let result = unsafe { transfer(block) };
            held = QUEUE.hold();
            // SAFETY: it is a member that this thread carried out.
            let notice = unsafe { end(block, result) };
            WORK.fetch_add(1, Ordering::Release);
            let idle = IDLE.load(Ordering::Relaxed) > 0 && !FIRST.load(Ordering::Relaxed).is_null();
            drop(held);
            if idle {
                // It may have been in somebody's way.
                kernel::wake(&WORK, 1);
            }
            notice.give();
            held = QUEUE.hold();
            continue;
        }
        let value = WORK.load(Ordering::Acquire);
        IDLE.fetch_add(1, Ordering::Relaxed);
        drop(held);
        let waited = kernel::wait(&WORK, value, Some(IDLE_MS));
        held = QUEUE.hold();
        IDLE.fetch_sub(1, Ordering::Relaxed);
        if waited == Err(libc::ETIMEDOUT) && next().is_none() {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
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
fn next() -> Option<*mut ControlBlock> {
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
unsafe fn end(block: *mut ControlBlock, result: Result<usize, Errno>) -> Notice {
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
pub(super) struct Cancelled {
    /// Of those that had not begun, and now have ended.
    pub notices: Vec<Notice>,
    /// Whether any had begun.
    pub running: bool,
}

/// Ends operations of `fd` that have not begun: one, or all.
pub(super) fn cancel(fd: c_int, only: *const ControlBlock) -> Cancelled {
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

/// In a forked child, with the lock held: nothing of all this is the child's.
pub(crate) fn abandon() {
    FIRST.store(ptr::null_mut(), Ordering::Relaxed);
    LAST.store(ptr::null_mut(), Ordering::Relaxed);
    for counter in [&COUNT, &THREADS, &STARTING, &IDLE] {
        counter.store(0, Ordering::Relaxed);
    }
}
