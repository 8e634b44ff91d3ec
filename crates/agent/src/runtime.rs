//! Starting and ending the agent.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headstart_overlay::Settings;
use headstart_overlay::journal::Header;
use headstart_overlay::recovery::RecoveredFile;
use headstart_protocol::SOCKET_FILE;
use headstart_units::request::Range;
use nix::sys::socket::SockType;

use crate::claim::{self, SlowClaim};
use crate::cluster::door::Door;
use crate::cluster::entry::{self, Taken};
use crate::cluster::{roster, views};
use crate::dirty_list::{self, DirtyList, Shown};
use crate::discarded;
use crate::error::{Error, Result};
use crate::event_loop::{Begun, EventLoop, signals_awaited};
use crate::jobs::Completion;
use crate::mailbox::Mailbox;
use crate::metrics::server::{self, Endpoint, Source};
use crate::node_files::NodeFiles;
use crate::options::Options;
use crate::origin::Origin;
use crate::owner::Owner;
use crate::process;
use crate::renamed;
use crate::runtime_directory;
use crate::shared_file::SharedFile;
use crate::site::{ClusterSite, Site};
use crate::socket;
use crate::status::Status;
use crate::storage::RealStorage;
use crate::store::{self, Found, Left, Place, Store};
use crate::survivors::Survivors;
use crate::workers::Workers;

/// Runs the agent in the foreground until it is told to stop or receives SIGTERM; what was acknowledged is
/// durable then.
pub fn serve(options: Options) -> Result<()> {
    let descriptors_max = raise_descriptor_limit();
    let runtime = runtime_directory::path(&options.site.slow);
    runtime_directory::create(&runtime)?;
    let mut settings =
        options.site.settings().map_err(|problem| Error::Site { path: options.site_path.clone(), problem })?;
    if let Some(capacity) = options.capacity {
        settings.capacity = capacity;
    }
    let shares = Descriptors::of(descriptors_max);
    settings.files_max = shares.slow_files;
    let boot_id = this_boot()?;
    // The lock comes first: two agents must not replay one journal.
    let mut shared = SharedFile::open(&runtime, boot_id)?;
    discarded::set_aside(&options.site.slow, &NodeFiles::first(&options.site.fast))?;
    let cluster = options.site.cluster().map_err(|problem| Error::Site { path: options.site_path.clone(), problem })?;
    let Taken { entered, files, flash, slow: slow_claim } = entry::take(&options.site, &cluster)?;
    let (site, place) = (options.site.clone(), entered.as_ref().map(|entered| entered.place));
    // The first member of all has the place of whoever had the directory before there was a list.
    if entered.as_ref().is_some_and(|entered| entered.incarnation == 0 && entered.place != roster::Place::default()) {
        // What threads have that go on under an earlier member of this node counts no more.
        shared.end_membership(boot_id)?;
    }
    settings.member = place.map_or(settings.member, views::id);
    let copies_max = settings.copies_max;
    // No thread was ever permitted anything by a member that is new.
    let was_among_others = entered.as_ref().is_some_and(|entered| entered.door.is_some() && entered.incarnation > 0);
    let served = match begin(&site, &files, shared, slow_claim.owner(), settings, shares.data_files) {
        Ok((begun, list)) => serve_begun(options, Begun { entered, ..begun }, list, copies_max),
        Err(error) => {
            let door = entered.and_then(|entered| entered.door);
            Served { result: Err(error), leaves: !was_among_others, door }
        }
    };
    // What failed before there was anything to keep, or ended with nothing owed, leaves the directory to others.
    if served.leaves && !dirty_list::is_at(&site.slow.join(files.list())) {
        leave(&site, &cluster, place, (&files, served.door), slow_claim)?;
    }
    drop(flash);
    served.result
}

/// Gives this node's place up, and what comes with it.
fn leave(
    site: &Site,
    cluster: &ClusterSite,
    place: Option<roster::Place>,
    (files, door): (&NodeFiles, Option<Door>),
    claim: SlowClaim,
) -> Result<()> {
    let Some(place) = place else { return claim.release() };
    if door.is_some() {
        store::wipe(files)?;
    }
    let left = entry::leave(site, cluster, place)?;
    let Some(door) = door else { return claim.release() };
    door.close()?;
    match left.seated().next() {
        Some(other) => claim.hand_over(&other.name, other.machine_id.as_deref(), &other.boot_id),
        // Whoever of them made it.
        None => claim::remove(&site.slow),
    }
}

