//! Work for threads: a queue that many take from, and what comes back.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex};

use headstart_cluster::{FileId, MemberId};
use headstart_overlay::{CopyKind, NotSynced};

use crate::status::Status;

/// What a worker finished, or another thread wants.
#[derive(Debug)]
pub(crate) enum Completion {
    /// A copy, by its number.
    Copied {
        /// The copy's number.
        id: u64,
        /// The slow file.
        file: u32,
        /// Which way it went.
        kind: CopyKind,
        /// Nothing, or an `errno`.
        result: Result<(), i32>,
    },
    /// A copy that was not begun, because a file is missing or was changed by a stranger.
    Refused {
        /// The copy's number.
        id: u64,
        /// Why.
        errno: i32,
    },
    /// The data files and slow files of a barrier.
    BarrierSynced(Result<(), NotSynced>),
    /// The journal.
    JournalDurable(Result<(), i32>),
    /// The managed directory shows what it was to show, or cannot.
    Marked(Result<(), i32>),
    /// What a member that is gone had of a file, or why it cannot be brought back.
    Salvaged {
        /// The file.
        file: FileId,
        /// Whose it was.
        of: MemberId,
        /// Nothing, or what was tried.
        result: Result<(), String>,
    },
    /// Somebody wants the figures.
    Scrape(SyncSender<Box<Status>>),
}

/// A queue of jobs; closing it ends its workers, and what none of them began is forgotten.
pub(crate) struct Jobs<T> {
    state: Mutex<(VecDeque<T>, bool)>,
    arrived: Condvar,
}

impl<T> Jobs<T> {
    /// An empty queue.
    pub(crate) fn new() -> Jobs<T> {
        Jobs { state: Mutex::new((VecDeque::new(), false)), arrived: Condvar::new() }
    }

    /// Adds a job.
    pub(crate) fn push(&self, job: T) {
        self.state.lock().expect("no thread panics with the lock").0.push_back(job);
        self.arrived.notify_one();
    }

    /// Waits for a job; none once the queue is closed.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.state.lock().expect("no thread panics with the lock");
        loop {
            if state.1 {
                return None;
            }
            if let Some(job) = state.0.pop_front() {
                return Some(job);
            }
            state = self.arrived.wait(state).expect("no thread panics with the lock");
        }
    }

    /// No more jobs are to be begun.
    pub(crate) fn close(&self) {
        self.state.lock().expect("no thread panics with the lock").1 = true;
        self.arrived.notify_all();
    }
}
