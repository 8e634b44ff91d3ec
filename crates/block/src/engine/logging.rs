//! The log: what waits is gathered into records, which complete in any order.
//!
//! A record is appended where there is room (rule 3: `Ring`), never while a checkpoint waits for those in
//! flight. One that fails leaves a hole that would hide all that follow it; what it said is said again after
//! a checkpoint has taken the hole's place below S.

use super::Engine;
use super::log_queue::Item;
use super::orders::Purpose;
use super::records::InFlight;
use crate::devices::Device;
use crate::heads::Head;
use crate::log_map::{Content, Piece};
use crate::order::{Action, Part};
use crate::record::{Entry, Header, Kind, PAYLOAD_BLOCKS_MAX, blocks_of};
use headstart_policy::server::{Load, Policy};
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// Blocks of the log, one of so many and no more than a number, that only writes take which may not go to the
/// disk (assumed: a file system writes its ends less than 256 times while one sweep of write-back frees the
/// log).
const RESERVE_PARTS: u32 = 64;
const RESERVE_BLOCKS_MAX: u32 = 512;

/// Of the items that are paced, one of so many is let into the log at a time (measured: from 8 to 24 the disk
/// has the fewest write-backs; with more each has a record of its own).
const PACED_PARTS: usize = 12;

/// Bytes of a checkpoint that nothing but write-backs take, which free room and so wait for none: each cuts
/// what it begins with once.
const SPARE_BYTES: u64 = 4096;

/// One of so many parts of a checkpoint is not for heads (assumed).
const WRITERS_PARTS: u64 = 4;

/// Most bytes an entry adds to a checkpoint: itself, and another end of what it cuts.
fn growth(range: Range, is_payload: bool) -> u64 {
    2 * Piece::encoded_bytes(Range::default()) + if is_payload { 8 + 4 * blocks_of(range) } else { 8 }
}

impl<P: Policy> Engine<P> {
    /// Bytes that a checkpoint would have left if everything in flight were in it: records, and what bypasses
    /// cut out of the log's extents.
    pub(super) fn room_in_checkpoint(&self) -> u64 {
        let records = self.log.records.growth();
        let bypasses = self.writes.bypasses() as u64 * growth(Range::default(), false);
        let area = self.in_force.layout().checkpoint_bytes();
        let spare = SPARE_BYTES.min(area / 16);
        area.saturating_sub(self.map.encoded_bytes() + records + bypasses + spare)
    }

    /// Whether one more bypass may cut the log's extents.
    pub(super) fn has_room_for_bypass(&self) -> bool {
        self.room_in_checkpoint() >= growth(Range::default(), false)
    }

    /// Whether so many more heads leave writes a part of the checkpoint: heads go when others come, what the
    /// log names only when it is written back.
    pub(super) fn has_room_for_heads(&self, count: u64) -> bool {
        let area = self.in_force.layout().checkpoint_bytes();
        let heads = count * Head::encoded_bytes(u64::from(self.in_force.segments().head_blocks));
        self.room_in_checkpoint() >= heads + area / WRITERS_PARTS
    }

    pub(super) fn pump_log(&mut self) {
        if self.condition.flash_failed() {
            self.fail_queue();
            return;
        }
        if self.holds_log() {
            return;
        }
        if self.cleans_are_due() {
            self.append_cleans();
        }
        let was_full = self.log.set_full(false);
        while !self.holds_log() && !self.log.queue.is_empty() && self.log.records.len() < self.settings.records_max {
            let load = self.load();
            let came_by = self.came_by(&load);
            let (count_max, pause) = self.admitted(&load, came_by);
            if count_max == 0 {
                break;
            }
            if self.append_items(count_max, came_by) {
                self.log.pause(self.condition.now(), pause);
                continue;
            }
            self.log.set_full(true);
            if self.append_reserved() {
                continue;
            }
            if !self.divert() {
                break;
            }
        }
        // CLEANs that were not due before are due now.
        self.orders.note_moves(u64::from(self.log.is_full() && !was_full));
    }

