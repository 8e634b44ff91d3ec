//! The managed files this process has open: one record each, whatever the number of descriptors.
//!
//! ```text
//! free --acquire (agent told: Open)--> open --last release (requests waited for; agent told: Close)--> free
//! ```
//!
//! The agent knows a record for one *generation*: to the agent a forked child is a new process, so the child
//! opens its records again at their first use. If a file was open for reading and is opened for writing, the
//! agent hears of it again, as a cheap write tells it nothing. Records change under the gate; the data path
//! reads them without.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use headstart_policy::client::Reason;
use headstart_policy::client::carl::Regions;
use headstart_policy::order::{Course, Distance};
use headstart_protocol::message::Request;
use headstart_protocol::shared::{FILES_MAX, FileEntry};
use headstart_units::request::Range;

use crate::files::{data_files, regions, ring_state};
use crate::gate::Gate;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::{self, Answer};
use crate::{process, settings};

pub(super) const BYPASS_NONE: u32 = 0;
pub(super) const BYPASS_READS: u32 = 1;
pub(super) const BYPASS_WRITES: u32 = 2;

/// One managed file.
#[derive(Debug)]
pub(crate) struct Record {
    /// Open descriptions of this process that refer to it; zero: free.
    references: AtomicU32,
    /// Index in the shared table.
    file: AtomicU32,
    /// The process generation that told the agent; zero: none.
    generation: AtomicU32,
    /// Whether the agent was told that this process may write it.
    writable: AtomicBool,
    /// `BYPASS_*`: what this process does to it unseen.
    bypass: AtomicU32,
    /// Whether the site keeps it off flash.
    excluded: AtomicBool,
    device: AtomicU64,
    inode: AtomicU64,
    /// Where the process is in it, a [`Course`].
    course: AtomicU64,
    /// The process's number of what the record stands for, each time that it is opened; never zero.
    serial: AtomicU32,
    /// Whether it was recorded that the process uses it unseen.
    unseen: AtomicBool,
    /// Whether others may have it open who never said so, as this process forked, executed a program, or is one itself.
    inherited: AtomicBool,
    /// Which regions of it belong on flash.
    regions: regions::Cell,
}

static RECORDS: [Record; FILES_MAX] = [const {
    Record {
        references: AtomicU32::new(0),
        file: AtomicU32::new(0),
        generation: AtomicU32::new(0),
        writable: AtomicBool::new(false),
        bypass: AtomicU32::new(BYPASS_NONE),
        excluded: AtomicBool::new(false),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        course: AtomicU64::new(0),
        serial: AtomicU32::new(0),
        unseen: AtomicBool::new(false),
        inherited: AtomicBool::new(false),
        regions: regions::Cell::new(),
    }
}; FILES_MAX];

/// Records at or above this index were never used.
static RECORDS_USED: AtomicU32 = AtomicU32::new(0);

/// Files this process has opened.
static SERIALS: AtomicU32 = AtomicU32::new(0);

/// The record of an index.
#[inline]
pub(crate) fn record(index: u32) -> &'static Record {
    &RECORDS[index as usize]
}

impl Record {
    /// Index in the shared table; only meaningful while `is_current`.
    #[inline]
    pub(crate) fn file(&self) -> u32 {
        self.file.load(Ordering::Acquire)
    }

