//! One emulated file server: NIC, CPU, cache, elevator and device.
//!
//! ```text
//! on_request -> NIC in -> CPU -> [server cache] -> elevator -> device -> NIC out -> Completion
//!                                      write-back ----^
//! ```
//!
//! Events happen at their modelled time and in that order, however late the caller is. Events of the same time are
//! ordered: the device first, then replies, then arrivals in the order of `on_request`, then the elevator's patience. A request handed over with a
//! time that has been passed already counts as handed over at the last event processed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headstart_core::units::Nanos;

use crate::device::{Command, Device, Finished};
use crate::elevator::{Batch, Elevator, ElevatorConfig, Part};
use crate::nic::{HEADER_BYTES, Link};
use crate::server_cache::ServerCache;

mod config;
mod stats;

pub use config::{DeviceConfig, FileReadAhead, ServerConfig};
use stats::Counters;
pub use stats::ServerStats;

/// What a request asks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes from the device to the client.
    Read,
    /// Bytes from the client to the device.
    Write,
    /// Everything acknowledged before is on the medium when this completes.
    Flush,
}

/// Whose a request is. It decides which queue of an elevator a request belongs to and which stream of reads it continues,
/// and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The parallel program.
    pub job: u32,
    /// Its rank.
    pub rank: u32,
    /// The file, by a number of the job's.
    pub file: u32,
}

/// One request to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the caller; comes back in the completion.
    pub id: u64,
    /// What is asked.
    pub operation: Operation,
    /// Byte address on the server's device.
    pub address: u64,
    /// Length in bytes; zero for a flush.
    pub length: u64,
    /// Whose it is.
    pub origin: Origin,
}

/// A finished request: its reply has left the server's NIC and reached the client at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// When it finished.
    pub at: Nanos,
}

/// Whose a part of a device command is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Request(u32),
    WriteBack { start: u64 },
}

/// A command in the device.
#[derive(Debug)]
struct Sent {
    first: Owner,
    merged: Vec<Owner>,
    /// The elevator's queue; none of a flush.
    queue: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Travelling,
    Queued,
    Started,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    issued: Nanos,
    parts_left: u32,
    stage: Stage,
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Reply,
    Arrival,
}

type Event = (Nanos, EventKind, u64, u32);

/// One emulated file server.
pub struct Server {
    device: Box<dyn Device>,
    /// When the device's `on_timer` is due.
    device_due: Nanos,
    queue_depth: usize,
    nic_in: Link,
    nic_out: Link,
    elevator: Elevator<Owner>,
    cache: Option<ServerCache>,
    request_cpu: Nanos,
    cpu_free: Nanos,
    pending: Vec<Pending>,
    free: Vec<u32>,
    events: BinaryHeap<Reverse<Event>>,
    /// Numbers of the next reply and the next arrival; apart, so that a late caller does not change the order.
    sequence: [u64; 2],
    commands: Vec<Sent>,
    command_bytes_max: u64,
    free_commands: Vec<u32>,
    /// Flushes for the device.
    flushes: VecDeque<u32>,
    under_way: usize,
    reads_under_way: usize,
    clock: Nanos,
    counters: Counters,
    finished: Vec<Finished>,
    acknowledged: Vec<u32>,
    flushed: Vec<u32>,
}

impl Server {
    /// An idle server at time zero.
    pub fn new(config: ServerConfig) -> Server {
        let device = config.build_device();
        let own_depth = device.queue_depth();
        let queue_depth = config.drive_queue_depth.map_or(own_depth, |depth| depth.clamp(1, own_depth));
        Server {
            device,
            device_due: Nanos::MAX,
            queue_depth,
            nic_in: Link::new(config.nic),
            nic_out: Link::new(config.nic),
            elevator: Elevator::new(ElevatorConfig {
                kind: config.elevator,
                cfq: config.cfq,
                nr_requests: config.nr_requests,
                command_bytes_max: config.command_bytes_max,
            }),
            command_bytes_max: config.command_bytes_max,
            cache: (config.server_cache_bytes > 0)
                .then(|| ServerCache::new(config.server_cache_bytes, config.command_bytes_max)),
            request_cpu: config.request_cpu,
            cpu_free: Nanos::ZERO,
            pending: Vec::new(),
            free: Vec::new(),
            events: BinaryHeap::new(),
            sequence: [0; 2],
            commands: Vec::new(),
            free_commands: Vec::new(),
            flushes: VecDeque::new(),
            under_way: 0,
            reads_under_way: 0,
            clock: Nanos::ZERO,
            counters: Counters::default(),
            finished: Vec::new(),
            acknowledged: Vec::new(),
            flushed: Vec::new(),
        }
    }

