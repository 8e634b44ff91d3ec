//! Starting and ending the agent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use headstart_core::overlay::Capacity;
use headstart_core::protocol::SOCKET_FILE;

use crate::copier::{self, CopyJob};
use crate::error::{Error, Result};
use crate::event_loop::{EventLoop, signals_awaited};
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::runtime_directory;
use crate::shared_file::SharedFile;
use crate::site::Site;
use crate::socket;
use crate::storage::RealStorage;
use crate::store::{self, Store};
use crate::syncer::{self, SyncJob};

/// How the agent is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The site.
    pub site: Site,
    /// Where the site file is, for messages.
    pub site_path: PathBuf,
    /// Overrides the site's capacity.
    pub capacity: Option<Capacity>,
}

/// Threads that copy and sync, and the way back from them.
pub(crate) struct Workers {
    pub(crate) copies: Arc<Jobs<CopyJob>>,
    pub(crate) syncs: Arc<Jobs<SyncJob>>,
    pub(crate) mailbox: Arc<Mailbox<Completion>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    fn start(copiers: usize) -> Result<Workers> {
        let copies = Arc::new(Jobs::new());
        let syncs = Arc::new(Jobs::new());
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
            let (copies, mailbox) = (Arc::clone(&copies), Arc::clone(&mailbox));
            spawn(format!("copier-{number}"), Box::new(move || copier::run(&copies, &mailbox)))?;
        }
        {
            let (syncs, mailbox) = (Arc::clone(&syncs), Arc::clone(&mailbox));
            spawn("syncer".into(), Box::new(move || syncer::run(&syncs, &mailbox)))?;
        }
        Ok(Workers { copies, syncs, mailbox, threads: Mutex::new(threads) })
    }

    /// Waits until nothing they began is under way.
    fn end(&self) {
        self.copies.close();
        self.syncs.close();
        for thread in self.threads.lock().expect("no thread panics with the lock").drain(..) {
            let _ = thread.join();
        }
    }
}

/// Runs the agent in the foreground until it is told to stop or receives SIGTERM; what was acknowledged is durable then.
pub fn serve(options: Options) -> Result<()> {
    raise_descriptor_limit();
    let runtime = runtime_directory::path(&options.site.slow);
    runtime_directory::create(&runtime)?;
    let mut settings =
        options.site.settings().map_err(|problem| Error::Site { path: options.site_path.clone(), problem })?;
    if let Some(capacity) = options.capacity {
        settings.capacity = capacity;
    }
    let boot_id = runtime_directory::boot_id()?;
    // The lock comes first: two agents must not replay one journal.
    let shared = SharedFile::create(&runtime, boot_id, 0)?;
    let claim = store::claim(&options.site.fast)?;
    let found = store::recover(&RealStorage, &options.site.fast, &runtime, boot_id)?;
    let epoch = found.epoch + 1;
    shared.view().header.epoch.store(epoch, std::sync::atomic::Ordering::Relaxed);
    let copies_max = settings.copies_max;
    let (storage, fast) = (Arc::new(RealStorage), &options.site.fast);
    let (store, overlay) =
        Store::begin(storage, fast, &runtime, boot_id, epoch, settings, found.recovered, shared.view())?;
    let socket_path = runtime.join(SOCKET_FILE);
    let listener = socket::listen_at(&socket_path).map_err(|error| Error::file("listen at", &socket_path, error))?;
    signals_awaited().thread_block().map_err(|error| Error::system("block signals", error))?;
    let workers = Workers::start(copies_max)?;
    prefer_this_thread();
    tracing::info!(runtime = %runtime.display(), epoch, "serving");
    let mut event_loop = EventLoop::new(options, shared, store, overlay, &workers, listener)?;
    let result = event_loop.run();
    // The next agent must not start while a copy of this one may still land.
    workers.end();
    drop(event_loop);
    drop(claim);
    let _ = std::fs::remove_file(&socket_path);
    tracing::info!("ended");
    result
}

/// A descriptor for every thread, slow file and data file: what is permitted. Where it is not enough, opens fail with EMFILE.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid structure that lives across the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; the structure is only read.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// Asks for real-time priority: a rank that waits for an answer must not wait for a time slice of ranks that compute. The
/// thread only decides and never blocks on storage, so it cannot starve them. Where it is not permitted, a lower niceness is
/// tried, and then nothing.
fn prefer_this_thread() {
    let parameters = libc::sched_param { sched_priority: 10 };
    // SAFETY: the pointer is to a valid structure that lives across the call; zero means the calling thread.
    let refused =
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) } != 0;
    if refused {
        // SAFETY: plain integers.
        let refused = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } != 0;
        tracing::info!(
            niceness = !refused,
            "real-time priority is not permitted; answers may wait behind computing ranks"
        );
    }
}
