//! A volume that serves: requests and completions come in, orders and replies go out.
//!
//! ```text
//! write --blockers gone--> policy --absorbs--> log queue -> record in flight -> map, reply
//!                             '----bypasses-> no write-back on the range -> disk -> map says disk, owe CLEAN, reply
//! owed --disk FLUSH--> flushed --CLEAN record completes, or checkpoint durable--> the log names it no more
//! ```
//!
//! After each call [`Engine::take_outputs`] gives what is to be done. Every call ends in `pump`, which moves
//! whatever can move until nothing does; nothing else starts work, so there is no order of events that
//! forgets somebody who waits.
//!
//! The engine is made of **parts**, each of which owns fields that nobody else touches, knows neither engine nor
//! policy, and has a test of its own. **Steps** move requests on: each is a file of functions of [`Engine`] that ask
//! parts and policy and give orders.
//!
//! | part | owns |
//! |---|---|
//! | `Orders` | orders under way and what for, outputs, who shares a buffer, whether something moved |
//! | `Condition` | the time; whether the volume serves, drains or stops; which devices have failed |
//! | `InForce` | the superblock in force, what its guard hides of the disk, checksums of hidden blocks |
//! | `LogMap` | what the log says, with its ring and its heads |
//! | `Writes` | unfinished writes: who is blocked, who waits for the disk, who bypasses flash |
//! | `Reads` | unfinished reads: their segments, what is missing |
//! | `Disk` | foreground orders that wait for the disk or are there (`DiskQueue`), the time of background work |
//! | `Copies` | clean copies of the disk: staging with `Fetches`, slots with `Lifts`, `Loads` in memory |
//! | `Log` | `LogQueue`, the pace of what enters it, `Records` in flight |
//! | `Flushes` | flushes of both devices, FLUSHes that wait, `Owed`: CLEANs that the log is owed |
//! | `WriteBacks` | write-backs under way; `Refused`: ranges that could not be written back |
//! | `Checkpoints` | how far the checkpoint is, whether one is wanted |
//!
//! | step | subject | rules of the protocol |
//! |---|---|---|
//! | `writing` | one write per range at a time, bypass | 1 |
//! | `reading` | pieces, pins, checksums | 1, 3 |
//! | `fetching` | reading ahead, to staging | 1 |
//! | `loading` | segments in memory | 1 |
//! | `lifting` | heads on flash: lift, de-lift, NOHEAD | 1, 5 |
//! | `logging` | records, holes, CLEAN | 3, 6 |
//! | `flushing` | flushes of devices, FLUSH and FUA | 2 |
//! | `writing_back` | from flash to disk | 5 |
//! | `checkpointing` | checkpoints | 4 |
//! | `zeroing` | zeros on the disk | |
//!
//! A device whose FLUSH failed, and flash where a superblock or checkpoint could not be written, counts as
//! failed until the volume is attached again: without flash nothing is written and FLUSH fails; without disk
//! the log goes on while it has room, and FLUSH fails. A write for which no room will ever come, because what
//! is on flash cannot be written back, fails.

mod checkpointing;
mod checkpoints;
mod condition;
mod copies;
mod device_flush;
mod disk;
mod disk_queue;
mod fetches;
mod fetching;
mod flash_time;
mod flushes;
mod flushing;
mod in_force;
mod lifting;
mod lifts;
mod loading;
mod loads;
mod log;
mod log_queue;
mod logging;
mod orders;
mod owed;
mod payload;
mod reading;
mod reads;
mod records;
mod settings;
#[cfg(test)]
mod tests;
mod waiter;
mod write_backs;
mod writes;
mod writing;
mod writing_back;
mod zeroing;

pub use super::counters::{Counters, Waits};
use super::devices::Device;
use super::heads::Slots;
use super::log_map::LogMap;
use super::order::{Action, Error, Order, OrderId, Output, Request, Tag};
use super::recovery::Recovered;
use super::staging::Staging;
use super::superblock::Superblock;
use checkpoints::Checkpoints;
use condition::Condition;
use copies::Copies;
use disk::Disk;
use disk_queue::Kind;
use flushes::Flushes;
use headstart_policy::server::segments::Segments;
use headstart_policy::server::{Load, Policy, SegmentCounts, Turn};
use headstart_units::Nanos;
use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;
use in_force::InForce;
use log::Log;
use orders::{Orders, Purpose};
use reads::Reads;
pub use settings::{Settings, ZERO_BYTES_MAX};
use write_backs::WriteBacks;
use writes::Writes;

