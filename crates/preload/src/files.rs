//! The managed files this process has open: one record each, whatever the number of descriptors.
//!
//! ```text
//! free --acquire (agent told: Open)--> open --last release (requests waited for; agent told: Close)--> free
//! ```
//!
//! A record is known to the agent for one *generation*: a forked child is a new process to the agent, so its records
//! are opened again at their first use. Records change under the gate; the data path reads them without.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use headstart_core::protocol::message::Request;
use headstart_core::protocol::shared::{FILES_MAX, FileEntry};
use headstart_core::request::Range;

use crate::gate::Gate;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::{self, Answer, Session};
use crate::{data_files, descriptors, process};

/// One managed file.
#[derive(Debug)]
pub struct Record {
    /// Open descriptions of this process that refer to it; zero: free.
    references: AtomicU32,
    /// Index in the shared table.
    file: AtomicU32,
    /// The process generation that told the agent; zero: none.
    generation: AtomicU32,
    device: AtomicU64,
    inode: AtomicU64,
    /// End of the process's previous request in it.
    previous_end: AtomicU64,
}

static RECORDS: [Record; FILES_MAX] = [const {
    Record {
        references: AtomicU32::new(0),
        file: AtomicU32::new(0),
        generation: AtomicU32::new(0),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        previous_end: AtomicU64::new(0),
    }
}; FILES_MAX];

/// Records at or above this index were never used.
static RECORDS_USED: AtomicU32 = AtomicU32::new(0);

/// The record of an index.
#[inline]
pub fn record(index: u32) -> &'static Record {
    &RECORDS[index as usize]
}

impl Record {
    /// Index in the shared table; only meaningful while `is_current`.
    #[inline]
    pub fn file(&self) -> u32 {
        self.file.load(Ordering::Acquire)
    }

    /// Whether the agent knows that this process has it open.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.generation.load(Ordering::Acquire) == process::generation()
    }

    /// Distance of `range` from the previous request, which it becomes (S4D's d).
    #[inline]
    pub fn distance(&self, range: Range) -> u64 {
        let previous = self.previous_end.load(Ordering::Relaxed);
        self.previous_end.store(range.end(), Ordering::Relaxed);
        previous.abs_diff(range.offset)
    }

    fn is(&self, device: u64, inode: u64) -> bool {
        self.references.load(Ordering::Acquire) > 0
            && self.inode.load(Ordering::Relaxed) == inode
            && self.device.load(Ordering::Relaxed) == device
    }
}

fn used() -> &'static [Record] {
    &RECORDS[..RECORDS_USED.load(Ordering::Acquire) as usize]
}

/// What the shared table holds of the file, if this process has it open.
pub fn entry_of(device: u64, inode: u64) -> Option<&'static FileEntry> {
    let record = used().iter().find(|record| record.is(device, inode) && record.is_current())?;
    session::shared().map(|shared| &shared.files[record.file() as usize])
}

/// The record of a file this process has open, made and told to the agent if there is none; it gains a reference.
pub fn acquire(_gate: &Gate, facts: &Facts, writable: bool, path: &[u8]) -> Result<u32, Errno> {
    let open = used().iter().position(|record| record.is(facts.device, facts.inode));
    if let Some(index) = open.filter(|&index| RECORDS[index].is_current()) {
        RECORDS[index].references.fetch_add(1, Ordering::AcqRel);
        return Ok(index as u32);
    }
    let free = open.or_else(|| RECORDS.iter().position(|record| record.references.load(Ordering::Acquire) == 0));
    let index = free.ok_or(libc::EMFILE)?;
    let file = tell_open(facts, writable, path)?;
    let record = &RECORDS[index];
    if open.is_none() {
        record.previous_end.store(0, Ordering::Relaxed);
    }
    record.device.store(facts.device, Ordering::Relaxed);
    record.inode.store(facts.inode, Ordering::Relaxed);
    record.file.store(file, Ordering::Release);
    record.generation.store(process::generation(), Ordering::Release);
    record.references.fetch_add(1, Ordering::AcqRel);
    RECORDS_USED.fetch_max(index as u32 + 1, Ordering::AcqRel);
    Ok(index as u32)
}

/// Tells the agent about a record inherited over fork, through one of its descriptors.
pub fn renew(_gate: &Gate, index: u32, fd: i32, writable: bool) -> Result<(), Errno> {
    let record = record(index);
    if record.is_current() {
        return Ok(());
    }
    let mut buffer = PathBuffer::empty();
    let facts = kernel::facts(fd)?;
    let file = tell_open(&facts, writable, location::path_of(fd, &mut buffer)?)?;
    record.file.store(file, Ordering::Release);
    record.generation.store(process::generation(), Ordering::Release);
    Ok(())
}

/// Gives one reference back; with the last one waits for requests under way in other threads, then tells the agent.
pub fn release(_gate: &Gate, index: u32) {
    let record = record(index);
    if record.references.fetch_sub(1, Ordering::AcqRel) > 1 {
        return;
    }
    let (file, current) = (record.file(), record.is_current());
    record.generation.store(0, Ordering::Release);
    if !current {
        return;
    }
    // A request that was published before its descriptor vanished is seen here; one published later sees the
    // descriptor gone.
    fence(Ordering::SeqCst);
    session::wait_for_requests(file);
    data_files::forget(file);
    let _ = session::with(|session| session.call(&Request::Close { file }));
}

fn tell_open(facts: &Facts, writable: bool, path: &[u8]) -> Result<u32, Errno> {
    let request = open_request(facts, writable, path);
    session::with(|session| match session.call(&request)? {
        Answer::Opened(file) => Ok(file),
        other => Err(session.unexpected(other)),
    })
}

fn open_request<'a>(facts: &Facts, writable: bool, path: &'a [u8]) -> Request<'a> {
    let Facts { device, inode, birth_ns, size, .. } = *facts;
    // The kernel says so behind the last name of a file that has none any more.
    let path = path.strip_suffix(b" (deleted)").filter(|_| facts.links == 0).unwrap_or(path);
    Request::Open { device, inode, birth_ns, size, writable, path }
}

/// Opens every file again at an agent that was restarted. Says no where the agent gives one another index than before:
/// then what is published and pending names the wrong file.
pub fn reopen_all(session: &mut Session) -> Result<(), Errno> {
    for (index, record) in used().iter().enumerate() {
        if record.references.load(Ordering::Acquire) == 0 || !record.is_current() {
            continue;
        }
        let Some((fd, writable)) = descriptors::any_of(index as u32) else { continue };
        let mut buffer = PathBuffer::empty();
        let (Ok(facts), Ok(path)) = (kernel::facts(fd), location::path_of(fd, &mut buffer)) else { continue };
        match session.call_joining(&open_request(&facts, writable, path))? {
            Answer::Opened(file) if file == record.file() => {}
            other => return Err(session.unexpected(other)),
        }
    }
    Ok(())
}
