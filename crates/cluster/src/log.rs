//! A member's own log, as far as it speaks of files: what was appended, what was forgotten again, and how much of it is
//! durable.
//!
//! The bytes are the journal's. This is what the agent has to answer from: what it holds of a file, whether a request
//! is in it, which entries a barrier covered. A record that is forgotten stays here until that is durable: until then
//! it is back if the node dies. What is gone leaves no trace but the last request of its thread; how the journal makes
//! room, by a checkpoint of what is left, is its own business.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[cfg(test)]
use headstart_units::request::Range;

use crate::names::{FileId, Order, RequestId, Stamp};
#[cfg(test)]
use crate::record::What;
use crate::record::{Entry, Intent, Record};
use crate::rules::{Rule, kept};

/// A record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lying {
    record: Record,
    at: u64,
    /// Where it was forgotten.
    forgotten: Option<u64>,
}

/// A write-back in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Copying {
    intent: Intent,
    at: u64,
    /// Where it ended.
    ended: Option<u64>,
}

/// What it holds, and how many entries were appended to it. The first `durable` ones count after the node's death, and
/// no others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    end: u64,
    durable: u64,
    /// How many a barrier covered, though it may have ended past the deadline.
    covered: u64,
    records: BTreeMap<(FileId, Order), Lying>,
    copies: BTreeMap<(FileId, Order), Copying>,
    /// Where records were forgotten that are not durably forgotten.
    forgetting: BTreeMap<u64, (FileId, Order)>,
    /// The last request of each thread that has a record.
    answered: BTreeMap<u32, u64>,
    /// Files of which the node has something on flash that no entry here says.
    unlisted: BTreeSet<FileId>,
    /// What entries before this position say of a file is no more, durably: it has left flash.
    left: BTreeMap<FileId, u64>,
}

/// An entry of a log as its owner is told: with its position, and whether it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Logged {
    /// The entry.
    pub entry: Entry,
    /// How many are before it.
    pub at: u64,
    /// Whether a barrier covered it.
    pub durable: bool,
}

/// The lowest place in any order.
const FIRST: Order = Order { epoch: Stamp { view: 0, count: 0 }, seq: 0 };

/// All places in the order of a file.
fn of_file(file: FileId) -> std::ops::RangeInclusive<(FileId, Order)> {
    let last = Order { epoch: Stamp { view: u64::MAX, count: u64::MAX }, seq: u64::MAX };
    (file, FIRST)..=(file, last)
}

impl Log {
    /// One without entries of a node that has something of these files on flash, and answers no claim of one before it
    /// has not.
    pub fn unlisted(files: impl IntoIterator<Item = FileId>) -> Log {
        Log { unlisted: files.into_iter().collect(), ..Log::default() }
    }

    /// Of these files the node has something on flash as well that no entry says.
    pub fn set_unlisted(&mut self, files: impl IntoIterator<Item = FileId>) {
        self.unlisted = files.into_iter().collect();
    }

    /// Whether it has records of a file, forgotten ones too.
    pub fn has_records(&self, file: FileId) -> bool {
        let mut records = self.records.range(of_file(file));
        records.any(|(_, lying)| !self.has_left(file, lying.at))
    }