/// A volume that serves.
#[derive(Clone, Debug)]
pub struct Engine<P> {
    settings: Settings,
    policy: P,
    counters: Counters,
    condition: Condition,
    orders: Orders,
    in_force: InForce,
    map: LogMap,
    writes: Writes,
    reads: Reads,
    disk: Disk,
    copies: Copies,
    log: Log,
    flushes: Flushes,
    write_backs: WriteBacks,
    checkpoints: Checkpoints,
}

impl<P: Policy> Engine<P> {
    /// Serves what a start has recovered.
    pub fn new(recovered: Recovered, policy: P, settings: Settings) -> Engine<P> {
        let Recovered { superblock, map } = recovered;
        let segments = superblock.serving.segments;
        let mut policy = policy;
        map.heads.iter_live().for_each(|head| policy.on_lifted(head.range.offset / segments.segment_bytes()));
        let slots = Slots::new(segments, &map.heads);
        let staging = Staging::new(superblock.layout().staging_blocks, settings.staging_slot_blocks);
        let log = Log::new(superblock.start_seq);
        Engine {
            settings,
            policy,
            counters: Counters::default(),
            condition: Condition::default(),
            orders: Orders::default(),
            in_force: InForce::new(superblock),
            map,
            writes: Writes::default(),
            reads: Reads::default(),
            disk: Disk::default(),
            copies: Copies::new(staging, slots),
            log,
            flushes: Flushes::default(),
            write_backs: WriteBacks::default(),
            checkpoints: Checkpoints::default(),
        }
    }

    /// A request. Its reply comes with some later outputs, perhaps with the next.
    pub fn on_request(&mut self, now: Nanos, tag: Tag, request: Request<'_>) {
        self.condition.set_now(now);
        let range = match request {
            Request::Read(range) | Request::Zero { range, .. } => range,
            Request::Write { offset, data, .. } => Range::new(offset, data.len() as u64),
            Request::Flush => Range::default(),
        };
        let sectors = range.offset % 512 == 0 && range.length % 512 == 0;
        if !sectors || range.end() > self.in_force.disk_bytes() {
            self.orders.reply(tag, Err(Error::Invalid));
            return;
        }
        match request {
            Request::Flush => self.add_flush(tag),
            _ if range.is_empty() => self.orders.reply(tag, Ok(Vec::new())),
            Request::Read(_) => self.add_read(tag, range),
            Request::Write { data, fua, .. } => self.add_write(tag, range, Some(data), fua),
            Request::Zero { fua, .. } => self.add_write(tag, range, None, fua),
        }
        self.pump();
    }

    /// An order has been carried out or has failed; `data` are the bytes that a read has filled.
    pub fn on_completion(&mut self, now: Nanos, order: OrderId, result: Result<&[u8], ()>) {
        self.condition.set_now(now);
        let Some(purpose) = self.orders.end(order) else { return };
        match purpose {
            Purpose::Record(seq) => self.on_record(seq, result.is_ok()),
            Purpose::Bypass(parts) => {
                self.disk.complete(now, order);
                self.on_bypass(parts, result.is_ok());
            }
            Purpose::Zeroing(id, part) => {
                self.disk.complete(now, order);
                self.on_zeroed(id, part, result.is_ok());
            }
            Purpose::Read(tag) => self.on_read(tag, order, result),
            Purpose::DiskRead(tag) => {
                let (range, took) = self.disk.complete(now, order);
                self.policy.on_disk_read(range, took);
                self.on_read(tag, order, result);
            }
            Purpose::CopyRead(tag) => self.on_copy_read(tag, order, result),
            Purpose::LoadFromDisk(segment) => {
                self.disk.complete(now, order);
                self.on_load(segment, order, result);
            }
            Purpose::LoadFromFlash(segment) => self.on_load(segment, order, result),
            Purpose::LiftRead(id) => self.on_lift_read(id, result),
            Purpose::LiftWrite(id) => self.on_lift_written(id, result.is_ok()),
            Purpose::Fetch(id) => self.on_fetch(id, result),
            Purpose::Stage(id) => self.on_staged(id, result.is_ok()),
            Purpose::WriteBackRead(id) => self.on_write_back_read(id, order, result),
            Purpose::WriteBackWrite(id) => self.on_write_back_write(id, result.is_ok()),
            Purpose::DiskFlush => self.on_disk_flush(result.is_ok()),
            Purpose::FlashFlush => self.on_flash_flush(result.is_ok()),
            Purpose::CheckpointArea => self.on_checkpoint_area(result.is_ok()),
            Purpose::Superblock => self.on_superblock(result.is_ok()),
        }
        self.pump();
    }

