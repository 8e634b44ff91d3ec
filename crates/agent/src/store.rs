//! The agent's files: the journal, its copy in memory, data files, slow files.
//!
//! ```text
//! <fast>/.headstart/journal        durable up to the last barrier
//! <fast>/.headstart/data.XXXXXXXX  absorbed and fetched bytes
//! <runtime>/journal.live           every appended record; lives as long as the machine's memory
//! ```
//!
//! *Append* is a write to `journal.live`: it survives the agent, and only a barrier lets a record count after
//! power loss, so that the journal in the fast directory needs writing with the next barrier, not with every
//! record.

pub(crate) mod claim;
mod data_files;
mod journal_files;
mod recovery;
mod slow_files;
mod sync_job;
#[cfg(test)]
mod tests;
mod wiping;

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;

use headstart_overlay::Run;
use headstart_overlay::journal::Header;
use headstart_overlay::recovery::Recovered;
use headstart_overlay::{NotSynced, Overlay, Settings};
use headstart_overlay::{open_files, truncated_files};
use headstart_protocol::shared::Shared;

use crate::error::Result;
use crate::node_files::NodeFiles;
use crate::slow_file::SlowFile;
use crate::storage::{FileRef, StorageRef};

pub(crate) use claim::{Claim, claim, claim_within};
use data_files::DataFiles;
use journal_files::JournalFiles;
use journal_files::JournalJob;
pub(crate) use recovery::{Found, recover};
use slow_files::SlowFiles;
pub(crate) use slow_files::{as_path, open_slow};
pub(crate) use sync_job::SyncJob;
pub(crate) use wiping::wipe;

/// The copy of the journal in the runtime directory.
pub(crate) const LIVE_JOURNAL_FILE: &str = "journal.live";

/// Where an agent keeps its files.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// What keeps them.
    pub storage: StorageRef,
    /// Where they lie below the fast directory.
    pub files: &'a NodeFiles,
    /// The runtime directory.
    pub runtime: &'a Path,
    /// Data files kept open.
    pub data_files_open_max: usize,
}

/// What the agent before left.
#[derive(Debug)]
pub(crate) struct Left<'a> {
    /// What its journal says.
    pub recovered: Recovered,
    /// The file that it shared with threads.
    pub shared: Shared<'a>,
    /// The slots of threads that live.
    pub living: &'a BTreeSet<u32>,
}

/// Everything the agent keeps open.
#[derive(Debug)]
pub(crate) struct Store {
    storage: StorageRef,
    journal: JournalFiles,
    data: DataFiles,
    slow: SlowFiles,
}

impl Store {
    /// Adopts what was found and begins a new epoch: everything it names is synced, then a journal that says
    /// the same takes the old one's place.
    pub(crate) fn begin(
        place: Place<'_>,
        header: Header,
        settings: Settings,
        left: Left<'_>,
    ) -> Result<(Store, Overlay)> {
        let Place { storage, files, runtime, data_files_open_max } = place;
        let Left { mut recovered, shared, living } = left;
        let (mut open, truncated) = (open_files(shared, living), truncated_files(shared));
        // Forked children and executed programs that have it open may not have said so to the agent before.
        let inherited = |number: &u32| shared.files.get(*number as usize).is_some_and(|entry| entry.is_inherited());
        let nameless = recovered.files.iter().filter(|(number, file)| file.unlinked && inherited(number));
        for (&number, file) in nameless {
            open.entry(number).or_default().extend(storage.holders(file.identity));
        }
        let (slow, sizes) = SlowFiles::open_recovered(&*storage, &mut recovered, &open, &truncated)?;
        let data = DataFiles::open_recovered(storage.clone(), files.clone(), &mut recovered, data_files_open_max)?;
        let (first_data_file, data_files_end) = (files.first_data_file(), files.data_files_end());
        let settings = Settings { first_data_file, data_files_end, ..settings };
        let mut overlay = Overlay::adopt(settings, recovered, shared, &sizes, living);
        for (number, _) in slow.from(0).filter(|(_, slow)| !slow.has_name()) {
            overlay.disown(shared, number);
        }
        let live_path = runtime.join(LIVE_JOURNAL_FILE);
        let journal = JournalFiles::begin(storage.clone(), files.own(), live_path, header, &mut overlay)?;
        data.remove_strangers();
        Ok((Store { storage, journal, data, slow }, overlay))
    }

    /// Where the files are.
    pub(crate) fn storage(&self) -> &StorageRef {
        &self.storage
    }

