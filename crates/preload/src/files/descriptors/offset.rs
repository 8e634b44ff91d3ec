//! Calls of one process that use an open description's offset run one after the other, as in the kernel: a read
//! that got fewer bytes than it reserved gives the rest back, and nobody may have moved the offset meanwhile.
//!
//! Other processes that share the description are not held up. A signal handler that interrupted a call waits
//! for nobody, as whoever it waits for may wait for that call.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::kernel;
use crate::session;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others wait for it.
const WANTED: u32 = 2;

thread_local! {
    /// Whether this thread has an offset.
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// Who uses the offset of one open description.
pub(crate) struct Offset(AtomicU32);

/// An offset, until it is dropped.
pub(crate) struct HeldOffset(&'static Offset);

impl Offset {
    pub(crate) const fn free() -> Offset {
        Offset(AtomicU32::new(FREE))
    }

    /// Waits for it; nothing where the thread must not wait.
    #[inline]
    pub(crate) fn hold(&'static self) -> Option<HeldOffset> {
        if HAS_ONE.get() || session::is_interrupted() {
            return None;
        }
        HAS_ONE.set(true);
        // A handler must not find the lock taken by a thread that seems to have none.
        compiler_fence(Ordering::SeqCst);
        if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        Some(HeldOffset(self))
    }

    #[cold]
    fn wait(&self) {
        while self.0.swap(WANTED, Ordering::Acquire) != FREE {
            let _ = kernel::wait(&self.0, WANTED, None);
        }
    }

    /// Whoever had it is not there any more: the parent's other threads in a forked child, or a call that a
    /// handler left by a jump.
    pub(crate) fn abandon(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

impl Drop for HeldOffset {
    #[inline]
    fn drop(&mut self) {
        if self.0.0.swap(FREE, Ordering::Release) == WANTED {
            kernel::wake(&self.0.0, 1);
        }
        compiler_fence(Ordering::SeqCst);
        HAS_ONE.set(false);
    }
}
