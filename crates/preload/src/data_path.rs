//! Reads and writes of managed files: cheap, absorbed, from flash, direct.
//!
//! The order of the protocol's steps is [`headstart_protocol::call`]; what is here makes its kernel calls and sends its
//! messages. A request on bytes of which none is on flash takes the steps in a straight line.

mod append;
mod caller;
mod changes;
mod read;
mod write;

pub use append::{extend, extend_over};
pub use changes::{WHOLE, punch, rearrange, sync, truncate, write_back, write_directly};

use headstart_trace::Operation;

use crate::files::descriptors::Target;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::recording::{self, Place};

/// `pread` of a managed file.
#[inline]
pub fn read_at(target: &Target, buffers: &Buffers, offset: u64) -> Result<usize, Errno> {
    recording::around(target, Operation::Read, Place::At(offset), |served| match served {
        true => read::read_at(target, buffers, offset),
        false => buffers.read(target.fd, 0, buffers.length(), offset),
    })
}

/// `pwrite` of a managed file, not O_APPEND. `durable`: as with O_DSYNC, whatever the descriptor says.
#[inline]
pub fn write_at(target: &Target, buffers: &Buffers, offset: u64, durable: bool) -> Result<usize, Errno> {
    recording::around(target, Operation::Write, Place::At(offset), |served| match served {
        true => write::write_at(target, buffers, offset, durable),
        false => unserved(target, durable, || buffers.write_slow(target.fd, 0, buffers.length(), offset)),
    })
}

/// An appending write; `kernel` does it.
pub fn append(target: &Target, durable: bool, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    recording::around(target, Operation::Append, Place::End, |served| match served {
        true => append::append(target, durable, kernel),
        false => unserved(target, durable, kernel),
    })
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
