//! The locks of the library. Signals are blocked while one is held, or a handler that needs it would wait for
//! itself. `fork` takes all but the last, so that the child finds consistent what they guard.
//!
//! The *gate* guards opening and closing of managed files, and the tables' slow paths. It is held across the round trip
//! of `Open` and `Close`, so that a close and an open of the same file reach the agent in the order of the
//! tables. It is never taken while a slot is published. The *queue's lock* guards the list of asynchronous
//! operations, for moments. *Loan* is held for a request of a thread without a session of its own; a child
//! forgets what it guards.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernel;

/// A lock that blocks signals.
pub(crate) struct Lock {
    locked: AtomicBool,
    /// The holder's signal mask from before, needed where `fork` takes and releases in different functions.
    mask: UnsafeCell<MaybeUninit<libc::sigset_t>>,
}

// SAFETY: only the holder touches the mask.
unsafe impl Sync for Lock {}

/// The gate.
pub(crate) static GATE: Lock = Lock::free();
/// The lock of the queue of asynchronous operations; never held while the gate is taken.
pub(crate) static QUEUE: Lock = Lock::free();
/// The lock of the recording's file, held while a block is given out; nothing else is taken under it.
pub(crate) static RECORDING: Lock = Lock::free();
/// The lock of the session that threads without one take turns at; no other lock is taken under it.
pub(crate) static LOAN: Lock = Lock::free();

/// A lock, held until it is dropped.
pub(crate) struct Held(&'static Lock);

/// The gate, held.
pub(crate) type Gate = Held;

/// Takes the gate.
pub(crate) fn gate() -> Gate {
    GATE.hold()
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Lock {
    const fn free() -> Lock {
        Lock { locked: AtomicBool::new(false), mask: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Takes it until the guard is dropped.
    pub(crate) fn hold(&'static self) -> Held {
        self.take();
        Held(self)
    }

    /// Takes it without a guard, for `fork`.
    pub(crate) fn take(&self) {
        let mut before = MaybeUninit::uninit();
        let mut all = MaybeUninit::uninit();
        // SAFETY: both sets are writable; `sigfillset` fills `all` before it is used.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        }
        let mut tries = 0u32;
        while self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            match tries {
                0..64 => std::hint::spin_loop(),
                64..256 => std::thread::yield_now(),
                _ => kernel::sleep_ms(1),
            }
        }
        // SAFETY: the lock is held.
        unsafe { *self.mask.get() = before };
    }

    /// In a forked child: the holder stayed with the parent.
    pub(crate) fn abandon(&self) {
        self.locked.store(false, Ordering::Relaxed);
    }

    /// Releases it, in the thread that took it (or in its image in a forked child).
    pub(crate) fn release(&self) {
        // SAFETY: the lock is held, and `take` wrote the mask.
        let before = unsafe { (*self.mask.get()).assume_init() };
        self.locked.store(false, Ordering::Release);
        // SAFETY: `before` is a mask that pthread_sigmask returned.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    }
}
