//! The one thread that owns the overlay.
//!
//! It waits for packets, completions and time; hands each to the overlay; stores the records; carries out the outputs in
//! order. It never waits for storage, except to size a file.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headstart_core::overlay::journal::Identity;
use headstart_core::overlay::{Answer, Output, Overlay, Process};
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
use crate::shared_file::SharedFile;
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

struct Connection {
    socket: OwnedFd,
    slot: Option<u32>,
}

pub(crate) struct EventLoop<'a> {
    options: Options,
    shared: SharedFile,
    store: Store,
    overlay: Overlay,
    workers: &'a Workers,
    listener: OwnedFd,
    epoll: Epoll,
    timer: TimerFd,
    signals: SignalFd,
    connections: BTreeMap<u64, Connection>,
    by_slot: BTreeMap<u32, u64>,
    next_connection: u64,
    commands: BTreeMap<u64, u64>,
    next_command: u64,
    gone: RequestCounters,
    draining: bool,
    stopping: bool,
    capacity: String,
    packet: Vec<u8>,
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
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTERM);
        mask.add(Signal::SIGINT);
        mask.thread_block().map_err(failed)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)?;
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
            listener,
            epoll,
            timer,
            signals,
            connections: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            next_connection: FIRST_CONNECTION,
            commands: BTreeMap::new(),
            next_command: 1,
            gone: RequestCounters::default(),
            draining: false,
            stopping: false,
            capacity,
            packet: Vec::with_capacity(PACKET_MAX),
        })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        let mut buffer = vec![0; PACKET_MAX];
        self.settle()?;
        while !self.stopping {
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
                    SIGNALS => {
                        let _ = self.signals.read_signal();
                        self.stopping = true;
                    }
                    connection => self.receive(connection, &mut buffer)?,
                }
            }
            self.settle()?;
        }
        Ok(())
    }

    fn shared(&self) -> Shared<'static> {
        self.shared.view()
    }

    /// Stores records and carries out outputs until none is left, then sets the timer.
    fn settle(&mut self) -> Result<()> {
        self.keep_draining();
        loop {
            let records = self.overlay.take_journal();
            self.store.append(records)?;
            let outputs = self.overlay.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                self.carry_out(output)?;
            }
        }
        if self.store.unwritten_bytes() > JOURNAL_UNWRITTEN_MAX {
            self.overlay.request_barrier();
        }
        if self.overlay.journal_end() > JOURNAL_ROTATE_BYTES && self.overlay.is_durable() {
            self.store.rotate(&mut self.overlay)?;
        }
        self.set_timer();
        Ok(())
    }

    fn set_timer(&self) {
        let period = if self.overlay.waits_for_slots() {
            SLOT_POLL
        } else if self.overlay.dirty_bytes() > 0 || self.draining {
            WORK_POLL
        } else if !self.by_slot.is_empty() {
            HINT_POLL
        } else {
            let _ = self.timer.unset();
            return;
        };
        let _ = self.timer.set(Expiration::OneShot(period.into()), TimerSetTimeFlags::empty());
    }

    fn accept(&mut self) {
        loop {
            match socket::accept(&self.listener) {
                Ok(Some(socket)) => {
                    let token = self.next_connection;
                    self.next_connection += 1;
                    match self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token)) {
                        Ok(()) => {
                            self.connections.insert(token, Connection { socket, slot: None });
                        }
                        Err(error) => tracing::error!(%error, "a connection could not be watched"),
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    return;
                }
            }
        }
    }

    fn receive(&mut self, token: u64, buffer: &mut [u8]) -> Result<()> {
        let Some(connection) = self.connections.get(&token) else { return Ok(()) };
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
        Ok(())
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
                        self.open(envelope, Identity { device, inode, birth_ns }, writable, path);
                    }
                    _ => {
                        let now_ns =
                            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
                        self.overlay.on_request(self.shared.view(), now_ns, envelope, request);
                        if let Request::Close { file } = *request {
                            self.take_fingerprint(file);
                        }
                    }
                }
            }
        }
    }

    fn hello(&mut self, token: u64, version: u32, pid: u32, tid: u32, start_time: u64) {
        let shared = self.shared();
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
        self.commands.retain(|_, waiting| *waiting != token);
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
        let known = self.overlay.find(identity).and_then(|file| self.store.slow(file).cloned());
        let opened = match known {
            Some(slow) => Ok((slow.file, None)),
            None => store::open_slow(path, identity).map(|file| {
                let file = Arc::new(file);
                (file.clone(), Some(file))
            }),
        };
        let observed = opened.and_then(|(file, new)| store::fingerprint(&file).map(|observed| (observed, new)));
        match observed {
            Ok((observed, new)) => {
                self.overlay.on_open(self.shared.view(), envelope, identity, observed, writable, path);
                if let (Some(file), Some(number)) = (new, self.overlay.find(identity)) {
                    self.store.put_slow(number, file);
                }
            }
            Err(error) => {
                let text = format!("{}: the agent cannot open it: {error}", as_path(path).display());
                let (errno, text) = (errno_of(&error), text);
                self.send_answer(envelope, &Answer::Error { errno, text });
            }
        }
    }

    /// Remembers how a file that nobody has open any more looks, so that a change behind our back is noticed.
    fn take_fingerprint(&mut self, file: u32) {
        if self.overlay.is_open(file) {
            return;
        }
        if let Some(Ok(found)) = self.store.slow(file).map(|slow| store::fingerprint(&slow.file)) {
            self.overlay.set_fingerprint(file, found);
        }
    }

    fn complete(&mut self) {
        for completion in self.workers.mailbox.collect() {
            let shared = self.shared.view();
            match completion {
                Completion::Copied { id, result } => {
                    let file = self.overlay.copy_file(id);
                    self.overlay.on_copy_done(shared, id, result);
                    if let Some(file) = file {
                        self.take_fingerprint(file);
                    }
                }
                Completion::BarrierSynced(result) => self.overlay.on_barrier_synced(shared, result),
                Completion::JournalDurable(result) => self.overlay.on_journal_durable(shared, result),
            }
        }
    }

    fn carry_out(&mut self, output: Output) -> Result<()> {
        match output {
            Output::Reply(envelope, answer) => self.send_answer(envelope, &answer),
            Output::Copy(order) => {
                let data: Option<Vec<_>> = order.pieces.iter().map(|piece| self.store.data(piece.data_file)).collect();
                let slow = self.store.slow(order.file).map(|slow| slow.file.clone());
                match (slow, data) {
                    (Some(slow), Some(data)) => self.workers.copies.push(CopyJob { order, slow, data }),
                    _ => self.workers.mailbox.post(Completion::Copied { id: order.id, result: Err(libc::EIO) }),
                }
            }
            Output::Extend { file, size } => {
                let result = match self.store.slow(file) {
                    Some(slow) => extend(&slow.file, size),
                    None => Err(libc::EIO),
                };
                self.overlay.on_extended(self.shared.view(), file, result);
            }
            Output::Barrier { data_files, slow_files } => {
                let data = data_files.iter().filter_map(|file| self.store.data(*file)).collect();
                let slow =
                    slow_files.iter().filter_map(|file| self.store.slow(*file)).map(|slow| slow.file.clone()).collect();
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

    fn send(&mut self, token: u64, envelope: Envelope, reply: &Reply<'_>) {
        reply.encode(envelope, &mut self.packet);
        let Some(connection) = self.connections.get(&token) else { return };
        if let Err(error) = socket::send_packet(&connection.socket, &self.packet) {
            tracing::debug!(%error, "an answer found nobody");
        }
    }

    fn control(&mut self, token: u64, text: &[u8]) {
        let answer = match serde_json::from_slice::<Command>(text) {
            Err(error) => status::Answer::Error { error: format!("no such command: {error}") },
            Ok(Command::Status) => self.status(),
            Ok(Command::Drain { path: None }) => {
                self.draining = true;
                self.overlay.drain(true);
                self.overlay.poll(self.shared.view());
                self.status()
            }
            Ok(Command::Drain { path: Some(path) }) => match self.drain_file(token, &path) {
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
                    self.stopping = true;
                    self.status()
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
        let found = self.overlay.file_list().find(|(_, known, ..)| *known == path.as_bytes()).map(|(file, ..)| file);
        let Some(file) = found else { return Some(self.status()) };
        let command = self.next_command;
        self.next_command += 1;
        self.commands.insert(command, token);
        let request = Request::WriteBack { file, offset: 0, length: u64::MAX };
        self.overlay.on_request(self.shared.view(), 0, Envelope { slot: NO_SLOT, seq: command }, &request);
        None
    }

    fn answer_command(&mut self, command: u64, answer: &Answer) {
        let Some(token) = self.commands.remove(&command) else { return };
        let answer = match answer {
            Answer::Error { errno, text } => {
                status::Answer::Error { error: format!("{text}: {}", std::io::Error::from_raw_os_error(*errno)) }
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
            files: self
                .overlay
                .file_list()
                .take(64)
                .map(|(_, path, dirty_bytes, error)| FileStatus {
                    path: as_path(path).display().to_string(),
                    dirty_bytes,
                    error: error.map(|errno| std::io::Error::from_raw_os_error(errno).to_string()),
                })
                .collect(),
            agent: self.overlay.counters().into(),
            requests,
            journal_bytes: self.overlay.journal_end(),
        }))
    }
}

impl Drop for EventLoop<'_> {
    fn drop(&mut self) {
        let _ = self.epoll.delete(self.listener.as_fd());
    }
}

fn extend(file: &std::fs::File, size: u64) -> std::result::Result<u64, i32> {
    let now = file.metadata().map_err(|error| errno_of(&error))?.len();
    if now >= size {
        return Ok(now);
    }
    file.set_len(size).map_err(|error| errno_of(&error))?;
    Ok(size)
}
