//! Who takes part: the threads by their slots, and whether programs live that the library is not in.

use std::collections::BTreeMap;

use super::slabs::Slabs;
use crate::process::Process;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    processes: BTreeMap<u32, Process>,
    /// The number of each slot's last commit.
    last_commits: BTreeMap<u32, u64>,
    slabs: Slabs,
    /// Programs live that nobody sees: nothing comes to flash.
    has_strangers: bool,
    /// Other nodes have not all said whether such ones live there.
    awaits_others: bool,
}

impl Threads {
    /// Nobody takes part. No slab is longer than `slab_bytes_max`.
    pub(crate) fn new(slab_bytes_max: u64) -> Threads {
        Threads {
            processes: BTreeMap::new(),
            last_commits: BTreeMap::new(),
            slabs: Slabs::new(slab_bytes_max),
            has_strangers: false,
            awaits_others: false,
        }
    }

    /// A thread of the process has the slot from now on.
    pub(crate) fn join(&mut self, slot: u32, process: Process) {
        self.processes.insert(slot, process);
    }

    /// Nobody has the slot any more: who had it.
    pub(crate) fn leave(&mut self, slot: u32) -> Option<Process> {
        self.processes.remove(&slot)
    }

    /// Who has the slot.
    pub(crate) fn owner(&self, slot: u32) -> Option<Process> {
        self.processes.get(&slot).copied()
    }

    /// The same; nobody's is a process of its own.
    pub(crate) fn process(&self, slot: u32) -> Process {
        self.owner(slot).unwrap_or_default()
    }

    /// The slots that threads have.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// The slots of a process.
    pub(crate) fn slots_of(&self, process: Process) -> impl Iterator<Item = u32> + '_ {
        self.processes.iter().filter(move |(_, other)| **other == process).map(|(&slot, _)| slot)
    }

    /// Whether a thread of the process takes part.
    pub(crate) fn lives(&self, process: Process) -> bool {
        self.processes.values().any(|other| *other == process)
    }

    /// How many take part.
    pub(crate) fn count(&self) -> usize {
        self.processes.len()
    }

    /// The slot's commit of this number is in the journal.
    pub(crate) fn note_commit(&mut self, slot: u32, seq: u64) {
        self.last_commits.insert(slot, seq);
    }

    /// The number of the slot's last commit.
    pub(crate) fn last_commit(&self, slot: u32) -> Option<u64> {
        self.last_commits.get(&slot).copied()
    }

    /// The last commits of all slots, of those that are gone too.
    pub(crate) fn last_commits(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.last_commits.iter().map(|(&slot, &seq)| (slot, seq))
    }

    /// The flash space that they have leased.
    pub(crate) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// The same, to be changed.
    pub(crate) fn slabs_mut(&mut self) -> &mut Slabs {
        &mut self.slabs
    }

    /// Programs live that nobody sees, or none any more.
    pub(crate) fn set_strangers(&mut self, live: bool) {
        self.has_strangers = live;
    }

    /// Whether programs live that nobody sees.
    pub(crate) fn has_strangers(&self) -> bool {
        self.has_strangers
    }

    /// Whether such ones live on other nodes is not known, or is by now.
    pub(crate) fn set_awaits_others(&mut self, awaits: bool) {
        self.awaits_others = awaits;
    }

    /// Whether it is not known.
    pub(crate) fn await_others(&self) -> bool {
        self.awaits_others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads_has_a_slot() {
        let (one, other) = (Process { pid: 1, start_time: 1 }, Process { pid: 1, start_time: 2 });
        let mut threads = Threads::new(4096);
        for (slot, process) in [(0, one), (1, other), (2, one)] {
            threads.join(slot, process);
        }
        assert!(threads.slots_of(one).eq([0, 2]) && threads.count() == 3);
        assert_eq!((threads.leave(0), threads.leave(0)), (Some(one), None));
        assert!(threads.lives(one));
        threads.leave(2);
        assert!(!threads.lives(one) && threads.lives(other));
        assert_eq!((threads.owner(2), threads.process(2)), (None, Process::default()));
    }
}
