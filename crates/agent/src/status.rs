//! What the agent says of itself: the answer to `status`, also what `drain` watches.

pub use headstart_core::counters::{Counters, RequestCounters};
use serde::{Deserialize, Serialize};

pub use crate::counters::ServiceCounters;

/// Commands of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// How things stand.
    Status,
    /// Write dirty bytes back, all or those of one file.
    Drain {
        /// Absolute path of a file.
        path: Option<String>,
        /// Even over files that another program changed since; always so for one file.
        #[serde(default)]
        over_changes: bool,
    },
    /// Give dirty bytes up, all or those of one file, as far as no program has the files open.
    Discard {
        /// Absolute path of a file, as the status names it.
        path: Option<String>,
    },
    /// No longer insist on writing everything back.
    KeepDirty,
    /// Answered when everything acknowledged before survives power loss.
    Sync,
    /// Use so much flash from now on.
    Configure {
        /// `20%` or a size.
        capacity: String,
    },
    /// These patterns say from now on which files may come to flash; files that are open stay as they are.
    Select {
        /// As in the site file.
        include: Vec<String>,
        /// As in the site file.
        exclude: Vec<String>,
    },
    /// End, if no process takes part.
    Stop,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// It failed.
    Error {
        /// Why, and what to do.
        error: String,
    },
    /// How things stand now.
    Status(Box<Status>),
}

/// How things stand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The agent's process.
    pub pid: u32,
    /// The slow directory.
    pub slow: String,
    /// The fast directory.
    pub fast: String,
    /// The capacity as it was asked for.
    pub capacity: String,
    /// Patterns of files that may come to flash.
    pub include: Vec<String>,
    /// Patterns of files that may not.
    pub exclude: Vec<String>,
    /// Bytes of flash it comes to.
    pub capacity_bytes: u64,
    /// Bytes of flash that hold extents.
    pub mapped_bytes: u64,
    /// Bytes on flash that the disk does not have.
    pub dirty_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Threads taking part.
    pub threads: u64,
    /// Everything acknowledged survives power loss.
    pub durable: bool,
    /// Everything is being written back.
    pub draining: bool,
    /// Files with bytes on flash, or open: first those that cannot be written back, then those with dirty bytes; not all if
    /// they are many.
    pub files: Vec<FileStatus>,
    /// Number of files known.
    pub files_known: u64,
    /// Number of files with dirty bytes.
    pub files_dirty: u64,
    /// Number of files with dirty bytes whose last write-back failed.
    pub files_failed: u64,
    /// What the overlay did.
    pub agent: Counters,
    /// What the agent did besides.
    pub service: ServiceCounters,
    /// What the programs' requests met, since the agent started; if it follows one that died, since that one did.
    pub requests: RequestCounters,
    /// Bytes of the journal.
    pub journal_bytes: u64,
}

/// One file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileStatus {
    /// Where it is; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// All its bytes, if some are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    /// Bytes the disk does not have.
    pub dirty_bytes: u64,
    /// Why its last write-back failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
