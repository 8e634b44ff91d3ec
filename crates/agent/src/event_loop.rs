//! The one thread that owns the overlay.
//!
//! It waits for packets, completions and time; hands each to the overlay; stores the records; carries out the
//! outputs in order. It never waits for storage, except to size a file, to look at one, and to set its time.

mod commands;
mod connections;
mod executed;
mod idleness;
mod log;
mod marks;
mod outputs;
mod placement;
mod strangers;
mod times;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use headstart_overlay::{Overlay, Process};
use headstart_policy::client::carl::Regions;
use headstart_protocol::shared::Shared;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::error::{Error, Result};
use crate::process::ProcessHandle;
use crate::runtime::{Options, Workers};
use crate::selection::Selection;
use crate::shared_file::SharedFile;
use crate::socket::PACKET_MAX;
use crate::status::ServiceCounters;
use crate::store::Store;
use crate::survivors::Survivors;

use connections::{Connection, WaitingOpen};
use executed::Executed;
use idleness::Idleness;
use marks::Marks;
use placement::Incomplete;
use strangers::Strangers;
use times::Times;

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const TIMER: u64 = 2;
const SIGNALS: u64 = 3;
const STRANGERS: u64 = 4;
const FIRST_CONNECTION: u64 = 16;
/// Programs that the library is not in are numbered from here.
const FIRST_STRANGER: u64 = 1 << 62;
/// Processes of the agent before are numbered from here.
const FIRST_SURVIVOR: u64 = 1 << 63;

/// While something waits for a slot, of which no message tells.
const SLOT_POLL: Duration = Duration::from_micros(100);
/// While disks may become idle for which there is work.
const WORK_POLL: Duration = Duration::from_millis(1);
/// While threads may leave hints.
const HINT_POLL: Duration = Duration::from_millis(20);
/// A journal that has grown by more than this is replaced, unless the site file says otherwise.
const JOURNAL_BYTES_MAX: u64 = 32 << 20;
/// More bytes than this waiting for the journal ask for a barrier.
const JOURNAL_UNWRITTEN_MAX: usize = 4 << 20;
/// Envelope slot of commands, which have none.
const NO_SLOT: u32 = u32::MAX;
/// Answers kept for a connection that does not read them; one that leaves more is cut off.
const UNSENT_MAX: usize = 1024;
/// Files named in a status, and bytes their paths may take: a status is one packet.
const STATUS_FILES_MAX: usize = 64;
const STATUS_PATHS_MAX: usize = 16 << 10;
/// How often files that were removed by a stranger are looked for, and how many files at a time: each is a call on the
/// slow file system.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);
const SWEEP_FILES: usize = 256;

/// Files forgotten last that keep their memory: 4 MiB.
const FORGOTTEN_MAX: usize = 256;

/// A command that waits for barriers.
struct SyncCommand {
    token: u64,
    /// Barriers that have to end; the last of them begins after the command came.
    barriers: u32,
}

/// How far the agent is on its way out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It serves.
    No,
    /// Nobody is served any more; a barrier makes what was acknowledged durable.
    Syncing,
    /// It ends now; false if the barrier failed.
    Now { durable: bool },
}

/// The signals that end the agent; blocked before any thread starts, or one of the threads would die of them.
pub(crate) fn signals_awaited() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals
}

