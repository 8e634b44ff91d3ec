//! What a device is opened for, and why it could not be.

use std::io;

use crate::device::DeviceName;

/// What a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes; nobody else may.
    Serve,
    /// Reads; others may read as well.
    Look,
}

/// A device that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct OpenError {
    /// Which.
    pub name: DeviceName,
    /// Why, and what to do.
    pub problem: Problem,
}

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is nothing of this name.
    #[error(
        "there is no such device or file; check the name, or make a file of the size you want with 'truncate -s SIZE'"
    )]
    Missing,
    /// A directory.
    #[error("it is a directory; name a block device or a file")]
    Directory,
    /// A terminal, a socket, a pipe.
    #[error("it is neither a block device nor a file")]
    NoStorage,
    /// The medium or its file system.
    #[error("it is read-only; a volume writes to both its devices")]
    ReadOnly,
    /// The user.
    #[error("permission denied; run as a user who may {0} it")]
    Denied(&'static str),
    /// Nothing fits on it.
    #[error("it has {bytes} bytes, a {what} needs at least {least}")]
    TooSmall {
        /// Its size.
        bytes: u64,
        /// Disk or flash.
        what: &'static str,
        /// The least.
        least: u64,
    },
    /// Not of whole sectors.
    #[error("its size of {0} bytes is no multiple of 512; make it one, for a file with 'truncate -s %512'")]
    Ragged(u64),
    /// A process of this machine has it open as a volume.
    #[error("process {pid} has it open as a volume{}; two servers on one volume would destroy it. Stop that one first",
        if name.is_empty() { String::new() } else { format!(" ({name})") })]
    Owned {
        /// Which.
        pid: u32,
        /// Name of its program.
        name: String,
    },
    /// Somebody else has it open as a volume, who is not visible from here.
    #[error("another server has it open as a volume, on another machine or in another container; stop that one first")]
    OwnedElsewhere,
    /// Mounted, swapped to, part of something.
    #[error("it is in use: {0}")]
    InUse(String),
    /// Disk and flash are the same, or one lies in the other.
    #[error("it shares bytes with {other}: {why}. Disk and flash of a volume must be two devices")]
    Same {
        /// The other.
        other: DeviceName,
        /// How.
        why: String,
    },
    /// Anything else.
    #[error("cannot {action} it: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}
