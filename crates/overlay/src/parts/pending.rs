//! Requests that are not answered yet, in the order in which they are tried.

mod leaving;

use std::collections::BTreeMap;

use leaving::LeavingFiles;

use crate::recency::Access;
use headstart_protocol::counters::Wait;
use headstart_protocol::message::Envelope;
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

/// A commit that waits for its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    /// The file.
    pub(crate) file: u32,
    /// Its bytes.
    pub(crate) range: Range,
    /// The data file they lie in.
    pub(crate) data_file: u32,
    /// Where.
    pub(crate) place: u64,
    /// How far it is.
    pub(crate) step: CommitStep,
    /// Once it is applied, bytes below were on flash before, or may have been.
    pub(crate) kept: u64,
    /// The time of day when it came.
    pub(crate) now_ns: u64,
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitStep {
    /// Waits for whoever is in its way.
    Waiting,
    /// The file's owner is asked.
    Asked,
    /// In the map; its record may not be appended yet.
    Applied,
    /// Appended, and its slab is marked used; the slow file may have to become longer.
    Stored,
}

/// A thread's read, as it asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The file.
    pub(crate) file: u32,
    /// The bytes.
    pub(crate) range: Range,
    /// Whether what lies in the slow file is read under a lease.
    pub(crate) leased: bool,
    /// How it follows the thread's read before.
    pub(crate) access: Access,
}

/// What a request that waits is to do.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Bytes on flash enter the map.
    Commit(Commit),
    /// No space was free, but some is coming.
    Slab {
        /// The file that is to be written.
        file: u32,
        /// The bytes.
        range: Range,
        /// It waits no longer.
        until_ns: u64,
    },
    /// A direct write.
    Write {
        /// The file.
        file: u32,
        /// The bytes.
        range: Range,
        /// Its thread knows that it makes the file longer.
        extends: bool,
    },
    /// A truncation.
    Truncate {
        /// The file.
        file: u32,
        /// Where it is cut, or how long it becomes.
        size: u64,
    },
    /// A call that moves bytes. Once nothing is dirty from there on, a barrier has to say so too.
    Rearrange {
        /// The file.
        file: u32,
        /// Where it begins.
        from: u64,
        /// The barrier, once it is asked for.
        barrier: Option<u64>,
    },
    /// An fsync.
    Sync {
        /// The file.
        file: u32,
        /// The barrier that it waits for.
        barrier: u64,
    },
    /// Dirty bytes go back.
    WriteBack {
        /// The file.
        file: u32,
        /// The bytes.
        range: Range,
    },
    /// The file is about to be used by means that the library does not see.
    Bypass {
        /// The file.
        file: u32,
        /// Nothing of it may stay on flash.
        writes: bool,
    },
    /// A read of a file of which others may have something.
    Read(Reading),
    /// A read of another node's bytes is to be confirmed.
    Confirm {
        /// The file.
        file: u32,
    },
    /// A direct write of a file that others use has ended.
    WriteDone {
        /// The file.
        file: u32,
        /// What was written.
        range: Range,
    },
    /// Space is wanted on flash for a file that others may use.
    ToOwn {
        /// The file.
        file: u32,
        /// The bytes.
        range: Range,
        /// It waits no longer.
        until_ns: u64,
    },
    /// The file leaves flash, as another member asks for it.
    Leave {
        /// The file.
        file: u32,
    },
    /// A file is opened.
    Open {
        /// The file.
        file: u32,
        /// The barrier that it waits for.
        barrier: u64,
        /// Nobody had it open, and it is to be made long enough for what flash holds.
        longer: bool,
    },
}

/// A request not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// It came after those of lower numbers.
    pub(crate) arrival: u64,
    /// Whose it is.
    pub(crate) envelope: Envelope,
    /// What it is to do.
    pub(crate) operation: Operation,
    /// Its thread is gone: nobody is answered.
    pub(crate) orphan: bool,
    /// When it was found that it has to wait.
    pub(crate) waits_since_ns: Option<u64>,
}

