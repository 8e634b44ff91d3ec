//! Lifts: a head comes to flash; and the ends of heads.
//!
//! ```text
//! Reading (the disk, or the bytes of a load) -> Writing (a slot) -> Flushing (the disk) -> HEAD in flight -> live
//!      '----------------- a write of the range begins: given up, the slot is free -----------'
//! ```
//!
//! What is lifted is clean: the log names nothing of it, and no write of it is unfinished. The disk FLUSH
//! after the read makes what was read durable before a record rests on it; it is left out while nothing was
//! written to the disk since the last. What ends a head is in [`Heads`](crate::heads). Guarded blocks are
//! never lifted: slots know no keystream.

use std::sync::Arc;

use super::Engine;
use super::lifts::{Lift, Origin, Stage};
use super::orders::Purpose;
use crate::devices::Device;
use crate::order::{Action, OrderId, Part};
use crate::record::Header;
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    /// The head of a segment.
    pub(super) fn head_range(&self, segment: u64) -> Range {
        Range::new(segment * self.in_force.segments().segment_bytes(), self.in_force.segments().head_bytes())
    }

    /// First byte of a slot on flash.
    pub(super) fn slot_offset(&self, slot: u32) -> u64 {
        self.in_force.layout().head_offset(u64::from(slot) * u64::from(self.in_force.segments().head_blocks))
    }

    /// Whether a segment may have a head at all.
    fn is_liftable(&self, range: Range) -> bool {
        let is_up = self.absorbs() && !self.condition.is_stopping() && !self.condition.disk_failed();
        is_up && range.end() <= self.in_force.disk_bytes() && !self.in_force.regions().touches(range)
    }

    /// Whether nothing speaks against a copy of the range being made now.
    fn is_quiet(&self, range: Range) -> bool {
        !self.map.heads.touches(range) && !self.copies.lifts.touch(range) && !self.writes.touch(range)
    }

    /// A slot for a segment's head, if one is free. If not, some head gives way, unless one does already.
    fn take_slot(&mut self, newcomer: u64) -> Result<u32, bool> {
        if let Some(slot) = self.copies.slots.take() {
            return Ok(slot);
        }
        self.copies.lifts.await_heads();
        if self.map.heads.is_ending() || !self.copies.lifts.is_empty() {
            return Err(true);
        }
        let Some(segment) = self.policy.next_de_lift(newcomer) else { return Err(false) };
        let doomed = self.map.heads.doom(self.head_range(segment));
        self.counters.de_lifts_total += doomed.len() as u64;
        self.orders.note_moves(1);
        self.policy.on_head_lost(segment, false);
        Err(!doomed.is_empty())
    }

    pub(super) fn pump_lifts(&mut self) {
        if self.in_force.segments().is_none() {
            return;
        }
        if self.condition.is_stopping() && self.condition.is_draining() {
            // The disk is to be whole without the flash.
            self.map.heads.doom(Range::between(0, self.in_force.disk_bytes()));
        }
        self.end_doomed();
        for id in self.copies.lifts.flushing() {
            self.record_lift(id);
        }
        if self.condition.is_stopping()
            || self.condition.flash_failed()
            || self.condition.disk_failed()
            || self.checkpoints.hold_log()
        {
            return;
        }
        while let Some(segment) = self.policy.next_lift(&self.load()) {
            if let Err(again) = self.begin_lift(segment) {
                self.policy.on_lift_refused(self.condition.now(), segment, again);
                return;
            }
        }
    }

    /// `Err(true)`: perhaps later.
    fn begin_lift(&mut self, segment: u64) -> Result<(), bool> {
        let range = self.head_range(segment);
        if !self.is_liftable(range) {
            return Err(false);
        }
        if !self.is_quiet(range) {
            return Err(self.map.heads.live(range).is_none());
        }
        let pieces = self.map.pieces(range);
        if !pieces.is_empty() {
            // What is clean but named becomes free by a CLEAN.
            let are_awaited = self.copies.lifts.await_cleans(pieces.iter().all(|piece| !piece.dirty));
            self.orders.note_moves(u64::from(are_awaited));
            return Err(true);
        }
        if !self.has_room_for_heads(self.copies.lifts.len() as u64 + 1) {
            return Err(true);
        }
        let slot = self.take_slot(segment)?;
        let lift = Lift::new(segment, range, slot, Origin::Disk, self.flushes.disk_writes());
        let id = self.copies.lifts.begin(lift);
        let order = self.order(Device::Disk, Action::Read, range, Purpose::LiftRead(id));
        self.copies.lifts.get_mut(id).order = Some(order);
        Ok(())
    }

    /// A load has read a head from the disk, whole and valid: it comes to flash from there, if a slot is free.
    pub(super) fn lift_from_load(&mut self, segment: u64, order: OrderId, data: &[u8]) {
        let range = self.head_range(segment);
        let may = self.is_liftable(range) && self.is_quiet(range) && self.map.pieces(range).is_empty();
        if !may || self.condition.flash_failed() || !self.has_room_for_heads(self.copies.lifts.len() as u64 + 1) {
            return;
        }
        let Ok(slot) = self.take_slot(segment) else { return };
        self.orders.share(order);
        let lift = Lift::new(segment, range, slot, Origin::Load(order), self.flushes.disk_writes());
        let id = self.copies.lifts.begin(lift);
        self.write_lift(id, data);
    }

    fn write_lift(&mut self, id: u64, data: &[u8]) {
        let lift = self.copies.lifts.get_mut(id);
        lift.crcs = data.chunks(BLOCK_BYTES as usize).map(crc32c::crc32c).collect();
        lift.stage = Stage::Writing;
        let (slot, length) = (lift.slot, lift.range.length);
        let order = lift.order.expect("its bytes have been read");
        let part = Part::Buffer { order, offset: 0, length };
        let place = Range::new(self.slot_offset(slot), length);
        self.order(Device::Flash, Action::Write(vec![part]), place, Purpose::LiftWrite(id));
    }

    pub(super) fn on_lift_read(&mut self, id: u64, result: Result<&[u8], ()>) {
        let lift = self.copies.lifts.end_read(id);
        let is_cancelled = lift.is_cancelled;
        lift.order.into_iter().for_each(|order| self.orders.hold(order));
        match result {
            Ok(data) if !is_cancelled => self.write_lift(id, data),
            _ => self.give_up_lift(id),
        }
    }

    pub(super) fn on_lift_written(&mut self, id: u64, ok: bool) {
        let lift = self.copies.lifts.get_mut(id);
        lift.stage = Stage::Flushing;
        lift.is_cancelled |= !ok;
        let order = lift.order.take();
        order.into_iter().for_each(|order| self.orders.release(order));
    }

    /// What was read is durable: the HEAD is appended.
    fn record_lift(&mut self, id: u64) {
        let lift = self.copies.lifts.get(id);
        if lift.is_cancelled || self.condition.is_stopping() || self.condition.flash_failed() {
            return self.give_up_lift(id);
        }
        if self.flushes.disk.covered() < lift.disk_writes {
            if self.condition.disk_failed() {
                return self.give_up_lift(id);
            }
            if self.flushes.disk.is_idle() || self.flushes.disk.covers() < lift.disk_writes {
                self.flushes.disk.ask();
            }
            return;
        }
        let (range, slot, crcs) = (lift.range, lift.slot, Arc::clone(&lift.crcs));
        let from_load = matches!(lift.origin, Origin::Load(_));
        if self.append_head(range, slot, &crcs) {
            self.counters.lifts_from_loads_total += u64::from(from_load);
            self.copies.lifts.end(id);
        } else if !self.checkpoints.hold_log() && !self.log.records.has_hole() && !self.is_recording() {
            // The log is full: who writes needs its room more.
            self.give_up_lift(id);
        }
    }

    fn give_up_lift(&mut self, id: u64) {
        let lift = self.copies.lifts.end(id);
        self.orders.note_moves(1);
        lift.order.into_iter().for_each(|order| self.orders.release(order));
        self.copies.slots.give_back(lift.slot);
        self.policy.on_lift_refused(self.condition.now(), lift.segment, !self.condition.is_stopping());
    }

    /// A head is not read any more.
    pub(super) fn lose_head(&mut self, offset: u64, again: bool) {
        self.policy.on_head_lost(offset / self.in_force.segments().segment_bytes(), again);
    }

    /// The disk is to be written where a replay may find heads: they end first, durably (rule 5).
    pub(super) fn end_heads(&mut self, range: Range) {
        let doomed = self.map.heads.doom(range);
        self.counters.written_heads_total += doomed.len() as u64;
        self.orders.note_moves(doomed.len() as u64);
        self.copies.lifts.await_heads();
        doomed.into_iter().for_each(|offset| self.lose_head(offset, true));
    }

    /// A slot does not hold what its record says.
    pub(super) fn drop_bad_head(&mut self, range: Range, slot: u32) {
        self.counters.damaged_reads_total += 1;
        if self.map.heads.live(range).is_some_and(|head| head.slot == slot) {
            self.end_heads(range);
        }
    }

    /// NOHEAD for what is doomed; without room in the log a checkpoint leaves it out.
    fn end_doomed(&mut self) {
        if self.condition.flash_failed() {
            return;
        }
        loop {
            let mut doomed = self.map.heads.doomed();
            let mut ranges = Vec::new();
            while Header::fits(ranges.len() + 1, 0)
                && let Some(range) = doomed.next()
            {
                ranges.push(range);
            }
            drop(doomed);
            if ranges.is_empty() {
                return;
            }
            if !self.append_no_heads(&ranges) {
                self.checkpoints.want(!self.is_recording() && !self.checkpoints.hold_log());
                return;
            }
        }
    }

    /// What has ended durably frees its slot.
    pub(super) fn settle_heads(&mut self) {
        for slot in self.map.heads.settle(self.log.records.durable_to()) {
            self.copies.slots.give_back(slot);
            self.orders.note_moves(1);
        }
        self.copies.lifts.settle(self.map.heads.is_ending(), !self.flushes.owed.is_empty());
    }
}
