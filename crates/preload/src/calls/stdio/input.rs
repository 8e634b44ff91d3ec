//! Input of streams that libc opened before the library saw a file behind them: `dup2` of a managed file onto
//! descriptor 0, or an `open` that is given that number, makes `fgets` read from it, inside libc.
//!
//! As for output, every way into such a stream is a symbol, here or in the table of `symbols`, and the first
//! call tells the agent. A program that reads the descriptor itself (`dd` does) goes on using flash. `fseek`
//! and its kin are here because they fill the stream's buffer.

use libc::{FILE, size_t};

use crate::calls::stdio;
use crate::hooks::trampolines::trampolines;

unsafe extern "C" {
    static stdin: *mut FILE;
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

fn stream(address: usize) -> *mut FILE {
    address as *mut FILE
}

trampolines! {
    scanf = |_| may_read(stdin);
    vscanf = |_| may_read(stdin);
    __isoc99_scanf = |_| may_read(stdin);
    __isoc99_vscanf = |_| may_read(stdin);
    __isoc23_scanf = |_| may_read(stdin);
    __isoc23_vscanf = |_| may_read(stdin);
    wscanf = |_| may_read(stdin);
    vwscanf = |_| may_read(stdin);
    __isoc99_wscanf = |_| may_read(stdin);
    __isoc99_vwscanf = |_| may_read(stdin);
    __isoc23_wscanf = |_| may_read(stdin);
    __isoc23_vwscanf = |_| may_read(stdin);
    getchar = |_| may_read(stdin);
    getchar_unlocked = |_| may_read(stdin);
    getwchar = |_| may_read(stdin);
    getwchar_unlocked = |_| may_read(stdin);
    fscanf = |[file, ..]| may_read(stream(file));
    vfscanf = |[file, ..]| may_read(stream(file));
    __vfscanf = |[file, ..]| may_read(stream(file));
    _IO_vfscanf = |[file, ..]| may_read(stream(file));
    __isoc99_fscanf = |[file, ..]| may_read(stream(file));
    __isoc99_vfscanf = |[file, ..]| may_read(stream(file));
    __isoc23_fscanf = |[file, ..]| may_read(stream(file));
    __isoc23_vfscanf = |[file, ..]| may_read(stream(file));
    fwscanf = |[file, ..]| may_read(stream(file));
    vfwscanf = |[file, ..]| may_read(stream(file));
    __isoc99_fwscanf = |[file, ..]| may_read(stream(file));
    __isoc99_vfwscanf = |[file, ..]| may_read(stream(file));
    __isoc23_fwscanf = |[file, ..]| may_read(stream(file));
    __isoc23_vfwscanf = |[file, ..]| may_read(stream(file));
    fgetc = |[file, ..]| may_read(stream(file));
    fgetc_unlocked = |[file, ..]| may_read(stream(file));
    getc = |[file, ..]| may_read(stream(file));
    getc_unlocked = |[file, ..]| may_read(stream(file));
    _IO_getc = |[file, ..]| may_read(stream(file));
    getw = |[file, ..]| may_read(stream(file));
    fgetwc = |[file, ..]| may_read(stream(file));
    fgetwc_unlocked = |[file, ..]| may_read(stream(file));
    getwc = |[file, ..]| may_read(stream(file));
    getwc_unlocked = |[file, ..]| may_read(stream(file));
    __uflow = |[file, ..]| may_read(stream(file));
    __underflow = |[file, ..]| may_read(stream(file));
    __wuflow = |[file, ..]| may_read(stream(file));
    __wunderflow = |[file, ..]| may_read(stream(file));
    _IO_sgetn = |[file, ..]| may_read(stream(file));
    fseek = |[file, ..]| may_read(stream(file));
    fseeko = |[file, ..]| may_read(stream(file));
    fseeko64 = |[file, ..]| may_read(stream(file));
    __fseeko64 = |[file, ..]| may_read(stream(file));
    fsetpos = |[file, ..]| may_read(stream(file));
    fsetpos64 = |[file, ..]| may_read(stream(file));
    _IO_fsetpos = |[file, ..]| may_read(stream(file));
    _IO_fsetpos64 = |[file, ..]| may_read(stream(file));
    getline = |[_, _, file]| may_read(stream(file));
}