    /// How many items the log takes now, and how long it takes no more then. Of those that are paced, a few
    /// of the lowest addresses at a time: neighbours come together, and write-back finds long runs. Those
    /// that have waited for as long as for room are kept no longer.
    fn admitted(&self, load: &Load, came_by: Option<Nanos>) -> (usize, Nanos) {
        let pace = self.policy.paces(load);
        if self.condition.is_stopping() || pace == Nanos::ZERO {
            return (usize::MAX, Nanos::ZERO);
        }
        let waiting = self.log.queue.len();
        let aged = came_by.map_or(0, |came_by| self.log.queue.aged(came_by));
        let count =
            if self.condition.now() < self.log.paced_until() { aged } else { aged.max(waiting.div_ceil(PACED_PARTS)) };
        (count, Nanos(pace.0 * count as u64 / waiting as u64))
    }

    /// Who came by then has waited for as long as anybody waits for room.
    fn came_by(&self, load: &Load) -> Option<Nanos> {
        self.condition.now().0.checked_sub(self.policy.waits_for_room(load).0).map(Nanos)
    }

    /// When some item has waited for long enough.
    pub(super) fn log_due(&self) -> Option<Nanos> {
        let load = self.load();
        let aged = self.log.queue.oldest()? + self.policy.waits_for_room(&load);
        let is_paced = !self.log.is_full() && self.policy.paces(&load) > Nanos::ZERO;
        let due = if is_paced { aged.min(self.log.paced_until()) } else { aged };
        ((self.log.is_full() || is_paced) && due < Nanos::MAX && due > self.condition.now()).then_some(due)
    }

    fn holds_log(&self) -> bool {
        self.log.records.has_hole() || self.checkpoints.hold_log()
    }

    fn fail_queue(&mut self) {
        for item in self.log.queue.take(usize::MAX, None) {
            self.on_logged(item.write, false);
        }
    }

    /// A record of so many items at most, as far as they fit, those that came by then first; false if there is no room.
    fn append_items(&mut self, count_max: usize, came_by: Option<Nanos>) -> bool {
        let payload_max = PAYLOAD_BLOCKS_MAX.min(u64::from(self.map.ring.blocks()) / 8);
        let (mut count, mut payload, mut growing) = (0, 0, 0);
        let room = self.room_in_checkpoint();
        for item in self.log.queue.iter_in_turn(came_by).take(count_max) {
            let blocks = payload + item.blocks();
            let grown = growing + growth(item.range, item.crcs.is_some());
            if !Header::fits(count + 1, blocks) || blocks > payload_max || grown > room {
                break;
            }
            (count, payload, growing) = (count + 1, blocks, grown);
        }
        let reserve = (self.map.ring.blocks() / RESERVE_PARTS).min(RESERVE_BLOCKS_MAX);
        if count == 0 || !self.has_room(1 + payload + u64::from(reserve)) {
            return false;
        }
        let items = self.log.queue.take(count, came_by);
        self.append_record(items, growing);
        true
    }

    /// A record of the first write that has nowhere to go but the log, from its reserve: a live record at the
    /// tail keeps all others from the log until write-back has come to it. False if there is no such write,
    /// or no room.
    fn append_reserved(&mut self) -> bool {
        let is_bound = |item: &Item| item.crcs.is_none() || self.in_force.is_guarded(self.writes.get(item.write).range);
        let Some((key, item)) = self.log.queue.find(is_bound) else { return false };
        let growing = growth(item.range, item.crcs.is_some());
        if growing > self.room_in_checkpoint() || !self.has_room(1 + item.blocks()) {
            return false;
        }
        let item = self.log.queue.remove(key);
        self.append_record(vec![item], growing);
        true
    }

