//! Reads and writes of managed files: cheap, absorbed, from flash, direct.
//!
//! ```text
//! publish CHEAP, fence -> bits of the range clear? -> kernel call on the slow file -> FREE
//!                      -> a bit set: ASKING, ask -> lease -> kernel call where it says -> release -> FREE
//! ```

mod append;
mod read;
mod write;

pub use append::{extend, extend_over};
pub use write::{punch, write_directly};

use std::sync::atomic::{Ordering, fence};

use headstart_protocol::handshake;
use headstart_protocol::message::Request;
use headstart_protocol::shared::Shared;
use headstart_trace::Operation;
use headstart_units::request::Range;

use crate::files::descriptors::Target;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::recording::{self, Place};
use crate::session::{self, Answer, Session};
use crate::settings;

/// Alignment that O_DIRECT requests to any disk accept.
const DIRECT_ALIGNMENT: u64 = 4096;
/// The least alignment that disks ask of O_DIRECT requests and their memory: a logical block of 512 bytes.
const SECTOR_BYTES: u64 = 512;

/// Whether a disk may take a request past the page cache. One that is not in whole sectors is the kernel's to refuse.
fn is_in_sectors(buffers: &Buffers, range: Range) -> bool {
    let whole = [range.offset, range.length].iter().all(|bytes| bytes.is_multiple_of(SECTOR_BYTES));
    whole && buffers.are_aligned(SECTOR_BYTES as usize)
}

/// The mapping that every session implies.
#[inline]
fn shared() -> Shared<'static> {
    session::shared().expect("a session maps the shared file before it begins")
}

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

/// Makes the slow file hold what flash holds of `range`, for a reader that the library does not see.
pub fn write_back(target: &Target, range: Range) -> Result<(), Errno> {
    if !settings::served() {
        return Ok(());
    }
    session::with(|session| {
        fence(Ordering::SeqCst);
        if target.entry(&shared()).set_bits.load(Ordering::Acquire) == 0 || shared().all_clear(target.file, range) {
            return Ok(());
        }
        ask_write_back(session, target, range)
    })
}

fn ask_write_back(session: &mut Session, target: &Target, range: Range) -> Result<(), Errno> {
    match session.call(&Request::WriteBack { file: target.file, offset: range.offset, length: range.length })? {
        Answer::Done => Ok(()),
        other => Err(session.unexpected(other)),
    }
}

/// The whole of a file.
pub const WHOLE: Range = Range { offset: 0, length: u64::MAX };

/// fsync: rule 11 of the protocol. `kernel` syncs the slow file.
pub fn sync(target: &Target, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    if !settings::served() {
        return kernel();
    }
    session::with(|session| {
        let ask = || match session.call(&Request::Sync { file: target.file })? {
            Answer::Done => Ok(()),
            other => Err(session.unexpected(other)),
        };
        handshake::sync(target.entry(&shared()), || kernel().map(drop), ask)?;
        Ok(0)
    })
}
