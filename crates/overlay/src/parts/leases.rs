//! What threads may do to slow files with the agent's leave, and what dead ones may still do.
//!
//! | holder | may | until |
//! |---|---|---|
//! | direct write | write the range of the slow file | its records are appended, it is given up, or its thread is dead |
//! | slow read | read there | a store of its thread |
//! | flash read | read the pieces of flash that its slot names | the same |
//! | quarantine | write what its dead thread had under way | a barrier begun after the process was gone has synced the file |

use std::collections::{BTreeMap, BTreeSet};

use headstart_protocol::message::Envelope;
use headstart_protocol::shared::{DIRECT_EXTENDS, DIRECT_TRUNCATES, Shared, Slot};
use headstart_units::request::Range;

use crate::parts::looks;
use crate::process::Process;
use crate::writer::Writer;

/// What a direct write does to the file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resizes {
    /// It ends within the file.
    No,
    /// It may make the file longer.
    Extends,
    /// It cuts the file at the range's beginning, or makes it longer to there.
    Truncates,
}

impl Resizes {
    /// As a slot says it.
    pub(crate) fn of_flags(flags: u32) -> Resizes {
        match (flags & DIRECT_EXTENDS != 0, flags & DIRECT_TRUNCATES != 0) {
            (_, true) => Resizes::Truncates,
            (true, false) => Resizes::Extends,
            (false, false) => Resizes::No,
        }
    }

    /// As a slot is to say it.
    pub(crate) fn flags(self) -> u32 {
        match self {
            Resizes::No => 0,
            Resizes::Extends => DIRECT_EXTENDS,
            Resizes::Truncates => DIRECT_EXTENDS | DIRECT_TRUNCATES,
        }
    }
}

/// A direct-write lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// The slow file.
    pub(crate) file: u32,
    /// What may be written.
    pub(crate) range: Range,
    /// What becomes of the size.
    pub(crate) resizes: Resizes,
    /// When it was granted, or found at a start.
    pub(crate) since_ns: u64,
}

impl Direct {
    /// Whether it may make the file longer.
    pub(crate) fn extends(&self) -> bool {
        self.resizes != Resizes::No
    }

    /// Whether it may cut the file.
    pub(crate) fn truncates(&self) -> bool {
        self.resizes == Resizes::Truncates
    }
}

/// What a dead thread may still write to a slow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quarantined {
    /// The thread's slot, which nobody gets meanwhile.
    pub(crate) slot: u32,
    /// The slow file.
    pub(crate) file: u32,
    /// What may be written.
    pub(crate) range: Range,
    /// Whose write it is.
    pub(crate) process: Process,
    /// It had the agent's leave.
    pub(crate) is_leased: bool,
    /// The barrier that syncs the slow file and began after the process was gone: it lifts the quarantine.
    barrier: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    direct: BTreeMap<u32, Direct>,
    /// Files with truncations of which two were under way at once.
    overlapped: BTreeSet<u32>,
    /// Slots that were granted a slow read which may not have ended yet.
    slow_reads: BTreeSet<u32>,
    /// Slots that were granted a read of flash which may not have ended yet.
    flash_reads: BTreeSet<u32>,
    quarantine: Vec<Quarantined>,
    /// Direct writes that are done, but whose records may not be appended yet.
    ending: Vec<Envelope>,
    /// Slots of dead threads whose truncations are ended, but whose records may not be appended yet, and the files.
    cut_short: Vec<(u32, u32)>,
}

impl Leases {
    /// The direct write of the thread behind `slot`.
    pub(crate) fn direct(&self, slot: u32) -> Option<Direct> {
        self.direct.get(&slot).copied()
    }

    /// All direct writes, by slot.
    pub(crate) fn all_direct(&self) -> impl Iterator<Item = (u32, &Direct)> {
        self.direct.iter().map(|(&slot, direct)| (slot, direct))
    }

    /// Those of one file.
    pub(crate) fn direct_of(&self, file: u32) -> impl Iterator<Item = &Direct> {
        self.direct.values().filter(move |direct| direct.file == file)
    }

    /// Whether one may write a byte of `range`.
    pub(crate) fn direct_overlaps(&self, file: u32, range: Range) -> bool {
        self.direct_of(file).any(|direct| direct.range.overlaps(range))
    }

    /// The least size to which a truncation of the file that is under way cuts it.
    pub(crate) fn cut_of(&self, file: u32) -> Option<u64> {
        self.direct_of(file).filter(|direct| direct.truncates()).map(|direct| direct.range.offset).min()
    }

    /// Whether any truncation is under way.
    pub(crate) fn any_truncation(&self) -> bool {
        self.direct.values().any(Direct::truncates)
    }

    /// Whether another one was under way beside those of the file that are, so that nobody knows which comes last.
    pub(crate) fn cuts_overlapped(&self, file: u32) -> bool {
        self.overlapped.contains(&file)
    }

