//! The one thread that owns the overlay.
//!
//! It waits for packets, completions and time; hands each to the overlay; stores the records; carries out the outputs in
//! order. It never waits for storage, except to size a file.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headstart_core::overlay::journal::Identity;
use headstart_core::overlay::{Answer, CopyKind, CopyOrder, Output, Overlay, Process};
use headstart_core::protocol::PROTOCOL_VERSION;
use headstart_core::protocol::message::{Envelope, Reply, Request, Welcome};
use headstart_core::protocol::shared::{STATE_FREE, Shared};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::copier::CopyJob;
use crate::error::{Error, Result, errno_of};
use crate::jobs::Completion;
use crate::runtime::{Options, SyncJob, Workers};
use crate::runtime_directory;
use crate::shared_file::SharedFile;
use crate::slow_file::SlowFile;
use crate::socket::{self, PACKET_MAX};
use crate::status::{self, Command, FileStatus, RequestCounters, Status};
use crate::store::{self, Store, as_path};

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const TIMER: u64 = 2;
const SIGNALS: u64 = 3;
const FIRST_CONNECTION: u64 = 16;

/// While something waits for a slot, of which no message tells.
const SLOT_POLL: Duration = Duration::from_micros(100);
/// While there is work for idle disks.
const WORK_POLL: Duration = Duration::from_millis(1);
/// While threads may leave hints.
const HINT_POLL: Duration = Duration::from_millis(20);
/// A journal longer than this is replaced once everything is durable.
const JOURNAL_ROTATE_BYTES: u64 = 32 << 20;
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
/// A log longer than this begins anew: it lies in memory.
const LOG_BYTES_MAX: u64 = 1 << 20;

struct Connection {
    socket: OwnedFd,
    slot: Option<u32>,
    /// Answers the socket did not take yet.
    unsent: VecDeque<Vec<u8>>,
}

