//! Reads and writes of managed files: cheap, absorbed, from flash, direct.
//!
//! The order of the protocol's steps is [`headstart_protocol::call`]; what is here makes its kernel calls and sends its
//! messages. A request on bytes of which none is on flash takes the steps in a straight line. At the end of each
//! stands one look at whether it counts ([`standing`]).

mod append;
mod caller;
mod changes;
mod read;
mod standing;
mod write;

pub use changes::WHOLE;

use headstart_trace::Operation;
use headstart_units::request::Range;

use crate::files::descriptors::Target;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::recording::{self, Place};
use crate::session::Session;

use standing::confirmed;

/// `pread` of a managed file.
#[inline]
pub fn read_at(target: &Target, buffers: &Buffers, offset: u64) -> Result<usize, Errno> {
    recording::around(target, Operation::Read, Place::At(offset), |served| match served {
        true => confirmed(read::read_at(target, buffers, offset)),
        false => buffers.read(target.fd, 0, buffers.length(), offset),
    })
}

/// `pwrite` of a managed file, not O_APPEND. `durable`: as with O_DSYNC, whatever the descriptor says.
#[inline]
pub fn write_at(target: &Target, buffers: &Buffers, offset: u64, durable: bool) -> Result<usize, Errno> {
    recording::around(target, Operation::Write, Place::At(offset), |served| match served {
        true => confirmed(write::write_at(target, buffers, offset, durable)),
        false => unserved(target, durable, || buffers.write_slow(target.fd, 0, buffers.length(), offset)),
    })
}

/// An appending write; `kernel` does it.
pub fn append(target: &Target, durable: bool, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    recording::around(target, Operation::Append, Place::End, |served| match served {
        true => confirmed(append::append(target, durable, kernel)),
        false => unserved(target, durable, kernel),
    })
}

/// A call that may change the end of the file, but no byte before it.
pub fn extend(target: &Target, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    confirmed(append::extend(target, kernel))
}

/// The same for a call that may also write to the slow file what it reads there, from `offset` on.
pub fn extend_over(
    target: &Target,
    offset: u64,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    confirmed(append::extend_over(target, offset, kernel))
}

/// Changes a file's size: the agent agrees first, `kernel` does it, the agent hears whether it happened.
pub fn truncate(
    session: &mut Session,
    file: u32,
    size: u64,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    confirmed(changes::truncate(session, file, size, kernel))
}

/// Has `kernel` move bytes that lie at `from` or behind it in the slow file.
pub fn rearrange(target: &Target, from: u64, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    confirmed(changes::rearrange(target, from, kernel))
}

/// A fallocate that removes bytes of `range`.
pub fn punch(target: &Target, range: Range, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    confirmed(changes::punch(target, range, kernel))
}

/// A write by a call that the library cannot make in pieces of its own: `kernel` writes to the slow file from the
/// range's first byte on, and returns how many.
pub fn write_directly(
    target: &Target,
    range: Range,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    confirmed(changes::write_directly(target, range, kernel))
}

/// fsync. `kernel` syncs the slow file.
pub fn sync(target: &Target, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    confirmed(changes::sync(target, kernel))
}

/// Makes the slow file hold what flash holds of `range`, for a reader that the library does not see.
pub fn write_back(target: &Target, range: Range) -> Result<(), Errno> {
    confirmed(changes::write_back(target, range))
}

/// A write without an agent. What the descriptor says of durability the kernel sees to.
fn unserved(target: &Target, durable: bool, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let written = kernel()?;
    if durable {
        kernel::sync(target.fd, true)?;
    }
    Ok(written)
}

/// `read`.
pub fn read_here(target: &Target, buffers: &Buffers) -> Result<usize, Errno> {
    if !target.readable() {
        return Err(libc::EBADF);
    }
    here(target, buffers.length(), |_| true, |offset| read_at(target, buffers, offset))
}

/// `write` without O_APPEND.
pub fn write_here(target: &Target, buffers: &Buffers, durable: bool) -> Result<usize, Errno> {
    if !target.writable() {
        return Err(libc::EBADF);
    }
    // What others wrote behind it would be written over.
    let is_last = |end| kernel::lseek(target.fd, 0, libc::SEEK_CUR) == Ok(end);
    here(target, buffers.length(), is_last, |offset| write_at(target, buffers, offset, durable))
}

/// A call at the descriptor's offset, which other threads of the process wait to use: the offset is reserved
/// by one seek, and what was not moved is given back where `may_give` says so of the reserved part's end.
fn here(
    target: &Target,
    length: usize,
    may_give: impl Fn(u64) -> bool,
    work: impl FnOnce(u64) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    target.hold()?;
    let _offset = target.hold_offset();
    let fd = target.fd;
    let (offset, reserved) = match kernel::lseek(fd, length as i64, libc::SEEK_CUR) {
        Ok(end) if end >= length as u64 => (end - length as u64, length),
        // Some files of the kernel's have no offset to speak of.
        Ok(offset) => (offset, 0),
        // The offset cannot lie that far behind; few of the bytes can be there either.
        Err(libc::EINVAL | libc::EOVERFLOW) => (kernel::lseek(fd, 0, libc::SEEK_CUR)?, 0),
        Err(errno) => return Err(errno),
    };
    let result = work(offset);
    let moved = *result.as_ref().unwrap_or(&0);
    let end = offset + reserved as u64;
    if moved != reserved && (reserved == 0 || may_give(end)) {
        let _ = kernel::lseek(fd, moved as i64 - reserved as i64, libc::SEEK_CUR);
    }
    result
}
