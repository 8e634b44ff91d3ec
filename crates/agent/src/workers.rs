//! The agent's threads beside the event loop: those that copy, the one that syncs, the one that brings back what nodes
//! that are gone had, and the one that shows what is dirty.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::copier::{self, CopyJob};
use crate::dirty_list::DirtyList;
use crate::error::{Error, Result};
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::marker::{MarkJob, Marker};
use crate::salvager::{self, SalvageJob};
use crate::store::SyncJob;
use crate::syncer;

/// Threads that copy and sync, and the way back from them.
pub(crate) struct Workers {
    pub(crate) copies: Arc<Jobs<CopyJob>>,
    pub(crate) syncs: Arc<Jobs<SyncJob>>,
    pub(crate) salvages: Arc<Jobs<SalvageJob>>,
    pub(crate) marker: Marker,
    pub(crate) mailbox: Arc<Mailbox<Completion>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    pub(crate) fn start(copiers: usize, list: DirtyList) -> Result<Workers> {
        let copies = Arc::new(Jobs::new());
        let syncs = Arc::new(Jobs::new());
        let salvages = Arc::new(Jobs::new());
        let buffers = Arc::new(copier::Buffers::default());
        let mailbox = Arc::new(Mailbox::new()?);
        let mut threads = Vec::new();
        let mut spawn = |name: String, body: Box<dyn FnOnce() + Send>| {
            let builder = std::thread::Builder::new().name(name).stack_size(256 << 10);
            builder
                .spawn(body)
                .map(|thread| threads.push(thread))
                .map_err(|error| Error::system("start a thread", error))
        };
        for number in 0..copiers {
            let (copies, buffers, mailbox) = (Arc::clone(&copies), Arc::clone(&buffers), Arc::clone(&mailbox));
            spawn(format!("copier-{number}"), Box::new(move || copier::run(&copies, &buffers, &mailbox)))?;
        }
        {
            let (syncs, mailbox) = (Arc::clone(&syncs), Arc::clone(&mailbox));
            spawn("syncer".into(), Box::new(move || syncer::run(&syncs, &mailbox)))?;
        }
        {
            let (salvages, mailbox) = (Arc::clone(&salvages), Arc::clone(&mailbox));
            spawn("salvager".into(), Box::new(move || salvager::run(&salvages, &mailbox)))?;
        }
        let marker = Marker::start(list, &mailbox)?;
        Ok(Workers { copies, syncs, salvages, marker, mailbox, threads: Mutex::new(threads) })
    }

    /// Waits until nothing they began is under way; `last` is what the managed directory shows from then on.
    pub(crate) fn end(&self, last: MarkJob) {
        self.copies.close();
        self.syncs.close();
        self.salvages.close();
        for thread in self.threads.lock().expect("no thread panics with the lock").drain(..) {
            let _ = thread.join();
        }
        self.marker.end(last);
    }
}