/// Goes on under both claims from what the agent before left.
fn begin(
    site: &Site,
    files: &NodeFiles,
    mut shared: SharedFile,
    owner: &Owner,
    settings: Settings,
    data_files_open_max: usize,
) -> Result<(Begun, DirtyList)> {
    let (slow, runtime, boot_id) = (&site.slow, shared.runtime().to_path_buf(), this_boot()?);
    let storage = Arc::new(RealStorage::below(slow)?);
    let mut found = store::recover(&*storage, files, &runtime, boot_id)?;
    refuse_lost_flash(&slow.join(files.list()), slow, &found)?;
    let survivors = survivors(&mut shared, found.complete, boot_id)?;
    let epoch = found.epoch.max(discarded::epoch(slow)?) + 1;
    let mut list = DirtyList::new(slow, &files.list(), owner.clone(), found.epoch);
    let origin = Origin::translate(slow, files, &mut found.recovered)?;
    renamed::find(slow, &files.list(), &mut found.recovered);
    if found.recovered.dirty_bytes() > 0 && !list.is_shown() {
        list.show(&recovered_files(&found)).map_err(|error| Error::file("list what is dirty in", slow, error))?;
    }
    found.recovered.files.keys().try_for_each(|file| shared.reserve_file(*file))?;
    shared.begin_epoch(epoch);
    let place = Place { storage, files, runtime: &runtime, data_files_open_max };
    let left = Left { recovered: found.recovered, shared: shared.view(), living: &survivors.slots };
    let (store, mut overlay) = Store::begin(place, Header { boot_id, epoch }, settings, left)?;
    // The lock was free, so that the last thread of the agent before is gone: none of its calls is under way,
    // and what it was writing back has landed, as far as the slow directory is one of this kernel's own.
    overlay.on_old_copies_landed(shared.view());
    origin.settle(files)?;
    list.continue_in(epoch);
    Ok((Begun { shared, store, overlay, survivors, shown: list.is_shown(), entered: None }, list))
}

/// How it ended.
struct Served {
    result: Result<()>,
    /// The directory can be left to others: nothing of it is on this node's flash alone, and no program rests on what
    /// this member had. Of one that failed among others that is not known: its place waits for its next agent.
    leaves: bool,
    /// What a member of several has.
    door: Option<Door>,
}

/// Serves until it is told to end.
fn serve_begun(options: Options, begun: Begun, list: DirtyList, copies_max: usize) -> Served {
    let is_among_others = begun.entered.as_ref().is_some_and(|entered| entered.door.is_some());
    served(options, begun, list, copies_max).unwrap_or_else(|error| Served {
        result: Err(error),
        leaves: !is_among_others,
        door: None,
    })
}

/// The same; an error where it did not come to serve.
fn served(options: Options, begun: Begun, list: DirtyList, copies_max: usize) -> Result<Served> {
    let runtime = begun.shared.runtime().to_path_buf();
    let socket_path = runtime.join(SOCKET_FILE);
    let listener = socket::listen_at(&socket_path, SockType::SeqPacket)
        .map_err(|error| Error::file("listen at", &socket_path, error))?;
    signals_awaited().thread_block().map_err(|error| Error::system("block signals", error))?;
    let workers = Workers::start(copies_max, list)?;
    let _metrics = serve_metrics(&options.site, &runtime, &workers);
    prefer_this_thread();
    let epoch = begun.shared.view().header.epoch.load(Ordering::Relaxed);
    tracing::info!(runtime = %runtime.display(), epoch, threads = begun.survivors.slots.len(), "serving");
    let mut event_loop = EventLoop::new(options, begun, &workers, listener)?;
    let result = event_loop.run();
    let last = event_loop.last_marks(result.is_ok());
    // Who leaves last takes the list of those that are gone along.
    let owes_nothing = event_loop.owes_nothing() && !event_loop.owes_for_others();
    // The next agent must not start while a copy of this one may still land.
    workers.end(last);
    if result.is_ok() {
        // Everything is durable: the journal on flash says all.
        event_loop.give_memory_back();
    }
    let door = event_loop.into_door();
    if result.is_ok() {
        // Of one that failed the socket tells, as of one that was killed: programs and `run` wait for the next.
        let _ = std::fs::remove_file(&socket_path);
    }
    tracing::info!("ended");
    let leaves = match &result {
        Ok(()) => owes_nothing,
        Err(_) => door.is_none(),
    };
    Ok(Served { result, leaves, door })
}

