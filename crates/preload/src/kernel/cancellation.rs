//! Whether the calling thread may be cancelled (pthread_cancel(3)).

use libc::c_int;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// From here on this thread is not cancelled; returns what it was before, for [`restore_cancellation`].
pub(crate) fn forbid_cancellation() -> c_int {
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: `before` is writable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
    before
}

/// Whether this thread can be cancelled is as it was before [`forbid_cancellation`].
pub(crate) fn restore_cancellation(before: c_int) {
    // SAFETY: no old state is asked for.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
}

/// Runs a call of libc's that is a cancellation point while something is held or published: the thread ends at the next
/// one.
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let before = forbid_cancellation();
    let result = work();
    restore_cancellation(before);
    result
}
