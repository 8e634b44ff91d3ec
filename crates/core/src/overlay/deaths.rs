//! The end of a thread: its reads are released, what it may still write is quarantined.
//!
//! Nobody waits for a quarantined write, nothing is fetched there, commits and write-back go on. It is lifted when the process
//! is gone and a barrier begun since has synced the slow file (`barrier.rs`). Until then the slot stays taken and says what is
//! quarantined, so that an agent that starts meanwhile knows.

use std::sync::atomic::Ordering;

use super::{Overlay, Process, Quarantined};
use crate::protocol::shared::{
    LEASE_DIRECT_WRITE, LEASE_NONE, LEASE_QUARANTINED, STATE_FREE, STATE_QUARANTINED, Shared,
};
use crate::request::Range;

impl Overlay {
    /// The thread behind `slot` is gone. Reads are released; what it may still write to the slow file is quarantined.
    pub fn on_hang_up(&mut self, shared: Shared<'_>, slot: u32) {
        if self.hang_up(shared, slot) {
            self.poll(shared);
        }
    }

    /// The same, without what becomes possible by it. False if nobody was there.
    pub(super) fn hang_up(&mut self, shared: Shared<'_>, slot: u32) -> bool {
        let cell = &shared.slots[slot as usize];
        shared.keep_counts(slot);
        let idle = cell.is_free();
        let process = self.processes.get(&slot).copied().unwrap_or_default();
        let held = &shared.open_files[slot as usize];
        match self.processes.iter().find(|(other, owner)| **other != slot && **owner == process) {
            Some((&sibling, _)) => shared.open_files[sibling as usize].take(held),
            None => held.clear(),
        }
        let quarantined = self.quarantine_slot(shared, slot, process);
        if idle {
            self.return_slabs(shared, slot, None);
        } else {
            self.forget_slabs(shared, slot);
        }
        self.abandon(slot);
        let Some(process) = self.processes.remove(&slot) else { return false };
        if !quarantined {
            Self::release_dead(shared, slot);
        }
        if !self.processes.values().any(|other| *other == process) {
            let left: Vec<u32> = self
                .files
                .iter()
                .filter(|(_, file)| file.openers.contains(&process) || file.bypassers.contains(&process))
                .map(|(&number, _)| number)
                .collect();
            for number in left {
                self.file(number).bypassers.remove(&process);
                self.leave(shared, process, number);
            }
            self.barrier.wanted |= self.quarantine.iter().any(|dead| dead.process == process);
        }
        true
    }

    /// Quarantines what the thread behind `slot` may still write. The slot says so until the quarantine is lifted, for an agent
    /// that starts meanwhile; nobody waits for it.
    pub(super) fn quarantine_slot(&mut self, shared: Shared<'_>, slot: u32, process: Process) -> bool {
        let cell = &shared.slots[slot as usize];
        // An agent that has just started knows of the leases of the dead from their slots alone.
        let direct = self.direct.remove(&slot);
        if let Some(direct) = direct {
            self.evicted.forget(direct.file, direct.range);
        }
        let (state, lease) = (cell.state.load(Ordering::Acquire), cell.lease.load(Ordering::Acquire));
        let quarantined = || (cell.file.load(Ordering::Acquire), cell.requested());
        let cheap = cell.cheap_write().or_else(|| (state == STATE_QUARANTINED).then(quarantined));
        let leased = matches!(lease, LEASE_DIRECT_WRITE | LEASE_QUARANTINED)
            .then(|| (cell.lease_file.load(Ordering::Relaxed), cell.leased()));
        let leased = direct.map(|direct| (direct.file, direct.range)).or(leased);
        let known = |dead: &(u32, Range)| self.files.contains_key(&dead.0);
        let (cheap, leased) = (cheap.filter(known), leased.filter(known));
        for (file, range) in cheap.into_iter().chain(leased) {
            self.quarantine.push(Quarantined { slot, file, range, process, barrier: None });
        }
        cell.lease.store(if leased.is_some() { LEASE_QUARANTINED } else { LEASE_NONE }, Ordering::Release);
        cell.state.store(if cheap.is_some() { STATE_QUARANTINED } else { STATE_FREE }, Ordering::Release);
        cheap.is_some() || leased.is_some()
    }

    /// Nothing of a dead thread can land any more: its slot may be given to another.
    pub(super) fn release_dead(shared: Shared<'_>, slot: u32) {
        let cell = &shared.slots[slot as usize];
        cell.release_read();
        cell.free();
        shared.open_files[slot as usize].clear();
        cell.owner_pid.store(0, Ordering::Release);
    }
}
