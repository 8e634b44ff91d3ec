//! The calls that move bytes, brought to one form: a managed descriptor, a vector of buffers, an offset or the
//! descriptor's own.

use std::ffi::c_void;

use libc::{c_int, iovec};

use crate::calls::transfers;
use crate::data_path;
use crate::files::descriptors::{self, Target};
use crate::files::write_back;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};

unsafe extern "C-unwind" {
    /// Ends the thread if it was cancelled.
    fn pthread_testcancel();
}

/// Flags of preadv2 and pwritev2 that say how soon, not what: without meaning where the agent may be asked.
const HINTS: c_int = libc::RWF_HIPRI | libc::RWF_NOWAIT | RWF_DONTCACHE | RWF_NOSIGNAL;
/// To leave nothing in the page cache.
const RWF_DONTCACHE: c_int = 0x80;
/// No SIGPIPE, which files never cause.
const RWF_NOSIGNAL: c_int = 0x100;

/// To write where the call says although the descriptor appends.
const RWF_NOAPPEND: c_int = 0x20;
/// What else they take; without meaning for reads.
const WRITE_FLAGS: c_int = libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND | RWF_NOAPPEND;

/// Runs `work` on a managed descriptor, else the call as it stands.
#[inline]
fn on_managed(fd: c_int, pass: impl FnOnce() -> isize, work: impl Fn(&Target) -> Result<usize, Errno>) -> isize {
    if descriptors::known_unmanaged(fd) {
        return pass();
    }
    if descriptors::known_managed(fd) {
        // SAFETY: nothing is held; the system calls below are no cancellation points, but the program's call is one.
        unsafe { pthread_testcancel() };
    }
    let saved = kernel::errno();
    match descriptors::on_managed(fd, work) {
        Ok(None) => {
            kernel::set_errno(saved);
            pass()
        }
        Ok(Some(count)) => kernel::answer(Ok(count), saved),
        Err(errno) => kernel::answer(Err(errno), saved),
    }
}

#[inline]
/// One piece of the program's memory.
pub(crate) fn element(buffer: *const c_void, length: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: length }
}

/// # Safety
/// As read(2).
#[inline]
pub(crate) unsafe fn read(fd: c_int, buffer: *mut c_void, length: usize, pass: impl Fn() -> isize) -> isize {
    on_managed(fd, &pass, |target| {
        let element = element(buffer, length);
        // SAFETY: the caller's contract.
        data_path::read_here(target, &unsafe { Buffers::one(&element) }?)
    })
}

/// `__read_chk`: libc's own complains when the buffer is too small.
///
/// # Safety
/// As read(2).
pub(crate) unsafe fn read_checked(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    room: usize,
    pass: impl Fn() -> isize,
) -> isize {
    if length > room {
        return pass();
    }
    // SAFETY: the caller's contract.
    unsafe { read(fd, buffer, length, pass) }
}

/// # Safety
/// As pread(2).
#[inline]
pub(crate) unsafe fn pread(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    offset: i64,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        let element = element(buffer, length);
        // SAFETY: the caller's contract.
        data_path::read_at(target, &unsafe { Buffers::one(&element) }?, at(offset)?)
    })
}

/// `__pread_chk`.
///
/// # Safety
/// As pread(2).
pub(crate) unsafe fn pread_checked(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    offset: i64,
    room: usize,
    pass: impl Fn() -> isize,
) -> isize {
    if length > room {
        return pass();
    }
    // SAFETY: the caller's contract.
    unsafe { pread(fd, buffer, length, offset, pass) }
}

/// # Safety
/// As preadv(2).
pub(crate) unsafe fn preadv(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: i64,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        // SAFETY: the caller's contract.
        data_path::read_at(target, &unsafe { Buffers::vector(vector, count) }?, at(offset)?)
    })
}

/// `readv`, and `preadv2`, whose offset -1 means the descriptor's own.
///
/// # Safety
/// As preadv2(2).
pub(crate) unsafe fn readv(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        if flags & !(HINTS | WRITE_FLAGS) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: the caller's contract.
        let buffers = unsafe { Buffers::vector(vector, count) }?;
        match offset {
            -1 => data_path::read_here(target, &buffers),
            _ => data_path::read_at(target, &buffers, at(offset)?),
        }
    })
}

