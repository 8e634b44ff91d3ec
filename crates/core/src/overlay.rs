//! The overlay of flash over the slow directory: one owner of the map, sans-IO.
//!
//! ```text
//!  requests of threads --> operations --+--> extent map, flash space --> journal (bytes to append)
//!  hints of threads ---> critical data -+--> copies: fetch, write back --> runtime copies bytes
//!  completions of copies and syncs -----+--> barrier --> runtime syncs, then places are free, bits clear
//! ```
//!
//! It is a state machine. Each `on_...` verb takes what happened and leaves [`Output`]s, which the runtime carries out in order
//! after it has stored [`Overlay::take_journal`]: a reply is never sent before the records it rests on are appended. What has
//! to wait (for another thread's slot, a lease, a copy) stays in a list that [`Overlay::poll`] tries again; slots give no
//! notice, so the runtime polls while [`Overlay::waits_for_slots`] says so. Spurious polls do nothing.
//!
//! Invariant: while a byte is mapped to flash, the slow byte under it is touched only by the holder of a direct-write lease or
//! the one write-back under way, never both, and nobody reads it.

mod barrier;
mod copies;
pub mod extent_map;
mod files;
pub mod flash_space;
mod granules;
pub mod journal;
mod operations;
pub mod recovery;
mod reserve;
mod slabs;
mod untrusted;
mod write_back;

#[cfg(test)]
mod crash_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use crate::policy::s4d::{Critical, CriticalData};
use crate::protocol::message::{Envelope, Request};
use crate::protocol::shared::{LEASE_SLOW_READ, Shared};
use crate::request::Range;
use crate::units::ByteSize;

use barrier::Barrier;
pub use barrier::NotSynced;
use copies::{CopyState, Fetch};
use extent_map::Mapped;
use files::File;
pub use files::{Fingerprint, Process};
use flash_space::{FlashSpace, Run};
use granules::Granules;
use journal::{Identity, Journal, Record};
use operations::Pending;
use reserve::Reserve;
use untrusted::Untrusted;
use write_back::Pace;

/// `errno` values the overlay answers with.
pub mod errno {
    /// Input or output error: bytes would be lost otherwise.
    pub const EIO: i32 = 5;
    /// Too many open files in the system.
    pub const ENFILE: i32 = 23;
    /// The message broke the protocol.
    pub const EPROTO: i32 = 71;
    /// The file was changed behind our back while newer bytes wait on flash.
    pub const ESTALE: i32 = 116;
}

/// What an agent is told once.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much flash may be used.
    pub capacity: Capacity,
    /// Write-back starts when more than this share of the capacity is dirty.
    pub dirty_high: f64,
    /// and stops when less than this share is.
    pub dirty_low: f64,
    /// Above this dirty share write-back no longer yields to the foreground.
    pub dirty_full: f64,
    /// The least share of the requests at the disks that write-back keeps then.
    pub write_back_share_min: f64,
    /// Copies in flight at once.
    pub copies_max: usize,
    /// Longest write-back, bytes.
    pub write_back_bytes_max: u64,
    /// Entries of the critical data table.
    pub critical_max: usize,
    /// Largest slab, bytes.
    pub slab_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: Capacity::Share(0.2),
            dirty_high: 0.2,
            dirty_low: 0.1,
            dirty_full: 0.9,
            write_back_share_min: 0.25,
            copies_max: 256,
            write_back_bytes_max: 4 << 20,
            critical_max: 65536,
            slab_bytes_max: 256 << 10,
        }
    }
}

/// How much flash may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// Bytes.
    Bytes(u64),
    /// A share, 0 to 1, of the size of the files known.
    Share(f64),
}

impl std::str::FromStr for Capacity {
    type Err = String;

    fn from_str(text: &str) -> Result<Capacity, String> {
        if let Some(percent) = text.trim().strip_suffix('%') {
            let share: f64 = percent.trim().parse().map_err(|_| format!("'{text}' is not a percentage"))?;
            return if (0.0..=100.0).contains(&share) {
                Ok(Capacity::Share(share / 100.0))
            } else {
                Err(format!("'{text}' is not between 0% and 100%"))
            };
        }
        text.parse::<ByteSize>().map(|size| Capacity::Bytes(size.0)).map_err(|error| error.to_string())
    }
}

impl std::fmt::Display for Capacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Capacity::Bytes(bytes) => write!(f, "{}", ByteSize(*bytes)),
            Capacity::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file's number.
    Opened {
        /// Index in the shared table.
        file: u32,
    },
    /// Done.
    Done,
    /// No flash space: write the slow file.
    NoSpace,
    /// A flash-read lease on so many bytes; the pieces are in the slot.
    Flash {
        /// Bytes from the first one asked for.
        length: u64,
    },
    /// A slow-read lease on so many bytes.
    Disk {
        /// Bytes from the first one asked for.
        length: u64,
    },
    /// A direct-write lease.
    Go,
    /// It failed.
    Error {
        /// What the program sees.
        errno: i32,
        /// What the user is told.
        text: String,
    },
}