pub(crate) struct EventLoop<'a> {
    options: Options,
    shared: SharedFile,
    store: Store,
    overlay: Overlay,
    workers: &'a Workers,
    listener: Option<OwnedFd>,
    /// Given up to refuse a connection when descriptors have run out.
    spare: Option<File>,
    epoll: Epoll,
    timer: TimerFd,
    /// When it goes off.
    timer_due: Option<Instant>,
    signals: SignalFd,
    connections: BTreeMap<u64, Connection>,
    by_slot: BTreeMap<u32, u64>,
    next_connection: u64,
    /// Opens that wait until a file is forgotten.
    opens: Vec<WaitingOpen>,
    /// Processes that had slots when this agent started.
    survivors: Vec<(Process, ProcessHandle)>,
    /// Drains of one file: who waits, and the file's path.
    commands: BTreeMap<u64, (u64, String)>,
    next_command: u64,
    service: ServiceCounters,
    /// Which files may come to flash.
    selection: Selection,
    /// Files that may not, as far as they were opened.
    excluded: BTreeSet<u32>,
    /// Numbers of files that were forgotten and have memory, the last ones behind.
    forgotten: VecDeque<u32>,
    started: Instant,
    syncs: Vec<SyncCommand>,
    draining: bool,
    ending: Ending,
    capacity: String,
    packet: Vec<u8>,
    last_sweep: Instant,
    last_log_look: Instant,
    idleness: Idleness,
    /// The next file to look at.
    sweep_from: u32,
    /// Position of the journal at which it is replaced.
    rotate_at: u64,
    journal_bytes_max: u64,
    marks: Marks,
    executed: Executed,
    times: Times,
    strangers: Strangers,
    /// The capacity was changed, and flash may hold more.
    shrinking: bool,
    /// Directories known to lie in no managed directory but this.
    own_directories: BTreeSet<PathBuf>,
    /// Regions of files of which others are to come, by connection.
    incomplete: BTreeMap<u64, Incomplete>,
    /// Regions of whatever file has the name.
    named_regions: BTreeMap<Vec<u8>, Regions>,
    /// The connection for which regions are copied to flash.
    placed_for: Option<u64>,
    /// Connections that want regions to follow programs.
    followed_for: BTreeSet<u64>,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        options: Options,
        shared: SharedFile,
        store: Store,
        overlay: Overlay,
        workers: &'a Workers,
        listener: OwnedFd,
        shown: bool,
        survivors: Survivors,
    ) -> Result<EventLoop<'a>> {
        let failed = |error| Error::system("prepare the event loop", std::io::Error::from(error));
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
            .map_err(failed)?;
        let signals =
            SignalFd::with_flags(&signals_awaited(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)?;
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(&listener, readable(LISTENER)).map_err(failed)?;
        epoll.add(workers.mailbox.descriptor(), readable(MAILBOX)).map_err(failed)?;
        epoll.add(&timer, readable(TIMER)).map_err(failed)?;
        epoll.add(&signals, readable(SIGNALS)).map_err(failed)?;
        let survivors: Vec<(Process, ProcessHandle)> = survivors.processes.into_iter().collect();
        for (token, (_, process)) in (FIRST_SURVIVOR..).zip(&survivors) {
            epoll.add(process, readable(token)).map_err(failed)?;
        }
        let own = options.site.agent.as_ref().and_then(|agent| agent.journal_bytes_max);
        let journal_bytes_max = own.unwrap_or(JOURNAL_BYTES_MAX);
        let capacity = options.capacity.map(|capacity| capacity.to_string());
        let capacity = capacity.or_else(|| options.site.capacity.clone()).unwrap_or_else(|| "20%".into());
        let idleness = Idleness::of(options.site.agent.as_ref().and_then(|agent| agent.idle_s));
        let selection = options.site.selection();
        let selection = selection.map_err(|problem| Error::Site { path: options.site_path.clone(), problem })?;
        let strangers = Strangers::new(shared.runtime())?;
        let agent_starts_total = shared.view().header.epoch.load(Ordering::Relaxed);
        Ok(EventLoop {
            options,
            shared,
            store,
            overlay,
            workers,
            listener: Some(listener),
            spare: File::open("/dev/null").ok(),
            epoll,
            timer,
            timer_due: None,
            signals,
            connections: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            next_connection: FIRST_CONNECTION,
            opens: Vec::new(),
            survivors,
            commands: BTreeMap::new(),
            next_command: 1,
            service: ServiceCounters { agent_starts_total, ..ServiceCounters::default() },
            selection,
            excluded: BTreeSet::new(),
            forgotten: VecDeque::new(),
            started: Instant::now(),
            syncs: Vec::new(),
            draining: false,
            ending: Ending::No,
            capacity,
            packet: Vec::with_capacity(PACKET_MAX),
            last_sweep: Instant::now(),
            last_log_look: Instant::now(),
            idleness,
            sweep_from: 0,
            rotate_at: journal_bytes_max,
            journal_bytes_max,
            marks: Marks::new(shown),
            executed: Executed::default(),
            times: Times::default(),
            strangers,
            shrinking: false,
            own_directories: BTreeSet::new(),
            incomplete: BTreeMap::new(),
            named_regions: BTreeMap::new(),
            placed_for: None,
            followed_for: BTreeSet::new(),
        })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut buffer = vec![0; PACKET_MAX];
        self.know_strangers()?;
        self.settle()?;
        loop {
            if let Ending::Now { durable } = self.ending {
                if self.overlay.threads() == 0 {
                    self.shared().forget_counts();
                }
                return if durable { Ok(()) } else { Err(self.not_durable()) };
            }
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(Error::system("wait for events", error)),
            };
            self.overlay.set_time(self.started.elapsed().as_nanos() as u64);
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept(),
                    MAILBOX => self.complete()?,
                    TIMER => {
                        let _ = self.timer.wait();
                        self.timer_due = None;
                        self.overlay.poll(self.shared.view());
                    }
                    SIGNALS => self.on_signal(),
                    survivor if survivor >= FIRST_SURVIVOR => self.survivor_ended(survivor),
                    stranger if stranger >= FIRST_STRANGER || stranger == STRANGERS => self.stranger_ended(stranger)?,
                    connection => {
                        if event.events().contains(EpollFlags::EPOLLOUT) {
                            self.send_unsent(connection);
                        }
                        if event.events() != EpollFlags::EPOLLOUT {
                            self.receive(connection, &mut buffer);
                        }
                    }
                }
                // Before the next event: a file's number may be given to another file in it.
                self.carry_out_all()?;
                self.retry_opens()?;
            }
            self.settle()?;
        }
    }

    /// Gives back memory that only a next agent under living threads would need.
    pub(crate) fn give_memory_back(&self) {
        if self.overlay.threads() == 0 {
            self.shared.give_back();
        }
    }

    fn shared(&self) -> Shared<'static> {
        self.shared.view()
    }

    /// What is due after events; then sets the timer.
    fn settle(&mut self) -> Result<()> {
        self.keep_draining();
        self.mark();
        self.shrinking &= self.holds_too_much();
        self.carry_out_all()?;
        self.tiers().keep_descriptors();
        self.release_forgotten();
        self.answer_executed();
        self.show_times();
        self.answer_strangers();
        self.carry_out_all()?;
        if self.store.unwritten_bytes() > JOURNAL_UNWRITTEN_MAX {
            self.overlay.request_barrier();
        }
        if self.overlay.journal_end() > self.rotate_at
            && let Some(replaced) = self.tiers().rotate()?
        {
            self.service.journal_rotations_total += u64::from(replaced);
            self.rotate_at = self.journal_bytes_max + 2 * self.overlay.journal_end();
            self.carry_out_all()?;
        }
        self.end_if_idle();
        if self.ending == Ending::Syncing {
            self.end_once_durable()?;
        }
        self.rotate_log();
        self.set_timer();
        Ok(())
    }

    /// Time matters only where threads leave hints and traces of which no message tells. Messages, however
    /// many, do not put off what was due.
    fn set_timer(&mut self) {
        let period = if self.overlay.waits_for_slots() {
            SLOT_POLL
        } else if self.executed.are_awaited()
            || self.draining
            || self.strangers.are_awaited()
            || self.shrinking
            || self.overlay.is_placing()
            // Which it does not for longer than the disk is worth.
            || self.overlay.waits_for_space()
            || self.overlay.waits_for_idleness()
        {
            WORK_POLL
        } else if self.overlay.threads() > 0 {
            HINT_POLL
        } else if let Some(left) =
            self.mark_after().into_iter().chain(self.times.left()).chain(self.idleness.left()).min()
        {
            left
        } else {
            let _ = self.timer.unset();
            self.timer_due = None;
            return;
        };
        // Zero would disarm it.
        let period = period.max(Duration::from_micros(1));
        let due = Instant::now() + period;
        if self.timer_due.is_some_and(|earlier| earlier <= due) {
            return;
        }
        self.timer_due = Some(due);
        let _ = self.timer.set(Expiration::OneShot(period.into()), TimerSetTimeFlags::empty());
    }

    /// The first signal ends the agent once everything acknowledged is durable; the second at once.
    fn on_signal(&mut self) {
        let _ = self.signals.read_signal();
        match self.ending {
            Ending::No => self.end(),
            _ => self.ending = Ending::Now { durable: false },
        }
    }

    /// Serves nobody any more, so that a barrier comes to an end. What is in flight is left as it is: replay
    /// finds it dirty.
    fn end(&mut self) {
        self.ending = Ending::Syncing;
        if let Some(listener) = self.listener.take() {
            let _ = self.epoll.delete(&listener);
        }
        for connection in self.connections.values() {
            let _ = self.epoll.delete(&connection.socket);
        }
        self.overlay.follow(self.shared.view(), None);
        self.stop_draining();
    }

    /// What waited for other threads, and what the barrier itself ended, may have left records behind it.
    fn end_once_durable(&mut self) -> Result<()> {
        if self.overlay.is_durable() {
            self.ending = Ending::Now { durable: true };
        } else if !self.overlay.is_barrier_running() {
            self.overlay.request_barrier();
            self.overlay.poll(self.shared.view());
            self.carry_out_all()?;
        }
        Ok(())
    }
}
