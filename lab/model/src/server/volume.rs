//! A volume of core between a server and its disk: the engine that serves real disks, on modelled ones.
//!
//! ```text
//! request, write-back, fill --> Engine --disk orders--> elevator -> disk
//!                                 '-----flash orders--> queue -> flash
//! ```
//!
//! The models store no bytes, so every byte is zero: the engine's checksums are those of zeros, and its
//! superblocks and checkpoints go nowhere. Addresses are widened to whole sectors.

mod blank;

use std::collections::{BTreeMap, VecDeque};

use headstart_block::devices::Device as Which;
use headstart_block::engine::{Counters, Engine, Settings};
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_block::order::{Action, OrderId, Output, Request as Asked};
use headstart_block::recovery;
use headstart_block::recovery::Given;
use headstart_block::superblock::Serving;
use headstart_policy::server::chain;
use headstart_policy::server::chain::{Chain, Names};
use headstart_policy::server::liu::Sizes;
use headstart_policy::server::segments::Segments;
use headstart_units::Nanos;
use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;
use serde::{Deserialize, Serialize};

use super::accesses::{Access, Actor};
use super::config::{DeviceConfig, ServerConfig};
use super::disk::Owner;
use super::{Operation, Server};
use crate::device::{Command, Device, DeviceStats, Finished};
use crate::elevator::Part;
use crate::server::Origin;
use crate::slab::Slab;

/// Requests are cut into parts of this size; no order is longer.
const PART_BYTES_MAX: u64 = 16 << 20;

/// How a volume is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeConfig {
    /// Its flash.
    pub flash: DeviceConfig,
    /// Size of the slice.
    pub flash_bytes: u64,
    /// Its policies.
    pub names: Names,
    /// Their settings.
    pub settings: chain::Settings,
    /// LiU's segments.
    pub sizes: Sizes,
    /// Of a hundred parts of the slice, how many are heads'; none: as many as the policies want.
    pub heads_percent: Option<u64>,
}

/// What a volume has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// Bytes that only its flash holds.
    pub dirty_bytes: u64,
    /// Time its flash was at work.
    pub flash_busy_ns: u64,
    /// Commands of its flash.
    pub flash_commands: u64,
    /// Writes that the log took.
    pub absorbed_writes_total: u64,
    /// Bytes of them.
    pub absorbed_bytes_total: u64,
    /// Writes that the policy left to the disk.
    pub bypassed_writes_total: u64,
    /// Writes that waited for room in the log and went to the disk.
    pub diverted_writes_total: u64,
    /// Bytes written back.
    pub written_back_bytes_total: u64,
    /// Write orders that wrote them.
    pub write_backs_total: u64,
    /// Bytes that fetches read from the disk.
    pub fetched_bytes_total: u64,
    /// Bytes of those that went to staging.
    pub staged_bytes_total: u64,
    /// Bytes read from there.
    pub staged_read_bytes_total: u64,
    /// Checkpoints.
    pub checkpoints_total: u64,
    /// The most, and the mean, that background work has added to a foreground order.
    pub held_ms_max: f64,
    /// See `held_ms_max`.
    pub held_ms_p99: f64,
    /// See `held_ms_max`.
    pub held_ms_mean: f64,
    /// The most that a write was kept from the log.
    pub paced_ms_max: f64,
    /// The mean.
    pub paced_ms_mean: f64,
    /// The most that a read waited for the fetch of its own stream.
    pub fetch_wait_ms_max: f64,
    /// Heads on flash now, and slots for them.
    pub lifted_segments: u64,
    /// See `lifted_segments`.
    pub slots: u64,
    /// Lengths of a segment and of its head; zero without LiU.
    pub segment_bytes: u64,
    /// See `segment_bytes`.
    pub head_bytes: u64,
    /// See [`Counters`].
    pub lifts_total: u64,
    /// See [`Counters`].
    pub lifts_from_loads_total: u64,
    /// See [`Counters`].
    pub de_lifts_total: u64,
    /// See [`Counters`].
    pub loads_total: u64,
    /// See [`Counters`].
    pub seeks_hidden_total: u64,
    /// See [`Counters`].
    pub loaded_disk_bytes_total: u64,
    /// See [`Counters`].
    pub loaded_head_bytes_total: u64,
    /// See [`Counters`].
    pub head_read_bytes_total: u64,
    /// See [`Counters`].
    pub buffer_read_bytes_total: u64,
}

