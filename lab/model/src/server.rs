//! One emulated file server: NIC, CPU, cache, volume, elevator and device.
//!
//! ```text
//! on_request -> NIC in -> CPU -> [operations] -> [server cache, file cache] -> [volume] -> elevator -> device -> NIC out -> Completion
//!                                                  write-back, read-ahead ----^
//! ```
//!
//! A request that moves bytes holds one of the server's disk operations, if these are limited, until its reply leaves.
//!
//! Events happen at their modelled time and in that order, however late the caller is. Events of the same time are
//! ordered: the volume's flash and timers first, then the device, then replies, then arrivals in the order of
//! `on_request`, then hits of the file cache, then messages at the CPU, then the elevator's patience. A
//! request handed over with a time that has been passed already counts as handed over at the last event
//! processed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headstart_units::Nanos;

use crate::device::{Device, Finished};
use crate::elevator::{Elevator, ElevatorConfig, ElevatorKind};
use crate::file_cache::{Fetch, FileCache};
use crate::nic::{HEADER_BYTES, Link};
use crate::server_cache::ServerCache;

mod accesses;
mod config;
pub mod probe;
mod service;
mod stats;
mod volume;

pub use accesses::{Access, Actor};
pub use config::{DeviceConfig, FileReadAhead, ServerConfig};
use stats::Counters;
pub use stats::ServerStats;
use volume::Volume;
pub use volume::{VolumeConfig, VolumeStats};

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

/// Whose a request is. It decides which queue of an elevator a request belongs to and which stream of reads
/// it continues, and nothing else.
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
    WriteBack {
        start: u64,
    },
    Fill {
        page: u64,
        count: u32,
    },
    /// An order of the volume's.
    Volume(u64),
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
    arrived: Nanos,
    parts_left: u32,
    stage: Stage,
    cancelled: bool,
    holds_operation: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Reply,
    Arrival,
    Hit,
    Delivery,
}

type Event = (Nanos, EventKind, u64, u32);

/// One emulated file server.
///
/// In the order in which fields are used together, so that an event touches few lines of the processor's
/// cache: a simulation of a thousand servers keeps none of them in the fast ones.
#[repr(C)]
pub struct Server {
    events: BinaryHeap<Reverse<Event>>,
    /// When the device's `on_timer` is due.
    device_due: Nanos,
    volume: Option<Box<Volume>>,
    clock: Nanos,
    device: Box<dyn Device>,
    elevator: Elevator<Owner>,
    under_way: usize,
    queue_depth: usize,
    cache: Option<Box<ServerCache>>,
    file_cache: Option<Box<FileCache>>,
    operations: usize,
    operations_max: usize,
    reads_under_way: usize,
    pending: Vec<Pending>,
    free: Vec<u32>,
    /// Requests that wait for an operation.
    without_operation: VecDeque<u32>,
    commands: Vec<Sent>,
    free_commands: Vec<u32>,
    /// Flushes for the device.
    flushes: VecDeque<Owner>,
    /// Numbers of the next event of each kind; apart, so that a late caller does not change the order.
    sequence: [u64; 4],
    counters: Counters,
    nic_in: Link,
    nic_out: Link,
    request_cpu: Nanos,
    cpu_free: Nanos,
    command_bytes_max: u64,
    hit_cost: Nanos,
    page_bytes: u64,
    /// Whether messages may come in another order than they left.
    has_jitter: bool,
    finished: Vec<Finished>,
    acknowledged: Vec<u32>,
    flushed: Vec<u32>,
    fetches: Vec<Fetch>,
    woken: Vec<u32>,
    /// What was noted; none unless somebody wants to know.
    accesses: Option<Vec<Access>>,
}

