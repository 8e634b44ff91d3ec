//! The thread that shows in the managed directory what is dirty: the event loop must not wait for the slow file system.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::dirty_list::{DirtyList, Shown};
use crate::error::{Error, Result, errno_of};
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;

/// What the directory is to show.
pub(crate) enum MarkJob {
    /// These files.
    Show(Vec<Shown>),
    /// Nothing: all is clean.
    Remove,
}

/// See the module.
pub(crate) struct Marker {
    /// Its work; each job is answered by [`Completion::Marked`].
    pub jobs: Arc<Jobs<MarkJob>>,
    list: Arc<Mutex<DirtyList>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Marker {
    /// Starts the thread.
    pub(crate) fn start(list: DirtyList, mailbox: &Arc<Mailbox<Completion>>) -> Result<Marker> {
        let jobs = Arc::new(Jobs::new());
        let list = Arc::new(Mutex::new(list));
        let work = (Arc::clone(&jobs), Arc::clone(&list), Arc::clone(mailbox));
        let thread = std::thread::Builder::new()
            .name("marker".into())
            .spawn(move || {
                let (jobs, list, mailbox) = work;
                while let Some(job) = jobs.take() {
                    let result = apply(&mut list.lock().expect("no thread panics with the lock"), &job);
                    mailbox.post(Completion::Marked(result.map_err(|error| errno_of(&error))));
                }
            })
            .map_err(|error| Error::system("start a thread", error))?;
        Ok(Marker { jobs, list, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread and shows how things are left.
    pub(crate) fn end(&self, last: MarkJob) {
        self.jobs.close();
        let thread = self.thread.lock().expect("no thread panics with the lock").take();
        let _ = thread.map(JoinHandle::join);
        let _ = apply(&mut self.list.lock().expect("no thread panics with the lock"), &last);
    }
}

fn apply(list: &mut DirtyList, job: &MarkJob) -> std::io::Result<()> {
    let result = match job {
        MarkJob::Show(files) => list.show(files),
        MarkJob::Remove => list.remove(),
    };
    result.inspect_err(|error| tracing::error!(%error, "the slow directory cannot show what is dirty"))
}