    /// Whether the agent knows that this process has it open.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.generation.load(Ordering::Acquire) == process::generation()
    }

    /// Whether several open descriptions of this process refer to it.
    pub(crate) fn is_shared(&self) -> bool {
        self.references.load(Ordering::Acquire) > 1
    }

    /// How `range` lies to the requests before, the last of which it becomes.
    #[inline]
    pub(crate) fn distance(&self, range: Range) -> Distance {
        let (course, distance) = Course(self.course.load(Ordering::Relaxed)).to(range);
        self.course.store(course.0, Ordering::Relaxed);
        distance
    }

    /// The file's number in what this process records.
    #[inline]
    pub(crate) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The file's device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed))
    }

    /// Whether this is the first time that the process uses the open file unseen.
    pub(crate) fn is_first_unseen(&self) -> bool {
        !self.unseen.swap(true, Ordering::Relaxed)
    }

    /// Others may have it open without having told the agent. Absorbed bytes then outlive the processes that
    /// told it, even if the file has no name any more.
    pub(crate) fn bequeath(&self) {
        self.inherited.store(true, Ordering::Relaxed);
        self.tell_inherited();
    }

    /// Whether others may have the same open descriptions.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.inherited.load(Ordering::Relaxed)
    }

    /// In the shared table, where the agent knows the record.
    fn tell_inherited(&self) {
        if self.inherited.load(Ordering::Relaxed)
            && self.is_current()
            && settings::served()
            && let Some(shared) = session::shared()
        {
            shared.files[self.file() as usize].bequeath();
        }
    }

    /// Which regions there are, by the shared table; none if there never were any.
    #[inline]
    fn regions_key(&self) -> Option<regions::Key> {
        let file = self.file();
        let version = session::shared()?.files[file as usize].regions.load(Ordering::Acquire);
        (version > 0).then(|| regions::Key { serial: self.serial(), file, version })
    }

    /// Looks at the regions that belong on flash, as far as they are known.
    #[inline]
    pub(crate) fn with_regions<R>(&self, work: impl FnOnce(&Regions) -> R) -> R {
        match self.regions_key() {
            Some(key) => self.regions.with(key, work),
            None => work(&Regions::NONE),
        }
    }

    /// Before a request: asks for the regions if the policies want to know them and they have changed. Where
    /// nobody answers the request goes on without.
    #[inline]
    pub(crate) fn know_regions(&self) {
        if !settings::settings().policies.asks_regions() {
            return;
        }
        if let Some(key) = self.regions_key().filter(|key| !self.regions.knows(*key)) {
            self.regions.learn(key, || session::with(|session| regions::ask(session, key.file)));
        }
    }

    /// Why no byte of it is to come to flash, whatever the policy.
    #[inline]
    pub(crate) fn stays_on_disk(&self) -> Option<Reason> {
        if self.excluded.load(Ordering::Relaxed) {
            return Some(Reason::Excluded);
        }
        (self.bypass.load(Ordering::Relaxed) != BYPASS_NONE).then_some(Reason::Bypassed)
    }

    fn is(&self, device: u64, inode: u64) -> bool {
        self.references.load(Ordering::Acquire) > 0
            && self.inode.load(Ordering::Relaxed) == inode
            && self.device.load(Ordering::Relaxed) == device
    }

    /// Whether anything refers to it.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.references.load(Ordering::Acquire) > 0
    }

    /// Whether the agent was told that this process may write it.
    pub(super) fn may_write(&self) -> bool {
        self.writable.load(Ordering::Relaxed)
    }

    /// `BYPASS_*`.
    pub(super) fn bypass(&self) -> u32 {
        self.bypass.load(Ordering::Acquire)
    }

    /// The agent knows that this process bypasses flash so far.
    pub(super) fn raise_bypass(&self, to: u32) {
        self.bypass.fetch_max(to, Ordering::AcqRel);
    }

    /// An agent that was started anew has opened it again.
    pub(super) fn reopened(&self, excluded: bool) {
        self.excluded.store(excluded, Ordering::Relaxed);
        self.tell_inherited();
    }
}

pub(super) fn used() -> &'static [Record] {
    &RECORDS[..RECORDS_USED.load(Ordering::Acquire) as usize]
}

/// What the shared table holds of the file, if this process has it open.
pub(crate) fn entry_of(device: u64, inode: u64) -> Option<&'static FileEntry> {
    let record = used().iter().find(|record| record.is(device, inode) && record.is_current())?;
    session::shared().map(|shared| &shared.files[record.file() as usize])
}

/// The record of a file this process has open, made and told to the agent if there is none; it gains a reference.
pub(crate) fn acquire(_gate: &Gate, facts: &Facts, writable: bool, path: &[u8]) -> Result<u32, Errno> {
    let open = used().iter().position(|record| record.is(facts.device, facts.inode));
    let known = |record: &Record| record.is_current() && (!writable || record.writable.load(Ordering::Relaxed));
    if let Some(index) = open.filter(|&index| known(&RECORDS[index])) {
        RECORDS[index].references.fetch_add(1, Ordering::AcqRel);
        return Ok(index as u32);
    }
    let free = open.or_else(|| RECORDS.iter().position(|record| record.references.load(Ordering::Acquire) == 0));
    let index = free.ok_or(libc::EMFILE)?;
    let record = &RECORDS[index];
    let writable = writable || open.is_some() && record.writable.load(Ordering::Relaxed);
    let (file, excluded) = tell_open(index as u32, facts, writable, path)?;
    if open.is_none() {
        record.course.store(0, Ordering::Relaxed);
        record.bypass.store(BYPASS_NONE, Ordering::Relaxed);
        record.unseen.store(false, Ordering::Relaxed);
        record.inherited.store(false, Ordering::Relaxed);
        // After 2^32 openings numbers come again, but for zero.
        record.serial.store(SERIALS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1), Ordering::Relaxed);
    }
    if ring_state::in_use() {
        ring_state::say();
        record.bypass.fetch_max(if writable { BYPASS_WRITES } else { BYPASS_READS }, Ordering::Relaxed);
    }
    tell_bypass(file, record.bypass.load(Ordering::Relaxed))?;
    record.excluded.store(excluded, Ordering::Relaxed);
    record.writable.store(writable, Ordering::Relaxed);
    record.device.store(facts.device, Ordering::Relaxed);
    record.inode.store(facts.inode, Ordering::Relaxed);
    record.file.store(file, Ordering::Release);
    record.generation.store(process::generation(), Ordering::Release);
    record.tell_inherited();
    record.references.fetch_add(1, Ordering::AcqRel);
    RECORDS_USED.fetch_max(index as u32 + 1, Ordering::AcqRel);
    Ok(index as u32)
}

