//! Writes: absorbed by flash where the policy wants it and space is at hand, else direct.

use std::sync::atomic::Ordering;

use headstart_policy::client;
use headstart_policy::client::{Decision, Reason};
use headstart_protocol::counters::{Counter, Served};
use headstart_protocol::lease::Place;
use headstart_protocol::message::Request;
use headstart_protocol::shared::{KIND_EXTEND, Slot};
use headstart_units::request::{Direction, Range};

use super::{DIRECT_ALIGNMENT, is_in_sectors, shared};
use crate::files::data_files;
use crate::files::decisions;
use crate::files::descriptors::{CHANGED, Target};
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::session::{self, Answer, Session};

/// Writes that would make a file this much larger are not absorbed: whether the slow file system has files that long
/// only its kernel knows.
const EXTENSION_MAX: u64 = 1 << 40;

/// `pwrite` of a managed file, not O_APPEND. `durable`: as with O_DSYNC, whatever the descriptor says.
pub fn write_at(target: &Target, buffers: &Buffers, offset: u64, durable: bool) -> Result<usize, Errno> {
    if !target.writable() {
        return Err(libc::EBADF);
    }
    if offset > i64::MAX as u64 - buffers.length() as u64 {
        return Err(libc::EINVAL);
    }
    let range = Range::new(offset, buffers.length() as u64);
    target.record.know_regions();
    let distance = decisions::distance(target, Direction::Write, range);
    let request = client::Request { direction: Direction::Write, range, distance };
    let written = session::with(|session| write_parts(session, target, buffers, request))?;
    if durable || target.durable() {
        super::sync(target, || kernel::sync(target.fd, true))?;
    }
    Ok(written)
}

/// Writes the request part by part, as far as policies answer differently: in the file's order, each part as
/// a write of its own. One that cannot be written whole ends the request, which has then written what lies
/// before.
fn write_parts(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    request: client::Request,
) -> Result<usize, Errno> {
    let (mut done, mut absorbed, mut served) = (0, 0, Served::Absorbed);
    let mut result = Ok(());
    while done < buffers.length() && result.is_ok() {
        let rest = Range::between(request.range.offset + done as u64, request.range.end());
        let (part, decision) = decide(target, buffers, &client::Request { range: rest, ..request });
        let by_part = write_part(session, target, buffers, done, part, decision);
        absorbed += by_part.absorbed;
        done += by_part.absorbed + by_part.direct;
        served = if served == Served::Absorbed { by_part.served } else { served };
        result = by_part.result;
        if by_part.absorbed + by_part.direct < part.length as usize {
            break;
        }
    }
    let result = if done > 0 { Ok(done) } else { result.map(|()| 0) };
    count(session.slot, absorbed, result, served, buffers.length() == 0);
    result
}

/// The first part of a write, and what is wanted of it.
#[inline]
fn decide(target: &Target, buffers: &Buffers, request: &client::Request) -> (Range, Decision) {
    let (part, decision) = decisions::decide(target, request);
    if target.uncached() { uncached(buffers, request.range, part.range, decision) } else { (part.range, decision) }
}

/// The same past the page cache, where only whole blocks can be written: a part that ends within one takes
/// the rest along. What no disk with smaller blocks would take either is left to the kernel to refuse.
#[cold]
fn uncached(buffers: &Buffers, whole: Range, part: Range, decision: Decision) -> (Range, Decision) {
    if !is_in_sectors(buffers, whole) {
        return (whole, Decision::Disk(Reason::NoBenefit));
    }
    (if part.end().is_multiple_of(DIRECT_ALIGNMENT) { part } else { whole }, decision)
}

/// What became of a part.
struct Written {
    absorbed: usize,
    direct: usize,
    served: Served,
    result: Result<(), Errno>,
}

/// Writes bytes `from ..` of the buffers to `part`, where `decision` says.
fn write_part(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    from: usize,
    part: Range,
    decision: Decision,
) -> Written {
    let (absorbed, rest) = match decision {
        // Not in a signal handler that interrupted a request: the commit would wait for that request.
        Decision::Flash { .. } | Decision::Fetch { .. } if !session.nested => {
            absorb(session, target, buffers, from, part)
        }
        Decision::Flash { .. } | Decision::Fetch { .. } => (0, Rest::Direct(Served::WriteInterrupt)),
        Decision::Disk(reason) => (0, Rest::Direct(Served::by_disk(Direction::Write, reason))),
        Decision::Pass => (0, Rest::Direct(Served::WriteOff)),
    };
    let (direct, served, result) = match rest {
        Rest::Direct(why) if absorbed < part.length as usize => {
            let rest = Range::between(part.offset + absorbed as u64, part.end());
            let result = direct(session, target, buffers, from + absorbed, rest);
            (*result.as_ref().unwrap_or(&0), why, result.map(drop))
        }
        Rest::Failed(errno) => (0, Served::Absorbed, Err(errno)),
        Rest::Direct(_) => (0, Served::Absorbed, Ok(())),
    };
    Written { absorbed, direct, served, result }
}

/// What is to happen to the bytes that were not absorbed.
#[derive(Clone, Copy)]
enum Rest {
    /// They are written directly; why.
    Direct(Served),
    /// They are not written.
    Failed(Errno),
}

