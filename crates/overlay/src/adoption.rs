//! The start of an agent: from a replayed journal, and from the shared file of the agent before, under whose
//! threads it may start.
//!
//! | found in the shared file | what becomes of it |
//! |---|---|
//! | a set bit | stays set until a barrier lets it clear; its generation grows, as the agent before may have died before it did |
//! | a read of the slow file without a lease | sees that it does not count, where a bit is set |
//! | a read lease | goes on: its places are in data files nothing is allocated in, which stay while it names them |
//! | a direct-write lease | goes on: its holder ends it, or asks again |
//! | one given up | ends: its holder writes nothing any more |
//! | a truncation under way | the same; the file is made long enough for what is mapped only when no other is left |
//! | one of a thread that is gone | the file's size says whether it happened; it is recorded, or forgotten |
//! | a slab | stays its holder's: in a data file of before, from which only it takes |
//! | a thread that is gone | hangs up at once; what it may still write is quarantined |
//! | a quarantine | goes on |
//! | a write-back under way | its range is held until its bytes have landed: no direct write, copy or clearing of bits there |
//! | listings | end, before anything else |
//! | open granules, and commits in rings | the commits that count are applied; the granules are closed |
//! | a size bit | an extension was under way, which is done again if the file is too short, or a truncation: it stays set until that is recorded |
//! | open files of a process | the process has them open, for writing, unseen, as before |
//!
//! Whatever waited for an answer asks again. New bytes go to new data files only, so that nothing a dead
//! agent or thread may still write can hit them. Nothing here starts work or appends what must last: a
//! checkpoint follows, and until then an agent that dies leaves a shared file from which the next one finds
//! the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use crate::file::File;
use crate::file::looks::Looks;
use crate::journal::Journal;
use crate::overlay::Overlay;
use crate::parts::leases::{Direct, Resizes};
use crate::process::Process;
use crate::recency::Access;
use crate::recovery::Recovered;
use crate::settings::Settings;
use headstart_protocol::shared::{
    LEASE_DIRECT_WRITE, LEASE_FLASH_READ, LEASE_GIVEN_UP, LEASE_QUARANTINED, LEASE_SLOW_READ, STATE_QUARANTINED, Shared,
};

impl Overlay {
    /// The overlay that goes on from a replay and from what the shared file shows: same numbers, bits set for
    /// what is mapped, data files of before read only. `sizes` are the slow files' sizes as they are. Of the
    /// slots that have owners, those in `living` belong to threads that are there; a new shared file has
    /// neither.
    ///
    /// Files that are too short for their absorbed bytes are extended by [`super::Output::Extend`].
    /// Write-backs of the agent before count as under way until [`Overlay::on_old_copies_landed`].
    pub fn adopt(
        settings: Settings,
        recovered: Recovered,
        shared: Shared<'_>,
        sizes: &BTreeMap<u32, u64>,
        living: &BTreeSet<u32>,
    ) -> Overlay {
        shared.end_all_listings();
        let last = recovered.data_files.keys().next_back().map_or(0, |last| last + 1).max(settings.first_data_file);
        let used = shared.header.data_files_used.load(Ordering::Relaxed);
        let mut overlay = Overlay::new(settings, 0, last.max(u32::try_from(used).unwrap_or(u32::MAX)));
        overlay.outbox.go_on_with(&Journal::behind(0, recovered.appended_ever));
        for (&data_file, &owner) in &recovered.data_files {
            let untrusted = recovered.untrusted.get(&data_file).cloned().unwrap_or_default();
            overlay.data_files.adopt(data_file, owner, untrusted);
            overlay.space.add_data_file(data_file, false);
        }
        overlay.pacing.reserve_mut().adopt_refused(shared.header.refused_bytes.load(Ordering::Relaxed));
        // In a new shared file the threads' numbers begin anew: a commit of now must not be taken for one of before.
        for (&slot, &seq) in &recovered.last_commits {
            if shared.slots.get(slot as usize).is_some_and(|slot| slot.seq.load(Ordering::Relaxed) >= seq) {
                overlay.threads.note_commit(slot, seq);
            }
        }
        // Each entry of the log took some bytes of the journal.
        let mut log = recovered.log.clone();
        log.go_on_behind(recovered.appended_ever);
        // What it forgot is not in the checkpoint that takes the journal's place.
        log.set_durable(log.end());
        overlay.sharing.adopt(log);
        overlay.adopt_files(recovered, shared, sizes);
        overlay.hold_listed();
        overlay.space.charge_adopted();
        overlay.forget_unknown_files(shared);
        overlay.adopt_copies(shared);
        overlay.adopt_slots(shared, sizes, living);
        for number in overlay.files.keys().copied().collect::<Vec<_>>() {
            overlay.adopt_size(shared, number, sizes.get(&number).copied());
            // An end of its last writer may have been seen, but not recorded.
            overlay.close_intent(number);
            overlay.show_left_alone(shared, number);
            if overlay.files[&number].names.is_unlinked() {
                overlay.forget_if_done(shared, number);
            }
        }
        overlay.barrier.want_at_start(overlay.leases.any_quarantined());
        overlay
    }

