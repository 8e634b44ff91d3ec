//! One thread that owns a volume's engine and its devices.
//!
//! ```text
//! other threads --Mailbox--> requests --> Engine --orders--> Storage
//!                                 replies <--'  <--completions--'
//! ```
//!
//! Each turn takes in everything that has arrived and completed, then carries out what the engine asks for,
//! then waits: one system call for whatever that was. Nothing is decided here.

mod figures;
pub mod mailbox;
mod parts;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headstart_block::devices::Device;
use headstart_block::engine::Engine;
use headstart_block::order;
use headstart_block::order::{Error, Order, OrderId, Output, Part, Tag};
use headstart_block::superblock::{GuardState, Superblock};
use headstart_policy::server::Policy;
use headstart_units::Nanos;
use slab::Slab;

use crate::block::{Buffer, Request};
use crate::control::{Answer as CommandAnswer, Command, directory};
use crate::settings::Settings;
use crate::status::{DeviceStatus, SegmentStatus, State, Status};
use crate::storage::bell::Bell;
use crate::storage::buffers::Pool;
use crate::storage::{Action, Completion, Operation, Storage};
use crate::trace::Trace;
use figures::{Figures, Kind, kind};
use mailbox::{Answer, CommandDone, Mailbox, Message};
use parts::{Buffers, Data};

/// A request that has no reply yet.
struct Waiting {
    kind: Kind,
    bytes: u64,
    /// Its own, so that who asked may do with his as he likes once he is answered.
    data: Option<Arc<Buffer>>,
    begun: Instant,
    answer: Answer,
}

struct Requests(Slab<Waiting>);

impl Data for Requests {
    fn data(&self, tag: Tag) -> &Arc<Buffer> {
        self.0[tag as usize].data.as_ref().expect("the parts of a write are of its data")
    }
}

/// An order under way.
struct Given {
    device: Device,
    is_read: bool,
    /// What the guard's keystream goes by.
    offset: u64,
    session: Option<u32>,
}

/// What a volume that has stopped leaves.
#[derive(Debug)]
pub struct End {
    /// In force.
    pub superblock: Superblock,
    /// Nothing is left on flash alone.
    pub is_empty: bool,
    /// Bytes that are.
    pub dirty_bytes: u64,
    /// Which devices have failed: disk, flash.
    pub failed: (bool, bool),
}

/// The loop.
pub struct EventLoop<P: Policy> {
    engine: Engine<P>,
    storage: Box<dyn Storage>,
    mailbox: Arc<Mailbox>,
    bell: Arc<Bell>,
    settings: Settings,
    started: Instant,
    /// The time that everything of this turn happens at.
    turn: Instant,
    requests: Requests,
    orders: HashMap<OrderId, Given>,
    buffers: Buffers,
    figures: Figures,
    trace: Trace,
    failed: (bool, bool),
    /// Those who wait until everything is written back.
    drains: Vec<CommandDone>,
    stopping: bool,
    /// When the last request came, until the engine was told that it is idle.
    busy_since: Option<Instant>,
}

impl<P: Policy> EventLoop<P> {
    /// A loop around an engine, which starts with [`run`](EventLoop::run).
    pub fn new(
        engine: Engine<P>,
        storage: Box<dyn Storage>,
        mailbox: Arc<Mailbox>,
        bell: Arc<Bell>,
        devices: [DeviceStatus; 2],
        pool: Arc<Pool>,
        settings: Settings,
    ) -> EventLoop<P> {
        let started = Instant::now();
        EventLoop {
            engine,
            storage,
            mailbox,
            bell,
            settings,
            started,
            turn: started,
            requests: Requests(Slab::new()),
            orders: HashMap::new(),
            buffers: Buffers::new(pool),
            figures: Figures::new(devices),
            trace: Trace::default(),
            failed: (false, false),
            drains: Vec::new(),
            stopping: false,
            busy_since: None,
        }
    }

    /// Serves until it is told to stop. None: it was told to die.
    pub fn run(mut self) -> Option<End> {
        let mut messages = Vec::new();
        let mut completions = Vec::new();
        loop {
            self.turn = Instant::now();
            self.mailbox.take(&mut messages);
            for message in messages.drain(..) {
                match message {
                    Message::Request(request, begun, answer) => self.on_request(request, begun, answer),
                    Message::Command(command, done) => self.on_command(command, done),
                    Message::Die => return None,
                }
            }
            self.storage.reap(&mut completions);
            for completion in completions.drain(..) {
                self.on_completion(completion);
            }
            self.on_time();
            self.carry_out();
            self.report_failures();
            self.end_drains();
            if self.engine.has_stopped() {
                self.mailbox.close(false);
                let (dirty_bytes, failed) = (self.engine.map().dirty_bytes(), self.failed);
                let (superblock, is_empty) = self.engine.into_superblock();
                return Some(End { superblock, is_empty, dirty_bytes, failed });
            }
            self.wait();
        }
    }

