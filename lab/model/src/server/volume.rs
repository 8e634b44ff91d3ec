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

use headstart_block::engine::{Counters, Engine, Settings};
use headstart_block::layout::GUARD_BLOCKS_MAX;
use headstart_block::order::{Action, OrderId};
use headstart_block::recovery;
use headstart_block::recovery::Given;
use headstart_block::superblock::Serving;
use headstart_policy::server::chain::Chain;
use headstart_policy::server::liu::Sizes;
use headstart_policy::server::segments::Segments;
use headstart_units::Nanos;
use headstart_units::SECTOR_BYTES;
use headstart_units::request::Range;

use super::accesses::{Access, Actor};
use super::config::{ServerConfig, VolumeConfig};
use super::disk::Owner;
use super::volume_stats::VolumeStats;
use crate::device::{Command, Device, DeviceStats, Finished};
use crate::request::Operation;
use crate::slab::Slab;

/// Requests are cut into parts of this size; no order is longer.
pub(super) const PART_BYTES_MAX: u64 = 16 << 20;

/// An order under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordered {
    pub parts_left: u32,
    /// Bytes that a read brings.
    pub bytes: u64,
}

/// See the module.
pub(super) struct Volume {
    pub engine: Engine<Chain>,
    /// Whose the engine's requests are, by tag.
    pub asked: Slab<Owner>,
    pub orders: BTreeMap<OrderId, Ordered>,
    pub flash: Box<dyn Device>,
    pub flash_due: Nanos,
    pub flash_depth: usize,
    pub flash_under_way: usize,
    pub flash_waiting: VecDeque<(OrderId, Operation, Range)>,
    pub flash_tags: Slab<OrderId>,
    pub finished: Vec<Finished>,
    /// Bytes of requests and buffers.
    pub zeros: Vec<u8>,
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

    pub fn tag(&mut self, owner: Owner) -> u64 {
        self.asked.insert(owner).into()
    }

    pub fn send_flash(&mut self, now: Nanos, accesses: &mut Option<Vec<Access>>) {
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

pub(super) fn operation(action: &Action) -> Operation {
    match action {
        Action::Read => Operation::Read,
        Action::Write(_) => Operation::Write,
        Action::Flush => Operation::Flush,
        Action::Zero => unreachable!("the disks of a model make no zeros by themselves"),
    }
}