impl VolumeStats {
    /// What it has done since an earlier report. Waits are those since the start; dirty bytes, heads and
    /// lengths those of now.
    pub fn since(&self, before: &VolumeStats) -> VolumeStats {
        // Without `..`, so that none is forgotten.
        VolumeStats {
            dirty_bytes: self.dirty_bytes,
            flash_busy_ns: self.flash_busy_ns - before.flash_busy_ns,
            flash_commands: self.flash_commands - before.flash_commands,
            absorbed_writes_total: self.absorbed_writes_total.saturating_sub(before.absorbed_writes_total),
            absorbed_bytes_total: self.absorbed_bytes_total.saturating_sub(before.absorbed_bytes_total),
            bypassed_writes_total: self.bypassed_writes_total - before.bypassed_writes_total,
            diverted_writes_total: self.diverted_writes_total - before.diverted_writes_total,
            written_back_bytes_total: self.written_back_bytes_total - before.written_back_bytes_total,
            write_backs_total: self.write_backs_total - before.write_backs_total,
            fetched_bytes_total: self.fetched_bytes_total - before.fetched_bytes_total,
            staged_bytes_total: self.staged_bytes_total - before.staged_bytes_total,
            staged_read_bytes_total: self.staged_read_bytes_total - before.staged_read_bytes_total,
            checkpoints_total: self.checkpoints_total - before.checkpoints_total,
            held_ms_max: self.held_ms_max,
            held_ms_p99: self.held_ms_p99,
            held_ms_mean: self.held_ms_mean,
            paced_ms_max: self.paced_ms_max,
            paced_ms_mean: self.paced_ms_mean,
            fetch_wait_ms_max: self.fetch_wait_ms_max,
            lifted_segments: self.lifted_segments,
            slots: self.slots,
            segment_bytes: self.segment_bytes,
            head_bytes: self.head_bytes,
            lifts_total: self.lifts_total - before.lifts_total,
            lifts_from_loads_total: self.lifts_from_loads_total - before.lifts_from_loads_total,
            de_lifts_total: self.de_lifts_total - before.de_lifts_total,
            loads_total: self.loads_total - before.loads_total,
            seeks_hidden_total: self.seeks_hidden_total - before.seeks_hidden_total,
            loaded_disk_bytes_total: self.loaded_disk_bytes_total - before.loaded_disk_bytes_total,
            loaded_head_bytes_total: self.loaded_head_bytes_total - before.loaded_head_bytes_total,
            head_read_bytes_total: self.head_read_bytes_total - before.head_read_bytes_total,
            buffer_read_bytes_total: self.buffer_read_bytes_total - before.buffer_read_bytes_total,
        }
    }
}

/// An order under way.
#[derive(Clone, Copy, Debug)]
struct Ordered {
    parts_left: u32,
    /// Bytes that a read brings.
    bytes: u64,
}

/// See the module.
pub(super) struct Volume {
    pub engine: Engine<Chain>,
    /// Whose the engine's requests are, by tag.
    asked: Slab<Owner>,
    orders: BTreeMap<OrderId, Ordered>,
    flash: Box<dyn Device>,
    pub flash_due: Nanos,
    flash_depth: usize,
    flash_under_way: usize,
    flash_waiting: VecDeque<(OrderId, Operation, Range)>,
    flash_tags: Slab<OrderId>,
    finished: Vec<Finished>,
    /// Bytes of requests and buffers.
    zeros: Vec<u8>,
    /// Flushes that wait until nothing is dirty.
    pub drains: Vec<u32>,
    pub is_draining: bool,
}