    /// When `on_timer` has something to do; none: only requests and completions move anything.
    pub fn next_timer(&self) -> Option<Nanos> {
        let due = self.policy.next_timer(&self.load()).into_iter().chain(self.log_due());
        due.min().map(|at| at.max(Nanos(self.condition.now().0 + 1)))
    }

    /// Does what is due. Before `next_timer`'s answer nothing is.
    pub fn on_timer(&mut self, now: Nanos) {
        self.condition.set_now(now);
        self.pump();
    }

    /// Nothing was asked for a while: a checkpoint puts the last records where a damaged one is told from one
    /// never written.
    pub fn on_idle(&mut self, now: Nanos) {
        self.condition.set_now(now);
        self.checkpoints.want(self.has_news() && self.writes.is_empty());
        self.pump();
    }

    /// Writes back all that is dirty, and what becomes dirty meanwhile, until told otherwise; what failed
    /// before is tried again. `is_drained` says when nothing is left, `may_drain` whether anything more can
    /// come of it.
    pub fn drain(&mut self, now: Nanos, drains: bool) {
        self.condition.set_now(now);
        self.set_draining(drains);
        self.pump();
    }

    /// Whether the disk holds everything, durably: a drain has nothing left to do.
    pub fn is_drained(&self) -> bool {
        let owed = self.flushes.owed.awaits_flush();
        let is_empty = self.write_backs.is_empty() && self.log.queue.is_empty();
        !owed && is_empty && self.map.is_written_back()
    }

    /// Whether something is being written back, or may be in time.
    pub fn may_drain(&self) -> bool {
        !self.write_backs.is_empty() || self.may_write_back()
    }

    /// No request follows. Writes everything back unless told to keep it, and ends with a checkpoint; then
    /// `has_stopped`.
    pub fn stop(&mut self, now: Nanos, keep_dirty: bool) {
        self.condition.set_now(now);
        self.condition.stop(keep_dirty);
        self.set_draining(!keep_dirty);
        self.pump();
    }

    fn set_draining(&mut self, drains: bool) {
        self.condition.set_draining(drains);
        if drains {
            self.write_backs.refused.retry();
        }
    }

    /// After `stop`: whether nothing is under way. Whatever can move has moved then.
    pub fn has_stopped(&self) -> bool {
        let answered = self.writes.is_empty() && self.flushes.is_empty() && self.reads.is_empty();
        self.condition.is_stopping() && answered && self.orders.is_empty()
    }

    /// The superblock in force, and whether nothing is left on flash alone: what `recovery::release` goes by.
    pub fn into_superblock(self) -> (Superblock, bool) {
        assert!(self.orders.is_empty(), "a volume is given up when nothing is under way");
        // What flash durably says is what the next start finds: a log that is empty in memory alone is not.
        let is_empty =
            self.map.is_empty() && self.map.heads.is_empty() && !self.condition.flash_failed() && !self.has_news();
        (self.in_force.into_superblock(), is_empty)
    }

    /// The map, for status and tests.
    pub fn map(&self) -> &LogMap {
        &self.map
    }

    /// The superblock in force.
    pub fn superblock(&self) -> &Superblock {
        self.in_force.superblock()
    }

    /// What was counted, and what waited, so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Segments of the disk and slots for their heads.
    pub fn segments(&self) -> Segments {
        self.in_force.segments()
    }

    /// Heads that may be read.
    pub fn lifted_segments(&self) -> u64 {
        self.map.heads.iter_live().count() as u64
    }

    /// What the policy knows of segments.
    pub fn segment_counts(&self) -> SegmentCounts {
        self.policy.segment_counts()
    }

    /// Forgets what is in memory of segments, as a start would; what is on flash stays.
    pub fn empty_buffer(&mut self, now: Nanos) {
        self.condition.set_now(now);
        self.evict_all();
        self.policy.on_buffer_emptied();
        self.pump();
    }

    /// Bytes of staging that hold something.
    pub fn staged_bytes(&self) -> u64 {
        self.copies.staging.staged_bytes()
    }

    /// Which devices have failed: disk, flash.
    pub fn has_failed(&self) -> (bool, bool) {
        (self.condition.disk_failed(), self.condition.flash_failed())
    }