impl Pending {
    /// What it waits for, as it is counted.
    pub(crate) fn wait(&self) -> Wait {
        match self.operation {
            Operation::Commit { .. }
            | Operation::Read(_)
            | Operation::Confirm { .. }
            | Operation::WriteDone { .. }
            | Operation::ToOwn { .. } => Wait::Requests,
            Operation::Slab { .. } => Wait::Space,
            Operation::Write { .. } | Operation::Truncate { .. } => Wait::Copies,
            Operation::WriteBack { .. }
            | Operation::Bypass { .. }
            | Operation::Rearrange { .. }
            | Operation::Leave { .. } => Wait::WriteBacks,
            Operation::Sync { .. } | Operation::Open { .. } => Wait::Barriers,
        }
    }

    /// The file that must stay known for it.
    pub(crate) fn file(&self) -> Option<u32> {
        match self.operation {
            Operation::Commit(Commit { file, .. })
            | Operation::Slab { file, .. }
            | Operation::Write { file, .. }
            | Operation::Truncate { file, .. }
            | Operation::Rearrange { file, .. }
            | Operation::WriteBack { file, .. }
            | Operation::Bypass { file, .. }
            | Operation::Read(Reading { file, .. })
            | Operation::Confirm { file }
            | Operation::WriteDone { file, .. }
            | Operation::ToOwn { file, .. }
            | Operation::Leave { file }
            | Operation::Open { file, .. } => Some(file),
            Operation::Sync { .. } => None,
        }
    }

    /// The commit, if it is one that is not applied yet.
    fn waiting_commit(&self) -> Option<&Commit> {
        match &self.operation {
            Operation::Commit(commit) if commit.step == CommitStep::Waiting => Some(commit),
            _ => None,
        }
    }

    /// Whether it is a commit that is in the map, beyond `size`, for which the file is not long enough yet.
    fn is_mapped_beyond(&self, file: u32, size: u64) -> bool {
        matches!(self.operation, Operation::Commit(commit)
            if !matches!(commit.step, CommitStep::Waiting | CommitStep::Asked)
                && commit.file == file
                && commit.range.end() > size)
    }

    /// The file whose bytes it touches: it waits while others may be at them.
    pub(crate) fn touched(&self) -> Option<u32> {
        match self.operation {
            Operation::Write { file, .. }
            | Operation::Truncate { file, .. }
            | Operation::Rearrange { file, .. }
            | Operation::WriteBack { file, .. }
            | Operation::Bypass { file, .. }
            | Operation::Read(Reading { file, .. })
            | Operation::Confirm { file }
            | Operation::WriteDone { file, .. }
            | Operation::ToOwn { file, .. } => Some(file),
            Operation::Commit(_)
            | Operation::Slab { .. }
            | Operation::Sync { .. }
            | Operation::Leave { .. }
            | Operation::Open { .. } => None,
        }
    }

    /// The file whose owner is asked about it, if others use that.
    pub(crate) fn asks(&self) -> Option<u32> {
        match self.operation {
            Operation::Commit(Commit { file, .. }) => Some(file),
            Operation::ToOwn { .. } => None,
            _ => self.touched(),
        }
    }

    fn truncates(&self) -> bool {
        matches!(self.operation, Operation::Truncate { .. } | Operation::Rearrange { .. })
    }

    fn cut_of(&self, cut: u32) -> bool {
        matches!(self.operation, Operation::Truncate { file, .. } if file == cut)
    }

    /// The range that somebody waits to write, of which no further write-back should begin.
    fn wants_to_write(&self) -> Option<(u32, Range)> {
        match self.operation {
            Operation::Write { file, range, .. } => Some((file, range)),
            Operation::Truncate { file, size } => Some((file, Range::new(size, u64::MAX))),
            _ => None,
        }
    }

