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

use std::collections::BTreeSet;

use crate::flash_space::{Run, Union, User};
use crate::granules::ranges_of;
use crate::journal::Record;
use crate::output::NotSynced;
use crate::output::{Answer, Output};
use crate::overlay::Overlay;
use crate::page_set::PageSet;
use crate::parts::copies::Copy;
use headstart_protocol::handshake::speaks_for;
use headstart_protocol::shared::{BITS_PER_FILE, Shared, Slot};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// Bytes of a file after which its bits begin anew.
const TURN_BYTES: u64 = BITS_PER_FILE * GRANULE_BYTES;

/// Where the barrier stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Somebody asked for one.
    pub(crate) wanted: bool,
    /// Position up to which records are durable.
    pub(crate) durable_end: u64,
    /// Data files named by records since the last barrier.
    pub(crate) unsynced_data: BTreeSet<u32>,
    /// Slow files to sync with the next one.
    pub(crate) unsynced_slow: BTreeSet<u32>,
    /// Slow files that records since their last sync wrote, cut or left alone, of which no program asked that
    /// anything survive power loss: only a full barrier syncs them.
    pub(crate) deferred_slow: BTreeSet<u32>,
    /// Pages named by records since the last barrier began, and by those the barrier under way takes in.
    pub(crate) uncovered: PageSet,
    pub(crate) covering: PageSet,
    /// Files of which a program asked it, since this agent started or before.
    pub(crate) asked: BTreeSet<u32>,
    /// Directories from which the names of such files were removed since they were last synced.
    pub(crate) left_directories: BTreeSet<Vec<u8>>,
    /// The next barrier is to be a full one.
    pub(crate) full: bool,
    held: bool,
    begun: u64,
    ended: u64,
    /// When the last one ended.
    pub(crate) ended_ns: u64,
    failed: BTreeSet<u64>,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct Running {
    end: u64,
    data_files: Vec<u32>,
    /// In order.
    slow_files: Vec<u32>,
    left_directories: BTreeSet<Vec<u8>>,
}

impl Barrier {
    /// Number of the next barrier to begin.
    pub(crate) fn next(&self) -> u64 {
        self.begun + 1
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the barrier under way syncs the slow file: its number must not be used again meanwhile.
    pub(crate) fn names(&self, file: u32) -> bool {
        self.running.as_ref().is_some_and(|running| running.slow_files.binary_search(&file).is_ok())
    }

    /// Whether every slow file that records speak of is synced.
    pub(crate) fn slow_files_are_synced(&self) -> bool {
        let running = self.running.as_ref().is_some_and(|running| !running.slow_files.is_empty());
        !running && self.unsynced_slow.is_empty() && self.deferred_slow.is_empty()
    }

    /// The answer for whoever waits for barrier `number`.
    pub(crate) fn answer(&self, number: u64) -> Option<Answer> {
        if self.ended < number {
            return None;
        }
        if self.failed.contains(&number) {
            let text = "flash or disk could not be synced; see the agent's log".to_string();
            return Some(Answer::Error { errno: super::errno::EIO, text });
        }
        Some(Answer::Done)
    }
}

impl Overlay {
    /// Lets no barrier begin until told otherwise, so that a new journal can.
    pub fn hold_barriers(&mut self, hold: bool) {
        self.barrier.held = hold;
    }

    /// Whether a barrier is under way.
    pub fn is_barrier_running(&self) -> bool {
        self.barrier.is_running()
    }

    /// Begins a barrier if one is wanted and none is under way.
    pub(crate) fn plan_barrier(&mut self) {
        if self.barrier.running.is_some() || !self.barrier.wanted || self.barrier.held {
            return;
        }
        self.barrier.wanted = false;
        self.barrier.begun += 1;
        self.space.begin_barrier();
        self.evicted.begin_barrier();
        self.barrier.covering = std::mem::take(&mut self.barrier.uncovered);
        self.quarantine_awaits(self.barrier.begun);
        let data_files: Vec<u32> = std::mem::take(&mut self.barrier.unsynced_data).into_iter().collect();
        let full = std::mem::take(&mut self.barrier.full);
        let mut slow = std::mem::take(&mut self.barrier.unsynced_slow);
        let (now, later) = std::mem::take(&mut self.barrier.deferred_slow)
            .into_iter()
            .partition(|file| full || self.barrier.asked.contains(file) || slow.contains(file));
        self.barrier.deferred_slow = later;
        slow.extend::<BTreeSet<u32>>(now);
        let (slow_files, gone): (Vec<u32>, Vec<u32>) =
            slow.into_iter().partition(|file| self.files.get(file).is_some_and(|known| !known.is_gone()));
        gone.into_iter().for_each(|file| self.is_left(file));
        let left_directories = std::mem::take(&mut self.barrier.left_directories);
        self.outbox.push(Output::Barrier {
            data_files: data_files.clone(),
            slow_files: slow_files.clone(),
            directories: left_directories.iter().cloned().collect(),
        });
        self.barrier.running =
            Some(Running { end: self.outbox.journal_end(), data_files, slow_files, left_directories });
    }