    /// Size of the device; addresses beyond it wrap. `None` if it has no end.
    pub fn capacity_bytes(&self) -> Option<u64> {
        self.device.capacity_bytes()
    }

    /// A request leaves the client at `now`. Call `next_timer` again afterwards.
    pub fn on_request(&mut self, now: Nanos, request: Request) {
        let now = now.max(self.clock);
        self.counters.start(now);
        let payload = if request.operation == Operation::Write { request.length } else { 0 };
        let arrived = self.nic_in.send(now, payload.max(HEADER_BYTES));
        let ready = self.cpu_free.max(arrived) + self.request_cpu;
        self.cpu_free = ready;
        let pending = Pending { request, issued: now, parts_left: 0, stage: Stage::Travelling, cancelled: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.pending[slot as usize] = pending;
                slot
            }
            None => {
                self.pending.push(pending);
                self.pending.len() as u32 - 1
            }
        };
        self.schedule(ready, EventKind::Arrival, slot);
    }

    /// The time `on_timer` should be called next; `None` while the server is idle.
    pub fn next_timer(&self) -> Option<Nanos> {
        let event = self.events.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let patience = self.elevator.next_timer().unwrap_or(Nanos::MAX);
        Some(event.min(self.device_due).min(patience)).filter(|at| *at < Nanos::MAX)
    }

    /// Processes every event due at or before `now` in order of time and appends the requests that completed, with
    /// their modelled times. Calls with nothing due do nothing. Call `next_timer` again afterwards.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        loop {
            let event = self.events.peek().map(|Reverse(event)| *event);
            let event_at = event.map_or(Nanos::MAX, |(at, ..)| at);
            let device_at = self.device_due;
            let patience_end = self.elevator.next_timer().unwrap_or(Nanos::MAX);
            if device_at < Nanos::MAX && device_at <= event_at && device_at <= patience_end && device_at <= now {
                self.clock = device_at;
                self.on_device(device_at);
            } else if let Some((at, kind, _, slot)) = event
                && at <= patience_end
                && at <= now
            {
                self.events.pop();
                self.clock = at;
                match kind {
                    EventKind::Reply => self.complete(at, slot, completions),
                    EventKind::Arrival => self.on_arrival(at, slot),
                }
            } else if let Some(at) = self.elevator.next_timer()
                && at <= now
            {
                self.clock = at;
                self.elevator.on_timer(at);
                self.dispatch(at);
            } else {
                return;
            }
        }
    }

    /// Withdraws a request that no device command and no cache has taken up yet: no completion will come for it.
    /// False, and no change, if it is too late or no such request is known. Takes time linear in requests under way.
    pub fn cancel(&mut self, id: u64) -> bool {
        let live = |pending: &Pending| pending.stage != Stage::Free && pending.request.id == id && !pending.cancelled;
        let Some(slot) = self.pending.iter().position(live) else { return false };
        let pending = &mut self.pending[slot];
        if pending.stage == Stage::Started {
            return false;
        }
        pending.cancelled = true;
        true
    }

    /// What the server has done up to `now`.
    pub fn stats(&self, now: Nanos) -> ServerStats {
        let now = now.max(self.clock);
        self.counters.report(now, self.device.stats(now), self.cache.as_ref().map_or(0, ServerCache::held_bytes))
    }

    fn schedule(&mut self, at: Nanos, kind: EventKind, slot: u32) {
        let sequence = &mut self.sequence[kind as usize];
        self.events.push(Reverse((at, kind, *sequence, slot)));
        *sequence += 1;
    }

    fn on_arrival(&mut self, now: Nanos, slot: u32) {
        let Pending { request, cancelled, .. } = self.pending[slot as usize];
        if cancelled {
            return self.release(slot);
        }
        self.counters.arrive(now);
        let end = request.address.saturating_add(request.length);
        match (request.operation, &mut self.cache) {
            (Operation::Flush, cache) => {
                self.pending[slot as usize].stage = Stage::Started;
                if cache.as_mut().is_none_or(|cache| cache.on_flush(slot)) {
                    self.flush_device(now, slot);
                }
            }
            _ if request.length == 0 => self.reply(now, slot),
            (Operation::Write, Some(cache)) => {
                self.pending[slot as usize].stage = Stage::Started;
                let mut acknowledged = std::mem::take(&mut self.acknowledged);
                cache.on_write(slot, request.address, end, &mut acknowledged);
                self.reply_all(now, &mut acknowledged);
                self.acknowledged = acknowledged;
            }
            (Operation::Read, Some(cache)) if cache.covers(request.address, end) => self.reply(now, slot),
            _ => self.enqueue(now, slot, request),
        }
        self.dispatch(now);
    }

    fn enqueue(&mut self, now: Nanos, slot: u32, request: Request) {
        let pending = &mut self.pending[slot as usize];
        pending.stage = Stage::Queued;
        pending.parts_left = request.length.div_ceil(self.command_bytes_max) as u32;
        if request.operation == Operation::Read {
            self.reads_under_way += 1;
        }
        let Request { operation, mut address, length: mut left, origin, .. } = request;
        let owner = Owner::Request(slot);
        let is_free = self.cache.is_none() && self.flushes.is_empty() && self.under_way < self.queue_depth;
        if is_free && left <= self.command_bytes_max {
            let part = Part { owner, operation, address, length: left, origin, is_read_ahead: false };
            if let Some(batch) = self.elevator.pass(now, part) {
                self.send_batch(now, batch);
            }
            return;
        }
        while left > 0 {
            let length = left.min(self.command_bytes_max);
            let part = Part { owner, operation, address, length, origin, is_read_ahead: false };
            self.elevator.on_part(now, part);
            address = address.saturating_add(length);
            left -= length;
        }
    }

    fn flush_device(&mut self, now: Nanos, slot: u32) {
        if self.device.has_volatile_cache() {
            self.flushes.push_back(slot);
        } else {
            self.reply(now, slot);
        }
    }

    /// Keeps the elevator supplied with write-backs and the device with commands.
    fn dispatch(&mut self, now: Nanos) {
        if let Some(cache) = &mut self.cache {
            while self.elevator.has_room()
                && let Some((start, end)) = cache.next_write_back(self.reads_under_way > 0)
            {
                let owner = Owner::WriteBack { start };
                let (operation, length, origin) = (Operation::Write, end - start, Origin::default());
                let part = Part { owner, operation, address: start, length, origin, is_read_ahead: false };
                self.elevator.on_part(now, part);
            }
        }
        while self.under_way < self.queue_depth {
            if let Some(slot) = self.flushes.pop_front() {
                let sent = Sent { first: Owner::Request(slot), merged: Vec::new(), queue: None };
                self.send(now, Operation::Flush, (0, 0), sent);
            } else if let Some(batch) = self.elevator.next_command(now) {
                self.send_batch(now, batch);
            } else {
                return;
            }
        }
    }

    /// Sends a command unless everybody has withdrawn from it.
    fn send_batch(&mut self, now: Nanos, batch: Batch<Owner>) {
        let Batch { address, end, operation, first, mut merged, queue, .. } = batch;
        merged.retain(|owner| self.start_part(now, *owner));
        let first = if self.start_part(now, first) { Some(first) } else { merged.pop() };
        match first {
            Some(first) => self.send(now, operation, (address, end), Sent { first, merged, queue: Some(queue) }),
            None => self.elevator.on_finished(now, queue),
        }
    }

    /// Notes that a part goes to the device; false if its request was withdrawn.
    fn start_part(&mut self, now: Nanos, owner: Owner) -> bool {
        let Owner::Request(slot) = owner else { return true };
        let pending = &mut self.pending[slot as usize];
        if !pending.cancelled {
            pending.stage = Stage::Started;
            return true;
        }
        pending.parts_left -= 1;
        if pending.parts_left == 0 {
            if pending.request.operation == Operation::Read {
                self.reads_under_way -= 1;
            }
            self.counters.leave(now);
            self.release(slot);
        }
        false
    }

    fn send(&mut self, now: Nanos, operation: Operation, range: (u64, u64), sent: Sent) {
        let tag = match self.free_commands.pop() {
            Some(tag) => {
                self.commands[tag as usize] = sent;
                tag
            }
            None => {
                self.commands.push(sent);
                self.commands.len() as u32 - 1
            }
        };
        self.under_way += 1;
        self.device.on_command(now, Command { tag, operation, address: range.0, length: range.1 - range.0 });
        self.device_due = self.device.next_timer().unwrap_or(Nanos::MAX);
    }

    fn on_device(&mut self, now: Nanos) {
        let mut finished = std::mem::take(&mut self.finished);
        self.device.on_timer(now, &mut finished);
        self.device_due = self.device.next_timer().unwrap_or(Nanos::MAX);
        for done in finished.drain(..) {
            self.under_way -= 1;
            self.free_commands.push(done.tag);
            let Sent { first, merged, queue } = &mut self.commands[done.tag as usize];
            let (first, merged, queue) = (*first, std::mem::take(merged), *queue);
            if let Some(queue) = queue {
                self.elevator.on_finished(now, queue);
            }
            self.finish_part(now, first);
            for owner in merged {
                self.finish_part(now, owner);
            }
        }
        self.finished = finished;
        self.dispatch(now);
    }

    fn finish_part(&mut self, now: Nanos, owner: Owner) {
        match owner {
            Owner::WriteBack { start } => self.on_written(now, start),
            Owner::Request(slot) => {
                let pending = &mut self.pending[slot as usize];
                // A flush has no parts.
                pending.parts_left = pending.parts_left.saturating_sub(1);
                if pending.parts_left > 0 {
                    return;
                }
                if pending.request.operation == Operation::Read {
                    self.reads_under_way -= 1;
                }
                self.reply(now, slot);
            }
        }
    }

    fn on_written(&mut self, now: Nanos, start: u64) {
        let Some(cache) = &mut self.cache else { unreachable!("only a cache writes back") };
        let mut acknowledged = std::mem::take(&mut self.acknowledged);
        let mut flushed = std::mem::take(&mut self.flushed);
        cache.on_written(start, &mut acknowledged, &mut flushed);
        self.reply_all(now, &mut acknowledged);
        for slot in flushed.drain(..) {
            self.flush_device(now, slot);
        }
        (self.acknowledged, self.flushed) = (acknowledged, flushed);
    }

    fn reply_all(&mut self, now: Nanos, slots: &mut Vec<u32>) {
        for slot in slots.drain(..) {
            self.reply(now, slot);
        }
    }

    fn reply(&mut self, now: Nanos, slot: u32) {
        let pending = &mut self.pending[slot as usize];
        pending.stage = Stage::Started;
        self.counters.leave(now);
        let payload = if pending.request.operation == Operation::Read { pending.request.length } else { 0 };
        let at = self.nic_out.send(now, payload.max(HEADER_BYTES));
        self.schedule(at, EventKind::Reply, slot);
    }

    fn complete(&mut self, at: Nanos, slot: u32, completions: &mut Vec<Completion>) {
        let Pending { request, issued, .. } = self.pending[slot as usize];
        self.counters.complete(request.operation, request.length, at.since(issued));
        completions.push(Completion { id: request.id, at });
        self.release(slot);
    }

    fn release(&mut self, slot: u32) {
        self.pending[slot as usize].stage = Stage::Free;
        self.free.push(slot);
    }
}