/// Where a copy's bytes lie on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPiece {
    /// Bytes of the slow file.
    pub range: Range,
    /// The data file.
    pub data_file: u32,
    /// Where they begin in it.
    pub place: u64,
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// Disk to flash.
    Fetch,
    /// Flash to disk.
    WriteBack,
}

/// A copy the runtime makes; it answers with [`Overlay::on_copy_done`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrder {
    /// Comes back in the completion.
    pub id: u64,
    /// Which way.
    pub kind: CopyKind,
    /// The slow file.
    pub file: u32,
    /// All its bytes, contiguous; the pieces cover them in order.
    pub range: Range,
    /// Where they lie on flash.
    pub pieces: Vec<CopyPiece>,
}

/// What the runtime has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an answer.
    Reply(Envelope, Answer),
    /// Make a copy.
    Copy(CopyOrder),
    /// Make the slow file at least `size` long; then [`Overlay::on_extended`].
    Extend {
        /// The file.
        file: u32,
        /// Bytes.
        size: u64,
    },
    /// Sync these data files, then these slow files; then [`Overlay::on_barrier_synced`].
    Barrier {
        /// Data files whose bytes the journal names.
        data_files: Vec<u32>,
        /// Slow files written since.
        slow_files: Vec<u32>,
    },
    /// Make the journal durable up to its end; then [`Overlay::on_journal_durable`].
    SyncJournal,
    /// Make sure that the data file exists and is at least `size` long, before the next reply.
    Grow {
        /// The data file.
        data_file: u32,
        /// Bytes.
        size: u64,
    },
    /// Give the storage behind these pages back to the file system.
    Punch(Run),
    /// Delete a data file.
    RemoveDataFile(u32),
    /// Nobody has the file open any more and nothing of it is on flash: close what is open for it.
    Forget(u32),
}

/// Figures of what happened since the agent started; names as in `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Commits applied.
    pub absorbed_requests_total: u64,
    /// Bytes they mapped.
    pub absorbed_bytes_total: u64,
    /// Write-backs finished.
    pub write_backs_total: u64,
    /// Bytes they moved.
    pub written_back_bytes_total: u64,
    /// Extents they cleaned: requests the disk would have seen one by one.
    pub written_back_extents_total: u64,
    /// Write-backs that failed.
    pub write_back_errors_total: u64,
    /// Fetches published.
    pub fetches_total: u64,
    /// Bytes they moved.
    pub fetched_bytes_total: u64,
    /// Fetches cancelled or refused.
    pub fetches_cancelled_total: u64,
    /// Clean extents dropped to make room.
    pub evicted_extents_total: u64,
    /// Bytes dropped by direct writes and truncation.
    pub dropped_bytes_total: u64,
    /// Barriers made durable.
    pub barriers_total: u64,
    /// Questions for flash space that found none.
    pub no_space_total: u64,
    /// Critical reads heard of.
    pub critical_reads_total: u64,
}

/// The overlay; see the module.
#[derive(Debug)]
pub struct Overlay {
    settings: Settings,
    files: BTreeMap<u32, File>,
    by_identity: BTreeMap<Identity, u32>,
    data_files: BTreeMap<u32, u32>,
    next_data_file: u32,
    space: FlashSpace,
    journal: Journal,
    granules: Granules,
    uses: u64,
    clean: BTreeMap<u64, (u32, u64)>,
    dirty: BTreeSet<(u32, u64)>,
    dirty_bytes: u64,
    processes: BTreeMap<u32, Process>,
    direct: BTreeMap<u32, Direct>,
    quarantine: Vec<Quarantined>,
    last_commits: BTreeMap<u32, u64>,
    pending: Vec<Pending>,
    copies: BTreeMap<u64, CopyState>,
    /// The copies by file and offset; they never overlap.
    copied: BTreeMap<(u32, u64), u64>,
    next_copy: u64,
    fetches: Vec<Fetch>,
    critical: CriticalData,
    /// A critical range that waits for room to become free.
    deferred: Option<Critical>,
    /// Slots that were granted a slow read which may not have ended yet.
    slow_reads: BTreeSet<u32>,
    /// Files whose size is to be changed once no thread may be changing it.
    extending: BTreeSet<u32>,
    /// Files to be forgotten when a barrier has cleared their bits.
    forgetting: BTreeSet<u32>,
    /// Sum of the known sizes.
    known_bytes: u64,
    barrier: Barrier,
    untrusted: Untrusted,
    pace: Pace,
    reserve: Reserve,
    outputs: Vec<Output>,
    counters: Counters,
}