    fn now(&self) -> Nanos {
        Nanos(self.turn.saturating_duration_since(self.started).as_nanos() as u64)
    }

    fn on_request(&mut self, request: Request, begun: Instant, answer: Answer) {
        if self.stopping {
            return answer.fail(libc::ESHUTDOWN);
        }
        self.busy_since = Some(begun);
        let now = self.now();
        let (kind, bytes) = kind(&request);
        let slot = self.requests.0.vacant_entry();
        let tag = slot.key() as Tag;
        let waiting = |data| Waiting { kind, bytes, data, begun, answer };
        match request {
            Request::Read(range) => {
                slot.insert(waiting(None));
                self.engine.on_request(now, tag, order::Request::Read(range));
            }
            Request::Write { offset, data, fua } => {
                let data = Arc::new(data);
                slot.insert(waiting(Some(Arc::clone(&data))));
                self.engine.on_request(now, tag, order::Request::Write { offset, data: &data, fua });
            }
            Request::Zero { range, fua } => {
                slot.insert(waiting(None));
                self.engine.on_request(now, tag, order::Request::Zero { range, fua });
            }
            Request::Flush => {
                slot.insert(waiting(None));
                self.engine.on_request(now, tag, order::Request::Flush);
            }
        }
    }

    fn on_completion(&mut self, completion: Completion) {
        let Completion { id, result } = completion;
        let given = self.orders.remove(&id).expect("an order is completed once");
        let now = self.now();
        match result {
            Ok(mut buffer) if given.is_read => {
                if let Some(session) = given.session {
                    headstart_block::guard::transform(session, given.offset, &mut buffer);
                }
                self.buffers.insert(id, buffer);
                self.engine.on_completion(now, id, Ok(self.buffers.read(id)));
            }
            Ok(_) => self.engine.on_completion(now, id, Ok(&[])),
            Err(error) => {
                self.figures.failed(given.device);
                tracing::debug!(device = ?given.device, offset = given.offset, %error, "an operation failed");
                self.engine.on_completion(now, id, Err(()));
            }
        }
    }

    /// What is due by now.
    fn on_time(&mut self) {
        let now = self.now();
        if self.engine.next_timer().is_some_and(|at| at <= now) {
            self.engine.on_timer(now);
        }
        if self.busy_since.is_some_and(|since| self.turn.saturating_duration_since(since) >= self.settings.idle)
            && self.requests.0.is_empty()
        {
            self.busy_since = None;
            self.engine.on_idle(now);
        }
    }

    /// Does what the engine asks for.
    fn carry_out(&mut self) {
        self.turn = Instant::now();
        let mut outputs = self.engine.take_outputs().into_iter().peekable();
        while let Some(output) = outputs.next() {
            match output {
                Output::Order(order) => self.give(order),
                Output::Reply { tag, result } => {
                    let released = outputs.peek().and_then(|next| match next {
                        Output::Release(order) => Some(*order),
                        _ => None,
                    });
                    self.reply(tag, result, released);
                }
                Output::Release(order) => self.buffers.release(order),
            }
        }
    }

    fn give(&mut self, order: Order) {
        self.figures.ordered(&order);
        self.trace.add(self.now(), &order);
        let action = match &order.action {
            order::Action::Read => Action::Read(self.buffers.for_read(order.length)),
            order::Action::Write(parts) => Action::Write(self.buffers.gather(&order, parts, &self.requests)),
            order::Action::Zero => Action::Zero(order.length),
            order::Action::Flush => Action::Flush,
        };
        let Order { id, device, offset, session, .. } = order;
        let is_read = matches!(action, Action::Read(_));
        self.orders.insert(id, Given { device, is_read, offset, session });
        self.storage.submit(Operation { id, device, offset, action });
    }

