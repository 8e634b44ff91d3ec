//! The slow files the agent has open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeBounds;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use headstart_overlay::ExtentMap;
use headstart_overlay::journal::Identity;
use headstart_overlay::recovery::{Recovered, RecoveredFile};
use headstart_units::request::Range;

use crate::error::{Error, Result};
use crate::identity::is_same;
use crate::slow_file::{SlowFile, fingerprint};
use crate::storage::{Access, File, FileRef, Scope, Storage};

/// Slow files by number.
#[derive(Debug, Default)]
pub(crate) struct SlowFiles {
    files: BTreeMap<u32, SlowFile>,
    /// Those of the barrier under way.
    syncing: Vec<u32>,
}

/// Path bytes as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Opens a slow file; checks that it is the one meant.
pub(crate) fn open_slow(storage: &dyn Storage, path: &[u8], identity: Identity, access: Access) -> io::Result<FileRef> {
    let file = storage.open(as_path(path), access)?;
    let found = file.attributes()?;
    if !storage.is_managed(found.device) || !is_same(found.identity(), identity) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    Ok(file)
}

impl SlowFiles {
    /// Opens the slow files of a replay, makes durable what it says of them, and takes back what it may say
    /// no longer: bytes that are clean on flash count only if the slow file looks as it did when nobody had
    /// it open. The files in `open` are left as they are: those processes go on using them. Of those in
    /// `truncated`, which threads were about to cut, the size says whether they have: it is left as it is,
    /// too. Returns the sizes.
    pub(crate) fn open_recovered(
        storage: &dyn Storage,
        recovered: &mut Recovered,
        open: &BTreeMap<u32, Vec<u32>>,
        truncated: &BTreeSet<u32>,
    ) -> Result<(SlowFiles, BTreeMap<u32, u64>)> {
        let mut files = BTreeMap::new();
        let mut sizes = BTreeMap::new();
        for (&number, found) in &mut recovered.files {
            let path = as_path(&found.path).to_path_buf();
            let holders = open.get(&number).map_or(&[][..], Vec::as_slice);
            let held = |error| storage.open_held(found.identity, holders).ok_or(error);
            let opened = match open_slow(storage, &found.path, found.identity, Access::Slow).or_else(held) {
                Ok(opened) => opened,
                Err(error) => {
                    not_found(storage, found, &error)?;
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
            if let Some(end) = dirty_end(&found.map).filter(|end| before.size < *end && !truncated.contains(&number)) {
                opened.set_size(end).map_err(|error| Error::file("extend", &path, error))?;
            }
            // Records of write-backs and of dropped bytes rest on it, and so does the fingerprint.
            let synced = sync(found, &*opened);
            let now = fingerprint(&*opened).map_err(|error| Error::file("look at", &path, error))?;
            found.fingerprint = Some(now);
            sizes.insert(number, now.size);
            let mut slow = SlowFile::new(opened, Some(now));
            if synced && dirty_end(&found.map).is_none() {
                slow.begin_sync(false);
                slow.release();
            }
            files.insert(number, slow);
        }
        Ok((SlowFiles { files, syncing: Vec::new() }, sizes))
    }

    /// The slow files of a barrier, as they are open; those that `is_written` a program may write at any moment.
    pub(crate) fn begin_sync(&mut self, numbers: Vec<u32>, is_written: impl Fn(u32) -> bool) -> Vec<(u32, FileRef)> {
        let opened = |&number: &u32| Some((number, self.files.get_mut(&number)?.begin_sync(is_written(number))));
        let jobs = numbers.iter().filter_map(opened).collect();
        self.syncing = numbers;
        jobs
    }

    /// The barrier's files are synced, or not all are. What `is_written` no more may be executed.
    pub(crate) fn end_sync(&mut self, synced: bool, is_written: impl Fn(u32) -> bool) {
        for number in std::mem::take(&mut self.syncing) {
            let Some(slow) = self.files.get_mut(&number) else { continue };
            match synced {
                true if is_written(number) => {}
                true => slow.release(),
                false => slow.not_synced(),
            }
        }
    }

    /// A slow file.
    pub(crate) fn get(&self, number: u32) -> Option<&SlowFile> {
        self.files.get(&number)
    }

    /// A slow file.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut SlowFile> {
        self.files.get_mut(&number)
    }

    /// The slow files from number `from` on.
    pub(crate) fn from(&self, from: u32) -> impl Iterator<Item = (u32, &SlowFile)> + '_ {
        self.files.range(from..).map(|(&number, slow)| (number, slow))
    }