impl Connection {
    /// Sends what can be sent. Of an error the next receive tells.
    fn send_unsent(&mut self) -> std::io::Result<()> {
        while let Some(packet) = self.unsent.front() {
            if !socket::send_packet(&self.socket, packet)? {
                return Ok(());
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    fn events(&self, token: u64) -> EpollEvent {
        let writable = if self.unsent.is_empty() { EpollFlags::empty() } else { EpollFlags::EPOLLOUT };
        EpollEvent::new(EpollFlags::EPOLLIN | writable, token)
    }
}

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
    signals: SignalFd,
    connections: BTreeMap<u64, Connection>,
    by_slot: BTreeMap<u32, u64>,
    next_connection: u64,
    /// Drains of one file: who waits, and the file's path.
    commands: BTreeMap<u64, (u64, String)>,
    next_command: u64,
    gone: RequestCounters,
    syncs: Vec<SyncCommand>,
    barrier_running: bool,
    draining: bool,
    ending: Ending,
    capacity: String,
    packet: Vec<u8>,
    last_sweep: Instant,
    /// The next file to look at.
    sweep_from: u32,
    /// Position of the journal at which it is replaced.
    rotate_at: u64,
}

impl<'a> EventLoop<'a> {
    pub(crate) fn new(
        options: Options,
        shared: SharedFile,
        store: Store,
        overlay: Overlay,
        workers: &'a Workers,
        listener: OwnedFd,
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
        let capacity = options.capacity.map(|capacity| capacity.to_string());
        let capacity = capacity.or_else(|| options.site.capacity.clone()).unwrap_or_else(|| "20%".into());
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
            signals,
            connections: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            next_connection: FIRST_CONNECTION,
            commands: BTreeMap::new(),
            next_command: 1,
            gone: RequestCounters::default(),
            syncs: Vec::new(),
            barrier_running: false,
            draining: false,
            ending: Ending::No,
            capacity,
            packet: Vec::with_capacity(PACKET_MAX),
            last_sweep: Instant::now(),
            sweep_from: 0,
            rotate_at: JOURNAL_ROTATE_BYTES,
        })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut buffer = vec![0; PACKET_MAX];
        self.settle()?;
        loop {
            if let Ending::Now { durable } = self.ending {
                return if durable { Ok(()) } else { Err(self.not_durable()) };
            }
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(Error::system("wait for events", error)),
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept(),
                    MAILBOX => self.complete(),
                    TIMER => {
                        let _ = self.timer.wait();
                        self.overlay.poll(self.shared.view());
                    }
                    SIGNALS => self.on_signal(),
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
            }
            self.settle()?;
        }
    }

    fn shared(&self) -> Shared<'static> {
        self.shared.view()
    }

    /// Stores records and carries out outputs until none is left.
    fn carry_out_all(&mut self) -> Result<()> {
        loop {
            let records = self.overlay.take_journal();
            self.store.append(records)?;
            let outputs = self.overlay.take_outputs();
            if outputs.is_empty() {
                return Ok(());
            }
            for output in outputs {
                self.carry_out(output)?;
            }
        }
    }

    /// What is due after events; then sets the timer.
    fn settle(&mut self) -> Result<()> {
        self.keep_draining();
        self.carry_out_all()?;
        if self.store.unwritten_bytes() > JOURNAL_UNWRITTEN_MAX {
            self.overlay.request_barrier();
        }
        if self.overlay.journal_end() > self.rotate_at && self.overlay.is_durable() {
            let rotated = self.store.rotate(&mut self.overlay)?;
            self.rotate_at = JOURNAL_ROTATE_BYTES + if rotated { 0 } else { self.overlay.journal_end() };
        }
        if self.ending == Ending::Syncing && self.overlay.is_durable() {
            self.ending = Ending::Now { durable: true };
        }
        self.set_timer();
        Ok(())
    }

    /// Time matters only where threads leave hints and traces of which no message tells.
    fn set_timer(&self) {
        let period = if self.overlay.waits_for_slots() {
            SLOT_POLL
        } else if self.draining || (self.overlay.dirty_bytes() > 0 && !self.by_slot.is_empty()) {
            WORK_POLL
        } else if !self.by_slot.is_empty() {
            HINT_POLL
        } else {
            let _ = self.timer.unset();
            return;
        };
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

    /// Serves nobody any more, so that a barrier comes to an end. What is in flight is left as it is: replay finds it dirty.
    fn end(&mut self) {
        self.ending = Ending::Syncing;
        if let Some(listener) = self.listener.take() {
            let _ = self.epoll.delete(&listener);
        }
        for connection in self.connections.values() {
            let _ = self.epoll.delete(&connection.socket);
        }
        self.draining = false;
        self.overlay.drain(false);
        self.overlay.request_barrier();
        self.overlay.poll(self.shared.view());
    }

    fn not_durable(&self) -> Error {
        let runtime = runtime_directory::path(&self.options.site.slow);
        Error::NotDurable { fast: self.options.site.fast.clone(), log: runtime_directory::log(&runtime) }
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match socket::accept(listener) {
                Ok(Some(socket)) => {
                    let token = self.next_connection;
                    self.next_connection += 1;
                    match self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                        Ok(()) => {
                            self.connections.insert(token, Connection { socket, slot: None, unsent: VecDeque::new() });
                        }
                        Err(error) => tracing::error!(%error, "a connection could not be watched"),
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                        // It would wait, and be announced, for ever: it is refused by accepting and closing it.
                        self.spare = None;
                        let _ = socket::accept(listener);
                        self.spare = File::open("/dev/null").ok();
                    }
                    return;
                }
            }
        }
    }

    fn receive(&mut self, token: u64, buffer: &mut [u8]) {
        let Some(connection) = self.connections.get(&token) else { return };
        match socket::receive(&connection.socket, buffer) {
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => self.hang_up(token),
            Ok(Some(length)) => match Request::decode(&buffer[..length]) {
                Ok((envelope, request)) => self.handle(token, envelope, &request),
                Err(error) => {
                    tracing::warn!(%error, "a connection is closed");
                    self.hang_up(token);
                }
            },
        }
    }

    fn handle(&mut self, token: u64, envelope: Envelope, request: &Request<'_>) {
        match *request {
            Request::Hello { version, pid, tid, start_time } => self.hello(token, version, pid, tid, start_time),
            Request::Control { text } => self.control(token, text),
            _ => {
                let slot = self.connections.get(&token).and_then(|connection| connection.slot);
                if slot != Some(envelope.slot) {
                    tracing::warn!(slot = envelope.slot, "a message names a slot that is not its sender's");
                    return self.hang_up(token);
                }
                match *request {
                    Request::Open { device, inode, birth_ns, writable, path, .. } => {
                        self.sweep(SWEEP_FILES);
                        self.open(envelope, Identity { device, inode, birth_ns }, writable, path);
                    }
                    _ => {
                        let now_ns =
                            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
                        let no_space_before = self.overlay.counters().no_space_total;
                        self.overlay.on_request(self.shared.view(), now_ns, envelope, request);
                        match *request {
                            Request::Close { file } => self.take_fingerprint(file),
                            Request::Slab { .. } if self.overlay.counters().no_space_total > no_space_before => {
                                self.sweep(SWEEP_FILES);
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    fn hello(&mut self, token: u64, version: u32, pid: u32, tid: u32, start_time: u64) {
        let shared = self.shared();
        if self.connections.get(&token).is_none_or(|connection| connection.slot.is_some()) {
            return self.hang_up(token);
        }
        if version != PROTOCOL_VERSION {
            let text = format!(
                "library speaks version {version}, the agent {PROTOCOL_VERSION}; stop the agent: headstart stop"
            );
            return self.send(
                token,
                Envelope { slot: 0, seq: 0 },
                &Reply::Error { errno: libc::EPROTO, text: text.as_bytes() },
            );
        }
        let free = (0..shared.slots.len() as u32).find(|slot| !self.by_slot.contains_key(slot));
        let Some(slot) = free else {
            let text = format!("{} threads take part at once, which is the limit", shared.slots.len());
            return self.send(
                token,
                Envelope { slot: 0, seq: 0 },
                &Reply::Error { errno: libc::EAGAIN, text: text.as_bytes() },
            );
        };
        let cell = &shared.slots[slot as usize];
        cell.state.store(STATE_FREE, Ordering::Relaxed);
        cell.counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        cell.hints_tail.store(cell.hints_head.load(Ordering::Relaxed), Ordering::Relaxed);
        cell.owner_tid.store(tid, Ordering::Relaxed);
        cell.owner_start.store(start_time, Ordering::Relaxed);
        cell.owner_pid.store(pid, Ordering::Release);
        shared.header.slots_used.fetch_max(u64::from(slot) + 1, Ordering::SeqCst);
        self.by_slot.insert(slot, token);
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.slot = Some(slot);
        }
        self.overlay.on_join(slot, Process { pid, start_time });
        let site = self.options.site.clone();
        let seq = cell.seq.load(Ordering::Relaxed);
        use std::os::unix::ffi::OsStrExt;
        let welcome = Welcome {
            read: site.s4d.read.clone(),
            write: site.s4d.write.clone(),
            slow: site.slow.as_os_str().as_bytes(),
            fast: site.fast.as_os_str().as_bytes(),
        };
        self.send(token, Envelope { slot, seq }, &Reply::Welcome(welcome));
    }

    fn hang_up(&mut self, token: u64) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let _ = self.epoll.delete(&connection.socket);
        self.commands.retain(|_, (waiting, _)| *waiting != token);
        self.syncs.retain(|sync| sync.token != token);
        if let Some(slot) = connection.slot {
            self.by_slot.remove(&slot);
            self.gone.add(&self.shared().slots[slot as usize]);
            let open: Vec<u32> =
                self.overlay.file_list().map(|(file, ..)| file).filter(|file| self.overlay.is_open(*file)).collect();
            self.overlay.on_hang_up(self.shared.view(), slot);
            open.into_iter().for_each(|file| self.take_fingerprint(file));
        }
    }

    fn open(&mut self, envelope: Envelope, identity: Identity, writable: bool, path: &[u8]) {
        let known = self.overlay.find(identity).filter(|file| self.store.slow(*file).is_some());
        let opened = match known {
            Some(_) => Ok(None),
            None => store::open_slow(path, identity).map(|file| Some(SlowFile::new(Arc::new(file), None))),
        };
        let observed = opened.and_then(|new| {
            let slow = new.as_ref().or_else(|| known.and_then(|file| self.store.slow(file)));
            let observed = slow.expect("it was found or opened").look()?;
            Ok((observed, new))
        });
        match observed {
            Ok((observed, new)) => {
                self.overlay.on_open(self.shared.view(), envelope, identity, observed, writable, path);
                let Some(number) = self.overlay.find(identity) else { return };
                if let Some(slow) = new {
                    self.store.put_slow(number, slow);
                } else if known != Some(number) {
                    // The identity now belongs to another file of the same number in the file system.
                    let file = known.and_then(|known| self.store.slow(known)).map(|slow| slow.file.clone());
                    let file = file.expect("it was found");
                    self.store.put_slow(number, SlowFile::new(file, None));
                }
                if let Some(slow) = self.store.slow_mut(number).filter(|_| writable) {
                    slow.may_be_written();
                }
            }
            Err(error) => {
                let text = format!("{}: the agent cannot open it: {error}", as_path(path).display());
                let (errno, text) = (errno_of(&error), text);
                self.send_answer(envelope, &Answer::Error { errno, text });
            }
        }
    }

    /// Nobody may have the file open any more: remembers how it looks, so that a change behind our back is noticed; forgets it
    /// if it has lost its name.
    fn take_fingerprint(&mut self, file: u32) {
        if self.overlay.is_open(file) || self.overlay.path(file).is_none() {
            return;
        }
        let shared = self.shared();
        let Some(slow) = self.store.slow_mut(file).filter(|slow| !slow.is_written_back()) else { return };
        if !slow.has_name() {
            return self.overlay.disown(shared, file);
        }
        let absorbed = &shared.files[file as usize].modified_ns;
        if let Some(Ok(found)) = slow.settle(absorbed.load(Ordering::Relaxed)) {
            absorbed.store(0, Ordering::Relaxed);
            self.overlay.set_fingerprint(file, found);
        }
    }

    /// Forgets files that a program without the library removed: looks at the next `count` files that nobody has open.
    fn sweep(&mut self, count: usize) {
        if self.last_sweep.elapsed() < SWEEP_PERIOD {
            return;
        }
        self.last_sweep = Instant::now();
        let looked_at: Vec<(u32, bool)> = self
            .store
            .slow_files(self.sweep_from)
            .filter(|(number, _)| !self.overlay.is_open(*number))
            .take(count)
            .map(|(number, slow)| (number, slow.has_name()))
            .collect();
        self.sweep_from = if looked_at.len() < count { 0 } else { looked_at.last().map_or(0, |(last, _)| last + 1) };
        for (number, _) in looked_at.into_iter().filter(|(_, has_name)| !has_name) {
            self.overlay.disown(self.shared.view(), number);
        }
    }

    fn complete(&mut self) {
        for completion in self.workers.mailbox.collect() {
            let shared = self.shared.view();
            match completion {
                Completion::Copied { .. } if self.ending != Ending::No => {}
                Completion::Copied { id, file, kind, result } => {
                    if let Some(slow) = self.store.slow_mut(file).filter(|_| kind == CopyKind::WriteBack) {
                        slow.end_write_back();
                    }
                    self.overlay.on_copy_done(shared, id, result);
                    self.take_fingerprint(file);
                }
                Completion::BarrierSynced(result) => {
                    self.overlay.on_barrier_synced(shared, result);
                    if result.is_err() {
                        self.barrier_ended(false);
                    }
                }
                Completion::JournalDurable(result) => {
                    self.store.journal_done(result.is_ok());
                    self.overlay.on_journal_durable(shared, result);
                    self.barrier_ended(result.is_ok());
                }
            }
        }
    }

    fn barrier_ended(&mut self, durable: bool) {
        self.barrier_running = false;
        if !durable && self.ending == Ending::Syncing {
            self.ending = Ending::Now { durable: false };
        }
        let mut answered = Vec::new();
        self.syncs.retain_mut(|sync| {
            sync.barriers -= 1;
            if sync.barriers == 0 {
                answered.push(sync.token);
            }
            sync.barriers > 0
        });
        for token in answered {
            let answer =
                if durable { self.status() } else { status::Answer::Error { error: self.not_durable().to_string() } };
            self.send_status(token, &answer);
        }
        self.shorten_log();
    }

    /// Empties the agent's log when it has grown too long.
    fn shorten_log(&self) {
        use std::os::fd::AsFd;
        let path = runtime_directory::log(&runtime_directory::path(&self.options.site.slow));
        let Ok(log) = std::io::stderr().as_fd().try_clone_to_owned().map(File::from) else { return };
        let (Ok(own), Ok(named)) = (log.metadata(), std::fs::metadata(path)) else { return };
        if (own.dev(), own.ino()) == (named.dev(), named.ino()) && own.len() > LOG_BYTES_MAX {
            let _ = log.set_len(0);
            tracing::info!("the log was longer than {LOG_BYTES_MAX} bytes and begins anew");
        }
    }

    fn carry_out(&mut self, output: Output) -> Result<()> {
        match output {
            Output::Reply(envelope, answer) => self.send_answer(envelope, &answer),
            Output::Copy(_) if self.ending != Ending::No => {}
            Output::Copy(order) => self.copy(order),
            Output::Extend { file, size } => {
                let result = match self.store.slow_mut(file) {
                    Some(slow) => {
                        slow.may_be_written();
                        extend(&slow.file, size)
                    }
                    None => Err(libc::EIO),
                };
                self.overlay.on_extended(self.shared.view(), file, result);
                self.take_fingerprint(file);
            }
            Output::Barrier { data_files, slow_files } => {
                let data = data_files.iter().filter_map(|file| self.store.data(*file)).collect();
                let slow =
                    slow_files.iter().filter_map(|file| self.store.slow(*file)).map(|slow| slow.file.clone()).collect();
                self.barrier_running = true;
                self.workers.syncs.push(SyncJob::Barrier { data, slow });
            }
            Output::SyncJournal => {
                let records = self.overlay.take_journal();
                self.store.append(records)?;
                let job = self.store.journal_job();
                self.workers.syncs.push(SyncJob::Journal(job));
            }
            Output::Grow { data_file, size } => {
                if let Err(error) = self.store.grow(data_file, size) {
                    tracing::error!(%error, "the fast directory gives no space");
                }
            }
            Output::Punch(run) => self.store.punch(run),
            Output::RemoveDataFile(data_file) => self.store.remove_data_file(data_file),
            Output::Forget(file) => self.store.forget_slow(file),
        }
        Ok(())
    }

    fn copy(&mut self, order: CopyOrder) {
        let data: Option<Vec<_>> = order.pieces.iter().map(|piece| self.store.data(piece.data_file)).collect();
        let open_for_writing = self.overlay.is_open_for_writing(order.file);
        let CopyOrder { id, file, kind, .. } = order;
        let changed = |slow: &SlowFile| kind == CopyKind::WriteBack && !self.overlay.is_open(file) && slow.is_changed();
        if self.store.slow(file).is_some_and(changed) {
            // Nothing is overwritten until the user says so: with `headstart drain`.
            return self.workers.mailbox.post(Completion::Copied { id, file, kind, result: Err(libc::ESTALE) });
        }
        let slow = self.store.slow_mut(order.file).map(|slow| {
            if order.kind == CopyKind::WriteBack {
                slow.begin_write_back(open_for_writing);
            }
            slow.file.clone()
        });
        if let (Some(slow), Some(data)) = (slow, data) {
            return self.workers.copies.push(CopyJob { order, slow, data });
        }
        self.workers.mailbox.post(Completion::Copied { id, file, kind, result: Err(libc::EIO) });
    }

    fn send_answer(&mut self, envelope: Envelope, answer: &Answer) {
        if envelope.slot == NO_SLOT {
            return self.answer_command(envelope.seq, answer);
        }
        let Some(&token) = self.by_slot.get(&envelope.slot) else { return };
        let reply = match answer {
            Answer::Opened { file } => Reply::Opened { file: *file },
            Answer::Done => Reply::Done,
            Answer::NoSpace => Reply::NoSpace,
            Answer::Flash { length } => Reply::Flash { length: *length },
            Answer::Disk { length } => Reply::Disk { length: *length },
            Answer::Go => Reply::Go,
            Answer::Error { errno, text } => Reply::Error { errno: *errno, text: text.as_bytes() },
        };
        self.send(token, envelope, &reply);
    }

    /// Sends an answer, or keeps it until the socket takes it.
    fn send(&mut self, token: u64, envelope: Envelope, reply: &Reply<'_>) {
        reply.encode(envelope, &mut self.packet);
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.unsent.is_empty() {
            match socket::send_packet(&connection.socket, &self.packet) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return tracing::debug!(%error, "an answer found nobody"),
            }
        }
        connection.unsent.push_back(self.packet.clone());
        let mut events = connection.events(token);
        let _ = self.epoll.modify(&connection.socket, &mut events);
        if connection.unsent.len() > UNSENT_MAX {
            tracing::warn!("a connection that does not read its answers is closed");
            self.hang_up(token);
        }
    }

    fn send_unsent(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if let Err(error) = connection.send_unsent() {
            tracing::debug!(%error, "an answer found nobody");
            connection.unsent.clear();
        }
        let mut events = connection.events(token);
        let _ = self.epoll.modify(&connection.socket, &mut events);
    }

    fn control(&mut self, token: u64, text: &[u8]) {
        let answer = match serde_json::from_slice::<Command>(text) {
            Err(error) => status::Answer::Error { error: format!("no such command: {error}") },
            Ok(Command::Status) => self.status(),
            Ok(Command::Drain { path: None, over_changes }) => {
                self.sweep(usize::MAX);
                if over_changes {
                    self.store.accept_changes(..);
                }
                self.draining = true;
                self.overlay.drain(true);
                self.overlay.poll(self.shared.view());
                self.status()
            }
            Ok(Command::Drain { path: Some(path), .. }) => match self.drain_file(token, &path) {
                Some(answer) => answer,
                None => return,
            },
            Ok(Command::KeepDirty) => {
                self.draining = false;
                self.overlay.drain(false);
                self.overlay.request_barrier();
                self.overlay.poll(self.shared.view());
                self.status()
            }
            Ok(Command::Sync) => {
                let barriers = 1 + u32::from(self.barrier_running);
                self.syncs.push(SyncCommand { token, barriers });
                self.overlay.request_barrier();
                return self.overlay.poll(self.shared.view());
            }
            Ok(Command::Configure { capacity }) => match capacity.parse() {
                Ok(parsed) => {
                    self.overlay.set_capacity(parsed);
                    self.capacity = capacity;
                    self.status()
                }
                Err(error) => status::Answer::Error { error },
            },
            Ok(Command::Stop) => {
                let threads = self.by_slot.len();
                if threads > 0 {
                    status::Answer::Error {
                        error: format!("{threads} threads of programs take part; let them end first"),
                    }
                } else {
                    let status = self.status();
                    self.send_status(token, &status);
                    return self.end();
                }
            }
        };
        self.send_status(token, &answer);
    }

    fn send_status(&mut self, token: u64, answer: &status::Answer) {
        let text = serde_json::to_vec(answer).expect("a status has a JSON form");
        self.send(token, Envelope { slot: NO_SLOT, seq: 0 }, &Reply::Control { text: &text });
    }

    /// Begins writing one file back; answers at once only if there is nothing to do.
    fn drain_file(&mut self, token: u64, path: &str) -> Option<status::Answer> {
        let by_path =
            || self.overlay.file_list().find(|(_, known, ..)| *known == path.as_bytes()).map(|(file, ..)| file);
        let found = identity_of(path).and_then(|identity| self.overlay.find(identity)).or_else(by_path);
        let Some(file) = found else { return Some(self.status()) };
        self.store.accept_changes(file..=file);
        let command = self.next_command;
        self.next_command += 1;
        self.commands.insert(command, (token, path.to_string()));
        let request = Request::WriteBack { file, offset: 0, length: u64::MAX };
        self.overlay.on_request(self.shared.view(), 0, Envelope { slot: NO_SLOT, seq: command }, &request);
        None
    }

    fn answer_command(&mut self, command: u64, answer: &Answer) {
        let Some((token, path)) = self.commands.remove(&command) else { return };
        let answer = match answer {
            Answer::Error { errno, text } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                status::Answer::Error { error: format!("{path}: {text}: {error}; the bytes stay on flash") }
            }
            _ => {
                self.overlay.request_barrier();
                self.status()
            }
        };
        self.send_status(token, &answer);
    }

    /// While everything is being written back: at its end a barrier, so that nothing depends on the journal any more.
    fn keep_draining(&mut self) {
        if self.draining && self.overlay.dirty_bytes() == 0 {
            self.draining = false;
            self.overlay.drain(false);
            self.overlay.request_barrier();
            self.overlay.poll(self.shared.view());
        }
    }

    fn status(&self) -> status::Answer {
        let shared = self.shared();
        let mut requests = self.gone;
        self.by_slot.keys().for_each(|slot| requests.add(&shared.slots[*slot as usize]));
        let dirty = || self.overlay.file_list().filter(|(_, _, dirty_bytes, _)| *dirty_bytes > 0);
        status::Answer::Status(Box::new(Status {
            pid: std::process::id(),
            slow: self.options.site.slow.display().to_string(),
            fast: self.options.site.fast.display().to_string(),
            capacity: self.capacity.clone(),
            capacity_bytes: self.overlay.capacity_bytes(),
            mapped_bytes: self.overlay.mapped_bytes(),
            dirty_bytes: self.overlay.dirty_bytes(),
            extents: self.overlay.extents() as u64,
            threads: self.by_slot.len() as u64,
            durable: self.overlay.is_durable(),
            draining: self.draining,
            files: self.file_statuses(),
            files_known: self.overlay.file_list().count() as u64,
            files_dirty: dirty().count() as u64,
            files_failed: dirty().filter(|(_, _, _, error)| error.is_some()).count() as u64,
            agent: self.overlay.counters().into(),
            requests,
            journal_bytes: self.overlay.journal_end(),
        }))
    }

    /// The files worth naming first: those that cannot be written back, then those with dirty bytes.
    fn file_statuses(&self) -> Vec<FileStatus> {
        let mut files: Vec<_> = self.overlay.file_list().collect();
        let rank = |(_, _, dirty_bytes, error): &(u32, &[u8], u64, Option<i32>)| match dirty_bytes {
            0 => 2,
            _ => u32::from(error.is_none()),
        };
        files.sort_by_key(rank);
        let mut room = STATUS_PATHS_MAX;
        let named = files.into_iter().take(STATUS_FILES_MAX).map_while(|(_, path, dirty_bytes, error)| {
            let path = as_path(path).display().to_string();
            room = room.checked_sub(path.len())?;
            let error = error.map(|errno| match errno {
                libc::ESTALE => "another program changed the file since; 'headstart drain' writes them over it".into(),
                errno => std::io::Error::from_raw_os_error(errno).to_string(),
            });
            Some(FileStatus { path, dirty_bytes, error })
        });
        named.collect()
    }
}

/// Who the file at `path` is, as the library says it.
fn identity_of(path: &str) -> Option<Identity> {
    let found = std::fs::metadata(path).ok()?;
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let birth_ns = born.map_or(0, |born| born.as_nanos() as u64);
    Some(Identity { device: found.dev(), inode: found.ino(), birth_ns })
}

fn extend(file: &std::fs::File, size: u64) -> std::result::Result<u64, i32> {
    let now = file.metadata().map_err(|error| errno_of(&error))?.len();
    if now >= size {
        return Ok(now);
    }
    file.set_len(size).map_err(|error| errno_of(&error))?;
    Ok(size)
}
