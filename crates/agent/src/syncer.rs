//! The thread that makes things durable: the files of a barrier, then the journal.

use std::io;
use std::time::Duration;

use crate::error::errno_of;
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::storage::{FileRef, Scope};
use crate::store::JournalJob;

/// Work for the syncing thread.
#[derive(Debug)]
pub enum SyncJob {
    /// Files of a barrier.
    Barrier {
        /// Data files.
        data: Vec<FileRef>,
        /// Slow files.
        slow: Vec<FileRef>,
    },
    /// The journal.
    Journal(JournalJob),
}

/// A barrier that fails is wanted again at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Takes jobs until the queue is closed.
pub fn run(jobs: &Jobs<SyncJob>, mailbox: &Mailbox<Completion>) {
    while let Some(job) = jobs.take() {
        let completion = job.run();
        if matches!(completion, Completion::BarrierSynced(Err(_)) | Completion::JournalDurable(Err(_))) {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
        }
        mailbox.post(completion);
    }
}

impl SyncJob {
    /// Syncs.
    pub fn run(&self) -> Completion {
        match self {
            SyncJob::Barrier { data, slow } => {
                let sync = || {
                    data.iter().try_for_each(|file| file.sync(Scope::Data))?;
                    slow.iter().try_for_each(|file| file.sync(Scope::All))
                };
                Completion::BarrierSynced(logged("a barrier's files could not be synced", sync()))
            }
            SyncJob::Journal(job) => {
                Completion::JournalDurable(logged("the journal could not be made durable", job.run()))
            }
        }
    }
}

fn logged(what: &str, result: io::Result<()>) -> Result<(), i32> {
    result.map_err(|error| {
        tracing::error!(%error, "{what}");
        errno_of(&error)
    })
}