    /// The range whose dirty bytes somebody waits for.
    fn wants_written_back(&self) -> Option<(u32, Range)> {
        match self.operation {
            Operation::WriteBack { file, range } => Some((file, range)),
            Operation::Rearrange { file, from, .. } => Some((file, Range::new(from, u64::MAX))),
            Operation::Bypass { file, .. } => Some((file, Range::new(0, u64::MAX))),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    list: Vec<Pending>,
    /// Files that leave flash.
    leaving: LeavingFiles,
    /// How many were pending so far.
    arrivals: u64,
    /// The requests that were in the way of a commit that was refused for them, by their slots.
    held_up: BTreeMap<u32, [u64; 4]>,
}

impl Requests {
    /// A request that comes after all others.
    pub(crate) fn push(&mut self, envelope: Envelope, operation: Operation) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.list.push(Pending { arrival, envelope, operation, orphan: false, waits_since_ns: None });
    }

    /// A file leaves flash, for which no thread waits here.
    pub(crate) fn push_leave(&mut self, file: u32) {
        self.leaving.insert(file);
    }

    /// Those that do.
    pub(crate) fn leaving(&mut self) -> &mut LeavingFiles {
        &mut self.leaving
    }

    /// What there is to try of them.
    fn take_leaves(&mut self) -> Vec<Pending> {
        let arrival = self.arrivals + 1;
        let leave = |(file, waits_since_ns)| Pending {
            arrival,
            envelope: Envelope { slot: u32::MAX, seq: 0 },
            operation: Operation::Leave { file },
            orphan: true,
            waits_since_ns,
        };
        self.leaving.take().into_iter().map(leave).collect()
    }

    /// The files whose bytes requests are about to touch.
    pub(crate) fn touched(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().filter_map(Pending::touched)
    }

    /// Takes out those that truncate, or all others, in order, and files that leave behind them; each is answered or
    /// [kept](Requests::keep).
    pub(crate) fn take(&mut self, truncations: bool) -> Vec<Pending> {
        let mut taken = self.take_requests(truncations);
        if !truncations {
            taken.extend(self.take_leaves());
        }
        taken
    }

    fn take_requests(&mut self, truncations: bool) -> Vec<Pending> {
        let is_taken = |one: &Pending| one.truncates() == truncations;
        if !self.list.iter().any(is_taken) {
            return Vec::new();
        }
        if self.list.iter().all(is_taken) {
            return std::mem::take(&mut self.list);
        }
        let (taken, others) = std::mem::take(&mut self.list).into_iter().partition(is_taken);
        self.list = others;
        taken
    }

    /// One of them waits on.
    pub(crate) fn keep(&mut self, pending: Pending) {
        match pending.operation {
            Operation::Leave { file } => self.leaving.keep(file, pending.waits_since_ns),
            _ => self.list.push(pending),
        }
    }

    /// The thread behind `slot` is gone: nobody is answered. Returns its commits that are not applied, which are
    /// dropped; those that are go on to their end, as what they mapped must not lie beyond the end of the file.
    pub(crate) fn abandon(&mut self, slot: u32) -> Vec<Commit> {
        let (abandoned, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.list)
            .into_iter()
            .partition(|pending| pending.envelope.slot == slot && !pending.orphan);
        self.list = kept;
        let mut dropped = Vec::new();
        for pending in abandoned {
            match pending.operation {
                Operation::Commit(commit) if commit.step == CommitStep::Waiting => dropped.push(commit),
                Operation::Commit(_) => self.list.push(Pending { orphan: true, ..pending }),
                _ => {}
            }
        }
        dropped
    }

    /// The commit that came so is in the map; false if it waits no longer.
    pub(crate) fn apply_commit(&mut self, arrival: u64) -> bool {
        let found = self.list.iter_mut().find(|pending| pending.arrival == arrival);
        let Some(Pending { operation: Operation::Commit(commit), .. }) = found else { return false };
        commit.step = CommitStep::Applied;
        true
    }

    /// The owner of its file is asked anew about the commit that came so, if it is one.
    pub(crate) fn ask_commit_anew(&mut self, arrival: u64) {
        let found = self.list.iter_mut().find(|pending| pending.arrival == arrival);
        if let Some(Pending { operation: Operation::Commit(commit), .. }) = found
            && commit.step == CommitStep::Asked
        {
            commit.step = CommitStep::Waiting;
        }
    }

    /// What of the thread behind `slot` an owner may have been asked: the arrivals, and the files it wants to write.
    pub(crate) fn asked_by(&self, slot: u32) -> Vec<(u64, u32)> {
        let of = self.list.iter().filter(|pending| pending.envelope.slot == slot && !pending.orphan);
        let of = of.filter(|pending| !matches!(pending.operation, Operation::Commit(_)));
        of.filter_map(|pending| Some((pending.arrival, pending.touched()?))).collect()
    }

    /// The records of all commits that are applied are appended now: the slots of those that somebody waits for, or
    /// none if there was no such commit.
    pub(crate) fn store_commits(&mut self) -> Option<Vec<u32>> {
        let mut slots = None;
        for one in &mut self.list {
            if let Operation::Commit(commit) = &mut one.operation
                && commit.step == CommitStep::Applied
            {
                commit.step = CommitStep::Stored;
                slots.get_or_insert_with(Vec::new).extend((!one.orphan).then_some(one.envelope.slot));
            }
        }
        slots
    }

    /// Whether one is about the file.
    pub(crate) fn any_of(&self, file: u32) -> bool {
        self.leaving.has(file) || self.list.iter().any(|pending| pending.file() == Some(file))
    }

    /// Whether a truncation of the file waits.
    pub(crate) fn any_truncation_of(&self, file: u32) -> bool {
        self.list.iter().any(|pending| pending.truncates() && pending.file() == Some(file))
    }

    /// The slots of the truncations in the strict sense that came before `arrival` and wait.
    pub(crate) fn truncations_before(&self, arrival: u64, file: u32) -> impl Iterator<Item = u32> + '_ {
        let before = self.list.iter().filter(move |pending| pending.arrival < arrival && pending.cut_of(file));
        before.map(|pending| pending.envelope.slot)
    }

