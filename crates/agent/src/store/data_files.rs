//! The data files: absorbed and fetched bytes.
//!
//! A data file is open while it is needed: created or grown, read or written by a copy, or unsynced. The
//! others stay open in the order of their last use as far as `open_max` allows.
//!
//! **A failure to write is not missed.** Bytes reach a data file through descriptors of programs and of the
//! copiers; the kernel writes them when it likes, and forgets the pages it could not write. A sync tells of
//! that if its descriptor was open at the time, or was opened since and nobody was told before (since Linux
//! 4.13), unless the kernel has dropped the inode from memory meanwhile, and the error with it. It does not
//! while anybody has the file open. So a data file is *unsynced*, and open here, from the moment a record
//! names bytes of it ([`Output::Unsynced`], carried out before the commit is answered) or a fetch into it
//! begins, until a sync that began later has succeeded. The writing program holds it open before: until its
//! slow file is closed, or, beyond an eighth of the descriptors that its process may have, until the write
//! has returned, so that an error could be lost only if the kernel wrote, failed and evicted the inode
//! between that and the commit. Whatever sync fails, the next barrier says so of the file, once: what it held
//! since the barrier before is never vouched for.
//!
//! If every open file is unsynced, the one used least recently is synced here, in the event loop, and closed;
//! a barrier is wanted before it comes to that. One that a job uses is never closed: where all are used there
//! are more than `open_max`.
//!
//! [`Output::Unsynced`]: headstart_overlay::Output::Unsynced

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_overlay::NotSynced;
use headstart_overlay::Run;
use headstart_overlay::recovery::Recovered;

use super::sync_job::DataSync;
use crate::error::{Error, Result};
use crate::node_files::NodeFiles;
use crate::storage::{Access, FileRef, Scope, StorageRef};

/// See the module.
#[derive(Debug)]
pub(crate) struct DataFiles {
    storage: StorageRef,
    place: NodeFiles,
    files: BTreeMap<u32, DataFile>,
    /// The open ones, by their last use.
    by_use: BTreeMap<u64, u32>,
    open_max: usize,
    unsynced: BTreeSet<u32>,
    /// A sync failed of which no barrier has told yet.
    lost: BTreeSet<u32>,
    /// Data files that fetches under way write, by copy.
    fetches: BTreeMap<u64, u32>,
    /// One was created whose name may not survive power loss.
    created: bool,
}

#[derive(Debug, Default)]
struct DataFile {
    /// It has this size at least.
    size: u64,
    open: Option<FileRef>,
    used: u64,
}

/// The number in a data file's name.
pub(crate) fn data_file_number(path: &Path) -> Option<u32> {
    u32::from_str_radix(path.file_name()?.to_str()?.strip_prefix("data.")?, 16).ok()
}

