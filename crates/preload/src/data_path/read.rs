//! Reads: from the slow file while nothing of the range is on flash, else piece by piece as the agent says.
//!
//! A read of the slow file is in no slot that anybody waits for, and nothing in it fences. Whoever closes or replaces
//! its descriptor in another thread usually sees its note ([`crate::session::uses`]) and waits, but need not: the note
//! may still be on its way to memory. So the thread looks after the kernel's read whether the descriptor meant the file
//! all the time: its entry in the table, what that stands for, and which opening of the file it is. Whoever closes it
//! marks the entry before the kernel does, so that bytes of another file are never taken for this one's: the call is
//! made again, as whatever the descriptor means by then. Only then are the words of the file in the shared file looked
//! at: the agent may have given their memory back and their number to another file meanwhile, so that they may say the
//! same of something else. Looked at too early, before the read, they say nothing that is gone by.
//!
//! What else waited for such reads needs them no longer. `close` tells the agent that the process has the file no more,
//! and a read that is late meets its check. A data file that is closed for its descriptor serves only requests that are
//! published, with a fence, whether they hold a lease or go by a listing. Forked children have neither the thread nor its read. Mappings and
//! streams change the slow file where nothing is on flash, as any program does.

use std::alloc::{self, Layout};

use headstart_policy::client::Request;
use headstart_policy::order::Distance;
use headstart_protocol::call::{Call, Failure, FlashFault, Moved, Step};
use headstart_protocol::read_times::{Side, is_measured};
use headstart_units::request::{Direction, Range};

use super::caller::{Caller, DIRECT_ALIGNMENT, ask, is_in_sectors, moved, outcome, place, refuse, shared};
use super::changes::write_back_with;
use crate::files::data_files;
use crate::files::decisions;
use crate::files::descriptors::Target;
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};
use crate::session::{self, Session};

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
    // Made where it stays, and not copied: a copy of what was just stored in pieces waits for the stores.
    let request =
        Request { direction: Direction::Read, range, distance: decisions::distance(target, Direction::Read, range) };
    session::with(|session| {
        let caller = Caller::new(session, target, buffers);
        let kernel = || {
            moved(if caller.slot.measures(target.entry(&shared()), request.distance) {
                read_measured(target, buffers, offset)
            } else {
                buffers.read(target.fd, 0, buffers.length(), offset)
            })
        };
        let told = |call, step| {
            ToldRead { session, caller, target, buffers, offset, distance: request.distance }.run(call, step)
        };
        outcome(Call::read_at_once(&caller, target.file, &request, kernel, told))
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

/// A read of bytes of which some may be on flash.
struct ToldRead<'a> {
    session: &'a mut Session,
    caller: Caller<'a>,
    target: &'a Target,
    buffers: &'a Buffers<'a>,
    offset: u64,
    distance: Distance,
}

impl ToldRead<'_> {
    /// Reads piece by piece where the agent says.
    #[cold]
    #[inline(never)]
    fn run(&mut self, mut call: Call, mut step: Step) -> Result<u64, Failure> {
        if self.target.uncached() && matches!(step, Step::Ask(_)) && self.is_refused() {
            step = refuse(&self.caller, &mut call, libc::EINVAL);
        }
        // When the flash lease under way began to be read, and the bytes that were.
        let mut lease = None;
        loop {
            step = match step {
                Step::Ask(message) => ask(self.session, &self.caller, &mut call, &message),
                Step::Slow(part) => {
                    let start_ns = kernel::monotonic_ns();
                    let result = read_slow(self.target, self.buffers, place(part, self.offset).0, part);
                    let next = call.on_moved(&self.caller, moved(result));
                    self.measure(Side::Disk, &result, start_ns);
                    next
                }
                Step::Flash { range, data_file, place } => {
                    let (start_ns, read) = lease.take().unwrap_or_else(|| (kernel::monotonic_ns(), 0));
                    let moved = self.read_piece(range, data_file, place);
                    let next = call.on_moved(&self.caller, moved);
                    match moved {
                        Moved::Bytes(bytes) if matches!(next, Step::Flash { .. }) => {
                            lease = Some((start_ns, read + bytes as usize));
                        }
                        Moved::Bytes(bytes) => self.measure(Side::Flash, &Ok(read + bytes as usize), start_ns),
                        Moved::Failed(_) | Moved::FlashFailed(_) => {}
                    }
                    next
                }
                Step::Look => call.look(&self.caller),
                Step::Done => return call.result(),
                Step::Sync | Step::Push | Step::AskPushed(_) | Step::Tell(_) => {
                    unreachable!("a read that asks does none of these")
                }
            };
        }
    }

    /// Whether the slow file system refuses a read past the page cache for its alignment, which only it knows, and
    /// in holes does not look at: so dirty bytes go back first. What it gives may be old again by the time that
    /// it is there, and is read once more.
    #[cold]
    fn is_refused(&mut self) -> bool {
        let range = Range::new(self.offset, self.buffers.length() as u64);
        if is_in_sectors(self.buffers, range) {
            return false;
        }
        // Where that fails the read may be refused all the same.
        let _ = write_back_with(self.session, self.target, range);
        self.buffers.read(self.target.fd, 0, self.buffers.length(), range.offset) == Err(libc::EINVAL)
    }

    fn measure(&self, side: Side, result: &Result<usize, Errno>, start_ns: u64) {
        if is_measured(self.distance) {
            measure(self.target, side, result, start_ns);
        }
    }

    /// Reads a piece of a lease; less where the program's memory ends. A data file that ends early has failed:
    /// its bytes were promised.
    fn read_piece(&mut self, range: Range, data_file: u32, at: u64) -> Moved {
        let (from, wanted) = place(range, self.offset);
        let mut read = 0;
        while read < wanted {
            let part = data_files::with(self.session, self.target.file, data_file, |fd| {
                self.buffers.read(fd, from + read, wanted - read, at + read as u64)
            });
            match part {
                Ok(count) if count > 0 => read += count,
                Err(libc::EFAULT) if read > 0 => return Moved::Bytes(read as u64),
                // The program's fault, or the process lacks something.
                Err(errno @ (libc::EFAULT | libc::EINTR | libc::ENOMEM)) => return Moved::Failed(errno),
                // The program has the last descriptor: the kernel would have needed none.
                Err(libc::EMFILE | libc::ENFILE) => return Moved::FlashFailed(FlashFault::Unreachable),
                _ => return Moved::FlashFailed(FlashFault::Broken),
            }
        }
        Moved::Bytes(wanted as u64)
    }
}

/// Reads `part` of the slow file. Past the page cache, a part that flash cut to an odd length is read as an aligned
/// superset; what is too much is thrown away, so that what is used is what was asked for.
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
