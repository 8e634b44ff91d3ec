//! The barrier: the one rule by which records come to count after power loss.
//!
//! ```text
//! idle --wanted--> syncing data files, then slow files --> appending BARRIER, syncing the journal --> idle
//! ```
//!
//! Slow files need syncing for two reasons: a record that lets clean bytes be trusted after power loss
//! (`Closed`, `Fetched`), and bytes that fsync acknowledged while they were on flash and that a record
//! (`Clean`, `Drop`, `Truncate`) now entrusts to the disk. Where no program ever asked for a file's bytes to
//! survive, the second does not arise: what power loss would take was never promised. So a barrier that only
//! frees space leaves such files to the next full one (a drain, `--keep-dirty`), and flash is not held up by
//! the disks' caches. The exhaustive checker of the protocol holds with this rule (power rows, `all`) and
//! finds a counterexample when asked-for files are left out too.
//!
//! A file that is gone is not synced: nobody can read it. But a slow file system may forget with the power
//! that its name was removed, and what flash alone had of such bytes must not be given up before: the
//! directory of its name is synced first.
//!
//! Its prefix is the journal up to its end when the barrier began. When it is durable, places that the prefix
//! superseded or removed are free, bits may clear, and whoever waited for a barrier begun since is answered.

use crate::flash_space::{Run, Union, User};
use crate::journal::Record;
use crate::output::NotSynced;
use crate::output::Output;
use crate::overlay::Overlay;
use crate::parts::copies::Copy;
use crate::parts::granules::is_mapped;
use headstart_protocol::handshake::speaks_for;
use headstart_protocol::shared::{BITS_PER_FILE, Shared, Slot, word_of_granule};
use headstart_units::request::Range;

impl Overlay {
    /// Lets no barrier begin until told otherwise, so that a new journal can.
    pub fn hold_barriers(&mut self, hold: bool) {
        self.barrier.hold(hold);
    }

    /// Whether a barrier is under way.
    pub fn is_barrier_running(&self) -> bool {
        self.barrier.is_running()
    }

    /// Begins a barrier if one is wanted and none is under way.
    pub(crate) fn plan_barrier(&mut self) {
        let Some(number) = self.barrier.take_turn() else { return };
        self.space.begin_barrier();
        self.mapping.evicted().begin_barrier();
        for file in self.leases.await_barrier(number, |process| self.threads.lives(process)) {
            self.barrier.sync_slow(file);
        }
        let slow = self.barrier.take_slow_files();
        let (slow_files, gone): (Vec<u32>, Vec<u32>) =
            slow.into_iter().partition(|file| self.files.get(file).is_some_and(|known| !known.is_gone()));
        gone.into_iter().for_each(|file| self.is_left(file));
        self.begin_shared_barrier();
        let output = self.barrier.begin(self.outbox.journal_end(), slow_files);
        self.outbox.push(output);
    }

    /// What flash had of a file that is gone, or what the disk has of it unsynced, is given up with the next
    /// barrier: by then it must stay gone.
    pub(crate) fn is_left(&mut self, number: u32) {
        if let Some(file) = self.files.get(&number).filter(|_| self.barrier.is_asked(number)) {
            self.barrier.sync_directory_of(file.names.path());
        }
    }

    /// The files of the barrier are synced, or syncing failed.
    pub fn on_barrier_synced(&mut self, shared: Shared<'_>, result: Result<(), NotSynced>) {
        if !self.barrier.is_running() {
            return;
        }
        if let Err(failed) = result {
            self.distrust(shared, &failed);
            self.close_retired(shared);
            return self.fail_barrier(shared);
        }
        if let Some(end) = self.barrier.on_synced() {
            self.append(&Record::Barrier { end });
            self.outbox.push(Output::SyncJournal);
        }
    }

    /// The journal is durable up to the barrier's record, or could not be made so.
    pub fn on_journal_durable(&mut self, shared: Shared<'_>, result: Result<(), i32>) {
        if result.is_err() {
            return self.fail_barrier(shared);
        }
        let Some((number, end)) = self.barrier.end(self.measured_ns) else { return };
        self.outbox.counters.barriers_total += 1;
        self.pacing.reserve_mut().adapt(self.space.capacity_bytes());
        let nothing_since = self.outbox.journal_end() == end + barrier_record_bytes(end);
        self.barrier.set_durable_end(if nothing_since { self.outbox.journal_end() } else { end });
        self.end_shared_barrier();
        self.free_places(shared);
        self.clear_bits(shared);
        self.lift_quarantine(shared, number);
        for file in self.files.take_forgetting() {
            self.forget_if_done(shared, file);
        }
        self.remove_unused_data_files(shared);
        self.pending.leaving().stir_all();
        self.poll(shared);
    }