impl Server {
    /// An idle server at time zero.
    pub fn new(config: ServerConfig) -> Server {
        let device = config.build_device();
        let own_depth = device.queue_depth();
        let queue_depth = config.drive_queue_depth.map_or(own_depth, |depth| depth.clamp(1, own_depth));
        let page_bytes = config.file_read_ahead.map_or(1, |file| file.page_bytes);
        assert!(page_bytes <= config.command_bytes_max, "a command reads a page");
        assert!(config.disk_operations_max != Some(0), "a server without disk operations never serves anything");
        let disk_bytes = device.capacity_bytes().unwrap_or(1 << 50);
        let volume = config.volume.map(|volume| Box::new(Volume::new(&volume, disk_bytes)));
        Server {
            volume,
            device,
            device_due: Nanos::MAX,
            queue_depth,
            nic_in: Link::new(config.nic, config.phase_seed.wrapping_mul(2)),
            nic_out: Link::new(config.nic, config.phase_seed.wrapping_mul(2) + 1),
            elevator: Elevator::new(ElevatorConfig {
                // A volume sorts by itself; what it orders keeps its order.
                kind: if config.volume.is_some() { ElevatorKind::Noop } else { config.elevator },
                cfq: config.cfq,
                nr_requests: config.nr_requests,
                command_bytes_max: config.command_bytes_max,
            }),
            command_bytes_max: config.command_bytes_max,
            cache: (config.server_cache_bytes > 0)
                .then(|| Box::new(ServerCache::new(config.server_cache_bytes, config.command_bytes_max))),
            file_cache: config.file_read_ahead.map(|file| Box::new(FileCache::new(file))),
            hit_cost: config.file_read_ahead.map_or(Nanos::ZERO, |file| file.hit_cost),
            page_bytes,
            operations: 0,
            operations_max: config.disk_operations_max.unwrap_or(usize::MAX),
            without_operation: VecDeque::new(),
            has_jitter: config.nic.jitter > Nanos::ZERO,
            request_cpu: config.request_cpu,
            cpu_free: Nanos::ZERO,
            pending: Vec::new(),
            free: Vec::new(),
            events: BinaryHeap::new(),
            sequence: [0; 4],
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
            fetches: Vec::new(),
            woken: Vec::new(),
            accesses: None,
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
        let pending = Pending {
            request,
            issued: now,
            arrived: now,
            parts_left: 0,
            stage: Stage::Travelling,
            cancelled: false,
            holds_operation: false,
        };
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
        if self.has_jitter {
            self.schedule(arrived, EventKind::Delivery, slot);
        } else {
            self.deliver(arrived, slot);
        }
    }

    /// A message is at the CPU, which takes them in the order they come.
    fn deliver(&mut self, now: Nanos, slot: u32) {
        self.pending[slot as usize].arrived = now;
        self.cpu_free = self.cpu_free.max(now) + self.request_cpu;
        self.schedule(self.cpu_free, EventKind::Arrival, slot);
    }

    /// The time `on_timer` should be called next; `None` while the server is idle.
    pub fn next_timer(&self) -> Option<Nanos> {
        let event = self.events.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let patience = self.elevator.next_timer().unwrap_or(Nanos::MAX);
        Some(event.min(self.device_due).min(patience).min(self.volume_due())).filter(|at| *at < Nanos::MAX)
    }

    /// Processes every event due at or before `now` in order of time and appends the requests that completed, with
    /// their modelled times. Calls with nothing due do nothing. Call `next_timer` again afterwards.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        loop {
            let event = self.events.peek().map(|Reverse(event)| *event);
            let event_at = event.map_or(Nanos::MAX, |(at, ..)| at);
            let device_at = self.device_due;
            let patience_end = self.elevator.next_timer().unwrap_or(Nanos::MAX);
            let volume_at = self.volume_due();
            if volume_at < Nanos::MAX
                && volume_at <= now
                && volume_at <= device_at
                && volume_at <= event_at
                && volume_at <= patience_end
            {
                self.clock = volume_at.max(self.clock);
                self.on_volume(self.clock);
            } else if device_at < Nanos::MAX && device_at <= event_at && device_at <= patience_end && device_at <= now {
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
                    EventKind::Delivery => self.deliver(at, slot),
                    EventKind::Hit => {
                        self.reply(at, slot);
                        self.dispatch(at);
                    }
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
        let stats = self.counters.report(
            now,
            self.device.stats(now),
            self.cache.as_ref().map_or(0, |cache| cache.held_bytes()),
        );
        ServerStats { volume: self.volume.as_ref().map(|volume| volume.stats(now)), ..stats }
    }

    fn schedule(&mut self, at: Nanos, kind: EventKind, slot: u32) {
        let sequence = &mut self.sequence[kind as usize];
        self.events.push(Reverse((at, kind, *sequence, slot)));
        *sequence += 1;
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
