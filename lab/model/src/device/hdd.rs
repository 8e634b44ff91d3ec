//! A hard disk: one arm, a spindle that turns in absolute time, a command queue, and caches.
//!
//! A command costs t_cmd + seek (and settle) + rotational wait + transfer. The drive is work-conserving:
//!
//! ```text
//! Idle --command--> Deciding --> Overhead(t_cmd) --choose--> Serving --> Deciding ...
//!                       |  a queued command that continues the last one: no overhead      ^
//!                       +------------------------------------------------------------------+
//! ```
//!
//! The command is chosen when the overhead ends, so everything that came meanwhile takes part. A command that starts
//! where the arm has just finished, and was in the queue by then, is streamed: no overhead and no rotational wait.
//! A run of such commands is entered at its start. Without these rules a long transfer would cost more for being cut
//! into commands of 512 KiB.
//!
//! A flush is not queued (SATA): commands before it are served first, those after it wait until the write
//! cache is clean.

use std::collections::VecDeque;

use headstart_units::Nanos;

use super::{Command, Device, DeviceStats, Finished};
use crate::queue::{CommandQueue, Span, TAGS};
use crate::request::Operation;

mod arm;
pub mod geometry;
mod read_ahead;
mod write_cache;

use arm::{Arm, Goal, Head};
use geometry::{Geometry, Location, Mechanics, rounded};
use read_ahead::{Lookup, ReadAhead};
use write_cache::WriteCache;

/// A drive's data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HddConfig {
    /// Arm, spindle and layout.
    pub mechanics: Mechanics,
    /// t_cmd, overhead of a command.
    pub command_overhead: Nanos,
    /// Rate of the host bus, the floor of a cache hit.
    pub bus_bytes_per_s: f64,
    /// Segments and bytes of each; `None` turns reading ahead off.
    pub read_ahead: Option<(usize, u64)>,
    /// Dirty bytes the drive acknowledges before they are on the medium; zero turns the write cache off.
    pub write_cache_bytes: u64,
    /// Wait after which the oldest command goes first.
    pub age_limit: Nanos,
}

/// What a waiting command is apart from its [`Span`].
#[derive(Clone, Copy, Debug)]
struct Queued {
    location: Location,
    tag: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Deciding { at: Nanos },
    Overhead { until: Nanos },
    Serving { tag: u32, until: Nanos },
    Destaging { until: Nanos },
}

/// A hard disk.
///
/// In the order in which fields are used together, so that an event touches few lines of the processor's
/// cache: a simulation of a thousand disks keeps none of them in the fast ones.
#[derive(Debug)]
#[repr(C)]
pub struct Hdd {
    state: State,
    geometry: Geometry,
    arm: Arm,
    write_cache: Option<Box<WriteCache>>,
    read_ahead: Option<ReadAhead>,
    queue: CommandQueue<Queued>,
    command_overhead: Nanos,
    bus_bytes_per_s: f64,
    age_limit: Nanos,
    instant: VecDeque<Finished>,
    flush: Option<u32>,
    behind_flush: VecDeque<Command>,
    previous_end: u64,
    busy_since: Nanos,
    stats: DeviceStats,
}

impl Hdd {
    /// An idle drive, head at address zero; `phase` sets where the spindle stands at time zero.
    pub fn new(config: HddConfig, phase: u64) -> Hdd {
        let geometry = Geometry::new(config.mechanics, phase);
        let bus_ns_per_byte = 1e9 / config.bus_bytes_per_s;
        let write_cache = (config.write_cache_bytes > 0)
            .then(|| Box::new(WriteCache::new(config.write_cache_bytes, config.command_overhead, bus_ns_per_byte)));
        Hdd {
            state: State::Idle,
            arm: Arm::new(&geometry),
            geometry,
            write_cache,
            read_ahead: config.read_ahead.map(|(count, bytes)| ReadAhead::new(count, bytes)),
            queue: CommandQueue::new(config.age_limit),
            command_overhead: config.command_overhead,
            bus_bytes_per_s: config.bus_bytes_per_s,
            age_limit: config.age_limit,
            instant: VecDeque::new(),
            flush: None,
            behind_flush: VecDeque::new(),
            previous_end: 0,
            busy_since: Nanos::ZERO,
            stats: DeviceStats::default(),
        }
    }

