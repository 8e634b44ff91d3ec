//! Traces: every data request of every process of a run, in Headstart's own form or as other tools wrote it down.
//!
//! ```text
//! library --Encoder--> blocks of a process's file --decode--> Record --Merge--> records by start time
//! Darshan DXT text --dxt::Reader--\
//! fio iolog ----------iolog::Reader+--> Record, in the order of the text
//! ```
//!
//! Nothing is guessed: what a trace does not hold whole is left out, and counted by kind in [`Losses`].
#![forbid(unsafe_code)]

pub mod block;
pub mod dxt;
mod encoding;
pub mod header;
pub mod iolog;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

pub use merge::Merge;

use headstart_units::Nanos;
use headstart_units::request::Range;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes come from the file.
    Read,
    /// Bytes go to a place that the program chose.
    Write,
    /// Bytes go to the end of the file.
    Append,
}

impl Operation {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Append => "append",
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The process's rank in its parallel program, if it has one.
    pub rank: Option<u32>,
    /// The process's number, if the trace knows it.
    pub process: Option<u32>,
    /// Index in the trace's table of files.
    pub file: u32,
    /// What it does.
    pub operation: Operation,
    /// The bytes that were moved.
    pub range: Range,
    /// When it began, from the trace's origin.
    pub start: Nanos,
    /// When it had ended, if the trace says so: fio's does not.
    pub end: Option<Nanos>,
    /// See [`Access::without_flash`](headstart_units::request::Access::without_flash): other tools' traces do
    /// not say so.
    pub without_flash: bool,
}

/// A request's bytes as a trace states them; none where no file can have them.
pub fn range_of(offset: u64, length: u64) -> Option<Range> {
    let end = offset.checked_add(length)?;
    (end <= i64::MAX as u64).then_some(Range { offset, length })
}

/// The files of a trace: paths, each with its index.
#[derive(Clone, Debug, Default)]
pub struct Files {
    paths: Vec<Box<[u8]>>,
    indices: HashMap<Box<[u8]>, u32>,
}

impl Files {
    /// The index of a path.
    pub fn index(&mut self, path: &[u8]) -> u32 {
        if let Some(index) = self.indices.get(path) {
            return *index;
        }
        let index = self.paths.len() as u32;
        self.paths.push(path.into());
        self.indices.insert(path.into(), index);
        index
    }

    /// The path of an index.
    pub fn path(&self, index: u32) -> &[u8] {
        &self.paths[index as usize]
    }

    /// All paths, by index.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(|path| &**path)
    }
}

/// What a trace does not hold whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Blocks that the file's header counts and the file does not have.
    MissingBlocks,
    /// Blocks that are cut or damaged.
    DamagedBlocks,
    /// Requests that the library could not write down, because the trace's directory was full.
    Unrecorded,
    /// Requests at places that no file has: negative, or beyond the largest offset.
    ImpossiblePlaces,
    /// Requests of which the trace does not say where they went (offset -1 of Darshan).
    WithoutOffset,
    /// Requests of which the trace does not say when they ended, or says that it was before they began.
    WithoutEnd,
    /// Requests of a file that the trace does not name.
    WithoutFile,
    /// Lines that are cut, or none of the format's.
    MalformedLines,
    /// Requests that Darshan announces for a file and does not show.
    MissingRecords,
    /// Modules of Darshan that ran out of memory while the program ran.
    IncompleteModules,
    /// Requests of a layer that was not asked for.
    OtherLayer,
    /// Files that are still open where the trace ends.
    NeverClosed,
    /// Files of processes that cannot be read at all.
    UnreadableFiles,
    /// Files that a process may have used by a mapping, a stream or a ring.
    Unseen,
}

impl Loss {
    /// What it means, behind a number.
    pub fn text(self) -> &'static str {
        match self {
            Loss::MissingBlocks => "blocks are missing at the end of a process's file",
            Loss::DamagedBlocks => "blocks are cut or damaged; their requests are left out",
            Loss::Unrecorded => "requests were not recorded, because the directory of the trace was full",
            Loss::ImpossiblePlaces => "requests at places that no file has are left out",
            Loss::WithoutOffset => "requests without an offset are left out",
            Loss::WithoutEnd => {
                "requests have no end, or one before their start: they are taken as of unknown duration"
            }
            Loss::WithoutFile => "requests of files without a name are left out",
            Loss::MalformedLines => "lines are cut or malformed, and left out",
            Loss::MissingRecords => "requests are announced and not there: the records are partial",
            Loss::IncompleteModules => "modules ran out of memory while the program ran: their records are partial",
            Loss::OtherLayer => "requests of the other layer are left out",
            Loss::NeverClosed => "files are never closed: the trace may end early",
            Loss::UnreadableFiles => "files of processes cannot be read",
            Loss::Unseen => {
                "times a process used a file by a mapping, a stream, a ring or a copy in the kernel, which are not traced"
            }
        }
    }
}

/// Counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<Loss, u64>);

impl Losses {
    /// Counts.
    pub fn add(&mut self, loss: Loss, count: u64) {
        if count > 0 {
            let sum = self.0.entry(loss).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Counts what another part of the trace lost.
    pub fn merge(&mut self, other: &Losses) {
        other.iter().for_each(|(loss, count)| self.add(loss, count));
    }

    /// How often.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0.get(&loss).copied().unwrap_or(0)
    }

    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, u64)> {
        self.0.iter().map(|(loss, count)| (*loss, *count))
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (loss, count)) in self.iter().enumerate() {
            write!(f, "{}{count} {}", if index == 0 { "" } else { "; " }, loss.text())?;
        }
        Ok(())
    }
}
