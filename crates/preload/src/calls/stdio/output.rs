//! Output of streams that libc opened before the library saw a file behind them: `dup2` of a managed file
//! onto descriptor 1 makes `printf` write to it, inside libc, and so does a program that is started with its
//! output redirected.
//!
//! Every way into such a stream is a symbol (`hooks::streams`). The first call tells the agent, as `fopen` does;
//! while the stream's descriptor is no managed file, a call costs a look at the table. A program that only writes to
//! the descriptor (`dd` and `cat` do) goes on using flash.

use libc::{FILE, size_t};

use crate::calls::stdio;
use crate::kernel;

unsafe extern "C" {
    pub(crate) static stdout: *mut FILE;
    pub(crate) static stderr: *mut FILE;
}

/// Before libc writes to a stream; if it may not, errno says why.
///
/// # Safety
/// `stream` is open, or null.
pub(crate) unsafe fn may_write(stream: *mut FILE) -> bool {
    // SAFETY: the caller's contract.
    unsafe { stdio::may_use(stream, true) }
}

/// Before libc writes a message and ends the program, which no refusal may keep it from: the caller has
/// nothing to go on with.
pub(crate) fn ends() -> bool {
    let saved = kernel::errno();
    // SAFETY: libc's own, open or null.
    let _ = unsafe { may_write(stderr) };
    // The message may tell it.
    kernel::set_errno(saved);
    true
}

/// `fwrite`.
///
/// # Safety
/// `stream` is open.
pub(crate) unsafe fn write(stream: *mut FILE, pass: impl FnOnce() -> size_t) -> size_t {
    // SAFETY: the caller's contract.
    if unsafe { may_write(stream) } { pass() } else { 0 }
}
