//! Writes: absorbed by flash where the policy wants it and space is at hand, else direct.

use std::sync::atomic::Ordering;

use headstart_core::policy::Decision;
use headstart_core::protocol::message::Request;
use headstart_core::protocol::shared::{Counter, KIND_EXTEND};
use headstart_core::request::{self, Direction, Range};

use super::shared;
use crate::buffers::Buffers;
use crate::data_files;
use crate::descriptors::{CHANGED, Target};
use crate::kernel::{self, Errno};
use crate::session::{self, Answer, Session};

/// Data files keep offsets equal to the slow file's modulo this.
const PLACE_ALIGNMENT: u64 = 4096;
/// Writes that would make a file this much larger are not absorbed: whether the slow file system has files that long
/// only its kernel knows.
const EXTENSION_MAX: u64 = 1 << 40;
/// A slab that holds at least this much of a write too large for it is used without asking for a better one.
const PART_MIN: u64 = 1 << 20;

/// `pwrite` of a managed file, not O_APPEND. `durable`: as with O_DSYNC, whatever the descriptor says.
pub fn write_at(target: &Target, buffers: Buffers, offset: u64, durable: bool) -> Result<usize, Errno> {
    if !target.writable() {
        return Err(libc::EBADF);
    }
    if offset > i64::MAX as u64 - buffers.length() as u64 {
        return Err(libc::EINVAL);
    }
    let range = Range::new(offset, buffers.length() as u64);
    let distance = target.record.distance(range);
    let request = request::Request { direction: Direction::Write, range, distance };
    let written = session::with(|session| {
        let (done, failure) = match session::decide(&request) {
            // Not in a signal handler that interrupted a request: the commit would wait for that request.
            Decision::Flash { .. } | Decision::Fetch { .. } if !session.nested => {
                absorb(session, target, &buffers, offset)
            }
            _ => {
                session.slot.count(Counter::DiskWriteUnwantedRequests, 1);
                (0, None)
            }
        };
        match failure {
            None if done < buffers.length() => direct(session, target, &buffers, done, offset + done as u64),
            None => Ok(done),
            Some(_) if done > 0 => Ok(done),
            Some(errno) => Err(errno),
        }
    })?;
    if durable || target.durable() {
        super::sync(target, || kernel::sync(target.fd, true))?;
    }
    Ok(written)
}

/// Writes to slabs and commits. Returns how much was absorbed, and the error if the agent reported one; without an
/// error the rest is to be written directly.
fn absorb(session: &mut Session, target: &Target, buffers: &Buffers, offset: u64) -> (usize, Option<Errno>) {
    let range = Range::new(offset, buffers.length() as u64);
    let free_bytes = shared().header.free_bytes.load(Ordering::Relaxed);
    if free_bytes == 0 && find_slab(session, target.file, range, true).is_none() {
        session.slot.count(Counter::DiskWriteNoSpaceRequests, 1);
        return (0, None);
    }
    let (limit, size) = (kernel::file_size_limit(), target.entry(&shared()).size.load(Ordering::Relaxed));
    if range.end() > limit.min(size.saturating_add(EXTENSION_MAX)) {
        session.slot.count(Counter::DiskWriteUnwantedRequests, 1);
        return (0, None);
    }
    session.slot.publish_asking(KIND_EXTEND, target.file, range);
    if !target.still_open() {
        session.slot.free();
        return (0, Some(CHANGED));
    }
    let (done, failure) = absorb_parts(session, target, buffers, offset, limit);
    session.slot.free();
    let complete = u64::from(done == buffers.length());
    session.slot.count(Counter::AbsorbedRequests, complete);
    session.slot.count(Counter::DiskWriteNoSpaceRequests, 1 - complete);
    session.slot.count(Counter::AbsorbedBytes, done as u64);
    (done, failure)
}

/// `limit`: of the process, on the size of the files it writes.
fn absorb_parts(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    offset: u64,
    limit: u64,
) -> (usize, Option<Errno>) {
    let mut done = 0;
    while done < buffers.length() {
        let rest = Range::new(offset + done as u64, (buffers.length() - done) as u64);
        let slab = match slab_for(session, target.file, rest) {
            Ok(Some(slab)) => slab,
            Ok(None) => return (done, None),
            Err(errno) => return (done, Some(errno)),
        };
        let length = slab.length.min(rest.length);
        if slab.place + length > limit {
            // The limit holds for data files too, but it is not meant for them.
            return (done, None);
        }
        let written =
            data_files::with(target.file, slab.data_file, |fd| buffers.write(fd, done, length as usize, slab.place));
        if written != Ok(length as usize) {
            return (done, if written == Err(libc::EFAULT) { written.err() } else { None });
        }
        let commit = Request::Commit {
            file: target.file,
            data_file: slab.data_file,
            offset: rest.offset,
            length,
            place: slab.place,
        };
        match session.call(&commit) {
            Ok(Answer::Done) => done += length as usize,
            Ok(Answer::NoSpace) => return (done, None),
            Ok(other) => return (done, Some(session.unexpected(other))),
            Err(errno) => return (done, Some(errno)),
        }
    }
    (done, None)
}