    /// The file that the thread behind `slot` waits to truncate.
    pub(crate) fn cut_by(&self, slot: u32) -> Option<u32> {
        let cut = |pending: &Pending| match pending.operation {
            Operation::Truncate { file, .. } if pending.envelope.slot == slot => Some(file),
            _ => None,
        };
        self.list.iter().find_map(cut)
    }

    /// Whether one waits for something of which no message tells: another's slot, or that it has waited long enough
    /// for truncations, if any are under way.
    pub(crate) fn wait_for_slots(&self, truncations: bool) -> bool {
        self.list.iter().any(|pending| match pending.operation {
            Operation::Commit { .. } | Operation::Truncate { .. } => true,
            Operation::Write { .. } => truncations,
            _ => false,
        })
    }

    /// Whether a write waits for space.
    pub(crate) fn wait_for_space(&self) -> bool {
        self.list.iter().any(|pending| matches!(pending.operation, Operation::Slab { .. }))
    }

    /// Whether a commit is in the map, beyond `size`, for which the file is not long enough yet.
    pub(crate) fn are_mapped_beyond(&self, file: u32, size: u64) -> bool {
        self.list.iter().any(|pending| pending.is_mapped_beyond(file, size))
    }

    /// The ranges whose dirty bytes somebody waits for.
    pub(crate) fn wanted_written_back(&self) -> Vec<(u32, Range)> {
        self.list.iter().filter_map(Pending::wants_written_back).collect()
    }

