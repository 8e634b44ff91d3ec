//! The one thread that owns the overlay.
//!
//! It waits for packets, completions and time; hands them to the overlay, requests for bytes in batches (`batch.rs`);
//! stores the records; carries out the outputs in order. It never waits for storage, except to size a file, to look at
//! one, and to set its time.

mod awaited_commands;
mod batch;
mod capacity;
mod clients;
mod cluster;
mod commands;
mod connections;
mod executed;
mod figures;
mod known_files;
mod life;
mod log;
mod marks;
mod notes;
mod outputs;
mod passing_on;
mod placement;
mod poller;
mod regions_of_names;
mod relayed;
mod rest;
mod runs_of_jobs;
mod served_site;
mod strangers;
mod times;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headstart_overlay::Overlay;
use headstart_protocol::shared::Shared;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use crate::cluster::door::Door;
use crate::cluster::entry::Entered;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::shared_file::SharedFile;
use crate::status::ServiceCounters;
use crate::store::Store;
use crate::survivors::Survivors;
use crate::tiers::{SharedMemory, Tiers};
use crate::workers::Workers;

use awaited_commands::AwaitedCommands;
use batch::Batch;
use clients::{Clients, Tokens};
use cluster::Cluster;
use executed::Executed;
use known_files::KnownFiles;
use life::{Ending, Life};
use marks::Marks;
use poller::Poller;
use regions_of_names::RegionsOfNames;
use served_site::ServedSite;
use strangers::Strangers;
use times::Times;

pub(crate) use poller::signals_awaited;

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const TIMER: u64 = 2;
const SIGNALS: u64 = 3;
const STRANGERS: u64 = 4;
const CLUSTER_REGISTER: u64 = 5;
const CLUSTER_LINKS: u64 = 6;
const CLUSTER_HOLDER: u64 = 7;
const FIRST_CONNECTION: u64 = 16;
/// Programs that the library is not in are numbered from here.
const FIRST_STRANGER: u64 = 1 << 62;
/// Processes of the agent before are numbered from here.
const FIRST_SURVIVOR: u64 = 1 << 63;

/// While something waits for a slot, of which no message tells.
const SLOT_POLL: Duration = Duration::from_micros(100);
/// While disks may become idle for which there is work.
const WORK_POLL: Duration = Duration::from_millis(1);
/// While threads may leave something, and are busy.
const HINT_POLL: Duration = Duration::from_millis(20);
/// A journal that has grown by more than this is replaced, unless the site file says otherwise.
const JOURNAL_BYTES_MAX: u64 = 32 << 20;
/// More bytes than this waiting for the journal ask for a barrier.
const JOURNAL_UNWRITTEN_MAX: usize = 4 << 20;
/// Envelope slot of commands, which have none.
const NO_SLOT: u32 = u32::MAX;
/// Files named in a status, and bytes their paths may take: a status is one packet.
const STATUS_FILES_MAX: usize = 64;
const STATUS_PATHS_MAX: usize = 16 << 10;
/// How many files are looked at for one that was removed by a stranger, at a time: each is a call on the slow
/// file system.
const SWEEP_FILES: usize = 256;

/// What the agent before left: the files, and who goes on under this one.
pub(crate) struct Begun {
    pub(crate) shared: SharedFile,
    pub(crate) store: Store,
    pub(crate) overlay: Overlay,
    pub(crate) survivors: Survivors,
    /// The managed directory shows what is dirty.
    pub(crate) shown: bool,
    /// Its place among the nodes.
    pub(crate) entered: Option<Entered>,
}

impl SharedMemory for SharedFile {
    fn view(&self) -> Shared<'_> {
        SharedFile::view(self)
    }

    fn reserve_listing(&mut self, index: u32) -> bool {
        SharedFile::reserve_listing(self, index).is_ok()
    }
}

