//! Output of streams that libc opened before the library saw a file behind them: `dup2` of a managed file
//! onto descriptor 1 makes `printf` write to it, inside libc, and so does a program that is started with its
//! output redirected.
//!
//! Every way into such a stream is a symbol here. The first call tells the agent, as `fopen` does; while the
//! stream's descriptor is no managed file, a call costs a look at the table. A program that only writes to
//! the descriptor (`dd` and `cat` do) goes on using flash.

use libc::{FILE, c_int, size_t};

use crate::calls::stdio;
use crate::hooks::trampolines::trampolines;
use crate::kernel;

unsafe extern "C" {
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

/// Before libc writes to a stream; if it may not, errno says why.
///
/// # Safety
/// `stream` is open, or null.
unsafe fn may_write(stream: *mut FILE) -> bool {
    // SAFETY: the caller's contract.
    unsafe { stdio::may_use(stream, true) }
}

/// Before libc writes a message and ends the program, which no refusal may keep it from: the caller has
/// nothing to go on with.
fn ends() -> bool {
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

fn stream(address: usize) -> *mut FILE {
    address as *mut FILE
}

trampolines! {
    printf = |_| may_write(stdout);
    vprintf = |_| may_write(stdout);
    __printf_chk = |_| may_write(stdout);
    __vprintf_chk = |_| may_write(stdout);
    _IO_printf = |_| may_write(stdout);
    puts = |_| may_write(stdout);
    _IO_puts = |_| may_write(stdout);
    putchar = |_| may_write(stdout);
    putchar_unlocked = |_| may_write(stdout);
    _IO_fprintf = |[file, ..]| may_write(stream(file));
    _IO_vfprintf = |[file, ..]| may_write(stream(file));
    _IO_fputs = |[_, file, _]| may_write(stream(file));
    fprintf = |[file, ..]| may_write(stream(file));
    vfprintf = |[file, ..]| may_write(stream(file));
    __fprintf_chk = |[file, ..]| may_write(stream(file));
    __vfprintf_chk = |[file, ..]| may_write(stream(file));
    fputs = |[_, file, _]| may_write(stream(file));
    fputs_unlocked = |[_, file, _]| may_write(stream(file));
    fputc = |[_, file, _]| may_write(stream(file));
    fputc_unlocked = |[_, file, _]| may_write(stream(file));
    putc = |[_, file, _]| may_write(stream(file));
    putc_unlocked = |[_, file, _]| may_write(stream(file));
    _IO_putc = |[_, file, _]| may_write(stream(file));
    putw = |[_, file, _]| may_write(stream(file));
    __overflow = |[file, ..]| may_write(stream(file));
    wprintf = |_| may_write(stdout);
    vwprintf = |_| may_write(stdout);
    __wprintf_chk = |_| may_write(stdout);
    __vwprintf_chk = |_| may_write(stdout);
    putwchar = |_| may_write(stdout);
    putwchar_unlocked = |_| may_write(stdout);
    fwprintf = |[file, ..]| may_write(stream(file));
    vfwprintf = |[file, ..]| may_write(stream(file));
    __fwprintf_chk = |[file, ..]| may_write(stream(file));
    __vfwprintf_chk = |[file, ..]| may_write(stream(file));
    fputws = |[_, file, _]| may_write(stream(file));
    fputws_unlocked = |[_, file, _]| may_write(stream(file));
    fputwc = |[_, file, _]| may_write(stream(file));
    fputwc_unlocked = |[_, file, _]| may_write(stream(file));
    putwc = |[_, file, _]| may_write(stream(file));
    putwc_unlocked = |[_, file, _]| may_write(stream(file));
    __woverflow = |[file, ..]| may_write(stream(file));
    perror = |_| may_write(stderr);
    psignal = |_| may_write(stderr);
    psiginfo = |_| may_write(stderr);
    warn = |_| may_write(stderr);
    vwarn = |_| may_write(stderr);
    warnx = |_| may_write(stderr);
    vwarnx = |_| may_write(stderr);
    err = |_| ends();
    verr = |_| ends();
    errx = |_| ends();
    verrx = |_| ends();
    error = |[status, ..]| status as c_int != 0 && ends() || may_write(stderr);
    error_at_line = |[status, ..]| status as c_int != 0 && ends() || may_write(stderr);
}
