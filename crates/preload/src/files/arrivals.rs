//! Descriptors that arrive by other ways than `open` and `dup`: whatever the table held for such a number is out of
//! date, and what it is now is found out at its first data call.

use std::ptr;

use libc::{c_int, msghdr};

use crate::files::descriptors;
use crate::kernel;

/// A call that returns a new descriptor.
pub(crate) fn fresh(pass: impl FnOnce() -> c_int) -> c_int {
    let fd = pass();
    if fd >= 0 {
        descriptors::forget(fd);
    }
    fd
}

/// A call that stores two new descriptors and returns zero.
///
/// # Safety
/// `pair` has room for two numbers, if the call succeeds.
pub(crate) unsafe fn pair(pair: *const c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        unsafe { [*pair, *pair.add(1)] }.into_iter().for_each(descriptors::forget);
    }
    result
}

/// `openpty`, which stores them one by one.
///
/// # Safety
/// Both have room for a number, if the call succeeds.
pub(crate) unsafe fn two(one: *const c_int, other: *const c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        unsafe { [*one, *other] }.into_iter().for_each(descriptors::forget);
    }
    result
}

/// `forkpty`.
///
/// # Safety
/// `fd` has room for a number.
pub(crate) unsafe fn forked(fd: *const c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let result = standard_replaced(|result| result == 0, pass);
    if result > 0 {
        // SAFETY: the caller's contract.
        descriptors::forget(unsafe { *fd });
    }
    result
}

/// `daemon`, `login_tty`, and `forkpty` in its child: descriptors 0 to 2 are replaced inside libc.
pub(crate) fn standard_replaced(succeeded: impl Fn(c_int) -> bool, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if succeeded(result) {
        (libc::STDIN_FILENO..=libc::STDERR_FILENO).for_each(descriptors::forget);
    }
    result
}

/// `recvmsg`: descriptors may come with the message.
///
/// # Safety
/// `message` is what the call just filled, if it succeeded.
pub(crate) unsafe fn received(message: *const msghdr, pass: impl FnOnce() -> isize) -> isize {
    let result = pass();
    if result >= 0 {
        // SAFETY: the caller's contract.
        unsafe { passed(message) };
    }
    result
}

/// `recvmmsg`.
///
/// # Safety
/// `messages` are what the call just filled, as many as it returned.
pub(crate) unsafe fn received_many(messages: *const libc::mmsghdr, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    for k in 0..result.max(0) as usize {
        // SAFETY: the caller's contract.
        unsafe { passed(&raw const (*messages.add(k)).msg_hdr) };
    }
    result
}

/// Forgets the descriptors a message brought.
///
/// # Safety
/// `message` was filled by the kernel.
unsafe fn passed(message: *const msghdr) {
    let saved = kernel::errno();
    // SAFETY: the macros walk what the kernel wrote, within the bounds it gave.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while !part.is_null() {
            if ((*part).cmsg_level, (*part).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(part);
                let bytes = (*part).cmsg_len - (data as usize - part as usize);
                for at in (0..bytes / size_of::<c_int>()).map(|k| k * size_of::<c_int>()) {
                    descriptors::forget(ptr::read_unaligned(data.add(at).cast()));
                }
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
    kernel::set_errno(saved);
}