/// A direct-write lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direct {
    file: u32,
    range: Range,
    extends: bool,
    truncates: bool,
}

/// What a dead thread may still write to a slow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quarantined {
    file: u32,
    range: Range,
    /// Whose write it is.
    process: Process,
    /// The barrier that syncs the slow file and began after the process was gone: it lifts the quarantine.
    barrier: Option<u64>,
}

impl Overlay {
    /// An empty overlay whose journal so far ends at `journal_end`; data files get numbers from `next_data_file` on.
    pub fn new(settings: Settings, journal_end: u64, next_data_file: u32) -> Overlay {
        let capacity_bytes = match settings.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(_) => 0,
        };
        Overlay {
            critical: CriticalData::new(settings.critical_max),
            settings,
            files: BTreeMap::new(),
            by_identity: BTreeMap::new(),
            data_files: BTreeMap::new(),
            next_data_file,
            space: FlashSpace::new(capacity_bytes),
            journal: Journal::at(journal_end),
            granules: Granules::default(),
            uses: 0,
            clean: BTreeMap::new(),
            dirty: BTreeSet::new(),
            dirty_bytes: 0,
            processes: BTreeMap::new(),
            direct: BTreeMap::new(),
            quarantine: Vec::new(),
            last_commits: BTreeMap::new(),
            pending: Vec::new(),
            copies: BTreeMap::new(),
            copied: BTreeMap::new(),
            next_copy: 1,
            fetches: Vec::new(),
            deferred: None,
            slow_reads: BTreeSet::new(),
            extending: BTreeSet::new(),
            forgetting: BTreeSet::new(),
            known_bytes: 0,
            barrier: Barrier::default(),
            untrusted: Untrusted::new(),
            pace: Pace::default(),
            reserve: Reserve::default(),
            outputs: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A thread joined: `slot` is its slot from now on.
    pub fn on_join(&mut self, slot: u32, process: Process) {
        self.processes.insert(slot, process);
    }

    /// A thread's request. `now_ns` is the time of day, for the modification time of absorbed bytes.
    pub fn on_request(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        self.begin(shared, now_ns, envelope, request);
        self.progress(shared);
    }

    /// Tries everything again that waits, plans copies and barriers. Call it after time has passed while
    /// [`Overlay::waits_for_slots`], and now and then so that hints and idle disks are noticed.
    pub fn poll(&mut self, shared: Shared<'_>) {
        self.take_hints(shared);
        self.progress(shared);
    }

    /// What every verb ends with. Hints are left to `poll`, as there is a ring of them in every slot.
    fn progress(&mut self, shared: Shared<'_>) {
        self.advance(shared);
        self.plan_copies(shared);
        self.keep_reserve(shared);
        self.plan_barrier();
        shared.header.free_bytes.store(self.space.available_bytes(), Ordering::Relaxed);
    }

    /// Whether something waits for another thread's slot or lease, of which no message tells.
    pub fn waits_for_slots(&self) -> bool {
        !self.extending.is_empty()
            || self.pending.iter().any(Pending::waits_for_slots)
            || self.fetches.iter().any(Fetch::waits_for_slots)
    }

    /// What is to be done, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Bytes to append to the journal before any output is carried out.
    pub fn take_journal(&mut self) -> Vec<u8> {
        self.journal.take()
    }

    /// Position of the journal's end.
    pub fn journal_end(&self) -> u64 {
        self.journal.end()
    }

    /// Changes how much flash may be used.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.settings.capacity = capacity;
        self.update_capacity();
    }