    /// The thread behind `slot` may write from now on.
    pub(crate) fn grant_direct(&mut self, slot: u32, direct: Direct) {
        if direct.truncates() && self.cut_of(direct.file).is_some() {
            self.overlapped.insert(direct.file);
        }
        self.direct.insert(slot, direct);
    }

    /// The same with the leave of the agent before: nobody knows what else was under way then.
    pub(crate) fn adopt_direct(&mut self, slot: u32, direct: Direct) {
        if direct.truncates() {
            self.overlapped.insert(direct.file);
        }
        self.direct.insert(slot, direct);
    }

    /// The direct write of the thread behind `slot` ends.
    pub(crate) fn end_direct(&mut self, slot: u32) -> Option<Direct> {
        let ended = self.direct.remove(&slot)?;
        if ended.truncates() && self.cut_of(ended.file).is_none() {
            self.overlapped.remove(&ended.file);
        }
        Some(ended)
    }

    /// A direct write is done: it ends once what was appended for it is stored.
    pub(crate) fn end_once_appended(&mut self, envelope: Envelope) {
        self.ending.push(envelope);
    }

    /// The direct writes whose records are stored now.
    pub(crate) fn take_ending(&mut self) -> Vec<Envelope> {
        std::mem::take(&mut self.ending)
    }

    /// A dead thread's truncation of the file was ended for it: nothing is committed there, and nobody makes the file
    /// longer unasked, until what was appended is stored.
    pub(crate) fn cut_short(&mut self, slot: u32, file: u32) {
        self.cut_short.push((slot, file));
    }

    /// Whether one of the file was, and is not recorded yet.
    pub(crate) fn is_cut_short(&self, file: u32) -> bool {
        self.cut_short.iter().any(|(_, cut)| *cut == file)
    }