    /// The user wants what is on flash written over whatever a stranger made of these files.
    pub(crate) fn accept_changes(&mut self, numbers: impl RangeBounds<u32>) {
        self.files.range_mut(numbers).for_each(|(_, slow)| slow.accept_changes());
    }

    /// Remembers a slow file.
    pub(crate) fn put(&mut self, number: u32, slow: SlowFile) {
        self.files.insert(number, slow);
    }

    /// Closes a slow file.
    pub(crate) fn forget(&mut self, number: u32) {
        self.files.remove(&number);
    }
}

/// A slow file cannot be opened: what is dirty of it stays, the rest does not count.
fn not_found(storage: &dyn Storage, found: &mut RecoveredFile, error: &io::Error) -> Result<()> {
    let path = as_path(&found.path);
    // It may have been renamed just before the agent ended: records rest on it wherever it is.
    storage.sync_file_system(path).map_err(|error| Error::file("sync what was", path, error))?;
    if dirty_end(&found.map).is_none() {
        found.map.carve(Range::new(0, u64::MAX));
    } else {
        let path = path.display();
        tracing::error!(%error, %path, "a file with dirty bytes on flash cannot be opened; they are kept");
    }
    Ok(())
}

/// A disk that fails here is written again; starting once more would find a sync that succeeds and proves nothing.
fn sync(found: &mut RecoveredFile, file: &dyn File) -> bool {
    let synced = file.sync(Scope::All);
    if let Err(error) = &synced {
        let path = as_path(&found.path).display();
        tracing::error!(%error, %path, "a slow file could not be synced; it is written again");
        found.write_back_again();
    }
    synced.is_ok()
}

/// Where the last dirty extent ends.
fn dirty_end(map: &ExtentMap) -> Option<u64> {
    map.iter().filter(|mapped| mapped.dirty).map(|mapped| mapped.range.end()).max()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A barrier that ended well: whether the file may be executed.
    fn barrier(files: &mut SlowFiles, begun: bool, ended: bool) -> bool {
        assert_eq!(files.begin_sync(vec![1], |_| begun).len(), 1);
        files.end_sync(true, |_| ended);
        files.get(1).unwrap().is_released()
    }

    #[test]
    fn a_file_stays_open_for_writing_until_a_barrier_synced_what_was_written_last() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let mut files = SlowFiles::default();
        files.put(1, SlowFile::new(Arc::new(named.reopen().unwrap()), None));
        assert!(!barrier(&mut files, true, false), "a program may have written it after the sync");
        assert!(!barrier(&mut files, false, true), "bytes wait on flash");
        files.get_mut(1).unwrap().begin_write_back(false);
        assert!(!barrier(&mut files, false, false), "a write-back is under way");
        files.get_mut(1).unwrap().end_write_back();
        let job = files.begin_sync(vec![1], |_| false);
        files.end_sync(false, |_| false);
        assert!(!files.get(1).unwrap().is_released(), "the sync failed");
        drop(job);
        let job = files.begin_sync(vec![1], |_| false);
        files.end_sync(true, |_| false);
        assert!(!files.get(1).unwrap().is_released(), "a thread still has it");
        drop(job);
        assert!(files.get(1).unwrap().is_released());
        files.get(1).unwrap().handle().make_writable(|| None).unwrap();
        files.get(1).unwrap().file().write_at(b"again", 0).unwrap();
        assert_eq!(std::fs::read(named.path()).unwrap(), b"again");
    }
}
