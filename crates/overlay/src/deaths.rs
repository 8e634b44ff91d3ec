//! The end of a thread: its reads are released, what it may still write is quarantined, its truncation is ended for it.
//!
//! Nobody waits for a quarantined write, nothing is fetched there, commits and write-back go on. A file that it may
//! make longer is given its length by its last byte (`files.rs`), which cuts nothing off. The quarantine is lifted
//! when the process is gone and a barrier begun since has synced the slow file (`barrier.rs`). Until then the
//! slot stays taken and says what is quarantined, so that an agent that starts meanwhile knows. Clean extents
//! below it are dropped at once and when it is lifted: what is seen of such a write is what the disk holds.
//!
//! A truncation is different, as everybody sees the file's size at once. The kernel ends it before the
//! process is gone, if it has begun: the size says whether it happened, as nobody makes the file longer until
//! the agent has looked (`requests/resizing.rs`). If it did, what lies beyond is
//! dropped like that of a living thread; if not, the file is as it was. Until that is recorded nothing is
//! committed beyond. Beside other truncations the size may be theirs: one that is not above the cut says that
//! what lies beyond is gone all the same, and the known size stays the least of all.

use std::sync::atomic::Ordering;

use crate::extent_map::Mapped;
use crate::overlay::Overlay;
use crate::parts::leases::Direct;
use crate::process::Process;
use headstart_protocol::shared::{
    LEASE_DIRECT_WRITE, LEASE_GIVEN_UP, LEASE_NONE, LEASE_QUARANTINED, STATE_FREE, STATE_QUARANTINED, Shared,
};
use headstart_units::request::Range;

impl Overlay {
    /// The file that the thread behind `slot` was allowed to truncate.
    pub fn truncates(&self, slot: u32) -> Option<u32> {
        self.leases.direct(slot).filter(Direct::truncates).map(|direct| direct.file)
    }

    /// The thread behind `slot` is gone. Reads are released; what it may still write to the slow file is
    /// quarantined. `size` is the slow file's, looked at since, if the thread [truncates](Overlay::truncates)
    /// one; none if that cannot be found out.
    pub fn on_hang_up(&mut self, shared: Shared<'_>, slot: u32, size: Option<u64>) {
        self.collect_last_pushes(shared, slot);
        self.end_given_up(shared);
        let known = |direct: &Direct| direct.truncates() && self.files.contains_key(&direct.file);
        let truncation = self.leases.direct(slot).filter(known).zip(size);
        let cut = self.truncates(slot).or_else(|| self.pending.cut_by(slot));
        if let Some((direct, size)) = truncation {
            self.end_truncation(shared, direct.file, direct.range.offset, size);
        }
        if self.hang_up(shared, slot) {
            if let Some((direct, _)) = truncation.filter(|(direct, _)| self.files.contains_key(&direct.file)) {
                self.leases.grant_direct(slot, direct);
                self.leases.cut_short(slot, direct.file);
            } else if let Some(file) = cut {
                self.clear_size_bit(shared, file);
            }
            self.poll(shared);
        }
    }

    /// A thread died while it was to cut the file to `cut`; the file is `size` long.
    pub(crate) fn end_truncation(&mut self, shared: Shared<'_>, file: u32, cut: u64, size: u64) {
        if size <= cut {
            // Less, if the file was to become longer: what is mapped between is committed, and the file not
            // long enough for it yet.
            self.cut(shared, file, cut, size);
        } else if !self.leases.cuts_overlapped(file) {
            self.set_size(file, size);
            shared.files[file as usize].size.store(size, Ordering::Release);
        }
    }

    /// What became of the truncations of the dead is recorded.
    pub(crate) fn end_truncations_of_the_dead(&mut self, shared: Shared<'_>) -> bool {
        let ended = self.leases.take_cut_short();
        for &(slot, file) in &ended {
            shared.slots[slot as usize].forget_truncation();
            self.leases.end_direct(slot);
            self.pending.leaving().stir(file);
            self.truncation_ended(shared, file);
        }
        !ended.is_empty()
    }

