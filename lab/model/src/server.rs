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

use headstart_units::Nanos;

use crate::device::Finished;
use crate::elevator::{ElevatorConfig, ElevatorKind};
use crate::file_cache::{Fetch, FileCache, FileReadAhead};
use crate::request::{Completion, Operation, Request};
use crate::server_cache::ServerCache;

mod accesses;
mod config;
mod disk;
mod events;
mod intake;
mod operations;
mod orders;
pub mod probe;
mod requests;
mod service;
mod stats;
mod volume;
mod volume_stats;

pub use accesses::{Access, Actor};
pub use config::{ServerConfig, VolumeConfig};
use disk::Disk;
use events::{EventKind, Events};
use intake::Intake;
use operations::Operations;
use requests::{Pending, Requests};
use stats::Counters;
pub use stats::ServerStats;
use volume::Volume;
pub use volume_stats::VolumeStats;

/// One emulated file server.
///
/// In the order in which fields are used together, so that an event touches few lines of the processor's
/// cache: a simulation of a thousand servers keeps none of them in the fast ones.
#[repr(C)]
pub struct Server {
    events: Events,
    disk: Disk,
    volume: Option<Box<Volume>>,
    clock: Nanos,
    cache: Option<Box<ServerCache>>,
    files: Option<Box<Files>>,
    operations: Operations,
    reads_under_way: usize,
    requests: Requests,
    counters: Counters,
    intake: Intake,
    scratch: Scratch,
    /// What was noted; none unless somebody wants to know.
    accesses: Option<Vec<Access>>,
}

/// Buffers that are empty between events, so that a steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    finished: Vec<Finished>,
    acknowledged: Vec<u32>,
    flushed: Vec<u32>,
}

/// The page cache of files, and what is read for it.
struct Files {
    cache: FileCache,
    hit_cost: Nanos,
    page_bytes: u64,
    fetches: Vec<Fetch>,
    woken: Vec<u32>,
}

impl Files {
    /// Nothing is cached.
    fn new(config: FileReadAhead) -> Files {
        let FileReadAhead { hit_cost, page_bytes, .. } = config;
        Files { cache: FileCache::new(config), hit_cost, page_bytes, fetches: Vec::new(), woken: Vec::new() }
    }
}

impl Server {
    /// An idle server at time zero.
    pub fn new(config: ServerConfig) -> Server {
        let device = config.build_device();
        let page_bytes = config.file_read_ahead.map_or(1, |file| file.page_bytes);
        assert!(page_bytes <= config.command_bytes_max, "a command reads a page");
        let disk_bytes = device.capacity_bytes().unwrap_or(1 << 50);
        let volume = config.volume.map(|volume| Box::new(Volume::new(&volume, disk_bytes)));
        let elevator = ElevatorConfig {
            // A volume sorts by itself; what it orders keeps its order.
            kind: if config.volume.is_some() { ElevatorKind::Noop } else { config.elevator },
            cfq: config.cfq,
            nr_requests: config.nr_requests,
            command_bytes_max: config.command_bytes_max,
        };
        Server {
            events: Events::default(),
            disk: Disk::new(device, config.drive_queue_depth, elevator),
            volume,
            clock: Nanos::ZERO,
            cache: (config.server_cache_bytes > 0)
                .then(|| Box::new(ServerCache::new(config.server_cache_bytes, config.command_bytes_max))),
            files: config.file_read_ahead.map(|file| Box::new(Files::new(file))),
            operations: Operations::new(config.disk_operations_max.unwrap_or(usize::MAX)),
            reads_under_way: 0,
            requests: Requests::default(),
            counters: Counters::default(),
            intake: Intake::new(config.nic, config.phase_seed, config.request_cpu),
            scratch: Scratch::default(),
            accesses: None,
        }
    }

    /// Size of the device; addresses beyond it wrap. `None` if it has no end.
    pub fn capacity_bytes(&self) -> Option<u64> {
        self.disk.capacity_bytes()
    }

    /// A request leaves the client at `now`. Call `next_timer` again afterwards.
    pub fn on_request(&mut self, now: Nanos, request: Request) {
        let now = now.max(self.clock);
        self.counters.start(now);
        let payload = if request.operation == Operation::Write { request.length } else { 0 };
        let arrived = self.intake.receive(now, payload);
        let slot = self.requests.insert(now, request);
        if self.intake.has_jitter() {
            self.events.push(arrived, EventKind::Delivery, slot);
        } else {
            self.deliver(arrived, slot);
        }
    }

    /// A message is at the CPU, which takes them in the order they come.
    fn deliver(&mut self, now: Nanos, slot: u32) {
        self.requests[slot].arrived = now;
        let at = self.intake.process(now);
        self.events.push(at, EventKind::Arrival, slot);
    }

    /// The time `on_timer` should be called next; `None` while the server is idle.
    pub fn next_timer(&self) -> Option<Nanos> {
        let event = self.events.peek().map_or(Nanos::MAX, |(at, ..)| at);
        let disk = self.disk.due().min(self.disk.patience_end());
        Some(event.min(disk).min(self.volume_due())).filter(|at| *at < Nanos::MAX)
    }

    /// Processes every event due at or before `now` in order of time and appends the requests that completed, with
    /// their modelled times. Calls with nothing due do nothing. Call `next_timer` again afterwards.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        loop {
            let event = self.events.peek();
            let event_at = event.map_or(Nanos::MAX, |(at, ..)| at);
            let device_at = self.disk.due();
            let patience_end = self.disk.patience_end();
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
            } else if let Some((at, kind, slot)) = event
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
            } else if patience_end < Nanos::MAX && patience_end <= now {
                self.clock = patience_end;
                self.disk.on_patience_end(patience_end);
                self.dispatch(patience_end);
            } else {
                return;
            }
        }
    }

    /// Withdraws a request that no device command and no cache has taken up yet: no completion will come for it.
    /// False, and no change, if it is too late or no such request is known. Takes time linear in requests under way.
    pub fn cancel(&mut self, id: u64) -> bool {
        self.requests.cancel(id)
    }

    /// What the server has done up to `now`.
    pub fn stats(&self, now: Nanos) -> ServerStats {
        let now = now.max(self.clock);
        let stats =
            self.counters.report(now, self.disk.stats(now), self.cache.as_ref().map_or(0, |cache| cache.held_bytes()));
        ServerStats { volume: self.volume.as_ref().map(|volume| volume.stats(now)), ..stats }
    }

    /// From now on accesses are noted.
    pub fn note_accesses(&mut self) {
        self.accesses.get_or_insert_default();
    }

    /// Moves what was noted since the last time to the end of `accesses`, in order of time.
    pub fn take_accesses(&mut self, accesses: &mut Vec<Access>) {
        if let Some(noted) = &mut self.accesses {
            accesses.append(noted);
        }
    }

    fn note(&mut self, at: Nanos, actor: Actor, operation: Operation, address: u64, length: u64) {
        if let Some(noted) = &mut self.accesses {
            noted.push(Access { at, actor, operation, address, length });
        }
    }

    fn complete(&mut self, at: Nanos, slot: u32, completions: &mut Vec<Completion>) {
        let Pending { request, issued, .. } = self.requests[slot];
        self.counters.complete(request.operation, request.length, at.since(issued));
        completions.push(Completion { id: request.id, at });
        self.requests.release(slot);
    }
}