/// # Safety
/// As write(2).
#[inline]
pub(crate) unsafe fn write(fd: c_int, buffer: *const c_void, length: usize, pass: impl Fn() -> isize) -> isize {
    on_managed(fd, &pass, |target| {
        let element = element(buffer, length);
        // SAFETY: the caller's contract.
        write_buffers(target, unsafe { Buffers::one(&element) }?, None, 0)
    })
}

/// # Safety
/// As pwrite(2).
#[inline]
pub(crate) unsafe fn pwrite(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    offset: i64,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        let element = element(buffer, length);
        // SAFETY: the caller's contract.
        write_buffers(target, unsafe { Buffers::one(&element) }?, Some(at(offset)?), 0)
    })
}

/// # Safety
/// As pwritev(2).
pub(crate) unsafe fn pwritev(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: i64,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        // SAFETY: the caller's contract.
        write_buffers(target, unsafe { Buffers::vector(vector, count) }?, Some(at(offset)?), 0)
    })
}

/// `writev`, and `pwritev2`, whose offset -1 means the descriptor's own.
///
/// # Safety
/// As pwritev2(2).
pub(crate) unsafe fn writev(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
    pass: impl Fn() -> isize,
) -> isize {
    on_managed(fd, &pass, |target| {
        if flags & !(HINTS | WRITE_FLAGS) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        if flags & libc::RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's contract.
        let buffers = unsafe { Buffers::vector(vector, count) }?;
        let offset = if offset == -1 { None } else { Some(at(offset)?) };
        write_buffers(target, buffers, offset, flags)
    })
}

/// An offset the program passed.
pub(crate) fn at(offset: i64) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| libc::EINVAL)
}

/// A write at `offset`, or where the descriptor stands; `flags` as of pwritev2.
#[inline]
pub(crate) fn write_buffers(
    target: &Target,
    buffers: Buffers,
    offset: Option<u64>,
    flags: c_int,
) -> Result<usize, Errno> {
    if !target.writable() {
        return Err(libc::EBADF);
    }
    target.know_flags()?;
    let durable = flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
    let buffers = if target.appends() { buffers.with_flags(flags & RWF_NOAPPEND) } else { buffers };
    if target.appends() && flags & RWF_NOAPPEND == 0 || flags & libc::RWF_APPEND != 0 {
        let place = offset.map_or(-1, |offset| offset as i64);
        let _offset = if offset.is_none() { target.hold_offset() } else { None };
        return data_path::append(target, durable, || buffers.append(target.fd, place, flags & libc::RWF_APPEND));
    }
    match offset {
        _ if buffers.length() == 0 => Ok(0),
        Some(offset) => data_path::write_at(target, &buffers, offset, durable),
        None => data_path::write_here(target, &buffers, durable),
    }
}

/// `lseek`: the kernel knows sizes and offsets, but not what of the file lies on flash.
#[inline]
pub(crate) fn lseek(fd: c_int, whence: c_int, pass: impl Fn() -> i64) -> i64 {
    let _offset = descriptors::hold_offset(fd);
    if whence != libc::SEEK_DATA && whence != libc::SEEK_HOLE {
        return pass();
    }
    let saved = kernel::errno();
    transfers::brought_back(fd, pass).unwrap_or_else(|errno| kernel::answer(Err(errno), saved) as i64)
}

/// `fsync`, `fdatasync`.
pub(crate) fn sync(fd: c_int, pass: impl Fn() -> c_int) -> c_int {
    let synced = on_managed(
        fd,
        || pass() as isize,
        |target| {
            target.hold()?;
            data_path::sync(target, || match kernel::uncancelled(&pass) {
                0 => Ok(0),
                _ => Err(kernel::errno()),
            })
        },
    );
    synced as c_int
}

/// `sync`, which cannot fail.
pub(crate) fn sync_everything(pass: impl FnOnce()) {
    sync_all(|| {
        pass();
        0
    });
}

/// `syncfs`: of what flash holds, a barrier makes everything durable; asked for by each file that this process
/// has open.
pub(crate) fn sync_all(pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let asked = write_back::with_set_bits();
    kernel::set_errno(saved);
    let result = pass();
    if result != 0 || !asked {
        return result;
    }
    kernel::answer(write_back::sync_all().map(|()| 0), saved) as c_int
}