    /// The same, without what becomes possible by it. False if nobody was there.
    pub(crate) fn hang_up(&mut self, shared: Shared<'_>, slot: u32) -> bool {
        let cell = &shared.slots[slot as usize];
        shared.keep_counts(slot);
        let idle = cell.is_free();
        let process = self.threads.process(slot);
        let held = &shared.open_files[slot as usize];
        match self.threads.slots_of(process).find(|other| *other != slot) {
            Some(sibling) => shared.open_files[sibling as usize].take(held),
            None => held.clear(),
        }
        let quarantined = self.quarantine_slot(shared, slot, process);
        if idle {
            self.return_slabs(shared, slot, None);
        } else {
            self.forget_slabs(shared, slot);
        }
        self.abandon(slot);
        let Some(process) = self.threads.leave(slot) else { return false };
        if !quarantined {
            Self::release_dead(shared, slot);
        }
        if !self.threads.lives(process) {
            let left: Vec<u32> =
                self.files.iter().filter(|(_, file)| file.users.include(process)).map(|(&number, _)| number).collect();
            for number in left {
                self.file(number).users.end_bypass(process);
                self.show_left_alone(shared, number);
                self.leave(shared, process, number);
            }
            self.barrier.want_if(self.leases.quarantines_process(process));
        }
        true
    }

    /// Quarantines what the thread behind `slot` may still write. The slot says so until the quarantine is
    /// lifted, for an agent that starts meanwhile; nobody waits for it.
    pub(crate) fn quarantine_slot(&mut self, shared: Shared<'_>, slot: u32, process: Process) -> bool {
        let cell = &shared.slots[slot as usize];
        // An agent that has just started knows of the leases of the dead from their slots alone.
        let direct = self.leases.end_direct(slot);
        if let Some(direct) = direct {
            self.pending.leaving().stir(direct.file);
            self.mapping.evicted().forget(direct.file, direct.range);
        }
        let (state, lease) = (cell.state.load(Ordering::Acquire), cell.lease.load(Ordering::Acquire));
        let quarantined = || (cell.file.load(Ordering::Acquire), cell.requested());
        let cheap = cell.cheap_write().or_else(|| (state == STATE_QUARANTINED).then(quarantined));
        // What was given up was over before its thread died, and its clean bytes are dropped all the same.
        let leased = matches!(lease, LEASE_DIRECT_WRITE | LEASE_QUARANTINED | LEASE_GIVEN_UP)
            .then(|| (cell.lease_file.load(Ordering::Relaxed), cell.leased()));
        let leased = direct.map(|direct| (direct.file, direct.range)).or(leased);
        let known = |dead: &(u32, Range)| self.files.contains_key(&dead.0);
        let (cheap, leased) = (cheap.filter(known), leased.filter(known));
        for (of, is_leased) in [(cheap, false), (leased, true)] {
            let Some((file, range)) = of else { continue };
            self.drop_clean(file, range);
            self.leases.quarantine(slot, process, (file, range), is_leased);
        }
        cell.lease.store(if leased.is_some() { LEASE_QUARANTINED } else { LEASE_NONE }, Ordering::Release);
        cell.state.store(if cheap.is_some() { STATE_QUARANTINED } else { STATE_FREE }, Ordering::Release);
        cheap.is_some() || leased.is_some()
    }

    pub(crate) fn drop_clean(&mut self, file: u32, range: Range) {
        let Some(known) = self.files.get(&file) else { return };
        let clean: Vec<Mapped> = known.map.overlapping(range).filter(|mapped| !mapped.dirty).collect();
        clean.iter().for_each(|mapped| self.evict(file, mapped));
    }

    /// Nothing of a dead thread can land any more: its slot may be given to another.
    pub(crate) fn release_dead(shared: Shared<'_>, slot: u32) {
        let cell = &shared.slots[slot as usize];
        cell.release_read();
        cell.free();
        shared.open_files[slot as usize].clear();
        cell.owner_pid.store(0, Ordering::Release);
    }
}
