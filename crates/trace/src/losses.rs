//! What a trace does not hold whole.

use std::collections::BTreeMap;
use std::fmt;

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
                "times a process used a file by a mapping, a stream, a ring or a copy in the kernel, \
                 which are not traced"
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
