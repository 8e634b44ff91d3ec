//! A member's own log, as far as it speaks of files: what was appended, and how much of it is durable.
//!
//! The bytes are the journal's. This is what the agent has to answer from: what it holds of a file, whether a request
//! is in it, which records a barrier covered.

use crate::names::{FileId, Order, RequestId};
use crate::record::{Entry, Intent, Record};

/// Entries in the order of their appending. The first `durable` count after the node's death, and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    entries: Vec<Entry>,
    durable: u64,
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

impl Log {
    /// The position of what is appended.
    pub(crate) fn append(&mut self, entry: Entry) -> u64 {
        self.entries.push(entry);
        self.entries.len() as u64 - 1
    }

    /// A barrier has covered the first `upto` entries.
    pub(crate) fn set_durable(&mut self, upto: u64) {
        self.durable = self.durable.max(upto.min(self.end()));
    }

    /// How many entries there are.
    pub fn end(&self) -> u64 {
        self.entries.len() as u64
    }

    /// How many are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// What counts of it when its member is gone.
    pub fn cut(&self, upto: u64) -> Log {
        let entries: Vec<Entry> = self.entries.iter().take(upto as usize).copied().collect();
        Log { durable: entries.len() as u64, entries }
    }

    /// All that it says of a file.
    pub(crate) fn of(&self, file: FileId) -> Vec<Logged> {
        let all = self.entries.iter().enumerate().filter(|(_, entry)| entry.file() == file);
        all.map(|(at, entry)| Logged { entry: *entry, at: at as u64, durable: (at as u64) < self.durable }).collect()
    }

    /// The files that it speaks of, each once.
    pub(crate) fn files(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> = self.entries.iter().map(Entry::file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    fn records(&self) -> impl Iterator<Item = (u64, &Record)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| match entry {
            Entry::Record(record) => Some((at as u64, record)),
            Entry::Intent(_) | Entry::Ended(_) => None,
        })
    }

    /// Where a record of that order lies.
    pub(crate) fn find(&self, file: FileId, order: Order) -> Option<u64> {
        self.records().find(|(_, record)| record.file == file && record.order == order).map(|(at, _)| at)
    }

    /// Whether it has the record of a request.
    pub(crate) fn has(&self, id: RequestId) -> bool {
        self.records().any(|(_, record)| record.by == Some(id))
    }

    /// Whether a write-back has ended.
    pub(crate) fn has_ended(&self, intent: &Intent) -> bool {
        self.entries.contains(&Entry::Ended(*intent))
    }

    /// Write-backs that have not ended.
    pub(crate) fn under_way(&self) -> Vec<Intent> {
        let mut open = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Intent(intent) => open.push(*intent),
                Entry::Ended(ended) => open.retain(|intent| intent != ended),
                Entry::Record(_) => {}
            }
        }
        open
    }
}
