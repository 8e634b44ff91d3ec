//! `open` and its kin: the file is opened first, and only then asked where it lies; `O_TRUNC` waits until the agent
//! agrees.

mod direct;

use libc::{c_char, c_int, mode_t};

use crate::calls::resizing;
use crate::files::bypass;
use crate::files::descriptors;
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer, Probe};
use crate::{process, session, settings};

/// Opens `path`; `pass` is the program's call as it stands.
///
/// # Safety
/// The arguments are those of openat(2).
pub(crate) unsafe fn open(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let held_back = unsafe { holds_back(dir, path, flags) };
    let fd = if held_back {
        // SAFETY: the caller's contract.
        match unsafe { kernel::openat_raw(dir, path, flags & !libc::O_TRUNC, mode) } {
            Ok(fd) => fd,
            Err(errno) => return kernel::answer(Err(errno), saved) as c_int,
        }
    } else {
        // SAFETY: the caller's contract.
        match unsafe { direct::open(dir, path, flags) } {
            Some(Ok(opened)) if opened.is_outside => {
                descriptors::forget(opened.fd);
                descriptors::leave_alone(opened.fd);
                return kernel::answer(Ok(opened.fd as usize), saved) as c_int;
            }
            Some(Ok(opened)) => opened.fd,
            Some(Err(errno)) => return kernel::answer(Err(errno), saved) as c_int,
            None => {
                kernel::set_errno(saved);
                pass()
            }
        }
    };
    if fd < 0 {
        return fd;
    }
    settled(fd, flags, held_back, saved)
}

/// The process may be about to have its system calls filtered: from then on it makes no call that libc would not make.
pub(crate) fn told_of_filter() {
    direct::leave_to_libc();
}

/// Whether O_TRUNC has to wait until the agent agrees.
///
/// # Safety
/// The arguments are those of openat(2).
unsafe fn holds_back(dir: c_int, path: *const c_char, flags: c_int) -> bool {
    let created_here = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    flags & libc::O_TRUNC != 0
        && settings::served()
        && !created_here
        && flags & libc::O_PATH == 0
        // SAFETY: the caller's contract.
        && unsafe { location::probe(dir, path, flags) } != Probe::Other
}

/// Makes a descriptor that was just opened known, and cuts its file if that was held back; the call's result.
fn settled(fd: c_int, flags: c_int, truncate: bool, saved: Errno) -> c_int {
    descriptors::forget(fd);
    let opened = if flags & libc::O_PATH != 0 { Ok(()) } else { opened(fd, flags, truncate) };
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
    if !process::is_own() {
        let mut buffer = PathBuffer::empty();
        let path = location::path_of_known(fd, Some(&facts), &mut buffer).unwrap_or(b"");
        if location::is_managed_file(&facts, path) {
            return match resizing::cut_apart(&facts, path, || truncate_opened(fd, flags)) {
                // Nothing of it is on flash: no agent, or it never had a name that the agent knows.
                Err(libc::ENOTCONN) if session::shared().is_none() => truncate_unmanaged(fd, flags, &facts),
                Err(libc::ENOENT) if facts.links == 0 => truncate_unmanaged(fd, flags, &facts),
                cut => cut,
            };
        }
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
pub(crate) fn bypass(fd: c_int, writes: bool) -> Result<(), Errno> {
    match descriptors::managed(fd)? {
        Some(target) => bypass::bypass(&target, writes && target.writable()),
        None => Ok(()),
    }
}

/// `open_by_handle_at`, which `open` makes: no name leads there, so that O_TRUNC is always held back.
pub(crate) fn by_handle(flags: c_int, open: impl FnOnce(c_int) -> c_int) -> c_int {
    let saved = kernel::errno();
    let truncate = flags & libc::O_TRUNC != 0 && settings::served();
    let flags = if truncate { flags & !libc::O_TRUNC } else { flags };
    let fd = open(flags);
    if fd < 0 {
        return fd;
    }
    settled(fd, flags, truncate, saved)
}

/// `openat2`, which only `syscall` makes.
///
/// # Safety
/// The arguments are those of openat2(2).
pub(crate) unsafe fn open2(dir: c_int, path: *const c_char, how: *const How, length: usize) -> Result<c_int, Errno> {
    // SAFETY: the kernel checks every address. The program's structure is copied, as its flags may have to change.
    unsafe {
        let known = length >= size_of::<How>() && (how as usize) >= 65536;
        let mut copy = if known { std::ptr::read_unaligned(how) } else { How { flags: 0, mode: 0, resolve: 0 } };
        let flags = copy.flags as c_int;
        let held_back = known && length == size_of::<How>() && holds_back(dir, path, flags);
        copy.flags &= !(libc::O_TRUNC as u64);
        let how = if held_back { &raw const copy } else { how };
        let fd = syscall!(libc::SYS_openat2, dir, path, how, length)? as c_int;
        match settled(fd, flags, held_back, kernel::errno()) {
            -1 => Err(kernel::errno()),
            fd => Ok(fd),
        }
    }
}

/// `struct open_how`.
#[repr(C)]
pub(crate) struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `mkstemp` and its kin: libc opened the file itself. It is made known at once, because its name may be removed next.
pub(crate) fn made(pass: impl FnOnce() -> c_int) -> c_int {
    let fd = pass();
    if fd < 0 {
        return fd;
    }
    let saved = kernel::errno();
    descriptors::forget(fd);
    match kernel::facts(fd).map_or(Ok(false), |facts| descriptors::adopt(fd, &facts)) {
        Ok(_) => kernel::answer(Ok(fd as usize), saved) as c_int,
        Err(errno) => {
            close(fd);
            kernel::answer(Err(errno), saved) as c_int
        }
    }
}