impl Volume {
    pub fn new(config: &VolumeConfig, disk_bytes: u64) -> Volume {
        let disk_bytes = disk_bytes / SECTOR_BYTES * SECTOR_BYTES;
        let given = Given { disk: [0; 32], disk_bytes, flash_bytes: config.flash_bytes, uuid: None, absorbs: true };
        let mut blank = blank::Blank::default();
        let Sizes { segment_bytes, head_bytes } = config.sizes;
        let percent = config.heads_percent.unwrap_or(config.names.heads_percent());
        let has_heads = config.names.has_liu().then_some((segment_bytes, head_bytes));
        let segments = has_heads.and_then(|sizes| Segments::new(config.flash_bytes, GUARD_BLOCKS_MAX, sizes, percent));
        let segments = segments.unwrap_or_default();
        let serving = Serving { segments, ..Serving::default() };
        let created = recovery::create(&mut blank, &given, *b"a modelled one  ", GUARD_BLOCKS_MAX, serving);
        assert_eq!(created, Ok(true), "a checked configuration has room for a volume");
        let recovered = recovery::attach(&mut blank, &given).expect("a new volume is attached");
        let policy = Chain::new(config.names, segments, config.settings);
        let flash = ServerConfig::bare_device(config.flash);
        Volume {
            engine: Engine::new(recovered, policy, Settings::default()),
            asked: Slab::default(),
            orders: BTreeMap::new(),
            flash_depth: flash.queue_depth(),
            flash,
            flash_due: Nanos::MAX,
            flash_under_way: 0,
            flash_waiting: VecDeque::new(),
            flash_tags: Slab::default(),
            finished: Vec::new(),
            zeros: vec![0; PART_BYTES_MAX as usize],
            drains: Vec::new(),
            is_draining: false,
        }
    }

    /// Requests of the engine that have no answer.
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    fn tag(&mut self, owner: Owner) -> u64 {
        self.asked.insert(owner).into()
    }

    fn send_flash(&mut self, now: Nanos, accesses: &mut Option<Vec<Access>>) {
        while self.flash_under_way < self.flash_depth
            && let Some((order, operation, range)) = self.flash_waiting.pop_front()
        {
            let tag = self.flash_tags.insert(order);
            self.flash_under_way += 1;
            if let Some(noted) = accesses {
                let (actor, address, length) = (Actor::VolumeFlash, range.offset, range.length);
                noted.push(Access { at: now, actor, operation, address, length });
            }
            self.flash.on_command(now, Command { tag, operation, address: range.offset, length: range.length });
        }
        self.flash_due = self.flash.next_timer().unwrap_or(Nanos::MAX);
    }

    pub fn stats(&self, now: Nanos) -> VolumeStats {
        let Counters {
            absorbed_writes_total,
            absorbed_bytes_total,
            bypassed_unwanted_writes_total,
            bypassed_full_writes_total,
            written_back_bytes_total,
            write_backs_total,
            fetched_bytes_total,
            staged_bytes_total,
            staged_read_bytes_total,
            checkpoints_total,
            held,
            paced,
            fetch_waits,
            lifts_total,
            lifts_from_loads_total,
            de_lifts_total,
            loads_total,
            seeks_hidden_total,
            loaded_disk_bytes_total,
            loaded_head_bytes_total,
            head_read_bytes_total,
            buffer_read_bytes_total,
            ..
        } = *self.engine.counters();
        let DeviceStats { commands, busy_ns, .. } = self.flash.stats(now);
        let mean = |sum: Nanos, count: u64| if count == 0 { 0.0 } else { sum.millis() / count as f64 };
        VolumeStats {
            dirty_bytes: self.engine.map().dirty_bytes(),
            flash_busy_ns: busy_ns,
            flash_commands: commands,
            absorbed_writes_total,
            absorbed_bytes_total,
            bypassed_writes_total: bypassed_unwanted_writes_total,
            diverted_writes_total: bypassed_full_writes_total,
            written_back_bytes_total,
            write_backs_total,
            fetched_bytes_total,
            staged_bytes_total,
            staged_read_bytes_total,
            checkpoints_total,
            held_ms_max: held.max.millis(),
            held_ms_p99: held.p99().millis(),
            held_ms_mean: mean(held.sum, held.count),
            paced_ms_max: paced.max.millis(),
            paced_ms_mean: mean(paced.sum, paced.count),
            fetch_wait_ms_max: fetch_waits.max.millis(),
            lifted_segments: self.engine.lifted_segments(),
            slots: self.engine.segments().slots.into(),
            segment_bytes: self.engine.segments().segment_bytes(),
            head_bytes: self.engine.segments().head_bytes(),
            lifts_total,
            lifts_from_loads_total,
            de_lifts_total,
            loads_total,
            seeks_hidden_total,
            loaded_disk_bytes_total,
            loaded_head_bytes_total,
            head_read_bytes_total,
            buffer_read_bytes_total,
        }
    }
}

