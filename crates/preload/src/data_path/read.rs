//! Reads: from the slow file while nothing of the range is on flash, else piece by piece as the agent says.

use std::alloc::{self, Layout};

use headstart_policy::client::Request;
use headstart_policy::order::Distance;
use headstart_protocol::counters::{Counter, Served};
use headstart_protocol::message;
use headstart_protocol::read_times::{Side, is_measured};
use headstart_protocol::shared::KIND_READ;
use headstart_units::request::{Direction, Range};

use super::{DIRECT_ALIGNMENT, ask_write_back, is_in_sectors, shared};
use crate::files::data_files;
use crate::files::decisions;
use crate::files::descriptors::{CHANGED, Target};
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::session::{self, Answer, Session};

/// `pread` of a managed file.
pub fn read_at(target: &Target, buffers: &Buffers, offset: u64) -> Result<usize, Errno> {
    if !target.readable() {
        return Err(libc::EBADF);
    }
    if offset > i64::MAX as u64 {
        return Err(libc::EINVAL);
    }
    let range = Range::new(offset, buffers.length() as u64);
    target.record.know_regions();
    let distance = decisions::distance(target, Direction::Read, range);
    session::with(|session| {
        let slot = session.slot;
        slot.publish_cheap(KIND_READ, target.file, range);
        if !target.still_open() {
            slot.free();
            return Err(CHANGED);
        }
        if shared().all_clear(target.file, range) {
            let result = if slot.measures(target.entry(&shared()), distance) {
                read_measured(target, buffers, offset)
            } else {
                buffers.read(target.fd, 0, buffers.length(), offset)
            };
            slot.free();
            slot.count(Counter::CheapRequests, 1);
            match result {
                _ if range.is_empty() => {}
                Ok(read) => {
                    let served = count_disk(session, target, range, distance, read as u64);
                    slot.count(served.counters().0, 1);
                }
                Err(_) => slot.served(Served::ReadFailed, 0),
            }
            return result;
        }
        slot.ask();
        let (result, served) = if target.uncached() && is_refused(session, target, buffers, range) {
            (Err(libc::EINVAL), Served::ReadFailed)
        } else {
            read_as_told(session, target, buffers, offset, distance)
        };
        slot.free();
        let served = if result.is_ok() { served } else { Served::ReadFailed };
        slot.count(served.counters().0, 1);
        result
    })
}

/// The same as the kernel's read of a range of which nothing is on flash, and notes how long it took.
#[cold]
fn read_measured(target: &Target, buffers: &Buffers, offset: u64) -> Result<usize, Errno> {
    let start_ns = kernel::monotonic_ns();
    let result = buffers.read(target.fd, 0, buffers.length(), offset);
    measure(target, Side::Disk, &result, start_ns);
    result
}

/// Notes how long a read took that began at `start_ns`.
fn measure(target: &Target, side: Side, result: &Result<usize, Errno>, start_ns: u64) {
    if let Ok(bytes @ 1..) = result {
        let took_ns = kernel::monotonic_ns() - start_ns;
        target.entry(&shared()).read_times.add(side, *bytes as u64, took_ns);
    }
}

/// Whether the slow file system refuses a read past the page cache for its alignment, which only it knows,
/// and in holes does not look at: so dirty bytes go back first. What it gives may be old again by the time
/// that it is there, and is read once more.
#[cold]
fn is_refused(session: &mut Session, target: &Target, buffers: &Buffers, range: Range) -> bool {
    if is_in_sectors(buffers, range) {
        return false;
    }
    // Where that fails the read may be refused all the same.
    let _ = ask_write_back(session, target, range);
    buffers.read(target.fd, 0, buffers.length(), range.offset) == Err(libc::EINVAL)
}

/// Reads piece by piece where the agent says; and what served the request. Bytes are counted here.
fn read_as_told(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    offset: u64,
    distance: Distance,
) -> (Result<usize, Errno>, Served) {
    let (mut done, mut served) = (0, Served::ReadEnd);
    while done < buffers.length() {
        let rest = Range::new(offset + done as u64, (buffers.length() - done) as u64);
        let ask = message::Request::Read { file: target.file, offset: rest.offset, length: rest.length };
        let read = match session.call(&ask) {
            Ok(Answer::Flash(length)) => {
                let length = length.min(rest.length) as usize;
                let start_ns = kernel::monotonic_ns();
                let result = read_pieces(session, target, buffers, done, rest.offset, length);
                session.slot.release_read();
                if let Err(Unread::Flash { range, dirty_too }) = result {
                    // What the disk has as well is read there next.
                    match drop_unread(session, target, range, dirty_too) {
                        Ok(()) => continue,
                        Err(_) if done > 0 => return (Ok(done), served),
                        Err(errno) => return (Err(errno), served),
                    }
                }
                let result = result.map_err(Unread::errno);
                if is_measured(distance) {
                    measure(target, Side::Flash, &result, start_ns);
                }
                session.slot.count(Counter::FlashReadBytes, *result.as_ref().unwrap_or(&0) as u64);
                served = Served::Flash;
                result.map(|count| (length, count))
            }
            Ok(answer @ (Answer::Disk(length) | Answer::Sooner(length))) => {
                let part = Range::new(rest.offset, length.min(rest.length));
                let start_ns = kernel::monotonic_ns();
                let result = read_slow(target, buffers, done, part);
                session.slot.release_read();
                if is_measured(distance) {
                    measure(target, Side::Disk, &result, start_ns);
                }
                if let Ok(count) = result {
                    let by_disk = if matches!(answer, Answer::Sooner(_)) {
                        session.slot.count(Counter::DiskReadSoonerBytes, count as u64);
                        Served::ReadSooner
                    } else {
                        count_disk(session, target, part, distance, count as u64)
                    };
                    served = if served == Served::ReadEnd { by_disk } else { served };
                }
                result.map(|count| (part.length as usize, count))
            }
            Ok(other) => Err(session.unexpected(other)),
            Err(errno) => Err(errno),
        };
        let result = match read {
            Ok((0, _)) | Err(_) if done > 0 => Ok(done),
            Ok((0, _)) => Err(libc::EIO),
            Err(errno) => Err(errno),
            Ok((wanted, count)) => {
                done += count;
                if count == wanted {
                    continue;
                }
                Ok(done)
            }
        };
        return (result, served);
    }
    (Ok(done), served)
}

