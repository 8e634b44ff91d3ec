//! What each descriptor of the process is: a static table of atomics, read without a lock.
//!
//! ```text
//! UNKNOWN --first data call--> UNMANAGED --close--> CLOSING --kernel--> UNKNOWN
//!                          \-> MANAGED(description) --close--> CLOSING_MANAGED --kernel--> UNKNOWN
//! OWN_*: the library's own sockets and data files; the program can neither close nor replace them. OWN_CLOSING: until the library has closed it
//! ```
//!
//! Several descriptors share a *description* (dup), several descriptions a file record. Every hooked call that makes
//! or closes a descriptor keeps the table true. Descriptors that appear otherwise (inherited over exec, received over
//! a socket, opened by stdio) are UNKNOWN, and classified at their first data call. A managed descriptor that is
//! closed by a raw system call, or inside libc other than by `fclose` and `freopen`, leaves a stale entry until a
//! hooked call makes that number anew; checking (device, inode) at every call would cost a system call each.
//!
//! A call on a managed descriptor that another thread is closing or replacing waits for that to happen (`closing`):
//! passed through, it would use the slow file without a slot. Who closes or replaces one waits for the calls
//! under way on its number ([`uses`]), so that no call ends on another file than it began on; meanwhile the
//! entry is WANTED.

mod closing;
mod offset;

pub(crate) use closing::{Closing, Undisturbed};

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering, fence};

use headstart_protocol::shared::{FileEntry, Shared};
use libc::c_int;

use crate::calls::rings;
use crate::files::records::{self, Record};
use crate::gate::{Gate, gate};
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::uses::{self, Use};
use crate::settings::{retire, settings};
use crate::{process, recording, session};
use offset::{HeldOffset, Offset};

/// Descriptors at or above this number cannot be managed: opening a managed file there fails with EMFILE.
pub(crate) const DESCRIPTORS_MAX: usize = 65536;

/// Descriptors below this number are looked at where a process is about to lose what it takes to look later
/// (assumed: programs that have inherited others do not count on them).
pub(crate) const FIRST_MAX: c_int = 64;

const UNKNOWN: u32 = 0;
const UNMANAGED: u32 = 1;
const CLOSING: u32 = 2;
const OWN_SOCKET: u32 = 3;
const OWN_FILE: u32 = 4;
const CLOSING_MANAGED: u32 = 5;
const OWN_CLOSING: u32 = 6;
/// A managed entry is this plus the description's index.
const MANAGED: u32 = 16;
/// Set in a managed entry while whoever closes or replaces the descriptor waits for calls under way on it.
const WANTED: u32 = 1 << 31;

static TABLE: [AtomicU32; DESCRIPTORS_MAX] = [const { AtomicU32::new(UNKNOWN) }; DESCRIPTORS_MAX];
/// One past the highest entry that ever left UNKNOWN.
static TABLE_USED: AtomicI32 = AtomicI32::new(0);

/// What a call comes to when its descriptor means something else than when the call began. It is made again, and the
/// program never sees this.
pub(crate) const CHANGED: Errno = -1;

/// An open file description, shared by the descriptors that dup made.
struct Description {
    /// Descriptors of this process; zero: free.
    references: AtomicU32,
    record: AtomicU32,
    /// `O_*` flags that matter: access mode, O_APPEND, O_DSYNC, O_SYNC, O_DIRECT.
    flags: AtomicI32,
    offset: Offset,
}

static DESCRIPTIONS: [Description; DESCRIPTORS_MAX] = [const {
    Description {
        references: AtomicU32::new(0),
        record: AtomicU32::new(0),
        flags: AtomicI32::new(0),
        offset: Offset::free(),
    }
}; DESCRIPTORS_MAX];

