//! What a thread keeps of its session.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::connection::Session;

pub(crate) struct Thread {
    /// Null: it has none.
    pub(crate) session: Cell<*mut Session>,
    /// Whether it is in use.
    pub(crate) busy: AtomicBool,
}

thread_local! {
    /// Without a destructor, so that it serves to the very end of a thread and of the process.
    pub(crate) static THREAD: Thread =
        const { Thread { session: Cell::new(ptr::null_mut()), busy: AtomicBool::new(false) } };
}

/// A thread's session in use, until it is dropped.
pub(crate) struct Busy<'t>(&'t AtomicBool);

impl Busy<'_> {
    #[inline]
    pub(crate) fn begin(busy: &AtomicBool) -> Busy<'_> {
        busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Busy(busy)
    }
}

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.store(false, Ordering::Relaxed);
    }
}
