//! Copies into a managed file that a program asks the kernel for: `copy_file_range`, `sendfile`, `splice`.
//!
//! If the source is a file, the library reads and writes piece by piece, as a program would: the policies decide
//! for each piece. If it is a pipe, the kernel splices into the slow file under a direct write; were the library
//! to read the pipe, and its write then failed, the bytes would be lost.

use libc::{c_int, c_uint, off64_t};

use crate::calls::{data, transfers};
use crate::data_path;
use crate::files::descriptors::{self, Target};
use crate::kernel::buffers::LENGTH_MAX;
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::settings;
use headstart_units::request::Range;

mod libcs {
    use std::ffi::c_void;

    use libc::{c_int, off64_t, size_t, ssize_t};

    use crate::hooks::next::real;

    real! { pread(fd: c_int, buffer: *mut c_void, length: size_t, offset: off64_t) -> ssize_t }
    real! { pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t }
}

/// Bytes that are read and written at once, as by `cp` (assumed: what programs that copy by themselves ask for).
const PIECE_BYTES: usize = 256 << 10;

/// Where a copy reads or writes: at the program's offset, which the copy moves on, or at the descriptor's.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    fd: c_int,
    offset: *mut off64_t,
}

impl Place {
    /// Of a descriptor and the program's offset, or null.
    pub(crate) fn of(fd: c_int, offset: *mut off64_t) -> Place {
        Place { fd, offset }
    }

    /// # Safety
    /// The offset is null, or one that may be read; or it is an address where no program has memory.
    unsafe fn begin(&self) -> Result<u64, Errno> {
        if self.offset.is_null() {
            return kernel::lseek(self.fd, 0, libc::SEEK_CUR);
        }
        if self.offset.addr() < 65536 || self.offset.addr() > isize::MAX as usize {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's contract.
        u64::try_from(unsafe { self.offset.read_unaligned() }).map_err(|_| libc::EINVAL)
    }

    /// # Safety
    /// As `begin`, which was called before; the offset may be written.
    unsafe fn end(&self, at: u64) {
        if self.offset.is_null() {
            let _ = kernel::lseek(self.fd, at as i64, libc::SEEK_SET);
        } else {
            // SAFETY: the caller's contract.
            unsafe { self.offset.write_unaligned(at as i64) };
        }
    }
}

/// Whether the library carries a copy to `to` out by itself: where that is a managed file, and there is an agent.
fn is_ours(to: c_int) -> Result<bool, Errno> {
    if !settings::served() {
        return Ok(false);
    }
    descriptors::managed(to).map(|managed| managed.is_some())
}

/// `copy_file_range`.
///
/// # Safety
/// The offsets are null, or may be read and written.
pub(crate) unsafe fn copy_file_range(
    from: Place,
    to: Place,
    length: usize,
    flags: c_uint,
    pass: impl Fn() -> isize,
) -> isize {
    let saved = kernel::errno();
    let copied = match is_ours(to.fd) {
        Ok(false) => return transfers::copy(from.fd, to.fd, libc::EXDEV, pass),
        Ok(true) if flags != 0 => Err(libc::EINVAL),
        Ok(true) => {
            // SAFETY: the caller's contract.
            may_copy(from.fd, to.fd).and_then(|same_file| unsafe { copy((from, to), length, same_file) })
        }
        Err(errno) => Err(errno),
    };
    kernel::answer(copied, saved)
}

/// What the kernel refuses before it looks at offsets; whether both are one file.
fn may_copy(from: c_int, to: c_int) -> Result<bool, Errno> {
    let (source, destination) = (kernel::facts(from)?, kernel::facts(to)?);
    if source.kind == libc::S_IFDIR {
        return Err(libc::EISDIR);
    }
    if !source.regular {
        return Err(libc::EINVAL);
    }
    let flags = |fd| kernel::fcntl(fd, libc::F_GETFL, 0);
    let (readable, writable) = (flags(from)?, flags(to)?);
    if readable & libc::O_PATH != 0
        || readable & libc::O_ACCMODE == libc::O_WRONLY
        || writable & libc::O_ACCMODE == libc::O_RDONLY
        || writable & libc::O_APPEND != 0
    {
        return Err(libc::EBADF);
    }
    if source.device != destination.device {
        return Err(libc::EXDEV);
    }
    Ok(source.inode == destination.inode)
}

/// `sendfile`.
///
/// # Safety
/// The offset is null, or may be read and written.
pub(crate) unsafe fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off64_t,
    length: usize,
    pass: impl Fn() -> isize,
) -> isize {
    let saved = kernel::errno();
    let sent = match is_ours(to) {
        Ok(false) => return transfers::copy(from, to, libc::EINVAL, pass),
        Ok(true) => {
            let flags = |fd| kernel::fcntl(fd, libc::F_GETFL, 0);
            flags(from).and_then(|readable| {
                let writable = flags(to)?;
                if readable & libc::O_PATH != 0
                    || readable & libc::O_ACCMODE == libc::O_WRONLY
                    || writable & libc::O_ACCMODE == libc::O_RDONLY
                {
                    return Err(libc::EBADF);
                }
                // Neither appends nor takes from a pipe or a socket.
                if writable & libc::O_APPEND != 0 || kernel::lseek(from, 0, libc::SEEK_CUR).is_err() {
                    return Err(libc::EINVAL);
                }
                let places = (Place { fd: from, offset }, Place { fd: to, offset: std::ptr::null_mut() });
                // SAFETY: the caller's contract.
                unsafe { copy(places, length, false) }
            })
        }
        Err(errno) => Err(errno),
    };
    kernel::answer(sent, saved)
}