fn this_boot() -> Result<[u8; 16]> {
    process::boot_id().map_err(|error| Error::system("read the boot id", error))
}

/// The list speaks of a journal that is not there, or of a later one than the one that is.
fn refuse_lost_flash(list: &Path, slow: &Path, found: &Found) -> Result<()> {
    match dirty_list::read_at(list)? {
        Some(listed) if listed.heading.epoch > found.epoch => claim::refuse_debt(slow),
        _ => Ok(()),
    }
}

fn recovered_files(found: &Found) -> Vec<Shown> {
    let dirty = |file: &RecoveredFile| -> Vec<Range> {
        file.map.iter().filter(|mapped| mapped.dirty).map(|mapped| mapped.range).collect()
    };
    let files = found.recovered.files.values().map(|file| {
        let ranges = dirty(file);
        Shown {
            path: file.path.clone(),
            inode: file.identity.inode,
            dirty_bytes: ranges.iter().map(|range| range.length).sum(),
            ranges,
            exact: true,
            open_for_writing: false,
            written_back: false,
            file: None,
        }
    });
    files.filter(|file| file.dirty_bytes > 0).collect()
}

/// The event loop as the source of the metrics socket's figures.
struct Figures(Arc<Mailbox<Completion>>);

impl Source for Figures {
    fn snapshot(&self, patience: Duration) -> Option<Box<Status>> {
        let (to, from) = std::sync::mpsc::sync_channel(1);
        self.0.post(Completion::Scrape(to));
        from.recv_timeout(patience).ok()
    }
}

/// Without the metrics socket the agent serves all the same.
fn serve_metrics(site: &Site, runtime: &Path, workers: &Workers) -> Option<Endpoint> {
    let path = site.metrics_socket(runtime)?;
    server::start(&path, Figures(Arc::clone(&workers.mailbox)))
        .inspect(|_| tracing::info!(path = %path.display(), "metrics are served"))
        .inspect_err(|error| tracing::error!(%error, "there are no metrics"))
        .ok()
}

/// The threads that go on under this agent. Where the records they rest on are gone, the agent may start only
/// if there are none.
fn survivors(shared: &mut SharedFile, complete: bool, boot_id: [u8; 16]) -> Result<Survivors> {
    let found = Survivors::find(shared.view());
    if complete || !shared.is_adopted() {
        return Ok(found);
    }
    match found.processes.keys().next().map(|process| process.pid).or(found.unseen.then_some(0)) {
        Some(pid) => {
            let why = "whose records in memory are gone";
            Err(Error::LivingRank { pid, path: shared.runtime().to_path_buf(), why })
        }
        None => shared.replace(boot_id).map(|()| Survivors::default()),
    }
}

/// A descriptor for every thread and slow file: what is permitted. Where it is not enough, opens fail with EMFILE.
fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid structure that lives across the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above; the structure is only read.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
    limit.rlim_cur
}

/// What descriptors are for.
struct Descriptors {
    /// Files known at once: one for each.
    slow_files: usize,
    /// Data files kept open.
    data_files: usize,
}

impl Descriptors {
    /// An eighth for threads, an eighth for data files, of which as many again as are kept may be in use by
    /// jobs, and some.
    fn of(descriptors_max: u64) -> Descriptors {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let slow_files = (descriptors_max - descriptors_max / 4).saturating_sub(64);
        Descriptors { slow_files: size(slow_files), data_files: size(descriptors_max / 16) }
    }
}

/// Asks for real-time priority: a rank that waits for an answer must not wait for a time slice of ranks that
/// compute. The thread only decides and never blocks on storage, so it cannot starve them. Where it is not
/// permitted, a lower niceness is tried, and then nothing.
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