impl DataFiles {
    /// Looks at the data files of a replay, and syncs them and their names.
    pub(crate) fn open_recovered(
        storage: StorageRef,
        place: NodeFiles,
        recovered: &mut Recovered,
        open_max: usize,
    ) -> Result<DataFiles> {
        let mut found = DataFiles {
            storage,
            place,
            files: BTreeMap::new(),
            by_use: BTreeMap::new(),
            open_max: open_max.max(1),
            unsynced: BTreeSet::new(),
            lost: BTreeSet::new(),
            fetches: BTreeMap::new(),
            created: false,
        };
        for number in recovered.data_files.keys().copied().collect::<Vec<_>>() {
            let path = found.path(number);
            match found.open(number, Access::Existing) {
                Ok(file) => {
                    if let Err(error) = file.sync(Scope::Data) {
                        tracing::error!(%error, path = %path.display(), "what was not synced before is lost");
                        recovered.distrust(number);
                    }
                    let size = file.attributes().map_err(|error| Error::file("look at", &path, error))?.size;
                    found.files.entry(number).or_default().size = size;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), "a data file named by the journal is missing");
                }
                Err(error) => return Err(Error::file("open", &path, error)),
            }
        }
        if !found.files.is_empty() {
            // Their names come before the journal that speaks of them.
            let directory = found.place.shared();
            found.storage.sync_directory(&directory).map_err(|error| Error::file("sync", &directory, error))?;
        }
        Ok(found)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.place.data_file(number)
    }

    /// Removes data files the journal does not name: their commits were never acknowledged, or they were removed.
    pub(crate) fn remove_strangers(&self) {
        let Ok(entries) = self.storage.list(&self.place.shared()) else { return };
        for path in entries {
            let is_strange = |number: u32| self.place.is_own(number) && !self.files.contains_key(&number);
            if data_file_number(&path).is_some_and(is_strange) {
                let _ = self.storage.remove(&path);
            }
        }
    }

    /// A data file, opened if it is not open.
    pub(crate) fn get(&mut self, number: u32) -> io::Result<FileRef> {
        if !self.files.contains_key(&number) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.open(number, Access::Existing)
    }

    fn open(&mut self, number: u32, access: Access) -> io::Result<FileRef> {
        let open = self.files.get(&number).and_then(|known| known.open.clone());
        let file = match open {
            Some(file) => file,
            None => {
                self.make_room();
                self.storage.open(&self.path(number), access)?
            }
        };
        let next = self.by_use.last_key_value().map_or(0, |(last, _)| last + 1);
        let known = self.files.entry(number).or_default();
        if known.open.replace(file.clone()).is_some() {
            self.by_use.remove(&known.used);
        }
        known.used = next;
        self.by_use.insert(next, number);
        Ok(file)
    }

    /// Closes what was used least recently until one more may be open.
    fn make_room(&mut self) {
        while self.by_use.len() >= self.open_max {
            let unused = || self.by_use.values().copied().filter(|number| !self.is_used(*number));
            let synced = unused().find(|number| !self.unsynced.contains(number));
            let Some(number) = synced.or_else(|| unused().next()) else { return };
            let known = self.files.get_mut(&number).expect("an open data file is known");
            let file = known.open.take().expect("it is open");
            self.by_use.remove(&known.used);
            if self.unsynced.remove(&number)
                && let Err(error) = file.sync(Scope::Data)
            {
                tracing::error!(%error, data_file = number, "a data file could not be synced");
                self.lost.insert(number);
            }
        }
    }

    fn is_used(&self, number: u32) -> bool {
        let used = |file: &FileRef| Arc::strong_count(file) > 1;
        let fetched = self.fetches.values().any(|other| *other == number);
        fetched || self.files.get(&number).and_then(|known| known.open.as_ref()).is_some_and(used)
    }

    /// The data file, which exists and is at least `size` long afterwards.
    pub(crate) fn grow(&mut self, number: u32, size: u64) -> Result<()> {
        let path = self.path(number);
        let known = self.files.get(&number).map(|known| known.size);
        if known.is_none() {
            self.open(number, Access::Create).map_err(|error| Error::file("create", &path, error))?;
            self.created = true;
        }
        if known.unwrap_or(0) < size {
            let file = self.get(number).map_err(|error| Error::file("open", &path, error))?;
            file.set_size(size).map_err(|error| Error::file("size", &path, error))?;
            self.files.entry(number).or_default().size = size;
        }
        Ok(())
    }

    /// Records name bytes of the data file that no barrier has synced.
    pub(crate) fn written(&mut self, number: u32) {
        if !self.files.contains_key(&number) {
            return;
        }
        self.unsynced.insert(number);
        if let Err(error) = self.get(number) {
            tracing::warn!(%error, data_file = number, "a data file cannot be opened; the next barrier tries again");
        }
    }

    /// The data file that a fetch is about to write.
    pub(crate) fn begin_fetch(&mut self, copy: u64, number: u32) -> io::Result<FileRef> {
        let file = self.get(number)?;
        self.unsynced.insert(number);
        self.fetches.insert(copy, number);
        Ok(file)
    }

    /// The copy has ended, if it was a fetch.
    pub(crate) fn end_fetch(&mut self, copy: u64) {
        self.fetches.remove(&copy);
    }

    /// Whether so many are unsynced that a barrier is wanted.
    pub(crate) fn want_barrier(&self) -> bool {
        self.unsynced.len() > self.open_max / 4 * 3
    }

    /// What a barrier has to sync: those of `named` that were not synced since records named them, and others
    /// that fetches wrote.
    pub(crate) fn begin_sync(&mut self, named: &[u32]) -> Vec<(u32, DataSync)> {
        let missing = named.iter().copied().filter(|number| !self.files.contains_key(number));
        let lost: BTreeSet<u32> = missing.chain(std::mem::take(&mut self.lost)).collect();
        let is_open = |number: &u32| self.files.get(number).is_some_and(|known| known.open.is_some());
        let (open, closed): (Vec<u32>, Vec<u32>) = self.unsynced.iter().copied().partition(is_open);
        // Those that could not be opened before come last: none of the others is closed for them.
        let jobs = [open, closed].concat().into_iter().map(|number| {
            let opened = self.get(number);
            (number, opened.map_or(DataSync::NotOpened, DataSync::Open))
        });
        let mut jobs: Vec<_> = jobs.filter(|(number, _)| !lost.contains(number)).collect();
        // What a fetch writes from now on the sync may miss.
        let fetched: BTreeSet<u32> = self.fetches.values().copied().collect();
        self.unsynced.retain(|number| fetched.contains(number));
        jobs.extend(lost.into_iter().map(|number| (number, DataSync::Lost)));
        jobs
    }

    /// The barrier could not sync these: those it did not try are to be synced yet. Nothing rests any more on
    /// one whose sync failed.
    pub(crate) fn not_synced(&mut self, failed: &NotSynced) {
        let untried = failed.data_files_untried.iter().filter(|number| self.files.contains_key(number));
        self.unsynced.extend(untried);
    }

    /// The directory, if a data file was created there since it was last taken for a sync.
    pub(crate) fn take_unsynced_directory(&mut self) -> Option<(StorageRef, PathBuf)> {
        std::mem::take(&mut self.created).then(|| (self.storage.clone(), self.place.shared()))
    }

    /// The sync failed.
    pub(crate) fn directory_not_synced(&mut self) {
        self.created = true;
    }

    /// Gives storage back, where the file system can.
    pub(crate) fn punch(&mut self, run: Run) {
        let bytes = run.bytes();
        if let Ok(file) = self.get(run.data_file)
            && let Err(error) = file.punch(bytes.offset, bytes.length)
        {
            tracing::debug!(%error, data_file = run.data_file, "the fast file system cannot punch holes");
        }
    }

    /// Deletes a data file.
    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(known) = self.files.remove(&number).filter(|known| known.open.is_some()) {
            self.by_use.remove(&known.used);
        }
        self.unsynced.remove(&number);
        self.lost.remove(&number);
        let path = self.path(number);
        if let Err(error) = self.storage.remove(&path) {
            tracing::warn!(%error, path = %path.display(), "a data file could not be removed");
        }
    }
}
