//! A thread's part in the protocol: its slot in the shared file and its connection to the agent.
//!
//! A session begins at the thread's first managed call and ends with the thread. The last session to end in a process
//! is parked for the next thread, so that the agent sees the process as long as it lives. A call that is entered while
//! its thread is already in one (a signal handler) gets a session of its own for that call. Threads for which
//! the program has left no descriptor take turns at one session ([`loan`]).

mod command;
mod complaints;
mod connection;
pub(crate) mod door;
mod elsewhere;
mod joining;
mod loan;
mod mapping;
mod site;
mod slots;
mod standing_in;
mod threads;
pub(crate) mod uses;
mod wire;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::kernel::{self, Errno};
use crate::process;
use crate::settings;

pub(crate) use command::command;
pub(crate) use complaints::{complain, say_once};
pub(crate) use connection::{OpenFiles, Session, wake_agent};
pub(crate) use mapping::{region, shared};
pub(crate) use site::{SITE, Site, fast_directory};
pub(crate) use standing_in::{stand_in, stands_in_for_the_parent};
pub(crate) use wire::Answer;

use loan::Loan;
use threads::{Busy, THREAD, Thread};

/// The last session that a thread left behind.
static PARKED: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());
/// Key whose destructor ends a thread's session.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Called once, before any session.
pub(crate) fn start(files: OpenFiles) {
    connection::start(files);
    let mut key = 0;
    // SAFETY: `key` is writable, and the destructor lives as long as the library.
    unsafe { libc::pthread_key_create(&mut key, Some(end_of_thread)) };
    KEY.store(key, Ordering::Relaxed);
}

/// Runs `work` with the calling thread's session.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    THREAD.with(|thread| {
        if thread.busy.load(Ordering::Relaxed) {
            return work(&mut *join(true)?);
        }
        if thread.session.get().is_null() {
            return if process::is_own() { work_first(thread, work) } else { apart(work) };
        }
        let _busy = Busy::begin(&thread.busy);
        // SAFETY: the pointer came from `Box::into_raw`, only this thread has it, and `busy` keeps a handler from
        // using it too.
        work(unsafe { &mut *thread.session.get() })
    })
}

/// A thread's first call. Apart, so that the calls after it have no loan to give back.
#[cold]
#[inline(never)]
fn work_first<R>(thread: &Thread, work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    // Before `busy`, so that it ends after it.
    let _loan = begin(thread)?;
    let _busy = Busy::begin(&thread.busy);
    // SAFETY: as in `with`; the session is this thread's for as long as the loan, if not for good.
    work(unsafe { &mut *thread.session.get() })
}

/// Sees to it that the calling thread has a session for good, for what cannot be done with one on loan.
pub(crate) fn begin_own() -> Result<(), Errno> {
    THREAD.with(|thread| {
        let has = thread.busy.load(Ordering::Relaxed) || !thread.session.get().is_null();
        if has || begin(thread)?.is_none() { Ok(()) } else { Err(libc::EMFILE) }
    })
}

/// Whether the calling thread's session is in use: the caller is in a handler that interrupted a request.
#[inline]
pub(crate) fn is_interrupted() -> bool {
    THREAD.with(|thread| thread.busy.load(Ordering::Relaxed))
}

/// Gives the thread a session: for good, or until the loan is dropped.
#[cold]
fn begin(thread: &Thread) -> Result<Option<Loan<'_>>, Errno> {
    let parked = PARKED.swap(ptr::null_mut(), Ordering::AcqRel);
    let session = match parked.is_null().then(|| join(false)) {
        None => parked,
        Some(Ok(joined)) => {
            loan::provide();
            Box::into_raw(joined)
        }
        Some(Err(errno @ (libc::EMFILE | libc::ENFILE))) => return Loan::take(thread, errno).map(Some),
        Some(Err(errno)) => return Err(errno),
    };
    // SAFETY: the pointer came from `Box::into_raw`, and no other thread has it.
    unsafe { (*session).belongs_to(kernel::thread()) };
    thread.session.set(session);
    // SAFETY: the key exists since `start`.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), session.cast()) };
    Ok(None)
}

#[cold]
fn join(nested: bool) -> Result<Box<Session>, Errno> {
    Session::join(kernel::thread(), nested).map(Box::new)
}

/// Runs `work` with a session of its own, as the process that calls: for a `vfork` child, which shares its parent's
/// memory, but is another process to the agent. Whatever it opens is closed when it hangs up.
pub(crate) fn apart<R>(work: impl FnOnce(&mut Session) -> Result<R, Errno>) -> Result<R, Errno> {
    work(&mut *Session::join_as(kernel::process(), process::read_start_time(), kernel::thread(), true).map(Box::new)?)
}

unsafe extern "C" fn end_of_thread(session: *mut c_void) {
    // Its system calls may be filtered, so that it may not even hang up.
    if !settings::active() {
        return;
    }
    THREAD.with(|thread| thread.session.set(ptr::null_mut()));
    let session: *mut Session = session.cast();
    // SAFETY: the pointer came from `Box::into_raw`, and the thread just gave it up.
    uses::end(unsafe { (*session).index });
    if PARKED.compare_exchange(ptr::null_mut(), session, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: the pointer came from `Box::into_raw`, and the thread just gave it up.
        drop(unsafe { Box::from_raw(session) });
    }
}

/// In a forked child: forgets the parent's sessions. Their memory is left alone, as another thread may have been in
/// the middle of one.
pub(crate) fn abandon() {
    THREAD.with(|thread| {
        thread.session.set(ptr::null_mut());
        thread.busy.store(false, Ordering::Relaxed);
    });
    // SAFETY: the key exists since `start`; setting it to nothing frees nothing.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::null()) };
    PARKED.store(ptr::null_mut(), Ordering::Relaxed);
    loan::abandon();
    uses::abandon();
    slots::abandon();
}

/// Waits until no other thread of this process has a request for `file` under way that it published: all but reads of
/// the slow file without a lease, which see afterwards that the descriptor is gone. The caller took it away and fenced;
/// whoever publishes later sees that.
pub(crate) fn wait_for_requests(file: u32) {
    let Some(shared) = shared() else { return };
    for index in slots::owned() {
        let slot = &shared.slots[index];
        let mine = THREAD.with(|thread| {
            let session = thread.session.get();
            // SAFETY: the pointer is this thread's own; `slot` never changes after `join`.
            !session.is_null() && ptr::eq(unsafe { (*session).slot }, slot)
        });
        let mut tries = 0;
        while !mine && slot.is_busy_with(file) {
            tries += 1;
            if tries < 100 { std::thread::yield_now() } else { kernel::sleep_ms(1) }
        }
    }
}
