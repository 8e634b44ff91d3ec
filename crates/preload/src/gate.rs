//! The one lock of the library: opening and closing of managed files, and the tables' slow paths.
//!
//! It is held across the round trip of `Open` and `Close`, so that a close and an open of the same file reach the
//! agent in the order of the tables. Signals are blocked meanwhile: a handler that opens a managed file would wait for
//! itself. It is never taken while a slot is published. `fork` takes it, so that a child finds the tables whole.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernel;

static LOCKED: AtomicBool = AtomicBool::new(false);

struct Mask(UnsafeCell<MaybeUninit<libc::sigset_t>>);

// SAFETY: only the holder of the lock touches it.
unsafe impl Sync for Mask {}

/// The holder's signal mask from before, needed where `fork` takes and releases in different functions.
static MASK: Mask = Mask(UnsafeCell::new(MaybeUninit::uninit()));

/// The lock, held until it is dropped.
pub struct Gate(());

/// Takes the lock.
pub fn gate() -> Gate {
    take();
    Gate(())
}

impl Drop for Gate {
    fn drop(&mut self) {
        release();
    }
}

/// Takes the lock without a guard, for `fork`.
pub fn take() {
    let mut before = MaybeUninit::uninit();
    let mut all = MaybeUninit::uninit();
    // SAFETY: both sets are writable; `sigfillset` fills `all` before it is used.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let mut tries = 0u32;
    while LOCKED.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        tries += 1;
        match tries {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => kernel::sleep_ms(1),
        }
    }
    // SAFETY: the lock is held.
    unsafe { *MASK.0.get() = before };
}

/// Releases it, in the thread that took it (or in its image in a forked child).
pub fn release() {
    // SAFETY: the lock is held, and `take` wrote the mask.
    let before = unsafe { (*MASK.0.get()).assume_init() };
    LOCKED.store(false, Ordering::Release);
    // SAFETY: `before` is a mask that pthread_sigmask returned.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
}
