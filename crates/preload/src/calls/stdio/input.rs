//! Input of streams that libc opened before the library saw a file behind them. After `dup2` of a managed file
//! onto descriptor 0, or an `open` that is given that number, `fgets` reads from the file inside libc.
//!
//! As for output, every way into such a stream is a symbol, here or in the table of `symbols`, and the first
//! call tells the agent. A program that reads the descriptor itself (`dd` does) goes on using flash. `fseek`
//! and its kin are here because they fill the stream's buffer.

use libc::{FILE, size_t};

use crate::calls::stdio;

unsafe extern "C" {
    pub(crate) static stdin: *mut FILE;
}

/// Before libc reads from a stream; if it may not, errno says why.
///
/// # Safety
/// `stream` is open, or null.
pub(crate) unsafe fn may_read(stream: *mut FILE) -> bool {
    // SAFETY: the caller's contract.
    unsafe { stdio::may_use(stream, false) }
}

/// `fread` and its kin.
///
/// # Safety
/// `stream` is open.
pub(crate) unsafe fn read(stream: *mut FILE, pass: impl FnOnce() -> size_t) -> size_t {
    // SAFETY: the caller's contract.
    if unsafe { may_read(stream) } { pass() } else { 0 }
}

/// `fgets` and its kin.
///
/// # Safety
/// `stream` is open.
pub(crate) unsafe fn line<C>(stream: *mut FILE, pass: impl FnOnce() -> *mut C) -> *mut C {
    // SAFETY: the caller's contract.
    if unsafe { may_read(stream) } { pass() } else { std::ptr::null_mut() }
}

/// `gets`.
pub(crate) fn standard_line<C>(pass: impl FnOnce() -> *mut C) -> *mut C {
    // SAFETY: libc's own, open or null.
    unsafe { line(stdin, pass) }
}

/// `rewind`, which cannot fail.
///
/// # Safety
/// `stream` is open.
pub(crate) unsafe fn rewind(stream: *mut FILE, pass: impl FnOnce()) {
    // SAFETY: the caller's contract.
    let _ = unsafe { may_read(stream) };
    pass();
}
