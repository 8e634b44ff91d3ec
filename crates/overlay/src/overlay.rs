//! The overlay: its parts, and what the runtime calls at every turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use headstart_policy::client::s4d::{Critical, CriticalData};
use headstart_protocol::counters::Counters;
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::Capacity;

use crate::drain_round::DrainRound;
use crate::evicted::Evicted;
use crate::fetches::Fetch;
use crate::file_table::FileTable;
use crate::files::File;
use crate::flash_space::FlashSpace;
use crate::granules::Granules;
use crate::journal::{Identity, Record};
use crate::mapping::Mapping;
use crate::online::Online;
use crate::output::Output;
use crate::parts::barrier::Barrier;
use crate::parts::copies::Copies;
use crate::parts::disk_writes::DiskWrites;
use crate::parts::leases::Leases;
use crate::parts::outbox::Outbox;
use crate::parts::pending::Requests;
use crate::parts::threads::Threads;
use crate::process::Process;
use crate::regions::Placing;
use crate::reserve::Reserve;
use crate::settings::Settings;
use crate::untrusted::Untrusted;
use crate::write_back::Pace;

/// The overlay; see the module.
#[derive(Debug)]
pub struct Overlay {
    pub(crate) settings: Settings,
    pub(crate) files: BTreeMap<u32, File>,
    pub(crate) table: FileTable,
    pub(crate) by_identity: BTreeMap<Identity, u32>,
    pub(crate) data_files: BTreeMap<u32, u32>,
    pub(crate) next_data_file: u32,
    pub(crate) space: FlashSpace,
    pub(crate) granules: Granules,
    pub(crate) mapping: Mapping,
    pub(crate) threads: Threads,
    pub(crate) leases: Leases,
    pub(crate) pending: Requests,
    pub(crate) disk_writes: DiskWrites,
    pub(crate) copies: Copies,
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) critical: CriticalData,
    /// A critical range that waits for room to become free.
    pub(crate) deferred: Option<Critical>,
    /// Files whose size is to be changed once no thread may be changing it.
    pub(crate) extending: BTreeSet<u32>,
    /// Files to be forgotten when a barrier has cleared their bits.
    pub(crate) forgetting: BTreeSet<u32>,
    /// Files without a name that are written back for processes that may have them open and never said so.
    pub(crate) left_to_heirs: BTreeSet<u32>,
    /// Sum of the known sizes.
    pub(crate) known_bytes: u128,
    pub(crate) barrier: Barrier,
    pub(crate) untrusted: Untrusted,
    pub(crate) evicted: Evicted,
    pub(crate) pace: Pace,
    pub(crate) drain_round: Option<DrainRound>,
    pub(crate) placing: Placing,
    pub(crate) online: Option<Online>,
    pub(crate) reserve: Reserve,
    /// What the header said last of bytes refused.
    pub(crate) refused_bytes: u64,
    /// Where the last use of flash by each thread ended: file, offset.
    pub(crate) last_uses: BTreeMap<u32, (u32, u64)>,
    pub(crate) outbox: Outbox,
    /// The time, as it was told last.
    pub(crate) measured_ns: u64,
}