    fn adopt_files(&mut self, recovered: Recovered, shared: Shared<'_>, sizes: &BTreeMap<u32, u64>) {
        for (number, found) in recovered.files {
            let size = sizes.get(&number).copied().unwrap_or(0);
            let (intent, fingerprint, unseen) = (found.intent, found.fingerprint, !sizes.contains_key(&number));
            // One that was found again has a name, or a process has it open; its removal may have been lost
            // with the power. Where another one came by its identity, it is that one that was found.
            let unlinked = found.unlinked && (unseen || found.followed);
            let mut file = File::new(found.identity, found.path, 0);
            file.looks = Looks::adopt(intent, fingerprint, unseen);
            if unlinked {
                file.names.unlink();
            }
            let regions = found.regions;
            if found.map.is_empty() && regions.is_empty() {
                self.files.forget_after_barrier(number);
            } else {
                // Whether somebody asked before is not in the journal.
                self.barrier.ask(number);
            }
            match found.followed {
                true => self.files.insert_followed(number, file),
                false => self.files.insert(number, file),
            }
            self.files.close(number);
            self.adopt_regions(number, regions);
            self.set_size(number, size);
            let entry = &shared.files[number as usize];
            entry.inode.store(found.identity.inode, Ordering::Relaxed);
            entry.used.store(1, Ordering::Release);
            self.granules.adopt(number, shared.adopt_bits(number));
            for mapped in found.map.iter() {
                self.granules.hold(shared, number, mapped.range);
                self.map_in(shared, number, mapped, Access::Sequential);
            }
            for mapped in found.map.iter() {
                self.granules.let_go(number, mapped.range);
            }
        }
    }

    /// Entries of files that the journal does not know: nobody was told of them, or they were forgotten.
    fn forget_unknown_files(&mut self, shared: Shared<'_>) {
        for number in 0..shared.files.len() as u32 {
            let entry = &shared.files[number as usize];
            let in_use = entry.used.load(Ordering::Relaxed) != 0 || entry.set_bits.load(Ordering::Relaxed) != 0;
            if in_use && !self.files.contains_key(&number) {
                shared.adopt_bits(number).into_iter().for_each(|bit| shared.clear_bit(number, bit));
                shared.open_words(number).for_each(|(word, _)| shared.end_closing(number, word));
                entry.size_bit.store(0, Ordering::SeqCst);
                entry.used.store(0, Ordering::Release);
            }
        }
    }

    fn adopt_slots(&mut self, shared: Shared<'_>, sizes: &BTreeMap<u32, u64>, living: &BTreeSet<u32>) {
        let owned = |slot: &u32| shared.slots[*slot as usize].owner_pid.load(Ordering::Acquire) != 0;
        let owned: Vec<u32> = (0..shared.used_slots().len() as u32).filter(owned).collect();
        for &slot in &owned {
            let cell = &shared.slots[slot as usize];
            if !living.contains(&slot)
                && let Some((file, cut)) = cell.truncation()
                && let Some(&size) = sizes.get(&file).filter(|_| self.files.contains_key(&file))
            {
                self.end_truncation(shared, file, cut, size);
                self.leases.cut_short(slot, file);
            }
            let pid = cell.owner_pid.load(Ordering::Acquire);
            let process = Process { pid, start_time: cell.owner_start.load(Ordering::Relaxed) };
            let quarantined = cell.state.load(Ordering::Acquire) == STATE_QUARANTINED
                || cell.lease.load(Ordering::Acquire) == LEASE_QUARANTINED;
            if quarantined {
                // Hung up before. What it guards is gone with the file, if that is.
                if !self.quarantine_slot(shared, slot, process) {
                    Self::release_dead(shared, slot);
                }
                continue;
            }
            self.threads.join(slot, process);
            self.adopt_open_files(shared, slot, process);
            if living.contains(&slot) {
                self.adopt_leases(shared, slot);
                self.adopt_slabs(shared, slot);
            } else {
                self.forget_slabs(shared, slot);
            }
        }
        self.adopt_rings(shared);
        for slot in owned.into_iter().filter(|slot| !living.contains(slot)) {
            self.hang_up(shared, slot);
        }
    }

