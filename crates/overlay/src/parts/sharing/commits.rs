//! What an agent keeps of files that stay on flash though others use them: questions, reads that are to be confirmed,
//! direct writes that owners know, records that wait until their file is long enough, copies for owners.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headstart_cluster::{Intent, MemberId, Record, RequestId, Stamp};
use headstart_units::request::Range;

use super::flights::Flights;

/// A read of bytes that another node has, or that would be others without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    /// The file.
    pub(crate) file: u32,
    /// The bytes.
    pub(crate) range: Range,
    /// The node to be asked whether it lives; none of what survives it.
    pub(crate) of: Option<MemberId>,
    /// It was called in.
    pub(crate) is_stale: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// What owners were asked.
    pub(crate) flights: Flights,
    /// By slot.
    remote: BTreeMap<u32, Remote>,
    /// Direct writes that end by the owner's word: the thread's number when they were granted, by slot.
    granted: BTreeMap<u32, u64>,
    /// Records that wait until their file is long enough, by its number. The first is being seen to.
    lengthening: BTreeMap<u32, VecDeque<Record>>,
    /// Commits whose files could not be made long enough.
    too_short: BTreeSet<RequestId>,
    /// Copies under way for owners.
    copying: BTreeMap<u64, Intent>,
    /// Copies that are to begin.
    to_copy: VecDeque<(Intent, MemberId, u64)>,
    /// Copies of the agent before, which may be under way.
    of_before: Vec<Intent>,
    /// Entries of the log that the barrier under way covers.
    covering: u64,
    /// The epoch that the journal named last, by the file's number.
    epochs: BTreeMap<u32, Stamp>,
    /// Files of which records were forgotten: they may be forgotten themselves once that is durable.
    freed: BTreeSet<u32>,
    /// Files whose dirty extents are listed in the log, and the barrier that makes that durable, by number.
    listed: BTreeMap<u32, u64>,
}

impl Commits {
    /// Copies that an agent before had under way.
    pub(crate) fn adopt(&mut self, intents: Vec<Intent>) {
        self.of_before = intents;
    }

    /// They have ended.
    pub(crate) fn take_of_before(&mut self) -> Vec<Intent> {
        std::mem::take(&mut self.of_before)
    }

    /// The thread behind the slot reads what is to be confirmed.
    pub(crate) fn read(&mut self, slot: u32, remote: Remote) {
        self.remote.insert(slot, remote);
    }

    /// What it read, if it is still to be confirmed.
    pub(crate) fn remote(&self, slot: u32) -> Option<Remote> {
        self.remote.get(&slot).copied()
    }

    /// It is, or is read anew.
    pub(crate) fn end_remote(&mut self, slot: u32) {
        self.remote.remove(&slot);
    }

    /// What was read of the range does not count.
    pub(crate) fn call_in(&mut self, file: u32, range: Range) {
        let called = |remote: &&mut Remote| remote.file == file && remote.range.overlaps(range);
        self.remote.values_mut().filter(called).for_each(|remote| remote.is_stale = true);
    }

    /// The thread behind the slot may write the slow file, from its request of that number on.
    pub(crate) fn grant(&mut self, slot: u32, seq: u64) {
        self.granted.insert(slot, seq);
    }

    /// It may not any more: that number.
    pub(crate) fn end_grant(&mut self, slot: u32) -> Option<u64> {
        self.granted.remove(&slot)
    }

    /// A record waits until its file is long enough; true if nothing of the file was before it.
    pub(crate) fn lengthen(&mut self, number: u32, record: Record) -> bool {
        let waiting = self.lengthening.entry(number).or_default();
        waiting.push_back(record);
        waiting.len() == 1
    }

    /// The record for which the file is being made longer.
    pub(crate) fn lengthens(&self, number: u32) -> Option<Record> {
        self.lengthening.get(&number)?.front().copied()
    }

    /// That has ended; the record.
    pub(crate) fn take_lengthened(&mut self, number: u32) -> Option<Record> {
        let waiting = self.lengthening.get_mut(&number)?;
        let record = waiting.pop_front();
        if waiting.is_empty() {
            self.lengthening.remove(&number);
        }
        record
    }

    /// The files that records wait for.
    pub(crate) fn lengthening(&self) -> Vec<u32> {
        self.lengthening.keys().copied().collect()
    }

    /// The file could not be made long enough for a commit.
    pub(crate) fn fail(&mut self, id: RequestId) {
        self.too_short.insert(id);
    }

    /// Whether that was so.
    pub(crate) fn take_failed(&mut self, id: RequestId) -> bool {
        self.too_short.remove(&id)
    }

    /// A record of the file was forgotten.
    pub(crate) fn free(&mut self, number: u32) {
        self.freed.insert(number);
    }

    /// The files of which some were.
    pub(crate) fn take_freed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.freed)
    }

    /// A copy is to be made for an owner.
    pub(crate) fn order_copy(&mut self, intent: Intent, of: MemberId, place: u64) {
        self.to_copy.push_back((intent, of, place));
    }

    /// The next one.
    pub(crate) fn next_copy(&mut self) -> Option<(Intent, MemberId, u64)> {
        self.to_copy.pop_front()
    }

    /// It has begun.
    pub(crate) fn begin_copy(&mut self, id: u64, intent: Intent) {
        self.copying.insert(id, intent);
    }

    /// It has ended; none if it was no owner's.
    pub(crate) fn end_copy(&mut self, id: u64) -> Option<Intent> {
        self.copying.remove(&id)
    }

    /// A barrier begins, which covers so many entries of the log.
    pub(crate) fn begin_barrier(&mut self, entries: u64) {
        self.covering = entries;
    }

    /// How many the one under way covers.
    pub(crate) fn covering(&self) -> u64 {
        self.covering
    }

    /// The journal names this epoch of a file; true if it has to say so.
    pub(crate) fn name_epoch(&mut self, number: u32, epoch: Stamp) -> bool {
        self.epochs.insert(number, epoch) != Some(epoch)
    }

    /// A journal begins, or a file's number is another's.
    pub(crate) fn forget_epochs(&mut self) {
        self.epochs.clear();
    }

    /// The dirty extents of a file are in the log, once that barrier has ended.
    pub(crate) fn list(&mut self, number: u32, barrier: u64) {
        self.listed.insert(number, barrier);
    }

    /// The barrier, if they are.
    pub(crate) fn listed(&self, number: u32) -> Option<u64> {
        self.listed.get(&number).copied()
    }

    /// The claim is answered.
    pub(crate) fn end_list(&mut self, number: u32) {
        self.listed.remove(&number);
    }
}