impl Overlay {
    /// An empty overlay whose journal so far ends at `journal_end`; data files get numbers from `next_data_file` on.
    pub fn new(mut settings: Settings, journal_end: u64, next_data_file: u32) -> Overlay {
        settings.copies_max = settings.copies_max.min(COPIES_MAX);
        let (copies_max, slab_bytes_max) = (settings.copies_max, settings.slab_bytes_max);
        let capacity_bytes = match settings.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(_) => 0,
        };
        Overlay {
            critical: CriticalData::new(settings.critical_max),
            settings,
            files: BTreeMap::new(),
            table: FileTable::default(),
            by_identity: BTreeMap::new(),
            data_files: BTreeMap::new(),
            next_data_file,
            space: FlashSpace::new(capacity_bytes),
            granules: Granules::default(),
            mapping: Mapping::default(),
            threads: Threads::new(slab_bytes_max),
            leases: Leases::default(),
            pending: Requests::default(),
            disk_writes: DiskWrites::default(),
            copies: Copies::new(copies_max),
            fetches: Vec::new(),
            deferred: None,
            extending: BTreeSet::new(),
            forgetting: BTreeSet::new(),
            left_to_heirs: BTreeSet::new(),
            known_bytes: 0,
            barrier: Barrier::default(),
            untrusted: Untrusted::new(),
            evicted: Evicted::default(),
            pace: Pace::default(),
            drain_round: None,
            placing: Placing::default(),
            online: None,
            reserve: Reserve::default(),
            refused_bytes: 0,
            last_uses: BTreeMap::new(),
            outbox: Outbox::new(journal_end),
            measured_ns: 0,
        }
    }

    /// A thread joined: `slot` is its slot from now on.
    pub fn on_join(&mut self, slot: u32, process: Process) {
        self.threads.join(slot, process);
        self.last_uses.remove(&slot);
    }

    /// A thread's request. `now_ns` is the time of day, for the modification time of absorbed bytes.
    pub fn on_request(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        self.begin(shared, now_ns, envelope, request);
        self.progress(shared);
    }

    /// Tries everything again that waits, plans copies and barriers. Call it after time has passed while
    /// [`Overlay::waits_for_slots`], and now and then so that hints and idle disks are noticed.
    pub fn poll(&mut self, shared: Shared<'_>) {
        self.end_given_up(shared);
        self.take_hints(shared);
        self.follow_programs(shared);
        self.progress(shared);
    }

    /// Everything that [`Overlay::take_journal`] has returned so far is appended, and what was left of it
    /// too. Call it after every append, before outputs taken later are carried out.
    pub fn on_appended(&mut self, shared: Shared<'_>) {
        if self.mark_used_slabs(shared) | self.end_direct_writes(shared) | self.end_truncations_of_the_dead(shared) {
            self.progress(shared);
        }
    }

    /// What every verb ends with. Hints are left to `poll`, as there is a ring of them in every slot.
    pub(crate) fn progress(&mut self, shared: Shared<'_>) {
        self.advance(shared);
        self.plan_copies(shared);
        self.keep_reserve(shared);
        self.keep_numbers(shared);
        self.plan_barrier();
        let coming = u64::from(self.space_is_coming());
        // Where nothing comes to flash nobody needs to ask.
        let free_bytes = if self.is_kept_off() { 0 } else { self.space.available_bytes().max(coming) };
        shared.header.free_bytes.store(free_bytes, Ordering::Relaxed);
    }

    /// Whether something waits for another thread's slot or lease, of which no message tells.
    pub fn waits_for_slots(&self) -> bool {
        !self.extending.is_empty() || self.pending.wait_for_slots() || self.fetches.iter().any(Fetch::waits_for_slots)
    }

    /// Whether write-back waits for programs to pause, of which no message tells.
    pub fn waits_for_idleness(&self) -> bool {
        let writable = |file: &u32| self.files[file].write_back_error.is_none();
        self.pace.active && self.mapping.dirty_files.iter().any(writable)
    }

    /// What is to be done, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        self.outbox.take()
    }

    /// Bytes to append to the journal before any output is carried out; then [`Overlay::on_appended`].
    pub fn take_journal(&mut self) -> Vec<u8> {
        self.outbox.take_journal()
    }

    /// Whether there is nothing to append and nothing to carry out.
    pub fn is_settled(&self) -> bool {
        self.outbox.is_empty() && self.leases.is_settled()
    }

    /// Position of the journal's end.
    pub fn journal_end(&self) -> u64 {
        self.outbox.journal_end()
    }

    /// Changes how much flash may be used.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.settings.capacity = capacity;
        self.update_capacity();
    }

    /// Asks that all dirty bytes go to disk, whatever the marks say, until none is left; clears errors of
    /// earlier tries. `has_drained` tells when those have that were dirty now. `false` ends that.
    pub fn drain(&mut self, on: bool) {
        self.pace.draining = on;
        if on {
            self.files.values_mut().for_each(|file| file.write_back_error = None);
            self.begin_drain_round();
        } else {
            self.drain_round = None;
        }
    }

    /// The time on a clock that never falls, for the pace of write-back, and for how long requests wait and
    /// have waited. Call it before the verbs.
    pub fn set_time(&mut self, now_ns: u64) {
        self.measured_ns = now_ns;
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.outbox.counters
    }

    /// Bytes on flash that the disk does not have.
    pub fn dirty_bytes(&self) -> u64 {
        self.mapping.dirty_bytes
    }

    /// Bytes of flash that hold extents.
    pub fn mapped_bytes(&self) -> u64 {
        self.space.mapped_bytes()
    }

    /// Number of extents.
    pub fn extents(&self) -> usize {
        self.mapping.extents as usize
    }

    /// Bytes of flash that may be used now.
    pub fn capacity_bytes(&self) -> u64 {
        self.space.capacity_bytes()
    }

    /// Whether every record up to the journal's end is durable, and every slow file it speaks of.
    pub fn is_durable(&self) -> bool {
        self.barrier.is_durable(self.outbox.journal_end())
    }

    /// Asks for a full barrier, for example at the end of a drain: afterwards all that was acknowledged
    /// survives power loss.
    pub fn request_barrier(&mut self) {
        self.barrier.want_full();
    }

    /// Asks for a barrier that syncs what it must and the slow file, if that is known.
    pub fn request_sync_of(&mut self, file: u32) {
        self.barrier.want();
        if self.files.contains_key(&file) {
            self.barrier.sync_slow(file);
        }
    }

    /// Asks for a barrier that syncs what it must.
    pub fn request_short_barrier(&mut self) {
        self.barrier.want();
    }

    pub(crate) fn file(&mut self, file: u32) -> &mut File {
        self.files.get_mut(&file).expect("the file's number was checked")
    }

    pub(crate) fn append(&mut self, record: &Record) {
        if let Some(data_file) = self.barrier.note(record, |file| self.files[&file].intent) {
            self.outbox.push(Output::Unsynced(data_file));
        }
        self.outbox.append(record);
    }
}
