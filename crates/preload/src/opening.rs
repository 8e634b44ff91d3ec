//! `open` and its kin: the file is opened first, and only then asked where it lies; `O_TRUNC` waits until the agent
//! agrees.

use libc::{c_char, c_int, mode_t};

use crate::kernel::{self, Errno, Facts};
use crate::location::{self, Probe};
use crate::{descriptors, files, resizing};

/// Opens `path`; `pass` is the program's call as it stands.
///
/// # Safety
/// The arguments are those of openat(2).
pub unsafe fn open(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let created_here = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    let address = flags & libc::O_PATH != 0;
    // SAFETY: the caller's contract.
    let held_back = flags & libc::O_TRUNC != 0
        && !created_here
        && !address
        && unsafe { location::probe(dir, path, flags) } != Probe::Other;
    let fd = if held_back {
        // SAFETY: the caller's contract.
        match unsafe { kernel::openat_raw(dir, path, flags & !libc::O_TRUNC, mode) } {
            Ok(fd) => fd,
            Err(errno) => return kernel::answer(Err(errno), saved) as c_int,
        }
    } else {
        kernel::set_errno(saved);
        pass()
    };
    if fd < 0 {
        return fd;
    }
    descriptors::forget(fd);
    let opened = if address { Ok(()) } else { opened(fd, flags, held_back) };
    if let Err(errno) = opened {
        close(fd);
        return kernel::answer(Err(errno), saved) as c_int;
    }
    kernel::answer(Ok(fd as usize), saved) as c_int
}

fn close(fd: c_int) {
    let closing = descriptors::Closing::begin(fd);
    let _ = kernel::close(fd);
    drop(closing);
}

fn opened(fd: c_int, flags: c_int, truncate: bool) -> Result<(), Errno> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        // Without a name the agent cannot open it; nobody else can either.
        descriptors::leave_alone(fd);
        return Ok(());
    }
    let facts = kernel::facts(fd)?;
    let managed = descriptors::adopt(fd, &facts)?;
    if !truncate || !facts.regular {
        return Ok(());
    }
    if managed {
        let target = descriptors::managed(fd)?.ok_or(libc::EBADF)?;
        return resizing::resize(target.file, 0, || truncate_opened(fd, flags)).map(drop);
    }
    // Nothing was there when it was looked for, but something was opened.
    truncate_unmanaged(fd, flags, &facts)
}

fn truncate_unmanaged(fd: c_int, flags: c_int, facts: &Facts) -> Result<(), Errno> {
    if facts.size > 0 { truncate_opened(fd, flags).map(drop) } else { Ok(()) }
}

/// Cuts an open file to nothing, by its path where the descriptor cannot write.
fn truncate_opened(fd: c_int, flags: c_int) -> Result<usize, Errno> {
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        return kernel::ftruncate(fd, 0);
    }
    kernel::truncate(location::Link::of(fd).path(), 0)
}

/// A descriptor is about to be used by means the library does not see; `writes`: not for reading alone.
pub fn bypass(fd: c_int, writes: bool) -> Result<(), Errno> {
    match descriptors::managed(fd)? {
        Some(target) => files::bypass(&target, writes && target.writable()),
        None => Ok(()),
    }
}

/// `mkstemp` and its kin: libc opened the file itself. It is made known at once, because its name may be removed next.
pub fn made(pass: impl FnOnce() -> c_int) -> c_int {
    let fd = pass();
    if fd < 0 {
        return fd;
    }
    let saved = kernel::errno();
    descriptors::forget(fd);
    match descriptors::managed(fd) {
        Ok(_) => kernel::answer(Ok(fd as usize), saved) as c_int,
        Err(errno) => {
            close(fd);
            kernel::answer(Err(errno), saved) as c_int
        }
    }
}