    /// The drive's layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn wake(&mut self, now: Nanos) {
        if matches!(self.state, State::Idle) {
            self.busy_since = now;
            self.state = State::Deciding { at: now };
        }
    }

    /// Brings the arm's position up to `now`: while it reads ahead, it is at the frontier.
    fn head(&self, now: Nanos) -> Head {
        let frontier = self.read_ahead.as_ref().and_then(|cache| cache.head_address(now));
        self.arm.head(&self.geometry, frontier, now)
    }

    fn bus(&self, length: u64) -> Nanos {
        Nanos::from_seconds(length as f64 / self.bus_bytes_per_s)
    }

    fn lookup(&self, span: &Span, now: Nanos) -> Lookup {
        self.read_ahead.as_ref().map_or(Lookup::Miss, |cache| cache.lookup(span.address, span.end, now))
    }

    fn is_dirty_in_cache(&self, span: &Span) -> bool {
        self.write_cache.as_ref().is_some_and(|cache| cache.covers(span.address, span.end))
    }

    /// Time until the first byte of a queued command that the medium must move, or until a hit is complete.
    fn cost(&self, head: &Head, span: &Span, queued: &Queued) -> Nanos {
        let reach = |location, address, write| self.arm.reach(&self.geometry, head, &Goal { location, address, write });
        if span.write {
            return reach(queued.location, span.address, true);
        }
        if self.is_dirty_in_cache(span) {
            return self.bus(span.end - span.address);
        }
        match self.lookup(span, head.now) {
            Lookup::Hit { ready, .. } => ready.since(head.now),
            Lookup::Partial { from, .. } => reach(self.geometry.locate(from), from, false),
            Lookup::Miss => reach(queued.location, span.address, false),
        }
    }

    fn decide(&mut self, now: Nanos) {
        if let Some((address, wrote)) = self.arm.goes_on(now)
            && !self.queue.is_overdue(now)
            && !self.is_write_overdue(now)
            && let Some(index) = self.queue.find(now, address, wrote)
        {
            return self.serve(now, index);
        }
        if !self.queue.is_empty() {
            self.state = State::Overhead { until: now + self.command_overhead };
            return;
        }
        if let Some((start, end, _)) = self.choose_destage(now) {
            return self.destage(now, start, end);
        }
        self.state = State::Idle;
        self.stats.busy_ns += now.since(self.busy_since).0;
        self.end_flush(now);
    }

    fn end_flush(&mut self, now: Nanos) {
        if self.write_cache.as_ref().is_some_and(|cache| !cache.is_clean()) {
            return;
        }
        let Some(tag) = self.flush.take() else { return };
        self.instant.push_back(Finished { tag, at: now });
        while let Some(command) = self.behind_flush.pop_front() {
            self.on_command(now, command);
            if self.flush.is_some() {
                return;
            }
        }
    }

    fn is_write_overdue(&self, now: Nanos) -> bool {
        self.write_cache.as_ref().is_some_and(|cache| cache.is_overdue(now, self.age_limit))
    }

    fn choose_destage(&self, now: Nanos) -> Option<(u64, u64, Nanos)> {
        let cache = self.write_cache.as_ref().filter(|cache| cache.has_dirty())?;
        let head = self.head(now);
        cache.choose(head.address, |address| {
            let location = self.geometry.locate(address);
            self.arm.reach(&self.geometry, &head, &Goal { location, address, write: true })
        })
    }

    fn choose(&mut self, now: Nanos) {
        let head = self.head(now);
        let chosen = self.queue.choose(now, |span, queued| self.cost(&head, span, queued));
        let (index, cost) = chosen.expect("a command waits, and of any run one is first");
        let write_overdue = self.is_write_overdue(now);
        let pressed = self.flush.is_some() || self.write_cache.as_ref().is_some_and(|cache| cache.is_pressed());
        if (write_overdue || pressed && !self.queue.is_overdue(now))
            && let Some((start, end, destage_cost)) = self.choose_destage(now)
            && (write_overdue || destage_cost < cost)
        {
            return self.destage(now, start, end);
        }
        self.serve(now, index);
    }

    fn count(&mut self, address: u64, end: u64) {
        self.stats.commands += 1;
        self.stats.distance_bytes += address.abs_diff(self.previous_end);
        self.previous_end = end;
    }

    /// Moves `address..end`, which begins at `location`, between medium and buffer; returns when that is done.
    fn access(&mut self, now: Nanos, location: Location, address: u64, end: u64, write: bool) -> Nanos {
        let head = self.head(now);
        if let Some(cache) = &mut self.read_ahead {
            cache.interrupt(now);
            if write {
                cache.invalidate(address, end);
            }
        }
        let reach = self.arm.reach(&self.geometry, &head, &Goal { location, address, write });
        let (transfer_ns, arm) = self.geometry.transfer_ns(location, address, end - address);
        let until = now + reach + rounded(transfer_ns);
        self.arm.move_to(Goal { location: arm, address: end, write }, until);
        until
    }

    fn serve(&mut self, now: Nanos, index: usize) {
        let (span, Queued { location, tag }) = self.queue.take(index);
        self.count(span.address, span.end);
        let until = if span.write {
            self.access(now, location, span.address, span.end, true)
        } else if self.is_dirty_in_cache(&span) {
            now + self.bus(span.end - span.address)
        } else {
            self.read(now, &span, location)
        };
        self.state = State::Serving { tag, until };
    }

    fn read(&mut self, now: Nanos, span: &Span, location: Location) -> Nanos {
        let Span { address, end, .. } = *span;
        let (reused, from, location) = match self.lookup(span, now) {
            Lookup::Hit { segment, ready } => {
                let geometry = &self.geometry;
                let resume = |frontier| {
                    let location = geometry.locate(frontier);
                    rounded(geometry.position_ns(&location, &location, geometry.turn_at(now), false))
                };
                if let Some(cache) = &mut self.read_ahead {
                    cache.hit(segment, address, end, now, resume);
                }
                return ready.max(now + self.bus(end - address));
            }
            Lookup::Partial { segment, from } => (Some(segment), from, self.geometry.locate(from)),
            Lookup::Miss => (None, address, location),
        };
        let until = self.access(now, location, from, end, false);
        let ns_per_byte = self.geometry.sustained_ns_per_byte(end);
        if let Some(cache) = &mut self.read_ahead {
            cache.begin(reused, address, end, until, ns_per_byte);
        }
        until
    }

    fn destage(&mut self, now: Nanos, start: u64, end: u64) {
        self.count(start, end);
        let until = self.access(now, self.geometry.locate(start), start, end, true);
        if let Some(cache) = &mut self.write_cache {
            cache.begin_destage(start, end);
        }
        self.state = State::Destaging { until };
    }

    fn state_timer(&self) -> Nanos {
        match self.state {
            State::Idle => Nanos::MAX,
            State::Deciding { at } => at,
            State::Overhead { until } | State::Serving { until, .. } | State::Destaging { until } => until,
        }
    }
}

