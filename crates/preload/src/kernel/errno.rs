//! The error number of a call, and the calling thread's errno.

use libc::c_int;

/// An error number; it reaches the program through [`answer`] alone.
pub(crate) type Errno = c_int;

/// The calling thread's errno.
pub(crate) fn errno() -> Errno {
    // SAFETY: glibc returns the address of the calling thread's errno, valid for the thread's life.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: Errno) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// What the program's call returns: the count, with errno as it was before (`saved`), or -1 and errno.
pub(crate) fn answer(result: Result<usize, Errno>, saved: Errno) -> isize {
    let (value, errno) = match result {
        Ok(count) => (count as isize, saved),
        Err(errno) => (-1, errno),
    };
    set_errno(errno);
    value
}