    /// All records that were not forgotten, those of each file in their order.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let counts = |lying: &&Lying| lying.forgotten.is_none() && !self.has_left(lying.record.file, lying.at);
        self.records.values().filter(counts).map(|lying| lying.record)
    }

    /// The record of that order.
    pub fn record(&self, file: FileId, order: Order) -> Option<Record> {
        self.find(file, order).map(|(record, _)| record)
    }

    /// What is said of the file is all that the node has of it.
    pub(crate) fn list(&mut self, file: FileId) {
        self.unlisted.remove(&file);
    }

    /// Nothing of the file is on flash any more, durably.
    pub(crate) fn leave(&mut self, file: FileId) {
        self.unlisted.remove(&file);
        if self.records.range(of_file(file)).next().is_some() {
            self.left.insert(file, self.end());
        }
    }

    /// Whether what an entry says has left flash since.
    fn has_left(&self, file: FileId, at: u64) -> bool {
        self.left.get(&file).is_some_and(|begin| at < *begin)
    }

    /// The position of what is appended: by the agent as it works, and by one that begins, as it reads the journal.
    pub fn append(&mut self, entry: Entry) -> u64 {
        let at = self.end;
        self.end += 1;
        match entry {
            Entry::Record(record) => {
                if let Some(id) = record.by {
                    self.answered.insert(id.slot, id.seq);
                }
                self.records.insert((record.file, record.order), Lying { record, at, forgotten: None });
            }
            Entry::Forgot(file, order) => {
                if let Some(lying) = self.records.get_mut(&(file, order)) {
                    lying.forgotten = Some(at);
                    self.forgetting.insert(at, (file, order));
                }
            }
            Entry::Intent(intent) => {
                self.copies.insert((intent.file, intent.copy), Copying { intent, at, ended: None });
            }
            Entry::Ended(intent) => {
                if let Some(copying) = self.copies.get_mut(&(intent.file, intent.copy)) {
                    copying.ended = Some(at);
                }
            }
        }
        at
    }

    /// An entry of a journal that is read. Positions there rise by more than one.
    pub fn put(&mut self, entry: Entry, at: u64) {
        assert!(at >= self.end, "a journal is read from its begin");
        self.end = at;
        self.append(entry);
    }

    /// What it says of a file counts no more: all that counted lies in the slow file. It names the file still.
    pub fn forget_file(&mut self, file: FileId) {
        let named = self.names(file);
        let records: Vec<(FileId, Order)> = self.records.range(of_file(file)).map(|(of, _)| *of).collect();
        for of in records {
            self.records.remove(&of);
        }
        let copies: Vec<(FileId, Order)> = self.copies.range(of_file(file)).map(|(of, _)| *of).collect();
        for of in copies {
            self.copies.remove(&of);
        }
        if named {
            self.left.insert(file, self.end);
        }
    }

    /// Whether it has, or had, anything of a file.
    pub(crate) fn names(&self, file: FileId) -> bool {
        self.speaks_of(file) || self.left.contains_key(&file)
    }

    /// A barrier has covered the first `upto` entries.
    pub(crate) fn cover(&mut self, upto: u64) {
        self.covered = self.covered.max(upto.min(self.end));
    }

    /// Whether a barrier has covered more than is counted.
    pub fn is_covered_further(&self) -> bool {
        self.covered > self.durable
    }

    /// The first `upto` entries are durable: of a journal that is read.
    pub fn set_durable(&mut self, upto: u64) {
        self.cover(upto);
        self.count_covered();
    }

    /// What barriers have covered is durable. Records that are durably forgotten by it.
    pub(crate) fn count_covered(&mut self) -> Vec<(FileId, Order)> {
        self.durable = self.covered;
        let left = self.forgetting.split_off(&self.durable);
        let forgotten: Vec<(FileId, Order)> = std::mem::replace(&mut self.forgetting, left).into_values().collect();
        for of in &forgotten {
            let record = self.records.remove(of).map(|lying| lying.record);
            let by = record.and_then(|record| record.by).filter(|_| !kept(Rule::AnsweredKept));
            by.map(|id| self.answered.remove(&id.slot));
        }
        forgotten
    }

    /// The request that a thread's record answered, of a record that is durably forgotten: a journal keeps it.
    pub fn set_answered(&mut self, id: RequestId) {
        self.answered.insert(id.slot, id.seq);
    }

    /// A thread has ended.
    pub fn forget_thread(&mut self, slot: u32) {
        self.answered.remove(&slot);
    }

    /// Positions go on behind what the member's agents have told others before.
    pub fn go_on_behind(&mut self, told: u64) {
        self.end = self.end.max(told);
    }

    /// How many entries were appended.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether an entry for which somebody may wait is not durable: a record was forgotten, or bytes are in the slow
    /// file.
    pub fn wants_barrier(&self) -> bool {
        self.end > self.durable
    }

    /// What counts of it when its member is gone.
    pub fn cut(&self, upto: u64) -> Log {
        let upto = upto.min(self.end);
        let counts = |at: &u64| *at < upto;
        let mut log = Log { end: upto, durable: upto, covered: upto, ..Log::default() };
        for (of, lying) in &self.records {
            if counts(&lying.at) && !lying.forgotten.as_ref().is_some_and(counts) {
                log.records.insert(*of, Lying { forgotten: None, ..*lying });
            }
        }
        for (of, copying) in &self.copies {
            if counts(&copying.at) {
                let ended = copying.ended.filter(counts);
                log.copies.insert(*of, Copying { ended, ..*copying });
            }
        }
        log
    }

    /// All that it says of a file: records, those too that are not durably forgotten [claim-forgotten], and copies that
    /// have not ended.
    pub(crate) fn of(&self, file: FileId) -> Vec<Logged> {
        let logged = |entry: Entry, at: u64| Logged { entry, at, durable: at < self.durable };
        let records = self.records.range(of_file(file)).map(|(_, lying)| lying);
        let records = records.filter(|lying| !self.has_left(file, lying.at));
        let records = records.filter(|lying| lying.forgotten.is_none() || kept(Rule::ClaimForgotten));
        let copies = self.copies.range(of_file(file)).map(|(_, copying)| copying);
        let open = copies.filter(|copying| copying.ended.is_none());
        let records = records.map(|lying| logged(Entry::Record(lying.record), lying.at));
        records.chain(open.map(|copying| logged(Entry::Intent(copying.intent), copying.at))).collect()
    }

    /// The same, of a log that is read.
    pub fn of_file(&self, file: FileId) -> Vec<Logged> {
        let mut all = self.of(file);
        all.sort_by_key(|logged| logged.at);
        all
    }

    /// The files of which it has records, or copies that have not ended, each once.
    pub fn files(&self) -> BTreeSet<FileId> {
        let mut files: BTreeSet<FileId> = self.under_way().iter().map(|intent| intent.file).collect();
        files.extend(&self.unlisted);
        let mut next = self.records.keys().next().map(|(file, _)| *file);
        while let Some(file) = next {
            files.extend(self.speaks_of(file).then_some(file));
            let behind = (Bound::Excluded(*of_file(file).end()), Bound::Unbounded);
            next = self.records.range(behind).next().map(|((file, _), _)| *file);
        }
        files
    }

    /// Whether it has any of a file, or the node has something of it that no entry says.
    pub(crate) fn speaks_of(&self, file: FileId) -> bool {
        self.has_entries(file) || self.unlisted.contains(&file)
    }

    /// Whether it has records of a file, forgotten ones too, or copies that have not ended.
    pub fn has_entries(&self, file: FileId) -> bool {
        let copied = self.copies.range(of_file(file)).any(|(_, copying)| copying.ended.is_none());
        self.has_records(file) || copied
    }

    /// The record of that order, and where it lies.
    pub(crate) fn find(&self, file: FileId, order: Order) -> Option<(Record, u64)> {
        self.records.get(&(file, order)).map(|lying| (lying.record, lying.at))
    }

    /// Whether the record of that order was forgotten, and is back if the node dies.
    pub(crate) fn is_forgetting(&self, file: FileId, order: Order) -> bool {
        self.records.get(&(file, order)).is_some_and(|lying| lying.forgotten.is_some())
    }

    /// For the checker: whether records over the same bytes lie in their order.
    #[cfg(test)]
    pub(crate) fn is_in_order(&self) -> bool {
        let overlap = |a: &Record, b: &Record| a.file == b.file && a.range.overlaps(b.range);
        let all: Vec<&Lying> = self.records.values().collect();
        all.iter()
            .enumerate()
            .all(|(at, low)| all[at + 1..].iter().all(|high| !overlap(&low.record, &high.record) || low.at < high.at))
    }

    /// For the checker: where bytes of records lie that were not forgotten.
    #[cfg(test)]
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> {
        let there = self.records.values().filter(|lying| lying.forgotten.is_none());
        there.filter_map(|lying| match lying.record.what {
            crate::record::What::Map { place } => Some(place),
            crate::record::What::Drop => None,
        })
    }

    /// For the checker: the highest order of a file.
    #[cfg(test)]
    pub(crate) fn last(&self, file: FileId) -> Option<Order> {
        self.records.range(of_file(file)).next_back().map(|((_, order), _)| *order)
    }

    /// For the checker: what is on top of a range of one block, if anything is.
    #[cfg(test)]
    pub(crate) fn top(&self, file: FileId, range: Range) -> Option<What> {
        let of = self.records.range(of_file(file)).filter(|(_, lying)| lying.record.range.overlaps(range));
        of.map(|(_, lying)| lying.record.what).next_back()
    }

    /// Whether it has, or had, the record of a request: a thread has one request at a time.
    pub(crate) fn has(&self, id: RequestId) -> bool {
        self.answered.get(&id.slot) == Some(&id.seq)
    }

    /// Whether a write-back has ended; none where it is not known.
    pub(crate) fn has_ended(&self, intent: &Intent) -> Option<bool> {
        self.copies.get(&(intent.file, intent.copy)).map(|copying| copying.ended.is_some())
    }

    /// Write-backs that have not ended.
    pub fn under_way(&self) -> Vec<Intent> {
        self.copies.values().filter(|copying| copying.ended.is_none()).map(|copying| copying.intent).collect()
    }

    /// Those of a file.
    pub(crate) fn under_way_of(&self, file: FileId) -> impl Iterator<Item = Intent> + '_ {
        let of = self.copies.range(of_file(file)).map(|(_, copying)| copying);
        of.filter(|copying| copying.ended.is_none()).map(|copying| copying.intent)
    }

    /// Nobody asks any more after copies of a file that were ordered before `floor`: those that have durably ended
    /// leave the log.
    pub(crate) fn forget_copies(&mut self, file: FileId, floor: Order) {
        let durable = self.durable;
        let before = self.copies.range((file, FIRST)..(file, floor.max(FIRST)));
        let over: Vec<_> = before.filter(|(_, copying)| copying.ended.is_some_and(|at| at < durable)).collect();
        let over: Vec<(FileId, Order)> = over.into_iter().map(|(of, _)| *of).collect();
        for of in over {
            self.copies.remove(&of);
        }
    }
}