pub(crate) struct EventLoop<'a> {
    site: ServedSite,
    tiers: Tiers<SharedFile>,
    workers: &'a Workers,
    poller: Poller,
    clients: Clients,
    files: KnownFiles,
    commands: AwaitedCommands,
    regions: RegionsOfNames,
    marks: Marks,
    executed: Executed,
    times: Times,
    strangers: Strangers,
    life: Life,
    cluster: Cluster,
    service: ServiceCounters,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        options: Options,
        begun: Begun,
        workers: &'a Workers,
        listener: OwnedFd,
    ) -> Result<EventLoop<'a>> {
        let Begun { shared, store, overlay, survivors, shown, entered } = begun;
        let poller = Poller::new(TIMER, SIGNALS)?;
        let tokens = Tokens { listener: LISTENER, first_connection: FIRST_CONNECTION, first_survivor: FIRST_SURVIVOR };
        let clients = Clients::new(&poller, &tokens, listener, survivors.processes.into_iter().collect())?;
        let failed = |error| Error::system("watch the mailbox", std::io::Error::from(error));
        poller.watch(workers.mailbox.descriptor(), MAILBOX).map_err(failed)?;
        let agent = options.site.agent.clone().unwrap_or_default();
        let journal_bytes_max = agent.journal_bytes_max.unwrap_or(JOURNAL_BYTES_MAX);
        let meant = options.site.cluster();
        let meant = meant.map_err(|problem| Error::Site { path: options.site_path.clone(), problem })?;
        let cluster = Cluster::new(meant, entered)?;
        let agent_starts_total = shared.view().header.epoch.load(Ordering::Relaxed);
        Ok(EventLoop {
            site: ServedSite::new(options, shared.runtime())?,
            strangers: Strangers::new(shared.runtime())?,
            tiers: Tiers::new(overlay, store, shared, journal_bytes_max),
            workers,
            poller,
            clients,
            files: KnownFiles::new(),
            commands: AwaitedCommands::default(),
            regions: RegionsOfNames::default(),
            marks: Marks::new(shown),
            executed: Executed::default(),
            times: Times::default(),
            life: Life::new(agent.idle_s),
            cluster,
            service: ServiceCounters { agent_starts_total, ..ServiceCounters::default() },
        })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut batch = Batch::new();
        // The agent before may have died in its sleep.
        self.shared().wake_up();
        self.know_strangers()?;
        self.begin_in_cluster()?;
        self.settle()?;
        loop {
            if let Ending::Now { durable } = self.life.ending() {
                if self.tiers.overlay.threads() == 0 {
                    self.shared().forget_counts();
                }
                return if durable { Ok(()) } else { Err(self.not_durable()) };
            }
            let count = self.poller.wait(&mut events)?;
            if count == 0 {
                continue;
            }
            let now_ns = self.poller.now_ns();
            self.rise(now_ns, &events[..count]);
            self.tiers.overlay.set_time(now_ns);
            batch.begin();
            for event in &events[..count] {
                if (FIRST_CONNECTION..FIRST_STRANGER).contains(&event.data()) {
                    self.on_connection(event, &mut batch)?;
                    continue;
                }
                self.end_batch(&mut batch)?;
                self.on_event(event)?;
                self.end_event()?;
            }
            self.end_batch(&mut batch)?;
            self.settle()?;
        }
    }

    fn on_event(&mut self, event: &EpollEvent) -> Result<()> {
        match event.data() {
            LISTENER => self.accept(),
            MAILBOX => self.complete()?,
            TIMER => {
                self.poller.timer_went_off();
                self.tiers.poll();
            }
            SIGNALS => self.on_signal(),
            CLUSTER_REGISTER => self.on_register()?,
            CLUSTER_LINKS => self.on_links()?,
            CLUSTER_HOLDER => self.holder_ended(),
            survivor if survivor >= FIRST_SURVIVOR => self.survivor_ended(survivor),
            stranger => self.stranger_ended(stranger)?,
        }
        Ok(())
    }

    fn on_connection(&mut self, event: &EpollEvent, batch: &mut Batch) -> Result<()> {
        let connection = event.data();
        if event.events().contains(EpollFlags::EPOLLOUT) {
            self.clients.send_unsent(&self.poller, connection);
        }
        if event.events() != EpollFlags::EPOLLOUT { self.receive(connection, batch) } else { Ok(()) }
    }

    /// Before the next event: a file's number may be given to another file in it.
    fn end_event(&mut self) -> Result<()> {
        self.carry_out_all()?;
        self.retry_opens()
    }

    /// What a member of several has to give up when it has left.
    pub(crate) fn into_door(self) -> Option<Door> {
        self.cluster.into_door()
    }

    /// Gives back memory that only a next agent under living threads would need.
    pub(crate) fn give_memory_back(&self) {
        if self.tiers.overlay.threads() == 0 {
            self.tiers.shared.give_back();
        }
    }

    fn shared(&self) -> Shared<'static> {
        self.tiers.shared.view()
    }

    /// What is due after events; then sets the timer.
    fn settle(&mut self) -> Result<()> {
        for file in self.tiers.overlay.take_absorbed() {
            self.times.absorbed(file);
        }
        self.keep_draining();
        self.mark();
        self.commands.is_shrinking &= self.holds_too_much();
        self.carry_out_all()?;
        self.tiers.keep_descriptors();
        if self.tiers.overlay.has_no_data_file_left() && self.files.tell_of_numbers() {
            tracing::error!(
                "this node has used all its numbers for data files: files that have none yet do not come to flash. End                  its programs, then 'headstart drain' and 'headstart stop': the next agent begins anew"
            );
        }
        self.release_forgotten();
        self.answer_executed();
        self.show_times();
        self.answer_strangers();
        self.carry_out_all()?;
        if self.tiers.store.unwritten_bytes() > JOURNAL_UNWRITTEN_MAX {
            self.tiers.overlay.request_barrier();
        }
        if let Some(replaced) = self.tiers.replace_grown_journal()? {
            self.service.journal_rotations_total += u64::from(replaced);
            self.carry_out_all()?;
        }
        self.end_if_idle();
        if self.life.ending() == Ending::Syncing {
            self.end_once_durable()?;
        }
        self.service.log_rotations_total += u64::from(self.site.log_mut().rotate());
        self.tend_cluster()?;
        self.set_timer();
        Ok(())
    }

    /// Time matters only where something is under way of which no message tells, or has lately been.
    fn set_timer(&mut self) {
        let overlay = &self.tiers.overlay;
        let period = if overlay.waits_for_slots() {
            Some(SLOT_POLL)
        } else if self.executed.are_awaited()
            || self.commands.is_draining
            || self.strangers.are_awaited()
            || self.commands.is_shrinking
            || overlay.is_placing()
            // Which it does not for longer than the disk is worth.
            || overlay.waits_for_space()
            || overlay.waits_for_idleness()
            || overlay.was_pushed_to()
        {
            Some(WORK_POLL)
        } else if overlay.threads() > 0 && !self.falls_asleep() {
            Some(HINT_POLL)
        } else {
            self.mark_after().into_iter().chain(self.times.left()).chain(self.life.left()).min()
        };
        self.poller.set_timer(period.into_iter().chain(self.cluster.left(self.tiers.overlay.awaits_look())).min());
    }

    /// The first signal ends the agent once everything acknowledged is durable; the second at once.
    fn on_signal(&mut self) {
        self.poller.take_signal();
        if self.life.serves() { self.end() } else { self.life.end_now(false) }
    }

    /// Ends as if told to, once nobody has needed the agent for long enough.
    fn end_if_idle(&mut self) {
        let overlay = &self.tiers.overlay;
        let is_needed = !self.clients.are_none()
            || overlay.threads() > 0
            || overlay.dirty_bytes() > 0
            || self.marks.are_shown()
            || self.commands.is_draining
            || self.brings_back()
            || overlay.is_placing();
        if self.life.is_idle(is_needed) {
            tracing::info!("nobody needs the agent: it ends and leaves the directory to others");
            self.end();
        }
    }

    /// Serves nobody any more, so that a barrier comes to an end. What is in flight is left as it is: replay finds it
    /// dirty.
    fn end(&mut self) {
        self.life.end();
        self.clients.leave(&self.poller);
        self.tiers.overlay.close_all_granules(self.tiers.shared.view());
        self.tiers.overlay.follow(self.tiers.shared.view(), None);
        self.stop_draining();
    }

    /// What waited for other threads, and what the barrier itself ended, may have left records behind it.
    fn end_once_durable(&mut self) -> Result<()> {
        if self.tiers.overlay.is_durable() {
            self.life.end_now(true);
        } else if !self.tiers.overlay.is_barrier_running() {
            self.tiers.overlay.request_barrier();
            self.tiers.poll();
            self.carry_out_all()?;
        }
        Ok(())
    }
}
