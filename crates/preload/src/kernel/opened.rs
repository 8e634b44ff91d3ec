//! Opening, closing, and what is asked of a descriptor.

use std::ffi::CStr;

use libc::{c_char, c_int, c_long, mode_t};

use super::errno::Errno;
use super::raw::syscall;

/// open(2) relative to `dir`.
pub(crate) fn openat(dir: c_int, path: &CStr, flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    // SAFETY: `path` ends with NUL.
    unsafe { openat_raw(dir, path.as_ptr(), flags, mode) }
}

/// open(2) of a path the program passed.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn openat_raw(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    // SAFETY: the kernel checks the address.
    unsafe { syscall!(libc::SYS_openat, dir, path, flags, mode) }.map(|fd| fd as c_int)
}

/// close(2).
pub(crate) fn close(fd: c_int) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_close, fd) }
}

/// close_range(2).
pub(crate) fn close_range(first: u32, last: u32, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_close_range, first, last, flags) }
}

/// fcntl(2) with an integer argument.
pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_long) -> Result<c_int, Errno> {
    // SAFETY: the commands used here take no pointer.
    unsafe { syscall!(libc::SYS_fcntl, fd, command, argument) }.map(|value| value as c_int)
}

/// lseek(2).
pub(crate) fn lseek(fd: c_int, offset: i64, whence: c_int) -> Result<u64, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_lseek, fd, offset, whence) }.map(|position| position as u64)
}