/// Flash space for the first `length` bytes of a write.
#[derive(Clone, Copy)]
struct Slab {
    data_file: u32,
    place: u64,
    length: u64,
}

/// A slab that takes all of `range`, or at least a large part of it; asks the agent if the slot holds none.
fn slab_for(session: &mut Session, file: u32, range: Range) -> Result<Option<Slab>, Errno> {
    if let Some(slab) = find_slab(session, file, range, false).filter(|slab| slab.length >= range.length.min(PART_MIN))
    {
        return Ok(Some(slab));
    }
    match session.call(&Request::Slab { file, offset: range.offset, length: range.length })? {
        Answer::Done => Ok(find_slab(session, file, range, false)),
        Answer::NoSpace => Ok(None),
        other => Err(session.unexpected(other)),
    }
}

/// The smallest of the slot's slabs that takes all of `range`; if none does and `whole` is not asked for, the one that
/// takes most.
fn find_slab(session: &Session, file: u32, range: Range, whole: bool) -> Option<Slab> {
    let usable = session.slot.slabs.iter().filter_map(|slab| {
        let held = slab.read();
        if held.file != file {
            return None;
        }
        let skip = range.offset.wrapping_sub(held.place) % PLACE_ALIGNMENT;
        let length = held.length.checked_sub(skip).filter(|&length| length > 0)?;
        Some(Slab { data_file: held.data_file, place: held.place + skip, length })
    });
    let fits = |slab: &Slab| slab.length >= range.length;
    let smallest = usable.clone().filter(fits).min_by_key(|slab| slab.length);
    if whole { smallest } else { smallest.or_else(|| usable.max_by_key(|slab| slab.length)) }
}

/// Writes bytes `from ..` to the slow file at `offset`; returns how many bytes of the request are written in all.
fn direct(session: &mut Session, target: &Target, buffers: &Buffers, from: usize, offset: u64) -> Result<usize, Errno> {
    let length = buffers.length() - from;
    let result = locked(session, target, Range::new(offset, length as u64), || {
        buffers.write_slow(target.fd, from, length, offset).map(|written| (written as u64, written))
    });
    session.slot.count(Counter::DiskWriteBytes, *result.as_ref().unwrap_or(&0) as u64);
    match result {
        Ok(written) => Ok(from + written),
        Err(_) if from > 0 => Ok(from),
        Err(errno) => Err(errno),
    }
}

/// A fallocate that removes bytes of `range`: for the protocol a direct write.
pub fn punch(target: &Target, range: Range, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    session::with(|session| locked(session, target, range, || kernel().map(|value| (range.length, value))))
}

/// A direct write of `range`: `write` changes the slow file and returns how many bytes from the range's first on it
/// changed.
fn locked<R>(
    session: &mut Session,
    target: &Target,
    range: Range,
    write: impl FnOnce() -> Result<(u64, R), Errno>,
) -> Result<R, Errno> {
    let (slot, shared, file) = (session.slot, shared(), target.file);
    let extends = slot.publish_write(target.entry(&shared), file, range);
    if !target.still_open() {
        slot.free();
        return Err(CHANGED);
    }
    if shared.write_is_cheap(file, range, extends) {
        let result = write();
        slot.free();
        slot.count(Counter::CheapRequests, 1);
        return result.map(|(_, value)| value);
    }
    slot.ask();
    let result = under_lease(session, file, range, extends, write);
    slot.free();
    result
}

/// Asks for a direct-write lease, writes, and tells the agent what was written.
pub(super) fn under_lease<R>(
    session: &mut Session,
    file: u32,
    range: Range,
    extends: bool,
    write: impl FnOnce() -> Result<(u64, R), Errno>,
) -> Result<R, Errno> {
    match session.call(&Request::Write { file, offset: range.offset, length: range.length, extends })? {
        Answer::Go => {}
        other => return Err(session.unexpected(other)),
    }
    let result = write();
    // What was not written keeps its bytes on flash.
    let length = result.as_ref().map_or(0, |(written, _)| *written);
    match session.call(&Request::WriteDone { file, offset: range.offset, length })? {
        Answer::Done => {}
        other => return Err(session.unexpected(other)),
    }
    result.map(|(_, value)| value)
}
