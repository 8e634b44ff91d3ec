//! The threads that carry asynchronous operations out.
//!
//! A thread starts when an operation finds none idle, ends when it was idle for [`IDLE_MS`], and blocks every
//! signal. A forked child has none of the threads and none of the operations, as POSIX says.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::block::{ControlBlock, RUNNING};
use super::list;
use super::transfer::transfer;
use crate::gate::QUEUE;
use crate::{kernel, session, settings};

/// Threads of a process at most: each holds one of the agent's 4096 slots, and 128 ranks shall find room.
const THREADS_MAX: u32 = 4;
/// How long a thread waits for work before it ends; as glibc's.
const IDLE_MS: u64 = 1000;

/// Threads that serve, those about to, and those that wait; under the lock.
static THREADS: AtomicU32 = AtomicU32::new(0);
static STARTING: AtomicU32 = AtomicU32::new(0);
static IDLE: AtomicU32 = AtomicU32::new(0);
/// Grows when there is work for an idle thread.
static WORK: AtomicU32 = AtomicU32::new(0);

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
    // SAFETY: the caller's contract; the lock is held.
    unsafe { list::push(block) };
    WORK.fetch_add(1, Ordering::Release);
    drop(held);
    kernel::wake(&WORK, 1);
    true
}

/// Whether one more operation is more than the threads that wait can take; the lock is held.
fn wants_thread() -> bool {
    let (threads, idle) = (THREADS.load(Ordering::Relaxed), IDLE.load(Ordering::Relaxed));
    let waiting = list::count().saturating_sub(threads - idle);
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
        if let Some(block) = list::next() {
            // SAFETY: the block is in the list.
            unsafe { (*block).state.store(RUNNING, Ordering::Relaxed) };
            drop(held);
            // SAFETY: a running member of the list is this thread's.
            let result = unsafe { transfer(block) };
            held = QUEUE.hold();
            // SAFETY: it is a member that this thread carried out.
            let notice = unsafe { list::end(block, result) };
            WORK.fetch_add(1, Ordering::Release);
            let idle = IDLE.load(Ordering::Relaxed) > 0 && !list::has_none();
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
        if waited == Err(libc::ETIMEDOUT) && list::next().is_none() {
            THREADS.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
}

/// In a forked child, with the lock held: nothing of all this is the child's.
pub(crate) fn abandon() {
    list::abandon();
    for counter in [&THREADS, &STARTING, &IDLE] {
        counter.store(0, Ordering::Relaxed);
    }
}
