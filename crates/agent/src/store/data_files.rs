//! The data files: absorbed and fetched bytes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use headstart_core::overlay::flash_space::Run;
use headstart_core::overlay::recovery::Recovered;
use headstart_core::protocol::data_file_name;

use crate::error::{Error, Result};
use crate::storage::{Access, FileRef, Scope, StorageRef};

/// The data files the agent has open, and the size each has at least.
#[derive(Debug)]
pub struct DataFiles {
    storage: StorageRef,
    directory: PathBuf,
    files: BTreeMap<u32, (FileRef, u64)>,
    /// One was created whose name may not survive power loss.
    created: bool,
}

/// The number in a data file's name.
pub fn data_file_number(path: &Path) -> Option<u32> {
    u32::from_str_radix(path.file_name()?.to_str()?.strip_prefix("data.")?, 16).ok()
}

impl DataFiles {
    /// Opens the data files of a replay, and syncs them and their names.
    pub fn open_recovered(storage: StorageRef, directory: PathBuf, recovered: &mut Recovered) -> Result<DataFiles> {
        let mut files = BTreeMap::new();
        for number in recovered.data_files.keys().copied().collect::<Vec<_>>() {
            let path = directory.join(data_file_name(number));
            match storage.open(&path, Access::Existing) {
                Ok(file) => {
                    if let Err(error) = file.sync(Scope::Data) {
                        tracing::error!(%error, path = %path.display(), "what was not synced before is lost");
                        recovered.distrust(number);
                    }
                    let size = file.attributes().map_err(|error| Error::file("look at", &path, error))?.size;
                    files.insert(number, (file, size));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), "a data file named by the journal is missing");
                }
                Err(error) => return Err(Error::file("open", &path, error)),
            }
        }
        if !files.is_empty() {
            // Their names come before the journal that speaks of them.
            storage.sync_directory(&directory).map_err(|error| Error::file("sync", &directory, error))?;
        }
        Ok(DataFiles { storage, directory, files, created: false })
    }

    /// Removes data files the journal does not name: their commits were never acknowledged, or they were removed.
    pub fn remove_strangers(&self) {
        let Ok(entries) = self.storage.list(&self.directory) else { return };
        for path in entries {
            if data_file_number(&path).is_some_and(|number| !self.files.contains_key(&number)) {
                let _ = self.storage.remove(&path);
            }
        }
    }

    /// The data file, which exists and is at least `size` long afterwards.
    pub fn grow(&mut self, number: u32, size: u64) -> Result<()> {
        let path = self.directory.join(data_file_name(number));
        let (file, known) = match self.files.entry(number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let created = self.storage.open(&path, Access::Create);
                let created = created.map_err(|error| Error::file("create", &path, error))?;
                self.created = true;
                entry.insert((created, 0))
            }
        };
        if *known < size {
            file.set_size(size).map_err(|error| Error::file("size", &path, error))?;
            *known = size;
        }
        Ok(())
    }

    /// The directory, if a data file was created there since it was last taken for a sync.
    pub fn take_unsynced_directory(&mut self) -> Option<(StorageRef, PathBuf)> {
        std::mem::take(&mut self.created).then(|| (self.storage.clone(), self.directory.clone()))
    }

    /// The sync failed.
    pub fn directory_not_synced(&mut self) {
        self.created = true;
    }

    /// Gives storage back, where the file system can.
    pub fn punch(&self, run: Run) {
        if let Some((file, _)) = self.files.get(&run.data_file) {
            let bytes = run.bytes();
            if let Err(error) = file.punch(bytes.offset, bytes.length) {
                tracing::debug!(%error, data_file = run.data_file, "the fast file system cannot punch holes");
            }
        }
    }

    /// Deletes a data file.
    pub fn remove(&mut self, number: u32) {
        self.files.remove(&number);
        let path = self.directory.join(data_file_name(number));
        if let Err(error) = self.storage.remove(&path) {
            tracing::warn!(%error, path = %path.display(), "a data file could not be removed");
        }
    }

    /// A data file.
    pub fn get(&self, number: u32) -> Option<FileRef> {
        self.files.get(&number).map(|(file, _)| file.clone())
    }
}
