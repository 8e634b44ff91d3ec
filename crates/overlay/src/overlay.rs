//! The overlay: its parts, and what the runtime calls at every turn.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use headstart_protocol::counters::Counters;
use headstart_protocol::handover::COPIES_MAX;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::Shared;
use headstart_units::Capacity;

use crate::file::File;
use crate::flash_space::FlashSpace;
use crate::journal::Record;
use crate::output::Output;
use crate::parts::barrier::Barrier;
use crate::parts::copies::Copies;
use crate::parts::data_files::DataFiles;
use crate::parts::fetches::Fetches;
use crate::parts::files::Files;
use crate::parts::granules::Granules;
use crate::parts::leases::Leases;
use crate::parts::listings::Listings;
use crate::parts::mapping::Mapping;
use crate::parts::outbox::Outbox;
use crate::parts::pacing::Pacing;
use crate::parts::pending::Requests;
use crate::parts::placing::Placing;
use crate::parts::rings::Rings;
use crate::parts::sharing::Sharing;
use crate::parts::threads::Threads;
use crate::process::Process;
use crate::settings::Settings;

/// The overlay; see the module.
#[derive(Debug)]
pub struct Overlay {
    /// The slow files known.
    pub(crate) files: Files,
    /// The data files on flash.
    pub(crate) data_files: DataFiles,
    /// Their pages.
    pub(crate) space: FlashSpace,
    /// Bits that say of which ranges bytes may be on flash.
    pub(crate) granules: Granules,
    /// Accounts of what is mapped; the maps are the files'.
    pub(crate) mapping: Mapping,
    /// Who takes part.
    pub(crate) threads: Threads,
    /// Files that other nodes may use.
    pub(crate) sharing: Sharing,
    /// Commits that need no answer.
    pub(crate) rings: Rings,
    /// Reads of flash that need none.
    pub(crate) listings: Listings,
    /// Files of which such ones were applied.
    pub(crate) absorbed: BTreeSet<u32>,
    /// What threads may do to slow files.
    pub(crate) leases: Leases,
    /// Requests that wait.
    pub(crate) pending: Requests,
    /// Bytes on their way between the tiers.
    pub(crate) copies: Copies,
    /// Bytes that are to come to flash.
    pub(crate) fetches: Fetches,
    /// Regions that belong there.
    pub(crate) placing: Placing,
    /// When what nobody waits for is done.
    pub(crate) pacing: Pacing,
    /// What is durable.
    pub(crate) barrier: Barrier,
    /// What the runtime takes.
    pub(crate) outbox: Outbox,
    /// The time, as it was told last.
    pub(crate) measured_ns: u64,
}

impl Overlay {
    /// An empty overlay whose journal so far ends at `journal_end`; data files get numbers from `next_data_file` on.
    pub fn new(mut settings: Settings, journal_end: u64, next_data_file: u32) -> Overlay {
        settings.copies_max = settings.copies_max.min(COPIES_MAX);
        let outbox = Outbox::new(journal_end, settings.member);
        let files = Files::new(settings.files_max, settings.capacity);
        Overlay {
            data_files: DataFiles::new(next_data_file, settings.data_files_end),
            space: FlashSpace::new(files.capacity_bytes()),
            files,
            granules: Granules::default(),
            mapping: Mapping::default(),
            threads: Threads::new(settings.slab_bytes_max),
            sharing: Sharing::default(),
            rings: Rings::default(),
            listings: Listings::default(),
            absorbed: BTreeSet::new(),
            leases: Leases::default(),
            pending: Requests::default(),
            copies: Copies::new(settings.copies_max),
            fetches: Fetches::new(settings.critical_max),
            placing: Placing::default(),
            pacing: Pacing::new(settings),
            barrier: Barrier::default(),
            outbox,
            measured_ns: 0,
        }
    }

    /// A thread joined: `slot` is its slot from now on.
    pub fn on_join(&mut self, slot: u32, process: Process) {
        self.threads.join(slot, process);
        self.mapping.forget_commit(slot);
    }