/// A managed descriptor as one call sees it.
pub(crate) struct Target {
    /// The descriptor, open on the slow file.
    pub fd: c_int,
    /// Index of the file in the shared table.
    pub file: u32,
    /// The file's record.
    pub record: &'static Record,
    entry: u32,
    index: u32,
    flags: c_int,
    /// Whether the call's use of the number is noted.
    noted: bool,
    /// Whether it was seen after the note that the descriptor means this file: then it does until the call ends.
    held: Cell<bool>,
}

impl Target {
    /// Whether the descriptor still means the same file; asked after the request is published, against a `close` at
    /// the same time.
    #[inline]
    pub(crate) fn still_open(&self) -> bool {
        let now = TABLE[self.fd as usize].load(Ordering::Acquire);
        let same = now & !WANTED == self.entry || self.held.get() && now == CLOSING_MANAGED;
        let description = &DESCRIPTIONS[(self.entry - MANAGED) as usize];
        let open = same
            && description.record.load(Ordering::Acquire) == self.index
            // Closed and opened again before it was held, the same file may append now.
            && (self.held.get() || description.flags.load(Ordering::Relaxed) == self.flags)
            && self.record.file() == self.file
            && self.record.is_current();
        self.held.set(open && self.noted);
        open
    }

    /// The same for a call that uses the number before a request is published, or without one.
    pub(crate) fn hold(&self) -> Result<(), Errno> {
        fence(Ordering::SeqCst);
        if self.still_open() { Ok(()) } else { Err(CHANGED) }
    }

    /// Before a write: sees to it that the flags are those of now. Another process that has the same open
    /// description may have changed them, if this one forked or is the child of one that has it.
    #[inline]
    pub(crate) fn know_flags(&self) -> Result<(), Errno> {
        if !self.record.is_inherited() {
            return Ok(());
        }
        self.hold()?;
        learn_flags(self.fd, self.entry);
        let flags = DESCRIPTIONS[(self.entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
        if flags == self.flags { Ok(()) } else { Err(CHANGED) }
    }

    /// Keeps other threads from using the description's offset.
    #[inline]
    pub(crate) fn hold_offset(&self) -> Option<HeldOffset> {
        DESCRIPTIONS[(self.entry - MANAGED) as usize].offset.hold()
    }

    /// What the shared table says of the file.
    #[inline]
    pub(crate) fn entry<'s>(&self, shared: &Shared<'s>) -> &'s FileEntry {
        &shared.files[self.file as usize]
    }