    /// What is to be done since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        self.orders.take_outputs()
    }

    /// Something waits for room that write-back, CLEANs and checkpoints make.
    fn is_short_of_room(&self) -> bool {
        self.log.is_full() || self.writes.are_crowded()
    }

    fn load(&self) -> Load {
        Load {
            now: self.condition.now(),
            ring_blocks: self.map.ring.blocks(),
            free_blocks: self.map.ring.free_blocks(),
            is_dirty: self.map.has_dirty(),
            write_backs: self.write_backs.len(),
            is_full: self.is_short_of_room(),
            flash_ps_per_byte: self.log.flash_time.ps_per_byte(),
            written_bytes: self.writes.bytes(),
            log_items: self.log.queue.len(),
            log_bytes: self.log.queue.bytes(),
            draining: self.condition.is_draining(),
            waiting: self.disk.queue().len(),
            admitted: self.disk.queue().admitted(),
            oldest: self.disk.queue().oldest(),
            in_flight: self.disk.queue().in_flight(),
            in_flight_bytes: self.disk.queue().in_flight_bytes(),
            foreground_at: self.disk.foreground_at(),
            fetches_waiting: self.copies.fetches.waiting(),
            fetches: self.copies.fetches.reading(),
            staging_bytes: self.copies.staging.bytes(),
            lifts: self.copies.lifts.reading(),
        }
    }

    /// Whether a checkpoint would say something new.
    fn has_news(&self) -> bool {
        let has_doomed = self.map.heads.doomed().next().is_some();
        self.log.records.seq_next() > self.in_force.superblock().start_seq
            || self.flushes.owed.flushed() > 0
            || has_doomed
    }

    fn absorbs(&self) -> bool {
        self.in_force.is_guard_on() && !self.condition.flash_failed()
    }

    fn order(&mut self, device: Device, action: Action, range: Range, purpose: Purpose) -> OrderId {
        let id = self.orders.name();
        self.emit(id, device, action, range, purpose);
        id
    }

    fn emit(&mut self, id: OrderId, device: Device, action: Action, range: Range, purpose: Purpose) {
        let order = self.make_order(id, device, action, range);
        self.orders.give(order, purpose);
    }

    fn make_order(&self, id: OrderId, device: Device, action: Action, range: Range) -> Order {
        debug_assert!(
            range.offset.is_multiple_of(SECTOR_BYTES) && range.length.is_multiple_of(SECTOR_BYTES),
            "a device has sectors: {range:?}"
        );
        let session = (device == Device::Disk).then(|| self.in_force.session_over(range)).flatten();
        Order { id, device, action, offset: range.offset, length: range.length, session }
    }

    /// An order of the foreground for the disk, which waits for its turn.
    fn queue_disk(&mut self, action: Action, range: Range, purpose: Purpose) -> OrderId {
        self.queue_disk_as(action, range, purpose, Kind::Joined)
    }

    fn queue_disk_as(&mut self, action: Action, range: Range, purpose: Purpose, kind: Kind) -> OrderId {
        let id = self.orders.name();
        let order = self.make_order(id, Device::Disk, action, range);
        self.orders.note_moves(1);
        self.disk.push(self.condition.now(), order, purpose, kind);
        id
    }

    /// Gives the disk what may go there: the foreground's, in the order of addresses, or write-backs and fetches.
    fn pump_disk(&mut self) {
        let now = self.condition.now();
        let mut turn = self.policy.turn(&self.load());
        if matches!(turn, Turn::Background | Turn::Shared) {
            if turn == Turn::Background {
                self.disk.give_to_background(now);
            }
            self.pump_write_backs();
            self.pump_fetches();
            if turn == Turn::Background && self.load().background() == 0 {
                // Nothing was to be done: nobody need wait for it.
                turn = self.policy.turn(&self.load());
            }
        }
        if turn == Turn::Background {
            return;
        }
        self.disk.give_to_foreground(now, turn == Turn::Closing);
        while let Some(queued) = self.disk.next(now, &self.settings, &mut self.counters.held) {
            self.orders.give(queued.order, queued.purpose);
        }
    }

    /// Moves everything that can move.
    fn pump(&mut self) {
        loop {
            let before = self.orders.moves();
            self.map.ring.release(self.in_force.superblock().start_seq, self.log.records.durable_to());
            self.settle_heads();
            self.pump_writes();
            self.pump_log();
            self.pump_lifts();
            self.pump_disk();
            self.pump_loads();
            self.pump_flushes();
            self.pump_checkpoint();
            self.pump_device_flushes();
            if self.orders.moves() == before && !self.fail_stalled() {
                return;
            }
        }
    }
}