/// Copies up to `length` bytes, fewer where the source ends; within one file not onto themselves.
///
/// # Safety
/// As of the places.
unsafe fn copy((from, to): (Place, Place), length: usize, within: bool) -> Result<usize, Errno> {
    let own = [from, to].into_iter().find(|place| place.offset.is_null());
    let _offset = own.and_then(|place| descriptors::hold_offset(place.fd));
    // SAFETY: the caller's contract.
    let (source, destination) = unsafe { (from.begin()?, to.begin()?) };
    let wanted = length.min(LENGTH_MAX) as u64;
    if source.max(destination) > i64::MAX as u64 - wanted {
        return Err(libc::EOVERFLOW);
    }
    let facts = kernel::facts(from.fd)?;
    let wanted = if facts.regular { wanted.min(facts.size.saturating_sub(source)) } else { wanted };
    if within && Range::new(source, wanted).overlaps(Range::new(destination, wanted)) {
        return Err(libc::EINVAL);
    }
    let copied = kernel::uncancelled(|| pieces((from.fd, source), (to.fd, destination), wanted as usize))?;
    // SAFETY: the caller's contract.
    unsafe {
        from.end(source + copied as u64);
        to.end(destination + copied as u64);
    }
    Ok(copied)
}

/// Reads and writes as the program would.
fn pieces((from, source): (c_int, u64), (to, destination): (c_int, u64), wanted: usize) -> Result<usize, Errno> {
    let mut piece = vec![0u8; wanted.min(PIECE_BYTES)];
    let mut done = 0;
    while done < wanted {
        let length = (wanted - done).min(piece.len());
        let (read_at, write_at) = ((source + done as u64) as i64, (destination + done as u64) as i64);
        // SAFETY: the piece is memory of `length` bytes or more.
        let read = unsafe {
            let (piece, pass) = (piece.as_mut_ptr().cast(), libcs::pread);
            data::pread(from, piece, length, read_at, || pass(from, piece, length, read_at))
        };
        let moved = match read {
            1.. => {
                // SAFETY: as many bytes of the piece were just read.
                unsafe {
                    let (piece, pass) = (piece.as_ptr().cast(), libcs::pwrite);
                    data::pwrite(to, piece, read as usize, write_at, || pass(to, piece, read as usize, write_at))
                }
            }
            other => other,
        };
        match moved {
            0 => break,
            1.. => done += moved as usize,
            _ if done == 0 => return Err(kernel::errno()),
            _ => break,
        }
        if moved < read {
            break;
        }
    }
    Ok(done)
}

/// `splice`.
///
/// # Safety
/// The offsets are null, or may be read and written.
pub(crate) unsafe fn splice(from: Place, to: Place, length: usize, flags: c_uint, pass: impl Fn() -> isize) -> isize {
    let saved = kernel::errno();
    match is_ours(to.fd) {
        Ok(true) => {}
        Ok(false) => return transfers::copy(from.fd, to.fd, libc::EINVAL, pass),
        Err(errno) => return kernel::answer(Err(errno), saved),
    }
    let is_pipe = kernel::facts(from.fd).is_ok_and(|facts| facts.kind == libc::S_IFIFO);
    let may_write = |flags: c_int| flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_APPEND == 0;
    let allowed = kernel::fcntl(to.fd, libc::F_GETFL, 0).is_ok_and(may_write);
    if !is_pipe || !allowed || !from.offset.is_null() || length == 0 {
        // Nothing that the kernel would write.
        return pass();
    }
    // SAFETY: the caller's contract.
    kernel::answer(unsafe { from_pipe(from.fd, to, length, flags) }, saved)
}

/// # Safety
/// As of the place.
unsafe fn from_pipe(from: c_int, to: Place, length: usize, flags: c_uint) -> Result<usize, Errno> {
    let flag = |flags: c_int| flags & libc::O_NONBLOCK != 0;
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0 && !kernel::fcntl(from, libc::F_GETFL, 0).is_ok_and(flag);
    loop {
        let spliced = descriptors::on_managed(to.fd, |target| {
            target.hold()?;
            // SAFETY: the caller's contract.
            unsafe { spliced(target, from, to, length, flags) }
        });
        match spliced {
            // Whoever replaces the file's number does not wait for whoever fills the pipe.
            Err(libc::EAGAIN) if waits => kernel::wait_readable(from)?,
            Ok(spliced) => return spliced.ok_or(libc::EBADF),
            Err(errno) => return Err(errno),
        }
    }
}

/// # Safety
/// As of the place.
unsafe fn spliced(target: &Target, from: c_int, to: Place, length: usize, flags: c_uint) -> Result<usize, Errno> {
    let _offset = if to.offset.is_null() { target.hold_offset() } else { None };
    // SAFETY: the caller's contract.
    let at = unsafe { to.begin() }?;
    let length = length.min(PIECE_BYTES);
    let range = Range::new(at, length as u64);
    if range.end() > i64::MAX as u64 {
        return Err(libc::EINVAL);
    }
    let mut place = at as i64;
    let written = data_path::write_directly(target, range, || {
        let flags = flags | libc::SPLICE_F_NONBLOCK;
        let none = std::ptr::null_mut::<off64_t>();
        // SAFETY: the place is ours.
        unsafe { syscall!(libc::SYS_splice, from, none, target.fd, &raw mut place, length, flags) }
    })?;
    if written > 0 {
        // SAFETY: the caller's contract.
        unsafe { to.end(at + written as u64) };
        if target.durable() {
            data_path::sync(target, || kernel::sync(target.fd, true))?;
        }
    }
    Ok(written)
}