    /// Whether it may be read.
    pub(crate) fn readable(&self) -> bool {
        matches!(self.flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    /// Whether it may be written.
    pub(crate) fn writable(&self) -> bool {
        can_write(self.flags)
    }

    /// Whether writes go to the end of the file.
    pub(crate) fn appends(&self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// Whether writes are durable when they return.
    pub(crate) fn durable(&self) -> bool {
        self.flags & libc::O_DSYNC != 0
    }

    /// Whether the slow file is read and written past the page cache.
    pub(crate) fn uncached(&self) -> bool {
        self.flags & libc::O_DIRECT != 0
    }
}

/// The managed file behind a descriptor of a data call; nothing if it is not managed. An error is the call's result:
/// the file is managed, but the agent refused it or cannot be reached. Always inlined: a target handed over
/// in memory costs more than all that is done here.
#[inline(always)]
pub(crate) fn managed(fd: c_int) -> Result<Option<Target>, Errno> {
    let Some(cell) = TABLE.get(fd as usize) else { return Ok(None) };
    let entry = match cell.load(Ordering::Acquire) {
        entry @ MANAGED..WANTED if record_of(entry).1.is_current() => Some(entry),
        UNKNOWN | CLOSING_MANAGED | MANAGED.. => settled(fd)?,
        _ => None,
    };
    Ok(entry.map(|entry| target(fd, entry)))
}

/// Runs `work` on the managed file behind a descriptor; nothing if it is not managed.
#[inline]
pub(crate) fn on_managed<R>(fd: c_int, mut work: impl FnMut(&Target) -> Result<R, Errno>) -> Result<Option<R>, Errno> {
    loop {
        let Some(mut target) = managed(fd)? else { return Ok(None) };
        let using = Use::begin(fd);
        target.noted = using.is_noted();
        match work(&target) {
            Err(CHANGED) => {}
            result => return result.map(Some),
        }
    }
}

/// Keeps other threads from using the offset of a descriptor that is known to be managed.
#[inline]
pub(crate) fn hold_offset(fd: c_int) -> Option<HeldOffset> {
    let description = description_of(TABLE.get(fd as usize)?.load(Ordering::Acquire))?;
    DESCRIPTIONS[description as usize].offset.hold()
}

fn can_write(flags: c_int) -> bool {
    matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
}

#[inline(always)]
fn target(fd: c_int, entry: u32) -> Target {
    let (index, record) = record_of(entry);
    let flags = DESCRIPTIONS[(entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
    Target { fd, file: record.file(), record, entry, index, flags, noted: false, held: Cell::new(false) }
}

/// The record behind an entry of the table, and its index.
#[inline]
fn record_of(entry: u32) -> (u32, &'static Record) {
    let index = DESCRIPTIONS[(entry - MANAGED) as usize].record.load(Ordering::Acquire);
    (index, records::record(index))
}

/// The entry of a descriptor once it is known what it is, nobody is closing it, and the agent knows its file;
/// nothing if it is not managed then.
#[cold]
fn settled(fd: c_int) -> Result<Option<u32>, Errno> {
    match TABLE[fd as usize].load(Ordering::Acquire) {
        UNKNOWN => classify(fd),
        CLOSING_MANAGED | WANTED.. => closing::once_closed(fd),
        entry @ MANAGED.. => renewed(fd, entry),
        _ => Ok(None),
    }
}

/// An entry whose file the agent knows, or else what the descriptor means by now.
fn renewed(fd: c_int, entry: u32) -> Result<Option<u32>, Errno> {
    let (index, record) = record_of(entry);
    let flags = DESCRIPTIONS[(entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
    if record.is_current() || renew(fd, entry, index, flags)? { Ok(Some(entry)) } else { settled(fd) }
}

/// Opens the descriptor's file again; not if the descriptor means something else by now.
fn renew(fd: c_int, entry: u32, index: u32, flags: c_int) -> Result<bool, Errno> {
    let gate = gate();
    if TABLE[fd as usize].load(Ordering::Acquire) & !WANTED != entry {
        return Ok(false);
    }
    records::renew(&gate, index, fd, can_write(flags)).map(|()| true)
}

/// Finds out what an unknown descriptor is, and remembers it.
fn classify(fd: c_int) -> Result<Option<u32>, Errno> {
    let Ok(facts) = kernel::facts(fd) else { return Ok(None) };
    let managed = adopt(fd, &facts)?;
    let now = kernel::facts(fd).map(|now| (now.device, now.inode));
    if now != Ok((facts.device, facts.inode)) {
        // Another thread closed or replaced it meanwhile, of which the table said nothing as long as it was unknown.
        let entry = TABLE[fd as usize].load(Ordering::Acquire) & !WANTED;
        if entry < MANAGED || Ok(record_of(entry).1.identity()) != now {
            forget(fd);
        }
        return if now.is_ok() { settled(fd) } else { Ok(None) };
    }
    if !managed {
        return Ok(None);
    }
    let found = settled(fd)?;
    // Where it came from others may have it.
    found.iter().for_each(|entry| record_of(*entry).1.bequeath());
    Ok(found)
}

/// Makes a descriptor managed if it is a regular file under the managed directory, and says whether it is.
pub(crate) fn adopt(fd: c_int, facts: &Facts) -> Result<bool, Errno> {
    let mut buffer = PathBuffer::empty();
    let path = match facts.regular.then(|| location::path_of_known(fd, Some(facts), &mut buffer)) {
        Some(Ok(path)) => path,
        Some(Err(libc::ENAMETOOLONG)) if process::is_own() => records::untold(facts).map(|()| &b""[..])?,
        _ => b"",
    };
    let flags =
        if location::is_managed_file(facts, path) { kernel::fcntl(fd, libc::F_GETFL, 0)? } else { libc::O_PATH };
    if !process::is_own() {
        return Ok(false);
    }
    if flags & libc::O_PATH != 0 {
        leave_alone(fd);
        return Ok(false);
    }
    if fd as usize >= DESCRIPTORS_MAX {
        return Err(libc::EMFILE);
    }
    let gate = gate();
    if TABLE[fd as usize].load(Ordering::Acquire) >= MANAGED {
        return Ok(true);
    }
    let record = match records::acquire(&gate, facts, can_write(flags), path) {
        // It has no name, and the agent does not know it: nothing of it is on flash, and nobody else can open it.
        Err(libc::ENOENT) if facts.links == 0 => {
            leave_alone(fd);
            return Ok(false);
        }
        // Under the gate, so that no other thread makes a descriptor managed meanwhile.
        Err(libc::ENOTCONN) if session::shared().is_none() => {
            let slow = settings().slow.escape_ascii();
            session::complain(format_args!(
                "no agent serves {slow}, and nothing of it is only on flash: going on without"
            ));
            retire(recording::is_on());
            if !recording::is_on() {
                leave_alone(fd);
                return Ok(false);
            }
            records::acquire(&gate, facts, can_write(flags), path)?
        }
        acquired => acquired?,
    };
    let description = describe(fd, record, flags);
    raise_used(fd);
    TABLE[fd as usize].store(MANAGED + description, Ordering::Release);
    drop(gate);
    if rings::in_use()
        && let Ok(Some(target)) = managed(fd)
    {
        recording::unseen(&target);
    }
    Ok(true)
}

/// Takes a descriptor for unmanaged until it is closed.
pub(crate) fn leave_alone(fd: c_int) {
    if let Some(cell) = TABLE.get(fd as usize) {
        raise_used(fd);
        let _ = cell.compare_exchange(UNKNOWN, UNMANAGED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn describe(fd: c_int, record: u32, flags: c_int) -> u32 {
    let free = |index: &usize| DESCRIPTIONS[*index].references.load(Ordering::Acquire) == 0;
    let index = (fd as usize..DESCRIPTORS_MAX).chain(0..fd as usize).find(free);
    let index = index.expect("there are as many descriptions as descriptors");
    DESCRIPTIONS[index].record.store(record, Ordering::Release);
    DESCRIPTIONS[index].flags.store(flags, Ordering::Release);
    // A handler that jumped out of a call left it taken.
    DESCRIPTIONS[index].offset.abandon();
    DESCRIPTIONS[index].references.store(1, Ordering::Release);
    index as u32
}

fn raise_used(fd: c_int) {
    if TABLE_USED.load(Ordering::Relaxed) <= fd {
        TABLE_USED.fetch_max(fd + 1, Ordering::AcqRel);
    }
}

/// A descriptor was made by a call that tells nothing of its file: whatever the table held is out of date.
pub(crate) fn forget(fd: c_int) {
    let Some(cell) = TABLE.get(fd as usize) else { return };
    match cell.load(Ordering::Acquire) {
        UNKNOWN | OWN_SOCKET | OWN_FILE | OWN_CLOSING => {}
        // The kernel gave the number out, so that its close is over, whatever else the thread that closed it waits for.
        entry @ (UNMANAGED | CLOSING) => forget_unmanaged(fd, entry),
        _ => drop(Closing::begin(fd)),
    }
}

/// A file that was not managed became so: descriptors on it are looked at again at their next call.
pub(crate) fn look_again(facts: &Facts) {
    let same = |fd: &c_int| kernel::facts(*fd).is_ok_and(|now| (now.device, now.inode) == (facts.device, facts.inode));
    known(0, u32::MAX).filter(|&fd| known_unmanaged(fd)).filter(same).for_each(|fd| forget_unmanaged(fd, UNMANAGED));
}

/// `entry`: what the table held of the descriptor.
fn forget_unmanaged(fd: c_int, entry: u32) {
    let _ = TABLE[fd as usize].compare_exchange(entry, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
}

/// Whether a descriptor is the library's own.
#[inline]
pub(crate) fn is_own(fd: c_int) -> bool {
    TABLE
        .get(fd as usize)
        .is_some_and(|cell| matches!(cell.load(Ordering::Acquire), OWN_SOCKET | OWN_FILE | OWN_CLOSING))
}

fn release(gate: &Gate, index: u32) {
    let description = &DESCRIPTIONS[index as usize];
    if description.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        records::release(gate, description.record.load(Ordering::Acquire));
    }
}

/// The description behind an entry of the table.
fn description_of(entry: u32) -> Option<u32> {
    (entry & !WANTED).checked_sub(MANAGED)
}

/// A managed descriptor about to be duplicated; its description has one more reference until the duplicate is made or
/// this is dropped.
pub(crate) struct Duplicate {
    of: c_int,
    entry: u32,
    used: bool,
}

impl Duplicate {
    /// Nothing if the descriptor is not managed, or not at this moment, or this is a `vfork` child.
    pub(crate) fn of(fd: c_int) -> Option<Duplicate> {
        let cell = TABLE.get(fd as usize).filter(|cell| cell.load(Ordering::Acquire) >= MANAGED)?;
        if !process::is_own() {
            return None;
        }
        let _gate = gate();
        let entry = cell.load(Ordering::Acquire) & !WANTED;
        let description = description_of(entry)?;
        DESCRIPTIONS[description as usize].references.fetch_add(1, Ordering::AcqRel);
        Some(Duplicate { of: fd, entry, used: false })
    }

    /// The kernel made `fd` a duplicate. Of what, is found out later where the original was replaced meanwhile.
    pub(crate) fn made(mut self, fd: c_int) {
        if TABLE[self.of as usize].load(Ordering::Acquire) & !WANTED != self.entry {
            return;
        }
        self.used = true;
        raise_used(fd);
        TABLE[fd as usize].store(self.entry, Ordering::Release);
    }
}

impl Drop for Duplicate {
    fn drop(&mut self) {
        if !self.used {
            release(&gate(), self.entry - MANAGED);
        }
    }
}

/// F_SETFL changed the flags of a managed descriptor. Descriptors that came apart have a description each,
/// though the kernel may have one for all of them; so those of all that are open on the file are asked for
/// again.
pub(crate) fn flags_changed(fd: c_int) {
    let Some(cell) = TABLE.get(fd as usize) else { return };
    // One that came from elsewhere and was not used yet may share what others have.
    let saved = kernel::errno();
    let found = managed(fd);
    kernel::set_errno(saved);
    let Ok(Some(_)) = found else { return };
    let entry = cell.load(Ordering::Acquire) & !WANTED;
    if entry < MANAGED {
        return;
    }
    let (index, record) = record_of(entry);
    if record.is_shared() {
        all_of(index).for_each(|(fd, entry)| learn_flags(fd, entry));
    } else {
        learn_flags(fd, entry);
    }
}

/// Asks for a descriptor's flags, if it still is what its entry says; whoever closes it waits meanwhile.
fn learn_flags(fd: c_int, entry: u32) {
    let _using = Use::begin(fd);
    fence(Ordering::SeqCst);
    if TABLE[fd as usize].load(Ordering::Acquire) & !WANTED == entry
        && let Ok(flags) = kernel::fcntl(fd, libc::F_GETFL, 0)
    {
        DESCRIPTIONS[(entry - MANAGED) as usize].flags.store(flags, Ordering::Release);
    }
}

/// The descriptors of a record, with their entries.
fn all_of(record: u32) -> impl Iterator<Item = (c_int, u32)> {
    let entries =
        (0..TABLE_USED.load(Ordering::Acquire)).map(|fd| (fd, TABLE[fd as usize].load(Ordering::Acquire) & !WANTED));
    entries.filter(move |&(_, entry)| entry >= MANAGED && record_of(entry).0 == record)
}

/// A descriptor of a record.
pub(crate) fn any_of(record: u32) -> Option<c_int> {
    all_of(record).next().map(|(fd, _)| fd)
}

/// What of the library's own a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// A connection to the agent.
    Socket,
    /// A data file on flash, or something held for a moment.
    File,
}

/// Moves a descriptor of the library out of the program's way, to a high number, and marks it, but not in a
/// `vfork` child, whose numbers are not those of the table. It is closed on exec. Where no number is left a
/// connection stays where it is.
pub(crate) fn make_own(fd: c_int, own: Own) -> Result<c_int, Errno> {
    let limit = kernel::descriptor_limit().min(DESCRIPTORS_MAX as u64) as i64;
    let wanted = [limit - 1024, limit - 256, 900, limit / 2, 3];
    let moved = wanted.iter().filter(|&&low| low >= 3).find_map(|&low| {
        kernel::fcntl(fd, libc::F_DUPFD_CLOEXEC, low).ok().filter(|&high| (high as usize) < DESCRIPTORS_MAX)
    });
    let stays = own == Own::Socket && (3..DESCRIPTORS_MAX as c_int).contains(&fd);
    let Some(high) = moved.or(stays.then_some(fd)) else {
        let _ = kernel::close(fd);
        return Err(libc::EMFILE);
    };
    let entry = if own == Own::Socket { OWN_SOCKET } else { OWN_FILE };
    if process::is_own() {
        raise_used(high);
        TABLE[high as usize].store(entry, Ordering::Release);
    }
    if high != fd {
        let _ = kernel::close(fd);
    }
    Ok(high)
}

/// Closes a descriptor of the library. Its number may be another one's own at once, whose mark stays.
pub(crate) fn close_own(fd: c_int) {
    if !process::is_own() {
        let _ = kernel::close(fd);
        return;
    }
    let cell = &TABLE[fd as usize];
    cell.store(OWN_CLOSING, Ordering::Release);
    let _ = kernel::close(fd);
    let _ = cell.compare_exchange(OWN_CLOSING, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
}

/// In a forked child: the parent's connections are not the child's, and what other threads of the parent were closing
/// stays open. Only stores and system calls happen here.
pub(crate) fn settle_inherited() {
    for fd in 0..TABLE_USED.load(Ordering::Acquire) {
        match TABLE[fd as usize].load(Ordering::Acquire) {
            OWN_SOCKET | OWN_CLOSING => close_own(fd),
            CLOSING | CLOSING_MANAGED => TABLE[fd as usize].store(UNKNOWN, Ordering::Release),
            entry @ WANTED.. => TABLE[fd as usize].store(entry & !WANTED, Ordering::Release),
            _ => {}
        }
        if let Some(description) = description_of(TABLE[fd as usize].load(Ordering::Acquire)) {
            DESCRIPTIONS[description as usize].offset.abandon();
        }
    }
}

/// The descriptors from `first` to `last` for which the table holds anything.
pub(crate) fn known(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let end = (TABLE_USED.load(Ordering::Acquire) as u32).min(last.saturating_add(1));
    (first..end).map(|fd| fd as c_int).filter(|&fd| TABLE[fd as usize].load(Ordering::Acquire) != UNKNOWN)
}

/// Whether the table holds a descriptor for unmanaged, without looking further.
#[inline]
pub(crate) fn known_unmanaged(fd: c_int) -> bool {
    TABLE.get(fd as usize).is_some_and(|cell| cell.load(Ordering::Acquire) == UNMANAGED)
}

/// Whether the table holds a descriptor for managed, without looking further.
pub(crate) fn known_managed(fd: c_int) -> bool {
    TABLE.get(fd as usize).is_some_and(|cell| cell.load(Ordering::Acquire) >= MANAGED)
}