    fn adopt_open_files(&mut self, shared: Shared<'_>, slot: u32, process: Process) {
        let held = &shared.open_files[slot as usize];
        for set in [&held.open, &held.writable, &held.bypassed] {
            set.iter().filter(|file| !self.files.contains_key(file)).for_each(|file| set.remove(file));
        }
        for file in held.open.iter() {
            self.files.reopen(file);
            let known = self.file(file);
            known.users.open(process);
            known.looks.forget();
        }
        for file in held.writable.iter() {
            self.file(file).users.write(process);
        }
        for file in held.bypassed.iter() {
            self.file(file).users.bypass(process);
        }
    }

    fn adopt_leases(&mut self, shared: Shared<'_>, slot: u32) {
        let cell = &shared.slots[slot as usize];
        match cell.lease.load(Ordering::Acquire) {
            LEASE_SLOW_READ => self.leases.note_slow_read(slot),
            LEASE_FLASH_READ => self.leases.note_flash_read(slot),
            // The first poll ends what was given up: until the checkpoint the next agent must find it too.
            LEASE_DIRECT_WRITE | LEASE_GIVEN_UP => {
                let (file, flags) = (cell.lease_file.load(Ordering::Relaxed), cell.lease_flags.load(Ordering::Relaxed));
                let resizes = Resizes::of_flags(flags);
                if self.files.contains_key(&file) {
                    let direct = Direct { file, range: cell.leased(), resizes, since_ns: self.measured_ns };
                    self.leases.adopt_direct(slot, direct);
                } else {
                    cell.release_read();
                }
            }
            _ => {}
        }
    }

    /// The write-backs that the agent before had under way: nothing is expected of them but that they end.
    fn adopt_copies(&mut self, shared: Shared<'_>) {
        for (record, found) in shared.copies.iter().enumerate() {
            match found.write_back().filter(|(file, _)| self.files.contains_key(file)) {
                Some((file, range)) => {
                    self.copies.adopt(file, range, record, self.measured_ns);
                }
                // A fetch can hit places of data files of before alone, where nothing new will be.
                None => found.end(),
            }
        }
    }

    /// What the agent before was copying has landed, or never will. Where the slow directory is one of the
    /// local kernel's, that is so as soon as the lock on the shared file is free: its threads are gone, and
    /// none of their calls is under way.
    pub fn on_old_copies_landed(&mut self, shared: Shared<'_>) {
        for id in self.copies.of_before() {
            self.on_copy_done(shared, id, Ok(()));
        }
        self.on_landed(shared);
    }

    fn adopt_size(&mut self, shared: Shared<'_>, number: u32, found: Option<u64>) {
        // A truncation may have cut the file, or may do so at any time.
        let cut = self.leases.cut_of(number);
        let size = self.files[&number].length.size().min(cut.unwrap_or(u64::MAX));
        self.set_size(number, size);
        let entry = &shared.files[number as usize];
        entry.size.store(size, Ordering::Release);
        let end = self.files[&number].map.end();
        // Where others use it, it was made long enough before anything was recorded, and may have been cut since.
        if found.is_some() && cut.is_none() && end > size && !self.is_logged(number) {
            // Absorbed bytes may lie beyond the end: the file was not made long enough, or that was lost with
            // the power.
            self.complete_size(shared, number, end);
        }
        self.clear_size_bit(shared, number);
    }

    /// Whether the data file is one of the file's, from an agent before: nothing is allocated in it.
    pub(crate) fn is_of_before(&self, file: u32, data_file: u32) -> bool {
        self.data_files.owner(data_file) == Some(file) && self.files[&file].data_file != Some(data_file)
    }

    /// Who has the slot.
    pub fn owner(&self, slot: u32) -> Option<Process> {
        self.threads.owner(slot)
    }

    /// The slots that threads have.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.slots()
    }

    /// The slots of a process.
    pub fn slots_of(&self, process: Process) -> impl Iterator<Item = u32> + '_ {
        self.threads.slots_of(process)
    }

    /// Threads that take part, or did when the agent before died.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }
}

/// The files that the owners of slots in `living` have open, as the shared file shows.
pub fn open_files(shared: Shared<'_>, living: &BTreeSet<u32>) -> BTreeMap<u32, Vec<u32>> {
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &slot in living {
        let pid = shared.slots[slot as usize].owner_pid.load(Ordering::Acquire);
        shared.open_files[slot as usize].open.iter().for_each(|file| found.entry(file).or_default().push(pid));
    }
    found
}

/// The files that threads were about to cut when the agent before died, or of whose end nothing was recorded,
/// as the shared file shows.
pub fn truncated_files(shared: Shared<'_>) -> BTreeSet<u32> {
    shared.used_slots().iter().filter_map(|slot| slot.truncation()).map(|(file, _)| file).collect()
}