    fn append_record(&mut self, items: Vec<Item>, growing: u64) {
        items.iter().for_each(|item| self.counters.paced.add(self.condition.now().since(item.since)));
        let mut crcs = Vec::new();
        let mut parts = Vec::new();
        for item in items.iter().filter(|item| item.crcs.is_some()) {
            crcs.extend_from_slice(item.crcs.as_ref().expect("it has payload"));
            let skip = item.range.offset % BLOCK_BYTES;
            let tail = blocks_of(item.range) * BLOCK_BYTES - skip - item.range.length;
            parts.extend((skip > 0).then_some(Part::Zeros(skip)));
            parts.push(self.writes.get(item.write).part(item.range));
            parts.extend((tail > 0).then_some(Part::Zeros(tail)));
        }
        let entries = items.iter().map(Item::entry).collect();
        for item in &items {
            self.in_force.mark_changed(item.range);
        }
        self.append(entries, crcs, parts, InFlight { items, growth: growing, ..InFlight::default() });
    }

    /// A record of CLEANs, as long as some are due and there is room.
    fn append_cleans(&mut self) {
        while self.flushes.owed.flushed() > 0 && self.log.records.len() < self.settings.records_max && self.has_room(1)
        {
            let (mut cleans, mut growing) = (Vec::new(), 0);
            let room = self.room_in_checkpoint();
            while Header::fits(cleans.len() + 1, 0) && growing + growth(Range::default(), false) <= room {
                let Some(clean) = self.flushes.owed.pop_flushed() else { break };
                cleans.push(clean);
                growing += growth(Range::default(), false);
            }
            if cleans.is_empty() {
                break;
            }
            let entry = |(range, upto): &(Range, u64)| Entry { kind: Kind::Clean { upto: *upto }, range: *range };
            let entries = cleans.iter().map(entry).collect();
            let in_flight = InFlight { cleans, growth: growing, ..InFlight::default() };
            self.append(entries, Vec::new(), Vec::new(), in_flight);
        }
        // Without room in the log a checkpoint says it.
        self.checkpoints.want(self.flushes.owed.flushed() > 0);
    }

    fn has_room(&self, blocks: u64) -> bool {
        let to_end = u64::from(self.map.ring.blocks_to_end());
        let pad = if to_end < blocks { to_end } else { 0 };
        pad + blocks <= u64::from(self.map.ring.free_blocks())
    }

    /// A record that ends heads; false if there is no room for one now.
    pub(super) fn append_no_heads(&mut self, ranges: &[Range]) -> bool {
        let may = !self.holds_log() && self.log.records.len() < self.settings.records_max && self.has_room(1);
        if may {
            let entries = ranges.iter().map(|range| Entry { kind: Kind::NoHead, range: *range }).collect();
            self.append(entries, Vec::new(), Vec::new(), InFlight::default());
        }
        may
    }

    /// A record that names a head; false if there is no room for one now.
    pub(super) fn append_head(&mut self, range: Range, slot: u32, crcs: &[u32]) -> bool {
        let may = !self.holds_log() && self.log.records.len() < self.settings.records_max && self.has_room(1);
        if !may || !self.has_room_for_heads(1) {
            return false;
        }
        let entries = vec![Entry { kind: Kind::Head { slot: slot.into() }, range }];
        // The map counts it at once.
        let in_flight = InFlight { heads: vec![range.offset], ..InFlight::default() };
        self.append(entries, crcs.to_vec(), Vec::new(), in_flight);
        true
    }

    fn append(&mut self, entries: Vec<Entry>, crcs: Vec<u32>, parts: Vec<Part>, in_flight: InFlight) {
        let to_end = self.map.ring.blocks_to_end();
        let payload_blocks = if in_flight.heads.is_empty() { crcs.len() as u64 } else { 0 };
        if u64::from(to_end) < 1 + payload_blocks {
            let rest = Range::new(0, u64::from(to_end - 1) * BLOCK_BYTES);
            let pad = vec![Entry { kind: Kind::Pad, range: rest }];
            self.write_record(pad, Vec::new(), Vec::new(), InFlight::default());
        }
        self.write_record(entries, crcs, parts, in_flight);
    }