    /// What flash had of a file that is gone, or what the disk has of it unsynced, is given up with the next
    /// barrier: by then it must stay gone.
    pub(crate) fn is_left(&mut self, number: u32) {
        let Some(file) = self.files.get(&number).filter(|_| self.barrier.asked.contains(&number)) else { return };
        let end = file.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.barrier.left_directories.insert(file.path[..end.max(1).min(file.path.len())].to_vec());
    }

    /// The files of the barrier are synced, or syncing failed.
    pub fn on_barrier_synced(&mut self, shared: Shared<'_>, result: Result<(), NotSynced>) {
        let Some(running) = &self.barrier.running else { return };
        match result {
            Ok(()) => {
                let end = running.end;
                self.barrier.covering = PageSet::default();
                self.append(&Record::Barrier { end });
                self.outbox.push(Output::SyncJournal);
            }
            Err(failed) => {
                self.distrust(&failed);
                self.fail_barrier(shared);
            }
        }
    }

    /// The journal is durable up to the barrier's record, or could not be made so.
    pub fn on_journal_durable(&mut self, shared: Shared<'_>, result: Result<(), i32>) {
        if result.is_err() {
            return self.fail_barrier(shared);
        }
        let Some(running) = self.barrier.running.take() else { return };
        self.barrier.ended += 1;
        self.barrier.ended_ns = self.measured_ns;
        self.outbox.counters.barriers_total += 1;
        self.reserve.adapt(self.space.capacity_bytes());
        let nothing_since = self.outbox.journal_end() == running.end + barrier_record_bytes(running.end);
        self.barrier.durable_end = if nothing_since { self.outbox.journal_end() } else { running.end };
        self.free_places(shared);
        self.clear_bits(shared);
        self.lift_quarantine(shared, self.barrier.ended);
        for file in std::mem::take(&mut self.forgetting) {
            self.forget_if_done(shared, file);
        }
        self.remove_unused_data_files(shared);
        self.poll(shared);
    }

    fn fail_barrier(&mut self, shared: Shared<'_>) {
        let Some(running) = self.barrier.running.take() else { return };
        self.barrier.ended += 1;
        self.barrier.ended_ns = self.measured_ns;
        self.barrier.failed.insert(self.barrier.ended);
        self.outbox.counters.barrier_errors_total += 1;
        let trusted = running.data_files.into_iter().filter(|data_file| !self.untrusted.contains_key(data_file));
        self.barrier.unsynced_data.extend(trusted);
        self.barrier.unsynced_slow.extend(running.slow_files);
        self.barrier.left_directories.extend(running.left_directories);
        // It may have been a full one; and nobody else asks for the next one where opens or quarantines wait for it.
        self.barrier.full = true;
        let is_awaited = !self.forgetting.is_empty() || self.quarantine.iter().any(|dead| dead.barrier.is_some());
        self.barrier.wanted |= is_awaited;
        self.space.abandon_barrier();
        self.evicted.abandon_barrier();
        self.quarantine.iter_mut().for_each(|dead| dead.barrier = None);
        self.poll(shared);
    }

    /// Places removed before the barrier are free unless a reader or a copy uses them.
    fn free_places(&mut self, shared: Shared<'_>) {
        self.evicted.end_barrier();
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
        let read: Union = shared.used_slots().iter().flat_map(runs_read).collect();
        let copied: Union = self.copies.iter().flat_map(Copy::places).collect();
        for run in covered {
            let reader = read.overlaps(run).then_some(User::Reader);
            self.space.free(run, reader.or_else(|| copied.overlaps(run).then_some(User::Copy)));
        }
    }

    fn clear_bits(&mut self, shared: Shared<'_>) {
        let mut granules = std::mem::take(&mut self.granules);
        let copied =
            |file, bit| self.copies.within(file, Range::new(0, u64::MAX)).any(|copy| speaks_for(bit, copy.range));
        granules.clear(shared, self.barrier.durable_end, copied, |file, bit| {
            let Some(known) = self.files.get(&file) else { return false };
            let end = known.map.end().max(known.size);
            if end / TURN_BYTES > known.map.len() as u64 {
                return known.map.iter().any(|mapped| speaks_for(bit, mapped.range));
            }
            ranges_of(bit, end).any(|range| known.map.touches(range))
        });
        self.granules = granules;
    }

    /// The barrier that begins now lifts the quarantines of processes that are gone.
    fn quarantine_awaits(&mut self, barrier: u64) {
        let processes = &self.processes;
        for dead in self.quarantine.iter_mut().filter(|dead| dead.barrier.is_none()) {
            if !processes.values().any(|process| *process == dead.process) {
                dead.barrier = Some(barrier);
                self.barrier.unsynced_slow.insert(dead.file);
            }
        }
    }

    /// Nothing of these dead threads can land any more. What is clean there may differ from the slow file: it
    /// is dropped.
    fn lift_quarantine(&mut self, shared: Shared<'_>, barrier: u64) {
        let (lifted, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.quarantine).into_iter().partition(|dead| dead.barrier == Some(barrier));
        self.quarantine = kept;
        for dead in lifted {
            Self::release_dead(shared, dead.slot);
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