    /// Asks that all dirty bytes go to disk, whatever the marks say, until none is left; clears errors of earlier tries.
    /// `false` ends that.
    pub fn drain(&mut self, on: bool) {
        self.pace.draining = on;
        if on {
            self.files.values_mut().for_each(|file| file.write_back_error = None);
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes on flash that the disk does not have.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Bytes of flash that hold extents.
    pub fn mapped_bytes(&self) -> u64 {
        self.space.mapped_bytes()
    }

    /// Number of extents.
    pub fn extents(&self) -> usize {
        self.files.values().map(|file| file.map.len()).sum()
    }

    /// Bytes of flash that may be used now.
    pub fn capacity_bytes(&self) -> u64 {
        self.space.capacity_bytes()
    }

    /// Whether every record up to the journal's end is durable, and every slow file it speaks of.
    pub fn is_durable(&self) -> bool {
        self.barrier.durable_end == self.journal.end() && self.barrier.deferred_slow.is_empty()
    }

    /// Asks for a full barrier, for example at the end of a drain: afterwards all that was acknowledged survives power loss.
    pub fn request_barrier(&mut self) {
        self.barrier.wanted = true;
        self.barrier.full = true;
    }

    fn file(&mut self, file: u32) -> &mut File {
        self.files.get_mut(&file).expect("the file's number was checked")
    }

    fn append(&mut self, record: &Record) {
        match record {
            Record::Map { data_file, place, length, .. } | Record::Fetched { data_file, place, length, .. } => {
                self.barrier.unsynced_data.insert(*data_file);
                self.barrier.uncovered.push(Run::touching(*data_file, *place, *length));
            }
            // Without an intent the clean bytes are kept after power loss: the disk must hold the same.
            Record::Clean { file, .. } if !self.files[file].intent => {
                self.barrier.unsynced_slow.insert(*file);
            }
            Record::Clean { file, .. } | Record::Drop { file, .. } | Record::Truncate { file, .. } => {
                self.barrier.deferred_slow.insert(*file);
            }
            // A fingerprint of a size that power loss takes back would be taken for a foreign change.
            Record::Closed { file } | Record::Fingerprint { file, .. } => {
                self.barrier.unsynced_slow.insert(*file);
            }
            _ => {}
        }
        if let Record::Fetched { file, .. } = record {
            // What was fetched may be newer than what the disk would hold after power loss: bytes written before the file was
            // opened here, or under an intent closed since. A clean extent must not outlive such bytes.
            self.barrier.unsynced_slow.insert(*file);
        }
        self.journal.append(record);
    }

    /// Adds an extent where nothing is mapped.
    fn map_in(&mut self, file: u32, mut mapped: Mapped) {
        self.uses += 1;
        mapped.stamp = self.uses;
        self.space.hold(Run::touching(mapped.data_file, mapped.place, mapped.range.length));
        self.enlist(file, &mapped);
        self.file(file).map.put(mapped);
    }

    /// Removes what is mapped of `range`. The record that says so has been appended.
    fn carve(&mut self, file: u32, range: Range) {
        let known = self.file(file);
        let change = known.map.carve(range);
        if known.map.is_empty() && known.openers.is_empty() {
            self.forgetting.insert(file);
        }
        for kept in &change.kept {
            self.space.hold(Run::touching(kept.data_file, kept.place, kept.range.length));
        }
        for removed in &change.removed {
            self.delist(file, removed);
            self.space.release(Run::touching(removed.data_file, removed.place, removed.range.length));
            self.granules.emptied(file, removed.range.intersection(range), self.journal.end());
        }
        for kept in &change.kept {
            // Both ends of an extent keep its use; the second needs a number of its own in the order of use.
            self.uses += 1;
            let kept = Mapped { stamp: self.uses, ..*kept };
            self.file(file).map.stamp(kept.range.offset, kept.stamp);
            self.enlist(file, &kept);
        }
    }

    fn enlist(&mut self, file: u32, mapped: &Mapped) {
        if mapped.dirty {
            self.dirty.insert((file, mapped.range.offset));
            self.dirty_bytes += mapped.range.length;
            self.file(file).dirty_bytes += mapped.range.length;
        } else {
            self.clean.insert(mapped.stamp, (file, mapped.range.offset));
        }
    }

    fn delist(&mut self, file: u32, mapped: &Mapped) {
        if mapped.dirty {
            self.dirty.remove(&(file, mapped.range.offset));
            self.dirty_bytes -= mapped.range.length;
            self.file(file).dirty_bytes -= mapped.range.length;
        } else {
            self.clean.remove(&mapped.stamp);
        }
    }

    /// A use of an extent: it becomes the most recent.
    fn touch(&mut self, file: u32, mapped: &Mapped) {
        self.uses += 1;
        let stamp = self.uses;
        if !mapped.dirty {
            self.clean.remove(&mapped.stamp);
            self.clean.insert(stamp, (file, mapped.range.offset));
        }
        self.file(file).map.stamp(mapped.range.offset, stamp);
    }

    fn direct_overlaps(&self, file: u32, range: Range) -> bool {
        self.direct.values().any(|direct| direct.file == file && direct.range.overlaps(range))
    }

    fn quarantines(&self, file: u32, range: Range) -> bool {
        self.quarantine.iter().any(|dead| dead.file == file && dead.range.overlaps(range))
    }

    /// Whether any byte of `range` is dirty.
    fn is_dirty(&self, file: u32, range: Range) -> bool {
        let first = self.files[&file].map.overlapping(range).next();
        first.is_some_and(|mapped| mapped.dirty)
            || self.dirty.range((file, range.offset)..(file, range.end())).next().is_some()
    }

    fn slow_read_overlaps(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        self.slow_reads.retain(|slot| shared.slots[*slot as usize].lease.load(Ordering::Acquire) == LEASE_SLOW_READ);
        self.slow_reads.iter().any(|slot| shared.slots[*slot as usize].slow_read_overlaps(file, range))
    }
}