impl Device for Hdd {
    fn queue_depth(&self) -> usize {
        TAGS
    }

    fn on_command(&mut self, now: Nanos, command: Command) {
        if self.flush.is_some() {
            self.behind_flush.push_back(command);
            return;
        }
        match (command.operation, &mut self.write_cache) {
            (Operation::Flush, None) => self.instant.push_back(Finished { tag: command.tag, at: now }),
            (Operation::Flush, Some(_)) => {
                self.flush = Some(command.tag);
                self.wake(now);
            }
            (Operation::Write, Some(cache)) => cache.on_write(now, command),
            _ => {
                let write = command.operation == Operation::Write;
                let span = Span { address: command.address, end: command.end(), write };
                self.queue.push(
                    now,
                    span,
                    Queued { location: self.geometry.locate(command.address), tag: command.tag },
                );
                self.wake(now);
            }
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        let instant = self.instant.front().map_or(Nanos::MAX, |finished| finished.at);
        let transfer = self.write_cache.as_ref().and_then(|cache| cache.next_timer()).unwrap_or(Nanos::MAX);
        Some(instant.min(transfer).min(self.state_timer())).filter(|at| *at < Nanos::MAX)
    }

    fn on_timer(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        if self.next_timer().is_none_or(|at| at > now) {
            return;
        }
        if self.instant.front().is_some_and(|done| done.at <= now) {
            finished.extend(self.instant.pop_front());
            return;
        }
        if let Some(cache) = &mut self.write_cache
            && cache.next_timer().is_some_and(|at| at <= now)
        {
            finished.push(cache.on_timer());
            self.wake(now);
            return;
        }
        // One step a call: what finishes here may bring a command from the elevator before the next is chosen.
        match self.state {
            State::Idle => unreachable!("an idle drive has no timer"),
            State::Deciding { .. } => self.decide(now),
            State::Overhead { .. } => self.choose(now),
            State::Serving { tag, until } => {
                finished.push(Finished { tag, at: until });
                self.state = State::Deciding { at: until };
            }
            State::Destaging { until } => {
                if let Some(cache) = &mut self.write_cache {
                    cache.end_destage(until);
                }
                self.state = State::Deciding { at: until };
            }
        }
    }

    fn has_volatile_cache(&self) -> bool {
        self.write_cache.is_some()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        Some(self.geometry.capacity_bytes())
    }

    fn stats(&self, now: Nanos) -> DeviceStats {
        let busy = if matches!(self.state, State::Idle) { 0 } else { now.since(self.busy_since).0 };
        DeviceStats { busy_ns: self.stats.busy_ns + busy, ..self.stats }
    }
}