/// Counts a write of which `absorbed` bytes went to flash. One whose descriptor changed its meaning is made again.
fn count(slot: &Slot, absorbed: usize, result: Result<usize, Errno>, served: Served, empty: bool) {
    if absorbed > 0 && served != Served::Absorbed {
        slot.count(Counter::AbsorbedBytes, absorbed as u64);
    }
    match (result, served) {
        (Err(CHANGED), _) => {}
        _ if empty => {}
        (Err(_), _) => slot.served(Served::WriteFailed, 0),
        (Ok(written), Served::Absorbed) => slot.served(served, written as u64),
        (Ok(written), _) => slot.served(served, (written - absorbed) as u64),
    }
}

/// Writes bytes `from ..` to slabs and commits them as `part`. Returns how much was absorbed, and what
/// becomes of the rest.
fn absorb(session: &mut Session, target: &Target, buffers: &Buffers, from: usize, part: Range) -> (usize, Rest) {
    let header = &shared().header;
    if header.free_bytes.load(Ordering::Relaxed) == 0 && session.slot.whole_slab(target.file, part).is_none() {
        shared().refuse_write(target.file, part);
        return (0, Rest::Direct(Served::WriteNoSpace));
    }
    let (limit, size) = (kernel::file_size_limit(), target.entry(&shared()).size.load(Ordering::Relaxed));
    if part.end() > limit.min(size.saturating_add(EXTENSION_MAX)) {
        return (0, Rest::Direct(Served::WriteTooFar));
    }
    session.slot.publish_asking(KIND_EXTEND, target.file, part);
    if !target.still_open() {
        session.slot.free();
        return (0, Rest::Failed(CHANGED));
    }
    let absorbed = absorb_slabs(session, target, buffers, from, part, limit);
    session.slot.free();
    absorbed
}

/// `limit`: of the process, on the size of the files it writes.
fn absorb_slabs(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    from: usize,
    part: Range,
    limit: u64,
) -> (usize, Rest) {
    let mut done = 0;
    while done < part.length as usize {
        let rest = Range::between(part.offset + done as u64, part.end());
        let slab = match slab_for(session, target.file, rest) {
            Ok(Ok(slab)) => slab,
            Ok(Err(why)) => return (done, Rest::Direct(why)),
            Err(errno) => return (done, Rest::Failed(errno)),
        };
        let length = slab.length.min(rest.length);
        if slab.place + length > limit {
            // The limit holds for data files too, but it is not meant for them.
            return (done, Rest::Direct(Served::WriteTooFar));
        }
        let written = data_files::with(session, target.file, slab.data_file, |fd| {
            buffers.write(fd, from + done, length as usize, slab.place)
        });
        if written != Ok(length as usize) {
            return match written {
                Err(errno @ libc::EFAULT) => (done, Rest::Failed(errno)),
                // Or cut short: the fast directory is full.
                Ok(_) | Err(libc::ENOSPC | libc::EDQUOT) => (done, Rest::Direct(Served::WriteNoSpace)),
                Err(_) => (done, Rest::Direct(Served::WriteFlashFailed)),
            };
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
            Ok(Answer::NoSpace) => return (done, Rest::Direct(Served::WriteNoSpace)),
            Ok(Answer::Bypassed) => return (done, Rest::Direct(Served::WriteBypassed)),
            Ok(Answer::HeldUp) => return (done, Rest::Direct(Served::WriteHeldUp)),
            Ok(other) => return (done, Rest::Failed(session.unexpected(other))),
            Err(errno) => return (done, Rest::Failed(errno)),
        }
    }
    (done, Rest::Direct(Served::WriteNoSpace))
}

/// A slab that takes all of `range`, or at least a large part of it; asks the agent if the slot holds none.
/// Or why there is none.
fn slab_for(session: &mut Session, file: u32, range: Range) -> Result<Result<Place, Served>, Errno> {
    if let Some(slab) = session.slot.good_slab(file, range) {
        return Ok(Ok(slab));
    }
    match session.call(&Request::Slab { file, offset: range.offset, length: range.length })? {
        Answer::Done => Ok(session.slot.slab(file, range).ok_or(Served::WriteNoSpace)),
        Answer::NoSpace => Ok(Err(Served::WriteNoSpace)),
        Answer::Bypassed => Ok(Err(Served::WriteBypassed)),
        other => Err(session.unexpected(other)),
    }
}

/// Writes bytes `from ..` to `part` of the slow file; returns how many.
fn direct(session: &mut Session, target: &Target, buffers: &Buffers, from: usize, part: Range) -> Result<usize, Errno> {
    locked(session, target, part, || {
        let written = buffers.write_slow(target.fd, from, part.length as usize, part.offset)?;
        Ok((written as u64, written))
    })
}

/// A fallocate that removes bytes of `range`: for the protocol a direct write.
pub fn punch(target: &Target, range: Range, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    session::with(|session| locked(session, target, range, || kernel().map(|value| (range.length, value))))
}

/// A write by a call that the library cannot make in pieces of its own: `kernel` writes to the slow file from
/// the range's first byte on, and returns how many.
pub fn write_directly(
    target: &Target,
    range: Range,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    session::with(|session| locked(session, target, range, || kernel().map(|written| (written as u64, written))))
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