    /// The slots of dead threads whose truncations are recorded now, and the files.
    pub(crate) fn take_cut_short(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.cut_short)
    }

    /// Whether nothing waits for records to be stored.
    pub(crate) fn is_settled(&self) -> bool {
        self.ending.is_empty() && self.cut_short.is_empty()
    }

    /// The thread behind `slot` reads the slow file, as its slot says.
    pub(crate) fn note_slow_read(&mut self, slot: u32) {
        self.slow_reads.insert(slot);
    }

    /// Whether a slow read of a byte of `range` may be under way.
    pub(crate) fn slow_read_overlaps(&mut self, shared: Shared<'_>, file: u32, range: Range) -> bool {
        looks::count(2 * self.slow_reads.len());
        self.slow_reads.retain(|slot| shared.slots[*slot as usize].holds_slow_read());
        self.slow_reads.iter().any(|slot| shared.slots[*slot as usize].slow_read_overlaps(file, range))
    }

    /// What threads have leased of the file, and what dead ones may still write.
    pub(crate) fn all_of<'a>(&'a self, shared: Shared<'a>, file: u32) -> impl Iterator<Item = Range> + 'a {
        self.all_of_writers(shared, file).map(|(_, range)| range)
    }

    /// The same, by who does.
    pub(crate) fn all_of_writers<'a>(
        &'a self,
        shared: Shared<'a>,
        file: u32,
    ) -> impl Iterator<Item = (Writer, Range)> + 'a {
        let slots = self.slow_reads.iter().map(move |slot| (*slot, &shared.slots[*slot as usize]));
        let reads = slots.filter(move |(_, cell)| cell.slow_read_overlaps(file, Range::new(0, u64::MAX)));
        let dead = self.quarantine.iter().filter(move |dead| dead.file == file);
        let living = self.direct.iter().filter(move |(_, direct)| direct.file == file);
        let living = living.map(|(slot, direct)| (Writer::Leased(*slot), direct.range));
        let dead = dead.map(|dead| match dead.is_leased {
            true => (Writer::Leased(dead.slot), dead.range),
            false => (Writer::Quarantined(dead.slot), dead.range),
        });
        living.chain(dead).chain(reads.map(|(slot, cell)| (Writer::Reads(slot), cell.leased())))
    }

    /// Slots whose threads may write the slow file under a lease, dead or alive.
    pub(crate) fn held(&self) -> Vec<u32> {
        let dead = self.quarantine.iter().filter(|dead| dead.is_leased).map(|dead| dead.slot);
        self.direct.keys().copied().chain(dead).collect()
    }

    /// The thread behind `slot` reads flash, as its slot says.
    pub(crate) fn note_flash_read(&mut self, slot: u32) {
        self.flash_reads.insert(slot);
    }

    /// The slots whose threads read flash.
    pub(crate) fn flash_readers<'s>(&mut self, shared: Shared<'s>) -> impl Iterator<Item = &'s Slot> {
        looks::count(self.flash_reads.len());
        self.flash_reads.retain(|slot| shared.slots[*slot as usize].holds_flash_read());
        self.flash_reads.iter().map(move |slot| &shared.slots[*slot as usize])
    }

    /// What the dead thread of a process may still write.
    pub(crate) fn quarantine(&mut self, slot: u32, process: Process, (file, range): (u32, Range), is_leased: bool) {
        self.quarantine.push(Quarantined { slot, file, range, process, is_leased, barrier: None });
    }

    /// Whether a dead thread may still write a byte of `range`.
    pub(crate) fn quarantines(&self, file: u32, range: Range) -> bool {
        self.quarantine.iter().any(|dead| dead.file == file && dead.range.overlaps(range))
    }

    /// Whether anything is quarantined.
    pub(crate) fn any_quarantined(&self) -> bool {
        !self.quarantine.is_empty()
    }

    /// Whether anything of the process is.
    pub(crate) fn quarantines_process(&self, process: Process) -> bool {
        self.quarantine.iter().any(|dead| dead.process == process)
    }

    /// Barrier `number` begins: it lifts the quarantines of processes that are gone. The slow files that it has to
    /// sync for that.
    pub(crate) fn await_barrier(&mut self, number: u64, lives: impl Fn(Process) -> bool) -> Vec<u32> {
        let gone = self.quarantine.iter_mut().filter(|dead| dead.barrier.is_none() && !lives(dead.process));
        gone.map(|dead| {
            dead.barrier = Some(number);
            dead.file
        })
        .collect()
    }

    /// Barrier `number` is durable: what it lifts.
    pub(crate) fn lift(&mut self, number: u64) -> Vec<Quarantined> {
        self.quarantine.extract_if(.., |dead| dead.barrier == Some(number)).collect()
    }

    /// Whether a quarantine waits for the barrier under way.
    pub(crate) fn awaits_barrier(&self) -> bool {
        self.quarantine.iter().any(|dead| dead.barrier.is_some())
    }

    /// The barrier under way failed: what it was to lift waits for the next one.
    pub(crate) fn abandon_barrier(&mut self) {
        self.quarantine.iter_mut().for_each(|dead| dead.barrier = None);
    }

    /// How much is quarantined.
    #[cfg(test)]
    pub(crate) fn quarantined(&self) -> usize {
        self.quarantine.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Process = Process { pid: 1, start_time: 1 };
    const SECOND: Process = Process { pid: 2, start_time: 1 };
    const ALL: Range = Range { offset: 0, length: u64::MAX };

    #[test]
    fn a_quarantine_is_lifted_by_a_barrier_that_begins_after_its_process_is_gone_and_succeeds() {
        let mut leases = Leases::default();
        leases.quarantine(3, FIRST, (7, Range::new(0, 10)), false);
        leases.quarantine(4, SECOND, (8, Range::new(0, 10)), true);
        assert_eq!(leases.await_barrier(1, |process| process == SECOND), [7]);
        leases.abandon_barrier();
        assert!(leases.lift(1).is_empty() && !leases.awaits_barrier());
        assert_eq!(leases.await_barrier(2, |process| process == SECOND), [7]);
        let lifted: Vec<u32> = leases.lift(2).iter().map(|dead| dead.slot).collect();
        assert_eq!(lifted, [3]);
        assert!(!leases.quarantines(7, ALL) && leases.quarantines(8, ALL));
    }

    #[test]
    fn truncations_overlap_from_the_second_on_to_the_end_of_the_last_one() {
        let mut leases = Leases::default();
        let cut = |file, size| Direct {
            file,
            range: Range::between(size, u64::MAX),
            resizes: Resizes::Truncates,
            since_ns: 0,
        };
        leases.grant_direct(1, cut(7, 100));
        leases.grant_direct(2, cut(8, 300));
        assert!(!leases.cuts_overlapped(7));
        leases.grant_direct(3, cut(7, 50));
        assert!(leases.cuts_overlapped(7) && !leases.cuts_overlapped(8) && leases.cut_of(7) == Some(50));
        leases.end_direct(3);
        assert!(leases.cuts_overlapped(7) && leases.cut_of(7) == Some(100));
        leases.end_direct(1);
        assert!(!leases.cuts_overlapped(7));
        leases.adopt_direct(1, cut(7, 100));
        assert!(leases.cuts_overlapped(7), "another may have ended under the agent before");
    }

    #[test]
    fn a_direct_write_is_found_by_its_slot_its_file_and_its_bytes_until_it_ends() {
        let mut leases = Leases::default();
        let range = Range::new(100, 50);
        leases.grant_direct(5, Direct { file: 1, range, resizes: Resizes::Truncates, since_ns: 0 });
        assert!(leases.direct_overlaps(1, Range::new(149, 10)) && !leases.direct_overlaps(1, Range::new(150, 10)));
        assert!(!leases.direct_overlaps(2, ALL));
        assert_eq!((leases.cut_of(1), leases.cut_of(2)), (Some(100), None));
        assert!(leases.end_direct(5).is_some() && leases.direct(5).is_none());
    }
}
