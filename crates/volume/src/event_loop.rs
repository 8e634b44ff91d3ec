//! One thread that owns a volume's engine and its devices.
//!
//! ```text
//! other threads --Mailbox--> requests --> Engine --orders--> Storage
//!                                 replies <--'  <--completions--'
//! ```
//!
//! Each turn takes in everything that has arrived and completed, then carries out what the engine asks for,
//! then waits: one system call for whatever that was. Nothing is decided here.

mod clock;
mod course;
mod failures;
mod figures;
pub mod mailbox;
mod parts;
mod requests;

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

use crate::block::Request;
use crate::control::{Answer as CommandAnswer, Command, directory};
use crate::settings::Settings;
use crate::status::{DeviceStatus, SegmentStatus, Status};
use crate::storage::buffers::Pool;
use crate::storage::{Action, Completion, Operation, Storage};
use crate::trace::Trace;
use clock::Clock;
use course::Course;
use failures::Failures;
use figures::{Figures, kind};
use mailbox::{Answer, CommandDone, Mailbox, Message};
use parts::Buffers;
use requests::{Requests, Waiting};

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
    settings: Settings,
    clock: Clock,
    requests: Requests,
    orders: HashMap<OrderId, Given>,
    buffers: Buffers,
    figures: Figures,
    trace: Trace,
    failures: Failures,
    course: Course,
}

impl<P: Policy> EventLoop<P> {
    /// A loop around an engine, which starts with [`run`](EventLoop::run).
    pub fn new(
        engine: Engine<P>,
        storage: Box<dyn Storage>,
        mailbox: Arc<Mailbox>,
        devices: [DeviceStatus; 2],
        pool: Arc<Pool>,
        settings: Settings,
    ) -> EventLoop<P> {
        EventLoop {
            engine,
            storage,
            mailbox,
            settings,
            clock: Clock::begin(),
            requests: Requests::default(),
            orders: HashMap::new(),
            buffers: Buffers::new(pool),
            figures: Figures::new(devices),
            trace: Trace::default(),
            failures: Failures::default(),
            course: Course::default(),
        }
    }

    /// Serves until it is told to stop. None: it was told to die.
    pub fn run(mut self) -> Option<End> {
        let mut messages = Vec::new();
        let mut completions = Vec::new();
        loop {
            self.clock.turn();
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
            self.failures.report(&self.engine, &self.figures);
            self.end_drains();
            if self.engine.has_stopped() {
                self.mailbox.close(false);
                let dirty_bytes = self.engine.map().dirty_bytes();
                let failed = self.failures.devices();
                let (superblock, is_empty) = self.engine.into_superblock();
                return Some(End { superblock, is_empty, dirty_bytes, failed });
            }
            self.wait();
        }
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn on_request(&mut self, request: Request, begun: Instant, answer: Answer) {
        if self.course.is_stopping() {
            return answer.fail(libc::ESHUTDOWN);
        }
        let now = self.now();
        let (kind, bytes) = kind(&request);
        let waiting = |data| Waiting { kind, bytes, data, begun, answer };
        match request {
            Request::Read(range) => {
                let tag = self.requests.add(waiting(None));
                self.engine.on_request(now, tag, order::Request::Read(range));
            }
            Request::Write { offset, data, fua } => {
                let data = Arc::new(data);
                let tag = self.requests.add(waiting(Some(Arc::clone(&data))));
                self.engine.on_request(now, tag, order::Request::Write { offset, data: &data, fua });
            }
            Request::Zero { range, fua } => {
                let tag = self.requests.add(waiting(None));
                self.engine.on_request(now, tag, order::Request::Zero { range, fua });
            }
            Request::Flush => {
                let tag = self.requests.add(waiting(None));
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
        if self.requests.turn_idle(&self.clock, self.settings.idle) {
            self.engine.on_idle(now);
        }
    }

    /// Does what the engine asks for.
    fn carry_out(&mut self) {
        self.clock.turn();
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
        let Waiting { kind, bytes, begun, answer, .. } = self.requests.end(tag);
        self.figures.answered(kind, bytes, self.clock.since(begun), result.is_ok());
        answer.send(result);
    }

    fn wait(&mut self) {
        let timer = self.engine.next_timer().map(|at| self.clock.until_time(at));
        let idle = self.requests.idle_from(self.settings.idle).map(|at| self.clock.until(at));
        let timeout = [timer, idle].into_iter().flatten().min();
        self.mailbox.bell().listen();
        let timeout = if self.mailbox.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.storage.wait(timeout);
        self.mailbox.bell().wake();
    }

    fn on_command(&mut self, command: Command, done: CommandDone) {
        match command {
            Command::Status => done(CommandAnswer::Status(Box::new(self.status()))),
            Command::TraceAddresses { count } => done(CommandAnswer::Trace(self.trace.take(count))),
            Command::Flush => done(CommandAnswer::Error("a flush is a request".to_owned())),
            Command::Drain if self.course.is_stopping() => {
                done(CommandAnswer::Error("the volume is stopping".to_owned()))
            }
            Command::Drain => {
                self.course.drain(done);
                self.engine.drain(self.now(), true);
            }
            Command::Stop { keep_dirty } => {
                self.course.stop();
                self.engine.stop(self.now(), keep_dirty);
                done(CommandAnswer::Done { dirty_bytes: self.engine.map().dirty_bytes() });
            }
        }
    }

    /// Everything is written back, or nothing more can be.
    fn end_drains(&mut self) {
        if !self.course.has_drains() {
            return;
        }
        let dirty_bytes = self.engine.map().dirty_bytes();
        if dirty_bytes > 0 && self.engine.may_drain() {
            return;
        }
        if !self.course.is_stopping() {
            self.engine.drain(self.now(), false);
            self.carry_out();
        }
        self.course.take_drains().into_iter().for_each(|done| done(CommandAnswer::Done { dirty_bytes }));
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
        Status {
            uuid: directory::name(&superblock.uuid),
            pid: std::process::id(),
            state: self.course.state(),
            disk: self.figures.device(Device::Disk, self.failures.devices().0),
            flash: self.figures.device(Device::Flash, self.failures.devices().1),
            storage: self.storage.description(),
            mode: self.settings.mode,
            policy: self.settings.policy,
            uptime_seconds: self.clock.uptime().as_secs_f64(),
            guard: superblock.guard.state == GuardState::On,
            dirty_bytes: self.engine.map().dirty_bytes(),
            log_bytes: u64::from(ring.blocks()) * block,
            log_free_bytes: u64::from(ring.free_blocks()) * block,
            requests_waiting: self.requests.len() as u64,
            requests: self.figures.requests(),
            counters: *self.engine.counters(),
            segments: self.segments(),
        }
    }
}
