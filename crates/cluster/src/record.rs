//! What a member's log holds of files: where their bytes lie, and which copies it had under way.

use headstart_units::request::Range;

use crate::names::{FileId, Order, RequestId};

/// What a record says of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Its bytes lie in a data file of the node whose log has the record.
    Map {
        /// Where.
        place: u64,
    },
    /// Its bytes lie in the slow file.
    Drop,
}

/// One record of a file's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The file.
    pub file: FileId,
    /// Its place among the file's records.
    pub order: Order,
    /// The bytes.
    pub range: Range,
    /// Where they lie.
    pub what: What,
    /// The request that it answers; none of a mover's.
    pub by: Option<RequestId>,
}

/// A write-back that is about to begin: until it has ended, bytes of the record of that order may land in the slow
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// The file.
    pub file: FileId,
    /// The copy's own name: a place in the owner's order that no record has.
    pub copy: Order,
    /// Order of the record whose bytes are copied.
    pub order: Order,
    /// The bytes.
    pub range: Range,
}

/// An entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A part of a file's map.
    Record(Record),
    /// It is none any more: the record of that order counts for nothing.
    Forgot(FileId, Order),
    /// A write-back is about to begin.
    Intent(Intent),
    /// It has ended: nothing of it lands any more.
    Ended(Intent),
}

impl Entry {
    /// The file that it speaks of.
    pub fn file(&self) -> FileId {
        match self {
            Entry::Record(record) => record.file,
            Entry::Forgot(file, _) => *file,
            Entry::Intent(intent) | Entry::Ended(intent) => intent.file,
        }
    }
}