    /// Answers a request; `released` is the buffer that nobody needs afterwards.
    fn reply(&mut self, tag: Tag, result: Result<Vec<Part>, Error>, released: Option<OrderId>) {
        let result = match result {
            Ok(parts) => Ok(self.buffers.reply(&parts, &self.requests, released)),
            Err(Error::Invalid) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Err(Error::Io) => Err(io::Error::from_raw_os_error(libc::EIO)),
        };
        let Waiting { kind, bytes, begun, answer, .. } = self.requests.0.remove(tag as usize);
        self.figures.answered(kind, bytes, self.turn.saturating_duration_since(begun), result.is_ok());
        answer.send(result);
    }

    /// Says once that a device has failed.
    fn report_failures(&mut self) {
        let failed = self.engine.has_failed();
        if failed.0 && !self.failed.0 {
            let disk = self.figures.device(Device::Disk, true).name;
            tracing::error!(disk, "the disk has failed: what bypasses flash fails, and so does FLUSH");
        }
        if failed.1 && !self.failed.1 {
            let flash = self.figures.device(Device::Flash, true).name;
            tracing::error!(flash, "the flash has failed: writes and FLUSH fail, what only flash held cannot be read");
        }
        self.failed = failed;
    }

    fn wait(&mut self) {
        let until = |at: Instant| at.saturating_duration_since(self.turn);
        let timer = self.engine.next_timer().map(|at| until(self.started + Duration::from_nanos(at.0)));
        let idle =
            self.busy_since.filter(|_| self.requests.0.is_empty()).map(|since| until(since + self.settings.idle));
        let timeout = [timer, idle].into_iter().flatten().min();
        self.bell.listen();
        let timeout = if self.mailbox.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.storage.wait(timeout);
        self.bell.wake();
    }

    fn on_command(&mut self, command: Command, done: CommandDone) {
        match command {
            Command::Status => done(CommandAnswer::Status(Box::new(self.status()))),
            Command::TraceAddresses { count } => done(CommandAnswer::Trace(self.trace.take(count))),
            Command::Flush => done(CommandAnswer::Error("a flush is a request".to_owned())),
            Command::Drain if self.stopping => done(CommandAnswer::Error("the volume is stopping".to_owned())),
            Command::Drain => {
                self.drains.push(done);
                self.engine.drain(self.now(), true);
            }
            Command::Stop { keep_dirty } => {
                self.stopping = true;
                self.engine.stop(self.now(), keep_dirty);
                done(CommandAnswer::Done { dirty_bytes: self.engine.map().dirty_bytes() });
            }
        }
    }

    /// Everything is written back, or nothing more can be.
    fn end_drains(&mut self) {
        if self.drains.is_empty() {
            return;
        }
        let dirty_bytes = self.engine.map().dirty_bytes();
        if dirty_bytes > 0 && self.engine.may_drain() {
            return;
        }
        if !self.stopping {
            self.engine.drain(self.now(), false);
            self.carry_out();
        }
        self.drains.drain(..).for_each(|done| done(CommandAnswer::Done { dirty_bytes }));
    }

    fn segments(&self) -> Option<SegmentStatus> {
        let (segments, counts) = (self.engine.segments(), self.engine.segment_counts());
        (!segments.is_none()).then(|| SegmentStatus {
            segment_bytes: segments.segment_bytes(),
            head_bytes: segments.head_bytes(),
            slots: segments.slots.into(),
            lifted: self.engine.lifted_segments(),
            loaded: counts.loaded,
            ghosts: counts.ghosts,
            lifts_waiting: counts.lifts_waiting,
            basis: self.engine.superblock().serving.basis,
        })
    }

    fn status(&self) -> Status {
        let superblock = self.engine.superblock();
        let ring = &self.engine.map().ring;
        let block = headstart_units::BLOCK_BYTES;
        let state = match (self.stopping, self.drains.is_empty()) {
            (true, _) => State::Stopping,
            (false, false) => State::Draining,
            (false, true) => State::Serving,
        };
        Status {
            uuid: directory::name(&superblock.uuid),
            pid: std::process::id(),
            state,
            disk: self.figures.device(Device::Disk, self.failed.0),
            flash: self.figures.device(Device::Flash, self.failed.1),
            storage: self.storage.description(),
            mode: self.settings.mode,
            policy: self.settings.policy,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            guard: superblock.guard.state == GuardState::On,
            dirty_bytes: self.engine.map().dirty_bytes(),
            log_bytes: u64::from(ring.blocks()) * block,
            log_free_bytes: u64::from(ring.free_blocks()) * block,
            requests_waiting: self.requests.0.len() as u64,
            requests: self.figures.requests(),
            counters: *self.engine.counters(),
            segments: self.segments(),
        }
    }
}