    /// A thread's request. `now_ns` is the time of day, for the modification time of absorbed bytes.
    pub fn on_request(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        self.take_in(shared, now_ns, envelope, request);
        self.go_on(shared);
    }

    /// The same of one of several that come together: once all are taken in, [`Overlay::go_on`].
    pub fn take_in(&mut self, shared: Shared<'_>, now_ns: u64, envelope: Envelope, request: &Request<'_>) {
        self.begin(shared, now_ns, envelope, request);
    }

    /// Lets the requests that were taken in go on, as far as they get.
    pub fn go_on(&mut self, shared: Shared<'_>) {
        self.progress(shared);
    }

    /// Tries everything again that waits, plans copies and barriers. Call it after time has passed while
    /// [`Overlay::waits_for_slots`], and now and then so that hints and idle disks are noticed.
    pub fn poll(&mut self, shared: Shared<'_>) {
        self.collect_pushes(shared);
        self.hear_of_listed_reads(shared);
        self.end_given_up(shared);
        self.take_hints(shared);
        self.follow_programs(shared);
        self.tell_of_ended_writers(shared);
        self.ask_put_off();
        self.pending.leaving().stir_now_and_then(self.measured_ns);
        self.progress(shared);
    }

    /// Everything that [`Overlay::take_journal`] has returned so far is appended, and what was left of it
    /// too. Call it after every append, before outputs taken later are carried out.
    pub fn on_appended(&mut self, shared: Shared<'_>) {
        self.listings.show_ends(shared);
        let collected = self.rings.on_appended(shared);
        collected.into_iter().for_each(|slot| self.show_slabs(shared, slot));
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
        self.want_shared_barrier();
        self.plan_barrier();
        let coming = u64::from(self.space_is_coming());
        // Where nothing comes to flash nobody needs to ask.
        let free_bytes = if self.is_kept_off() { 0 } else { self.space.available_bytes().max(coming) };
        shared.header.free_bytes.store(free_bytes, Ordering::Relaxed);
    }

    /// Whether something waits for another thread's slot or lease, of which no message tells.
    pub fn waits_for_slots(&self) -> bool {
        let truncations = self.leases.any_truncation();
        let put_off = self.sharing.get().is_some_and(|cluster| cluster.commits.flights.any_later());
        self.files.extending_count() > 0
            || put_off
            || self.pending.wait_for_slots(truncations)
            || self.fetches.wait_for_slots()
    }

    /// Whether write-back waits for programs to pause, of which no message tells.
    pub fn waits_for_idleness(&self) -> bool {
        let writable = |file: u32| self.files[&file].write_back_error.is_none();
        self.pacing.is_active() && self.mapping.dirty_files(0).any(writable)
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
        self.outbox.is_empty() && self.leases.is_settled() && self.rings.is_settled()
    }

    /// Position of the journal's end.
    pub fn journal_end(&self) -> u64 {
        self.outbox.journal_end()
    }

    /// Changes how much flash may be used.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.files.set_capacity(capacity);
        self.update_capacity();
    }

    /// How much flash may be used, as it was said.
    pub fn capacity(&self) -> Capacity {
        self.files.capacity()
    }

    /// No more than this may be used, as others share what there is.
    pub fn limit_capacity(&mut self, bytes: u64) {
        self.files.limit_capacity(bytes);
        self.update_capacity();
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
        self.mapping.dirty_bytes()
    }

    /// Bytes of flash that hold extents.
    pub fn mapped_bytes(&self) -> u64 {
        self.space.mapped_bytes()
    }

    /// Number of extents.
    pub fn extents(&self) -> usize {
        self.mapping.extents() as usize
    }

    /// Bytes of flash that may be used now.
    pub fn capacity_bytes(&self) -> u64 {
        self.space.capacity_bytes()
    }

    /// Whether no number is left for data files: what has none yet does not come to flash.
    pub fn has_no_data_file_left(&self) -> bool {
        self.data_files.are_used_up()
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
        if let Some(data_file) = self.barrier.note(record, |file| self.files[&file].looks.has_intent()) {
            self.outbox.push(Output::Unsynced(data_file));
        }
        self.outbox.append(record);
    }
}