    fn fail_barrier(&mut self, shared: Shared<'_>) {
        if !self.barrier.fail(self.measured_ns, |data_file| !self.data_files.has_failed(data_file)) {
            return;
        }
        self.outbox.counters.barrier_errors_total += 1;
        // Nobody else asks for the next one where opens or quarantines wait for it.
        self.barrier.want_if(self.files.any_forgetting() || self.leases.awaits_barrier());
        self.space.abandon_barrier();
        self.mapping.evicted().abandon_barrier();
        self.leases.abandon_barrier();
        self.pending.leaving().stir_all();
        self.poll(shared);
    }

    /// Places removed before the barrier are free unless a reader or a copy uses them.
    fn free_places(&mut self, shared: Shared<'_>) {
        self.mapping.evicted().end_barrier();
        let mut covered = self.space.end_barrier();
        covered.append(&mut self.space.take_read());
        self.free_unused(shared, covered);
    }

    /// Frees what readers have let go. Of that no message tells: it is looked for when space is short.
    pub(crate) fn free_read(&mut self, shared: Shared<'_>) {
        let read = self.space.take_read();
        self.free_unused(shared, read);
    }

    /// Frees what the copy was the last to use.
    pub(crate) fn free_copied(&mut self, shared: Shared<'_>, copy: &Copy) {
        let places: Vec<Run> = copy.places().collect();
        let copied = self.space.take_copied(&places);
        self.free_unused(shared, copied);
    }

    /// Frees places that a barrier covers, as far as nobody uses them.
    fn free_unused(&mut self, shared: Shared<'_>, covered: Vec<Run>) {
        if covered.is_empty() {
            return;
        }
        let read: Union = self.leases.flash_readers(shared).flat_map(runs_read).collect();
        let copied: Union = self.copies.iter().flat_map(Copy::places).collect();
        for run in covered {
            let reader = read.overlaps(run).then_some(User::Reader);
            self.space.free(run, reader.or_else(|| copied.overlaps(run).then_some(User::Copy)));
        }
    }

    fn clear_bits(&mut self, shared: Shared<'_>) {
        self.close_empty(shared);
        if self.sharing.get().is_none() {
            // As an agent before left them, which was among others.
            self.granules.admit_all(shared);
            self.unlist_all();
        }
        let mut granules = std::mem::take(&mut self.granules);
        let in_use = |file, bit| {
            self.copies.within(file, Range::new(0, u64::MAX)).any(|copy| speaks_for(bit, copy.range))
                || self.rings.is_open(file, word_of_granule(bit))
        };
        granules.clear(shared, self.barrier.durable_end(), in_use, |file, bit| {
            self.files.get(&file).is_some_and(|known| is_mapped(&known.map, bit, BITS_PER_FILE))
        });
        self.granules = granules;
    }

    /// Nothing of these dead threads can land any more. What is clean there may differ from the slow file: it
    /// is dropped.
    fn lift_quarantine(&mut self, shared: Shared<'_>, barrier: u64) {
        for dead in self.leases.lift(barrier) {
            Self::release_dead(shared, dead.slot);
            if dead.is_leased {
                self.give_back_lease(dead.slot, dead.file);
            }
            if !self.files.contains_key(&dead.file) {
                continue;
            }
            self.drop_clean(dead.file, dead.range);
            // What a write-back under way wrote may have been overwritten: it does not count, and its bytes
            // are written again.
            self.copies.cancel_within(dead.file, dead.range);
            self.close_intent(dead.file);
            self.forget_if_done(shared, dead.file);
        }
    }
}

/// The pages that a slot's flash-read lease names.
pub(crate) fn runs_read(slot: &Slot) -> impl Iterator<Item = Run> + '_ {
    slot.held_pieces().map(|piece| Run::touching(piece.data_file, piece.place, piece.length))
}

fn barrier_record_bytes(end: u64) -> u64 {
    let mut bytes = Vec::new();
    Record::Barrier { end }.encode(&mut bytes);
    bytes.len() as u64
}
