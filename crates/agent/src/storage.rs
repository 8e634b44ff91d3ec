//! The seam between the agent and its files: journals, data files, slow files.
//!
//! Everything the agent does to a file that must survive something goes through these verbs, so that tests
//! can lose, tear and reorder what was not synced, and fail any call. Offsets are explicit; a read or write
//! is of all bytes or fails.
//!
//! Two kinds of change become durable apart from each other: a file's bytes and size with [`File::sync`], the
//! names in a directory (creations, renames, removals) with [`Storage::sync_directory`].

#[cfg(test)]
pub(crate) mod faulty;
mod real;

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_overlay::journal::Identity;

pub(crate) use real::{RealStorage, modified_ns};

/// An open file.
pub(crate) type FileRef = Arc<dyn File>;
/// Where files are.
pub(crate) type StorageRef = Arc<dyn Storage>;

/// What is known of a file besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_nlink`.
    pub links: u64,
    /// `st_size`.
    pub size: u64,
    /// `st_mtime`, nanoseconds since 1970; of an earlier one the two's complement.
    pub modified_ns: u64,
    /// Birth time, nanoseconds since 1970; zero where unknown.
    pub birth_ns: u64,
}

impl Attributes {
    /// Who it is, if it is a slow file.
    pub(crate) fn identity(&self) -> Identity {
        Identity { inode: self.inode, birth_ns: self.birth_ns }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// For reading and writing; created, readable by its owner alone, if it is missing.
    Create,
    /// For reading and writing; must exist.
    Existing,
    /// A program's file: for reading and writing, or for reading where the user may not write or it is being
    /// executed. Never follows a symbolic link.
    Slow,
    /// The same for reading alone, so that it may be executed.
    SlowRead,
}

/// What a sync covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Bytes, and the size as far as they need it.
    Data,
    /// Everything.
    All,
}

/// An open file. Dropping it closes it.
pub(crate) trait File: Send + Sync + Debug {
    /// Fills `bytes` from `offset` on; an error where the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Fills `parts`, one behind the other, from `offset` on.
    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        parts.iter_mut().try_for_each(|part| {
            self.read_at(part, at)?;
            at += part.len() as u64;
            Ok(())
        })
    }
    /// Writes all of `bytes` at `offset`. After an error any part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file, or extends it by zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Makes what was written durable. After an error the bytes written since the last sync may be gone, and
    /// a later sync that succeeds says nothing about them.
    fn sync(&self, scope: Scope) -> io::Result<()>;
    /// Allocates storage without changing the size; what cannot be allocated ahead on this file system is not.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Gives storage back; the bytes read as zeros afterwards.
    fn punch(&self, offset: u64, length: u64) -> io::Result<()>;
    /// Whether it was opened for writing.
    fn is_writable(&self) -> bool;
    /// The same file once more, whatever name it has now, for reading and writing or for reading alone.
    fn reopen(&self, writable: bool) -> io::Result<FileRef>;
    /// What is known of the file.
    fn attributes(&self) -> io::Result<Attributes>;
    /// Sets the time of last write.
    fn set_modified(&self, modified_ns: u64) -> io::Result<()>;
    /// Sets an extended attribute.
    fn set_extended(&self, name: &str, value: &[u8]) -> io::Result<()>;
    /// Removes one.
    fn remove_extended(&self, name: &str) -> io::Result<()>;
}

/// The directories that files are in.
pub(crate) trait Storage: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<FileRef>;
    /// Gives a file another name, in place of the file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The paths in a directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Opens a slow file by way of a process that has it open, if one of `pids` has: it may have no name any
    /// more, or another one.
    fn open_held(&self, identity: Identity, pids: &[u32]) -> Option<FileRef>;
    /// The processes that have a slow file open, as far as this one may look at them.
    fn holders(&self, identity: Identity) -> Vec<u32>;
    /// Whether a device number is that of the managed directory's file system, which has all slow files.
    fn is_managed(&self, device: u64) -> bool;
    /// Makes the bytes of all files durable in the file system that `path` is in, or was.
    fn sync_file_system(&self, path: &Path) -> io::Result<()>;
}
