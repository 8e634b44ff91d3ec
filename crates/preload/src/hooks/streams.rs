//! The table of libc's functions that read from a stream or write to one and need nothing but a look at the stream
//! before: `calls::stdio` looks at it, and the trampoline jumps to libc's function.

use libc::{FILE, c_int};

use crate::calls::stdio::input::{may_read, stdin};
use crate::calls::stdio::output::{ends, may_write, stderr, stdout};
use crate::hooks::trampolines::trampolines;

fn stream(address: usize) -> *mut FILE {
    address as *mut FILE
}

// What reads.
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

// What writes.
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