/// Why bytes on flash were not read.
enum Unread {
    /// The program's fault, or the process lacks something.
    Refused(Errno),
    /// Flash does not give these bytes of the file; if not for its own fault, dirty ones are not lost.
    Flash { range: Range, dirty_too: bool },
}

impl Unread {
    fn errno(self) -> Errno {
        match self {
            Unread::Refused(errno) => errno,
            Unread::Flash { .. } => libc::EIO,
        }
    }
}

/// Tells the agent what flash does not give, after it has written back what is dirty of that, if it can; an
/// error if the disk has it not.
#[cold]
fn drop_unread(session: &mut Session, target: &Target, range: Range, dirty_too: bool) -> Result<(), Errno> {
    let (file, Range { offset, length }) = (target.file, range);
    let write_back = dirty_too.then_some(message::Request::WriteBack { file, offset, length });
    for ask in write_back.into_iter().chain([message::Request::FlashFailed { file, offset, length }]) {
        match session.call(&ask)? {
            Answer::Done => {}
            other => return Err(session.unexpected(other)),
        }
    }
    Ok(())
}

/// Reads the lease's pieces, which begin at `offset` of the file, into bytes `from .. from + length`; fewer where the
/// program's memory ends. A data file that ends early is an error: its bytes were promised.
fn read_pieces(
    session: &mut Session,
    target: &Target,
    buffers: &Buffers,
    from: usize,
    offset: u64,
    length: usize,
) -> Result<usize, Unread> {
    let (mut done, slot) = (0, session.slot);
    for piece in slot.leased_pieces() {
        let wanted = piece.length.min((length - done) as u64) as usize;
        if wanted == 0 {
            continue;
        }
        let mut read = 0;
        while read < wanted {
            let part = data_files::with(session, target.file, piece.data_file, |fd| {
                buffers.read(fd, from + done + read, wanted - read, piece.place + read as u64)
            });
            match part {
                Ok(count) if count > 0 => read += count,
                Err(libc::EFAULT) if done + read > 0 => return Ok(done + read),
                Err(errno @ (libc::EFAULT | libc::EINTR | libc::ENOMEM)) => return Err(Unread::Refused(errno)),
                part => {
                    // The program has the last descriptor: the kernel would have needed none.
                    let dirty_too = matches!(part, Err(libc::EMFILE | libc::ENFILE));
                    return Err(Unread::Flash { range: Range::new(offset + done as u64, wanted as u64), dirty_too });
                }
            }
        }
        done += wanted;
    }
    if done < length { Err(Unread::Refused(libc::EIO)) } else { Ok(done) }
}

/// Reads `part` of the slow file. Past the page cache, a part that flash cut to an odd length is read as an aligned
/// superset; what is too much is thrown away, so that the lease covers all that is used.
fn read_slow(target: &Target, buffers: &Buffers, from: usize, part: Range) -> Result<usize, Errno> {
    let result = buffers.read(target.fd, from, part.length as usize, part.offset);
    let odd = !part.offset.is_multiple_of(DIRECT_ALIGNMENT) || !part.length.is_multiple_of(DIRECT_ALIGNMENT);
    if result != Err(libc::EINVAL) || !target.uncached() || !odd {
        return result;
    }
    let start = part.offset / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
    let end = part.end().next_multiple_of(DIRECT_ALIGNMENT);
    let layout =
        Layout::from_size_align((end - start) as usize, DIRECT_ALIGNMENT as usize).map_err(|_| libc::EINVAL)?;
    // SAFETY: the size is not zero, as the part is not empty.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(libc::ENOMEM);
    }
    let element = libc::iovec { iov_base: memory.cast(), iov_len: layout.size() };
    // SAFETY: the element is the memory just allocated.
    let read = unsafe { Buffers::one(&element) }.and_then(|own| own.read(target.fd, 0, layout.size(), start));
    let skip = (part.offset - start) as usize;
    let result = read.and_then(|count| {
        let useful = count.saturating_sub(skip).min(part.length as usize);
        // SAFETY: `skip + useful` bytes of the memory were read.
        buffers.fill(from, unsafe { std::slice::from_raw_parts(memory.add(skip.min(count)), useful) })
    });
    // SAFETY: allocated above with this layout.
    unsafe { alloc::dealloc(memory, layout) };
    result
}

/// Counts bytes read from the slow file, and tells the agent of those that flash would have served sooner;
/// why the disk served them.
#[inline]
fn count_disk(session: &Session, target: &Target, range: Range, distance: Distance, read: u64) -> Served {
    let request = Request { direction: Direction::Read, range, distance };
    session.slot.read_by_disk(target.file, request, read, |request| decisions::decide(target, request))
}
