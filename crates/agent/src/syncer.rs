//! The thread that makes things durable: the files of a barrier, then the journal.

use std::time::Duration;

use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::store::SyncJob;

/// A barrier that fails is wanted again at once.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Takes jobs until the queue is closed.
pub(crate) fn run(jobs: &Jobs<SyncJob>, mailbox: &Mailbox<Completion>) {
    while let Some(job) = jobs.take() {
        let completion = job.run();
        // Its files are closed before anybody hears of it: one of them may be about to be executed.
        drop(job);
        if matches!(completion, Completion::BarrierSynced(Err(_)) | Completion::JournalDurable(Err(_))) {
            std::thread::sleep(PAUSE_AFTER_FAILURE);
        }
        mailbox.post(completion);
    }
}