/// Opens a record at the agent that was inherited over fork, by one of its descriptors.
pub(crate) fn renew(_gate: &Gate, index: u32, fd: i32, writable: bool) -> Result<(), Errno> {
    let record = record(index);
    if record.is_current() {
        return Ok(());
    }
    let mut buffer = PathBuffer::empty();
    let facts = kernel::facts(fd)?;
    // Another descriptor of it may be able to write.
    let writable = writable || record.writable.load(Ordering::Relaxed);
    // Where the path cannot be told, behind another root for one, the agent knows the file by what it is.
    let path = location::path_of(fd, &mut buffer).unwrap_or(b"");
    let (file, excluded) = tell_open(index, &facts, writable, path)?;
    record.excluded.store(excluded, Ordering::Relaxed);
    tell_bypass(file, record.bypass.load(Ordering::Relaxed))?;
    record.regions.forked();
    record.writable.store(writable, Ordering::Relaxed);
    record.file.store(file, Ordering::Release);
    record.generation.store(process::generation(), Ordering::Release);
    record.tell_inherited();
    Ok(())
}

/// Whether this process uses any file by means the library does not see.
pub(crate) fn any_bypassed() -> bool {
    let uses = |record: &&Record| record.bypass.load(Ordering::Acquire) != BYPASS_NONE && record.is_current();
    settings::served() && used().iter().any(|record| record.references.load(Ordering::Acquire) > 0 && uses(&record))
}

/// Before this process forks or executes a program: the child has what this process has open, and tells the
/// agent only when it uses it.
pub(crate) fn bequeath_all() {
    used().iter().filter(|record| record.references.load(Ordering::Acquire) > 0).for_each(Record::bequeath);
}

/// Gives one reference back; with the last one waits for requests under way in other threads, then tells the agent.
pub(crate) fn release(_gate: &Gate, index: u32) {
    let record = record(index);
    if record.references.fetch_sub(1, Ordering::AcqRel) > 1 {
        return;
    }
    let (file, current) = (record.file(), record.is_current());
    record.generation.store(0, Ordering::Release);
    if !current || !settings::served() {
        return;
    }
    // A request that was published before its descriptor vanished is seen here; one published later sees the
    // descriptor gone.
    fence(Ordering::SeqCst);
    session::wait_for_requests(file);
    data_files::forget(file);
    let _ = session::with(|session| session.call(&Request::Close { file }));
}

pub(super) fn has_set_bits(entry: &FileEntry) -> bool {
    entry.set_bits.load(Ordering::SeqCst) != 0
}

pub(super) fn tell_bypass(file: u32, bypass: u32) -> Result<(), Errno> {
    if bypass == BYPASS_NONE || !settings::served() {
        return Ok(());
    }
    session::with(|session| {
        let writes = bypass == BYPASS_WRITES;
        match session.call(&Request::Bypass { file, writes })? {
            Answer::Done => {}
            other => return Err(session.unexpected(other)),
        }
        // What is written unseen may also be made durable unseen (msync, a ring): the records that took the
        // old bytes off flash must be durable before, lest the old bytes come back with the power.
        let lingers = session::shared().is_some_and(|shared| has_set_bits(&shared.files[file as usize]));
        if !writes || !lingers {
            return Ok(());
        }
        match session.call(&Request::Sync { file })? {
            Answer::Done => Ok(()),
            other => Err(session.unexpected(other)),
        }
    })
}

/// The file's index, and whether the site keeps it off flash. Without an agent the record's own index serves.
pub(super) fn tell_open(record: u32, facts: &Facts, writable: bool, path: &[u8]) -> Result<(u32, bool), Errno> {
    if !settings::served() {
        return Ok((record, false));
    }
    let request = open_request(facts, writable, path);
    session::with(|session| match session.call(&request)? {
        Answer::Opened(file, excluded) => Ok((file, excluded)),
        other => Err(session.unexpected(other)),
    })
}

pub(crate) fn open_request<'a>(facts: &Facts, writable: bool, path: &'a [u8]) -> Request<'a> {
    let Facts { inode, birth_ns, size, .. } = *facts;
    // The kernel says so behind the last name of a file that has none any more.
    let path = path.strip_suffix(b" (deleted)").filter(|_| facts.links == 0).unwrap_or(path);
    Request::Open { inode, birth_ns, size, writable, path }
}
