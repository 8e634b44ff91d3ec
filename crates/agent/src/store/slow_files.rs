//! The slow files the agent has open.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeBounds;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headstart_core::overlay::extent_map::ExtentMap;
use headstart_core::overlay::journal::Identity;
use headstart_core::overlay::recovery::{Recovered, RecoveredFile};
use headstart_core::request::Range;

use crate::error::{Error, Result};
use crate::slow_file::{SlowFile, fingerprint};
use crate::storage::{Access, File, FileRef, Scope, Storage};

/// Slow files by number.
#[derive(Debug, Default)]
pub struct SlowFiles {
    files: BTreeMap<u32, SlowFile>,
}

/// Path bytes as a path.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Opens a slow file for reading and writing, or for reading where the user may not write; checks that it is the one meant.
pub fn open_slow(storage: &dyn Storage, path: &[u8], identity: Identity) -> io::Result<FileRef> {
    let file = storage.open(as_path(path), Access::Slow)?;
    let found = file.attributes()?;
    let another = identity.birth_ns != 0 && found.birth_ns != identity.birth_ns;
    if another || (found.device, found.inode) != (identity.device, identity.inode) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    Ok(file)
}

impl SlowFiles {
    /// Opens the slow files of a replay, makes durable what it says of them, and takes back what it may say no longer: bytes that
    /// are clean on flash count only if the slow file looks as it did when nobody had it open. The files in `open` are left as they
    /// are: those processes go on using them. Returns the sizes too.
    pub fn open_recovered(
        storage: &dyn Storage,
        recovered: &mut Recovered,
        open: &BTreeMap<u32, Vec<u32>>,
    ) -> Result<(SlowFiles, BTreeMap<u32, u64>)> {
        let mut files = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        for (&number, found) in &mut recovered.files {
            let path = as_path(&found.path).to_path_buf();
            let holders = open.get(&number).map_or(&[][..], Vec::as_slice);
            let held = |error| storage.open_held(found.identity, holders).ok_or(error);
            let opened = match open_slow(storage, &found.path, found.identity).or_else(held) {
                Ok(opened) => opened,
                Err(error) => {
                    // It may have been renamed just before the agent ended: records rest on it wherever it is.
                    storage.sync_file_system(&path).map_err(|error| Error::file("sync what was", &path, error))?;
                    if dirty_end(&found.map).is_none() {
                        found.map.carve(Range::new(0, u64::MAX));
                    } else {
                        let path = path.display();
                        tracing::error!(%error, %path, "a file with dirty bytes on flash cannot be opened; they are kept");
                    }
                    continue;
                }
            };
            let before = fingerprint(&*opened).map_err(|error| Error::file("look at", &path, error))?;
            if !holders.is_empty() {
                sync(found, &*opened);
                found.fingerprint = None;
                sizes.insert(number, before.size);
                files.insert(number, SlowFile::new(opened, None));
                continue;
            }
            if found.fingerprint != Some(before) {
                let clean: Vec<Range> =
                    found.map.iter().filter(|mapped| !mapped.dirty).map(|mapped| mapped.range).collect();
                clean.into_iter().for_each(|range| {
                    found.map.carve(range);
                });
            }
            if let Some(known) = found.fingerprint.filter(|known| known.size != before.size)
                && dirty_end(&found.map).is_some()
            {
                // No write-back of ours changes a size: it is for the user to say which bytes are wanted.
                sync(found, &*opened);
                sizes.insert(number, before.size.max(dirty_end(&found.map).unwrap_or(0)));
                files.insert(number, SlowFile::new(opened, Some(known)));
                continue;
            }
            // A commit may have been appended and its extension lost with the agent.
            if let Some(end) = dirty_end(&found.map).filter(|end| before.size < *end) {
                opened.set_size(end).map_err(|error| Error::file("extend", &path, error))?;
            }
            // Records of write-backs and of dropped bytes rest on it, and so does the fingerprint.
            sync(found, &*opened);
            let now = fingerprint(&*opened).map_err(|error| Error::file("look at", &path, error))?;
            found.fingerprint = Some(now);
            sizes.insert(number, now.size);
            files.insert(number, SlowFile::new(opened, Some(now)));
        }
        Ok((SlowFiles { files }, sizes))
    }

    /// A slow file.
    pub fn get(&self, number: u32) -> Option<&SlowFile> {
        self.files.get(&number)
    }

    /// A slow file.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut SlowFile> {
        self.files.get_mut(&number)
    }

    /// The slow files from number `from` on.
    pub fn from(&self, from: u32) -> impl Iterator<Item = (u32, &SlowFile)> + '_ {
        self.files.range(from..).map(|(&number, slow)| (number, slow))
    }

    /// The user wants what is on flash written over whatever a stranger made of these files.
    pub fn accept_changes(&mut self, numbers: impl RangeBounds<u32>) {
        self.files.range_mut(numbers).for_each(|(_, slow)| slow.accept_changes());
    }

    /// Remembers a slow file.
    pub fn put(&mut self, number: u32, slow: SlowFile) {
        self.files.insert(number, slow);
    }

    /// Closes a slow file.
    pub fn forget(&mut self, number: u32) {
        self.files.remove(&number);
    }
}

/// A disk that fails here is written again; starting once more would find a sync that succeeds and proves nothing.
fn sync(found: &mut RecoveredFile, file: &dyn File) {
    if let Err(error) = file.sync(Scope::All) {
        tracing::error!(%error, path = %as_path(&found.path).display(), "a slow file could not be synced; it is written again");
        found.write_back_again();
    }
}

/// Where the last dirty extent ends.
fn dirty_end(map: &ExtentMap) -> Option<u64> {
    map.iter().filter(|mapped| mapped.dirty).map(|mapped| mapped.range.end()).max()
}
