//! Calls that change a file's size, remove bytes or move them within the file: truncate, ftruncate, fallocate.

use std::ffi::CStr;

use headstart_units::request::Range;
use libc::{c_char, c_int};

use crate::data_path;
use crate::files::descriptors::{self, Target};
use crate::files::records::{self, open_request};
use crate::gate::gate;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::{self, Answer, Session};

/// ZERO_RANGE with blocks that are written (Linux 6.17).
const FALLOC_FL_WRITE_ZEROES: c_int = 0x80;

/// Changes the size of a managed file: the agent agrees first, `kernel` does it, the agent hears whether it happened.
pub(crate) fn resize(file: u32, size: u64, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    session::with(|session| resize_with(session, file, size, kernel))
}

/// The same with a session at hand.
pub(crate) fn resize_with(
    session: &mut Session,
    file: u32,
    size: u64,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    data_path::truncate(session, file, size, kernel)
}

/// What a call of the program's own that returns 0 or -1 came to.
pub(crate) fn outcome(value: c_int) -> Result<usize, Errno> {
    if value == 0 { Ok(0) } else { Err(kernel::errno()) }
}

/// Runs `managed` on a managed descriptor, else the call as it stands.
fn on_descriptor(
    fd: c_int,
    pass: impl Fn() -> c_int,
    managed: impl Fn(&Target, &mut dyn FnMut() -> Result<usize, Errno>) -> Result<usize, Errno>,
) -> c_int {
    let saved = kernel::errno();
    let on_target = |target: &Target| {
        target.hold()?;
        managed(target, &mut || outcome(kernel::uncancelled(&pass)))
    };
    match descriptors::on_managed(fd, on_target) {
        Ok(Some(_)) => kernel::answer(Ok(0), saved) as c_int,
        Ok(None) => {
            kernel::set_errno(saved);
            pass()
        }
        Err(errno) => kernel::answer(Err(errno), saved) as c_int,
    }
}

/// `ftruncate`.
pub(crate) fn ftruncate(fd: c_int, size: i64, pass: impl Fn() -> c_int) -> c_int {
    on_descriptor(fd, pass, |target, kernel| {
        if size < 0 || !target.writable() {
            return kernel();
        }
        resize(target.file, size as u64, kernel)
    })
}

/// `truncate`.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn truncate(path: *const c_char, size: i64, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let mut pass = Some(pass);
    let mut once = || pass.take().map_or(Err(libc::EIO), |pass| outcome(pass()));
    // SAFETY: the caller's contract.
    let result = match unsafe { location::address(libc::AT_FDCWD, path, 0) } {
        Ok(fd) => {
            let result = truncate_address(fd, size, once);
            let _ = kernel::close(fd);
            result
        }
        // SAFETY: the caller's contract, and the kernel could read it: it looks for a descriptor later.
        Err(libc::EMFILE | libc::ENFILE) => truncate_name(unsafe { CStr::from_ptr(path) }, size, once),
        Err(_) => {
            kernel::set_errno(saved);
            once()
        }
    };
    kernel::answer(result, saved) as c_int
}

/// Truncates what `fd`, an address only, names.
fn truncate_address(fd: c_int, size: i64, kernel: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut buffer = PathBuffer::empty();
    let facts = kernel::facts(fd)?;
    let path = location::path_of_known(fd, Some(&facts), &mut buffer).unwrap_or(b"");
    truncate_found(&facts, path, size, kernel)
}

/// The same by name, without a descriptor.
fn truncate_name(name: &CStr, size: i64, kernel: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut buffer = PathBuffer::empty();
    // SAFETY: a string.
    let facts = unsafe { kernel::facts_at(libc::AT_FDCWD, name.as_ptr(), 0) }?;
    truncate_found(&facts, location::resolved(libc::AT_FDCWD, name, &mut buffer).unwrap_or(b""), size, kernel)
}

/// Truncates the file at `path`, which counts as open meanwhile.
fn truncate_found(
    facts: &Facts,
    path: &[u8],
    size: i64,
    mut kernel: impl FnMut() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if size < 0 || !facts.regular || !location::is_managed_file(facts, path) {
        return kernel();
    }
    let index = records::acquire(&gate(), facts, true, path)?;
    let result = resize(records::record(index).file(), size as u64, &mut kernel);
    records::release(&gate(), index);
    result
}

/// Cuts a managed file to nothing before something the library does not see opens it.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn truncate_managed(path: *const c_char) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    let fd = unsafe { location::address(libc::AT_FDCWD, path, 0) }?;
    let result = truncate_address(fd, 0, || kernel::truncate(location::Link::of(fd).path(), 0));
    let _ = kernel::close(fd);
    result.map(drop)
}

/// `fallocate`, and what ioctl makes of it.
pub(crate) fn fallocate(fd: c_int, mode: c_int, offset: i64, length: i64, pass: impl Fn() -> c_int) -> c_int {
    on_descriptor(fd, pass, |target, kernel| {
        if offset < 0 || length <= 0 || !target.writable() {
            return kernel();
        }
        let range = Range::new(offset as u64, length as u64);
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 | libc::FALLOC_FL_UNSHARE_RANGE => data_path::extend(target, kernel),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE | FALLOC_FL_WRITE_ZEROES => {
                data_path::punch(target, range, kernel)
            }
            libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE => {
                data_path::rearrange(target, range.offset, kernel)
            }
            // Whatever a kernel to come makes of it.
            _ => data_path::rearrange(target, 0, kernel),
        }
    })
}

/// `posix_fallocate`, which returns its error. On file systems that cannot allocate, libc reads each block and
/// writes a zero over a zero: no write-back may come in between.
pub(crate) fn posix_fallocate(fd: c_int, offset: i64, pass: impl Fn() -> c_int) -> c_int {
    let saved = kernel::errno();
    let kernel = || match kernel::uncancelled(&pass) {
        0 => Ok(0),
        errno => Err(errno),
    };
    let from = offset.max(0) as u64;
    let result = descriptors::on_managed(fd, |target| data_path::extend_over(target, from, kernel));
    kernel::set_errno(saved);
    match result {
        Ok(Some(_)) => 0,
        Ok(None) => pass(),
        Err(errno) => errno,
    }
}

/// A `vfork` child cuts the managed file at `path` to nothing, as `kernel` does it.
pub(crate) fn cut_apart(
    facts: &Facts,
    path: &[u8],
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<(), Errno> {
    session::apart(|session| match session.call(&open_request(facts, true, path))? {
        Answer::Opened(file, _) => resize_with(session, file, 0, kernel).map(drop),
        other => Err(session.unexpected(other)),
    })
}