    /// The ranges of the file that somebody waits to write.
    pub(crate) fn wanted_to_write(&self, file: u32) -> impl Iterator<Item = Range> + '_ {
        self.list.iter().filter_map(Pending::wants_to_write).filter(move |(of, _)| *of == file).map(|(_, range)| range)
    }

    /// Whether a truncation that came before waits, which would have to wait for this commit too: one that reaches
    /// beyond its size, or for which the file, `size` long, has to be made longer. Were later ones applied, they
    /// could put it off for ever. So it is for who has to wait until nothing is dirty.
    pub(crate) fn would_hold_up_a_truncation(&self, arrival: u64, file: u32, size: u64, range: Range) -> bool {
        self.list.iter().any(|before| {
            let (of, size) = match before.operation {
                Operation::Truncate { file, size: cut } => (file, cut.min(size)),
                Operation::Rearrange { file, from, .. } => (file, from),
                _ => return false,
            };
            of == file && before.arrival < arrival && range.end() > size
        })
    }

    /// Whether a commit waits until the file can be made longer than `size`. One that a truncation holds back comes
    /// later.
    pub(crate) fn await_length_beyond(&self, file: u32, size: u64) -> bool {
        self.list.iter().any(|pending| {
            let commit = pending.waiting_commit().filter(|commit| commit.file == file && commit.range.end() > size);
            commit.is_some_and(|commit| !self.would_hold_up_a_truncation(pending.arrival, file, size, commit.range))
        })
    }

    /// The request of the slot, as it shows it now, was in the way of a commit that was refused for it.
    pub(crate) fn remember_in_the_way(&mut self, slot: u32, glance: [u64; 4]) {
        self.held_up.insert(slot, glance);
    }

    /// The slots whose requests were in the way of a commit and are still under way.
    pub(crate) fn still_in_the_way(&mut self, shared: Shared<'_>) -> Vec<u32> {
        self.held_up.retain(|slot, request| shared.slots[*slot as usize].glance() == *request);
        self.held_up.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(file: u32, range: Range, step: CommitStep) -> Operation {
        Operation::Commit(Commit { file, range, data_file: 1, place: range.offset, step, kept: 0, now_ns: 0 })
    }

    fn from(slot: u32) -> Envelope {
        Envelope { slot, seq: 1 }
    }

    #[test]
    fn of_a_dead_threads_commits_those_in_the_map_go_on_and_the_others_are_dropped() {
        let mut requests = Requests::default();
        let range = Range::new(0, 10);
        requests.push(from(1), commit(1, range, CommitStep::Applied));
        requests.push(from(1), commit(2, range, CommitStep::Waiting));
        requests.push(from(1), Operation::Sync { file: 3, barrier: 1 });
        requests.push(from(2), commit(4, range, CommitStep::Waiting));
        let dropped: Vec<u32> = requests.abandon(1).iter().map(|commit| commit.file).collect();
        assert_eq!(dropped, [2]);
        assert!(requests.any_of(1) && requests.any_of(4) && !requests.any_of(2));
        assert_eq!(requests.store_commits(), Some(vec![]), "nobody waits for the orphan");
        assert_eq!(requests.store_commits(), None);
    }

    #[test]
    fn a_commit_that_comes_after_a_truncation_and_reaches_beyond_it_would_hold_it_up() {
        let mut requests = Requests::default();
        requests.push(from(1), Operation::Truncate { file: 1, size: 100 });
        let beyond = Range::new(90, 20);
        assert!(requests.would_hold_up_a_truncation(2, 1, 200, beyond));
        assert!(!requests.would_hold_up_a_truncation(2, 1, 200, Range::new(80, 20)), "it ends before the cut");
        assert!(requests.would_hold_up_a_truncation(2, 1, 50, Range::new(80, 20)), "the file has to be made longer");
        assert!(!requests.would_hold_up_a_truncation(1, 1, 200, beyond), "it came before");
        assert!(!requests.would_hold_up_a_truncation(2, 2, 200, beyond));
        requests.push(from(2), commit(1, Range::new(0, 210), CommitStep::Waiting));
        assert!(!requests.await_length_beyond(1, 200), "it comes after the truncation");
    }

    #[test]
    fn truncations_are_taken_apart_from_all_others() {
        let mut requests = Requests::default();
        requests.push(from(1), Operation::Truncate { file: 1, size: 0 });
        requests.push(from(2), Operation::Sync { file: 1, barrier: 1 });
        requests.push(from(3), Operation::Rearrange { file: 1, from: 0, barrier: None });
        let slots = |taken: &[Pending]| taken.iter().map(|one| one.envelope.slot).collect::<Vec<_>>();
        assert_eq!(slots(&requests.take(false)), [2]);
        let truncations = requests.take(true);
        assert_eq!(slots(&truncations), [1, 3]);
        truncations.into_iter().for_each(|one| requests.keep(one));
        assert_eq!(requests.take(true).len(), 2);
    }
}