    fn write_record(&mut self, entries: Vec<Entry>, crcs: Vec<u32>, parts: Vec<Part>, mut in_flight: InFlight) {
        let seq = self.log.records.name();
        let header = Header {
            uuid: self.in_force.superblock().uuid,
            epoch: self.in_force.superblock().epoch,
            seq,
            durable_to: self.log.records.durable_to(),
            superblock: self.in_force.superblock().number,
            entries,
            crcs,
        };
        for entry in &header.entries {
            self.note_heads(entry, &header.crcs, seq);
        }
        in_flight.block = self.map.ring.append(seq, header.blocks() as u32);
        let length = BLOCK_BYTES * (1 + header.payload_blocks());
        (in_flight.given, in_flight.bytes) = (self.condition.now(), length);
        let range = Range::new(self.in_force.layout().ring_offset(in_flight.block), length);
        let mut all = vec![Part::Bytes(header.encode().to_vec())];
        all.extend(parts);
        self.order(Device::Flash, Action::Write(all), range, Purpose::Record(seq));
        self.log.records.begin(seq, in_flight);
    }

    /// What an entry does to heads once a replay may find it.
    fn note_heads(&mut self, entry: &Entry, crcs: &[u32], seq: u64) {
        match entry.kind {
            Kind::Data | Kind::Zero => {
                let ended = self.map.heads.end(entry.range, seq);
                self.counters.written_heads_total += ended.len() as u64;
                ended.into_iter().for_each(|offset| self.lose_head(offset, true));
            }
            Kind::NoHead => drop(self.map.heads.end(entry.range, seq)),
            Kind::Head { slot } => self.map.heads.record(entry.range, slot as u32, crcs.into()),
            Kind::Clean { .. } | Kind::Pad => {}
        }
    }

    pub(super) fn on_record(&mut self, seq: u64, ok: bool) {
        if !ok {
            self.on_hole(seq);
            return;
        }
        let record = self.log.records.complete(seq);
        self.log.flash_time.end(self.condition.now(), record.given, record.bytes);
        self.counters.records_total += 1;
        self.counters.cleans_total += record.cleans.len() as u64;
        let mut payload = record.block + 1;
        for item in &record.items {
            match &item.crcs {
                Some(crcs) => {
                    self.map.put_payload(item.range, payload, crcs, seq);
                    payload += crcs.len() as u32;
                }
                None => self.map.put_placeless(item.range, Content::Zeros, seq),
            }
            self.write_backs.refused.forget(item.range);
        }
        for (range, upto) in record.cleans {
            self.map.carve_up_to(range, upto, seq);
        }
        for offset in record.heads {
            if self.map.heads.recorded(offset) {
                self.counters.lifts_total += 1;
                self.policy.on_lifted(offset / self.in_force.segments().segment_bytes());
            }
        }
        for item in record.items {
            self.on_logged(item.write, true);
        }
    }

    /// What a record was to say is said again.
    fn on_hole(&mut self, seq: u64) {
        let (record, has_flash_failed) = self.log.records.fail(seq);
        record.items.into_iter().for_each(|item| self.log.queue.push(item));
        for (range, upto) in record.cleans {
            self.flushes.owed.raise_flushed(range, upto);
        }
        for offset in record.heads {
            self.map.heads.record_failed(offset);
            self.lose_head(offset, true);
        }
        self.checkpoints.want(true);
        if has_flash_failed {
            self.condition.fail(Device::Flash);
        }
    }

    /// Whether as many records are in flight as may be: room will come of itself.
    pub(super) fn is_recording(&self) -> bool {
        self.log.records.len() >= self.settings.records_max
    }
}
