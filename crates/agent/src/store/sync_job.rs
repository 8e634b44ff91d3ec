//! What a barrier has to sync: data files and slow files, then the journal.

use std::path::{Path, PathBuf};

use headstart_overlay::NotSynced;

use super::journal_files::JournalJob;
use crate::error::errno_of;
use crate::jobs::Completion;
use crate::storage::{FileRef, Scope, Storage, StorageRef};

/// Work for the syncing thread.
#[derive(Debug)]
pub(crate) enum SyncJob {
    /// Files of a barrier.
    Barrier {
        /// Data files by number.
        data: Vec<(u32, DataSync)>,
        /// The directory in which data files were created since the last barrier.
        directory: Option<(StorageRef, PathBuf)>,
        /// Slow files by number.
        slow: Vec<(u32, FileRef)>,
        /// Slow directories from which names were removed.
        left: (StorageRef, Vec<PathBuf>),
    },
    /// The journal.
    Journal(JournalJob),
}

/// What is known of a data file that is to be synced.
#[derive(Debug)]
pub(crate) enum DataSync {
    /// It is open.
    Open(FileRef),
    /// It is missing, or a sync of it failed since the last barrier: what it held unsynced is lost.
    Lost,
    /// It cannot be opened now, which loses nothing: the barrier fails, and the next one tries again.
    NotOpened,
}

impl SyncJob {
    /// Syncs.
    pub(crate) fn run(&self) -> Completion {
        match self {
            SyncJob::Barrier { data, directory, slow, left } => {
                Completion::BarrierSynced(sync_files(data, directory.as_ref(), slow, left))
            }
            SyncJob::Journal(job) => Completion::JournalDurable(job.run().map_err(|error| {
                tracing::error!(%error, "the journal could not be made durable");
                errno_of(&error)
            })),
        }
    }
}

/// Syncs all, also after one that fails: each failure says which file's bytes are lost.
fn sync_files(
    data: &[(u32, DataSync)],
    directory: Option<&(StorageRef, PathBuf)>,
    slow: &[(u32, FileRef)],
    (storage, left): &(StorageRef, Vec<PathBuf>),
) -> Result<(), NotSynced> {
    let mut failed: Option<NotSynced> = None;
    for (number, file) in data {
        let synced = match file {
            DataSync::Open(file) => file.sync(Scope::Data),
            DataSync::Lost => Err(std::io::ErrorKind::NotFound.into()),
            DataSync::NotOpened => {
                failed.get_or_insert_default().data_files_untried.push(*number);
                continue;
            }
        };
        if let Err(error) = synced {
            tracing::error!(%error, data_file = number, "a data file could not be synced: its unsynced bytes are lost");
            failed.get_or_insert_default().data_files.push(*number);
        }
    }
    if let Some((storage, path)) = directory
        && let Err(error) = storage.sync_directory(path)
    {
        tracing::error!(%error, path = %path.display(), "a directory could not be synced");
        failed.get_or_insert_default();
    }
    for (number, file) in slow {
        if let Err(error) = file.sync(Scope::All) {
            tracing::error!(%error, file = number, "a slow file could not be synced");
            failed.get_or_insert_default().slow_files.push(*number);
        }
    }
    for path in left {
        if let Err(error) = sync_left(&**storage, path) {
            tracing::error!(%error, path = %path.display(), "that a file was removed could not be made durable");
            failed.get_or_insert_default();
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Makes it durable that names have left a directory. Where it is gone itself, has another name or is not
/// ours to open, all of its file system is synced.
fn sync_left(storage: &dyn Storage, directory: &Path) -> std::io::Result<()> {
    storage.sync_directory(directory).or_else(|_| storage.sync_file_system(directory))
}