fn operation(action: &Action) -> Operation {
    match action {
        Action::Read => Operation::Read,
        Action::Write(_) => Operation::Write,
        Action::Flush => Operation::Flush,
        Action::Zero => unreachable!("the disks of a model make no zeros by themselves"),
    }
}

impl Server {
    /// Asks the volume, in as many parts as `volume_parts` says.
    pub(super) fn ask_volume(&mut self, now: Nanos, owner: Owner, operation: Operation, address: u64, length: u64) {
        let volume = self.volume.as_mut().expect("there is one");
        let disk_bytes = volume.engine.superblock().disk_bytes;
        let (mut address, end) = (address, address + length);
        while address < end {
            let length = PART_BYTES_MAX.min(end - address);
            // Addresses beyond the end wrap, as those of the devices do.
            let first = address % disk_bytes / SECTOR_BYTES * SECTOR_BYTES;
            let last = (address % disk_bytes + length).next_multiple_of(SECTOR_BYTES).min(disk_bytes);
            let range = Range::between(first, last.min(first + PART_BYTES_MAX));
            let tag = volume.tag(owner);
            let request = match operation {
                Operation::Read => Asked::Read(range),
                _ => {
                    let data = &volume.zeros[..range.length as usize];
                    Asked::Write { offset: range.offset, data, fua: false }
                }
            };
            volume.engine.on_request(now, tag, request);
            address += length;
        }
        self.carry_out(now);
    }

    /// Parts that a request of a volume has.
    pub(super) fn volume_parts(length: u64) -> u32 {
        length.div_ceil(PART_BYTES_MAX) as u32
    }

    /// Everything that the volume has acknowledged becomes durable.
    pub(super) fn flush_volume(&mut self, now: Nanos, slot: u32) {
        let volume = self.volume.as_mut().expect("there is one");
        if volume.is_draining {
            volume.drains.push(slot);
        } else {
            let tag = volume.tag(Owner::Request(slot));
            volume.engine.on_request(now, tag, Asked::Flush);
        }
        self.carry_out(now);
    }

    /// Bytes that its volume or its cache holds and its disk does not.
    pub fn dirty_bytes(&self) -> u64 {
        let volume = self.volume.as_ref().map_or(0, |volume| volume.engine.map().dirty_bytes());
        volume + self.cache.as_ref().map_or(0, |cache| cache.held_bytes())
    }

    /// From now on what is dirty is written back, and a flush waits until nothing is.
    pub fn drain(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        if let Some(volume) = &mut self.volume {
            volume.is_draining = true;
            volume.engine.drain(now, true);
            self.carry_out(now);
            self.dispatch(now);
        }
    }

    /// Forgets what the volume holds in memory of segments, and what the file cache holds.
    pub fn empty_buffers(&mut self, now: Nanos) {
        let now = now.max(self.clock);
        if let Some(files) = &mut self.files {
            files.cache.empty();
        }
        if let Some(volume) = &mut self.volume {
            volume.engine.empty_buffer(now);
            self.carry_out(now);
            self.dispatch(now);
        }
    }