    /// Appends records.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.journal.append(bytes)
    }

    /// Whether records find no more memory: what is in hand must do for what was absorbed already.
    pub(crate) fn is_short_of_memory(&mut self) -> bool {
        self.journal.is_short()
    }

    /// Bytes appended since the agent started.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.journal.appended_bytes()
    }

    /// Bytes appended that the journal in the fast directory does not have.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.journal.unwritten_bytes()
    }

    /// Everything appended so far, to be made durable; [`Store::journal_done`] ends it.
    pub(crate) fn journal_job(&mut self) -> JournalJob {
        self.journal.job()
    }

    /// The job ended. What it could not write is written again with the next one.
    pub(crate) fn journal_done(&mut self, written: bool) {
        self.journal.done(written);
    }

    /// Begins a journal that says no more than the overlay knows; it takes the place of the grown one with
    /// the barrier that the overlay now asks for. No barrier is under way. False, and nothing is changed, if
    /// the fast directory has no room for both.
    pub(crate) fn rotate(&mut self, overlay: &mut Overlay) -> Result<bool> {
        self.journal.rotate(overlay)
    }

    /// The data file, which exists and is at least `size` long afterwards.
    pub(crate) fn grow(&mut self, number: u32, size: u64) -> Result<()> {
        self.data.grow(number, size)
    }

    /// Gives storage back, where the file system can.
    pub(crate) fn punch(&mut self, run: Run) {
        self.data.punch(run);
    }

    /// Deletes a data file.
    pub(crate) fn remove_data_file(&mut self, number: u32) {
        self.data.remove(number);
    }

    /// A data file, opened if it is not open.
    pub(crate) fn data(&mut self, number: u32) -> io::Result<FileRef> {
        self.data.get(number)
    }

    /// The data file that a fetch is about to write.
    pub(crate) fn begin_fetch(&mut self, copy: u64, number: u32) -> io::Result<FileRef> {
        self.data.begin_fetch(copy, number)
    }

    /// The copy has ended, if it was a fetch.
    pub(crate) fn end_fetch(&mut self, copy: u64) {
        self.data.end_fetch(copy);
    }

    /// Records name bytes of the data file that no barrier has synced.
    pub(crate) fn data_written(&mut self, number: u32) {
        self.data.written(number);
    }

    /// Whether so many data files are unsynced, and open, that a barrier is wanted.
    pub(crate) fn wants_barrier(&self) -> bool {
        self.data.want_barrier()
    }

    /// A job that syncs these files, and the slow directories that names have left; [`Store::barrier_synced`]
    /// ends it. Slow files that `is_written` a program may write meanwhile.
    pub(crate) fn barrier_job(
        &mut self,
        data_files: &[u32],
        slow_files: Vec<u32>,
        left_directories: &[Vec<u8>],
        is_written: impl Fn(u32) -> bool,
    ) -> SyncJob {
        let (data, directory) = (self.data.begin_sync(data_files), self.data.take_unsynced_directory());
        let left = left_directories.iter().map(|path| as_path(path).to_path_buf());
        SyncJob::Barrier {
            data,
            directory,
            slow: self.slow.begin_sync(slow_files, is_written),
            left: (self.storage.clone(), left.collect()),
        }
    }

    /// The job ended. Slow files that `is_written` no more may be executed if it synced them.
    pub(crate) fn barrier_synced(
        &mut self,
        result: std::result::Result<(), &NotSynced>,
        is_written: impl Fn(u32) -> bool,
    ) {
        if let Err(failed) = result {
            self.data.directory_not_synced();
            self.data.not_synced(failed);
        }
        self.slow.end_sync(result.is_ok(), is_written);
    }

    /// A slow file.
    pub(crate) fn slow(&self, number: u32) -> Option<&SlowFile> {
        self.slow.get(number)
    }

    /// A slow file.
    pub(crate) fn slow_mut(&mut self, number: u32) -> Option<&mut SlowFile> {
        self.slow.get_mut(number)
    }

    /// The slow files from number `from` on.
    pub(crate) fn slow_files(&self, from: u32) -> impl Iterator<Item = (u32, &SlowFile)> + '_ {
        self.slow.from(from)
    }

    /// The user wants what is on flash written over whatever a stranger made of these files.
    pub(crate) fn accept_changes(&mut self, numbers: impl RangeBounds<u32>) {
        self.slow.accept_changes(numbers);
    }

    /// Remembers a slow file.
    pub(crate) fn put_slow(&mut self, number: u32, slow: SlowFile) {
        self.slow.put(number, slow);
    }

    /// Closes a slow file.
    pub(crate) fn forget_slow(&mut self, number: u32) {
        self.slow.forget(number);
    }
}