    /// Does what the engine has ordered.
    pub(super) fn carry_out(&mut self, now: Nanos) {
        loop {
            let Some(volume) = &mut self.volume else { return };
            let outputs = volume.engine.take_outputs();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                match output {
                    Output::Order(order) => {
                        let range = Range::new(order.offset, order.length);
                        self.begin_order(now, order.id, order.device, operation(&order.action), range);
                    }
                    Output::Reply { tag, result } => {
                        assert!(result.is_ok(), "nothing fails here");
                        let volume = self.volume.as_mut().expect("there is one");
                        let owner = volume.asked[tag as u32];
                        volume.asked.remove(tag as u32);
                        self.finish_part(now, owner);
                    }
                    Output::Release(_) => {}
                }
            }
        }
        let Some(volume) = &mut self.volume else { return };
        volume.send_flash(now, &mut self.accesses);
        if !volume.drains.is_empty() && volume.engine.is_drained() {
            for slot in std::mem::take(&mut volume.drains) {
                self.reply(now, slot);
            }
        }
    }

    fn begin_order(&mut self, now: Nanos, id: OrderId, which: Which, operation: Operation, range: Range) {
        let bytes_max = self.disk.command_bytes_max();
        let volume = self.volume.as_mut().expect("there is one");
        let bytes = if operation == Operation::Read { range.length } else { 0 };
        let is_disk = which == Which::Disk && operation != Operation::Flush;
        let parts_left = if is_disk { range.length.div_ceil(bytes_max) as u32 } else { 1 };
        volume.orders.insert(id, Ordered { parts_left, bytes });
        if which == Which::Flash {
            volume.flash_waiting.push_back((id, operation, range));
        } else if operation == Operation::Flush {
            if self.disk.has_volatile_cache() {
                self.disk.on_flush(Owner::Volume(id));
            } else {
                self.finish_order(now, id);
            }
        } else {
            let mut address = range.offset;
            while address < range.end() {
                let length = bytes_max.min(range.end() - address);
                let (owner, origin) = (Owner::Volume(id), Origin::default());
                self.disk.on_part(now, Part { owner, operation, address, length, origin, is_read_ahead: false });
                address += length;
            }
        }
    }

    /// A part of an order is done.
    pub(super) fn finish_order(&mut self, now: Nanos, id: OrderId) {
        let volume = self.volume.as_mut().expect("it gave the order");
        let order = volume.orders.get_mut(&id).expect("it is under way");
        order.parts_left -= 1;
        if order.parts_left > 0 {
            return;
        }
        let bytes = order.bytes;
        volume.orders.remove(&id);
        let data = &volume.zeros[..bytes.min(PART_BYTES_MAX) as usize];
        volume.engine.on_completion(now, id, Ok(data));
    }

    /// When the volume has something to do of its own.
    pub(super) fn volume_due(&self) -> Nanos {
        let Some(volume) = &self.volume else { return Nanos::MAX };
        volume.flash_due.min(volume.engine.next_timer().unwrap_or(Nanos::MAX))
    }

    /// Flash has finished something, or the engine's time has come.
    pub(super) fn on_volume(&mut self, now: Nanos) {
        let volume = self.volume.as_mut().expect("it has a timer");
        let mut finished = std::mem::take(&mut volume.finished);
        if volume.flash_due <= now {
            volume.flash.on_timer(now, &mut finished);
        }
        for done in finished.drain(..) {
            let volume = self.volume.as_mut().expect("there is one");
            volume.flash_under_way -= 1;
            let id = volume.flash_tags[done.tag];
            volume.flash_tags.remove(done.tag);
            self.finish_order(now, id);
        }
        let volume = self.volume.as_mut().expect("there is one");
        volume.finished = finished;
        if volume.engine.next_timer().is_some_and(|at| at <= now) {
            volume.engine.on_timer(now);
        }
        self.carry_out(now);
        self.dispatch(now);
    }
}
