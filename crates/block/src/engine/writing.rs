//! Writes, and zeros: one per range at a time (rule 1), in the order they came.
//!
//! A write that overlaps unfinished ones waits for all of them. Then it is decided once whether the log takes
//! it. What the guard hides always goes there; of a longer write that bypasses flash it is a part of its own:
//! one of many processes that was answered at once for all of it would be out of step with the others from
//! then on. A bypass waits until no write-back is under way on its range, and none begins there while it
//! waits.

use super::Engine;
use super::orders::Purpose;
use super::writes::{Write, checksums};
use crate::engine::disk_queue::Kind;
use crate::engine::log_queue::Item;
use crate::order::{Action, Error, Tag};
use crate::record::{PAYLOAD_BLOCKS_MAX, blocks_of};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::Nanos;
use headstart_units::request::Range;

/// Writes that wait for room behind those that have to, among which one is found that need not.
const DIVERTED_MAX: usize = 64;

impl<P: Policy> Engine<P> {
    /// A request to write `data`, or zeros.
    pub(super) fn add_write(&mut self, tag: Tag, range: Range, data: Option<&[u8]>, fua: bool) {
        let id = self.writes.name();
        let blockers = self.writes.block(id, range);
        let crcs = data.map(|data| checksums(range.offset, data));
        self.writes.add(id, Write::new(tag, range, crcs, fua, blockers));
        if blockers == 0 {
            self.begin_write(id);
        }
    }

    fn begin_write(&mut self, id: u64) {
        let range = self.writes.get(id).range;
        self.copies.cancel(range);
        if self.condition.flash_failed() {
            // The log may name the range, and nothing can say that it no longer holds.
            self.writes.refuse(id);
            return;
        }
        let is_zero = self.writes.get(id).is_zero();
        let load = self.load();
        if self.absorbs() && (is_zero || self.policy.absorbs(range, &load)) {
            self.log(id);
        } else if self.in_force.is_guarded(range) {
            self.split(id, self.in_force.cuts(range));
        } else {
            self.leave(id);
        }
    }

    /// The log takes a write.
    fn log(&mut self, id: u64) {
        self.counters.absorbed(self.writes.get(id).range.length);
        self.queue_write(id);
    }

    /// A write bypasses flash.
    fn leave(&mut self, id: u64) {
        let length = self.writes.wait(id);
        match self.absorbs() {
            true => self.counters.bypassed_unwanted(length),
            false => self.counters.bypassed_off(length),
        }
    }

    /// Of a write that would bypass flash the log takes the cuts that the guard hides.
    fn split(&mut self, id: u64, cuts: Vec<Range>) {
        if cuts.len() == 1 {
            return self.log(id);
        }
        let whole = self.writes.get_mut(id);
        whole.split(cuts.len());
        let whole = whole.clone();
        for range in cuts {
            let part = self.writes.name();
            // Guarded ranges are of whole blocks.
            let first = (range.offset / BLOCK_BYTES - whole.range.offset / BLOCK_BYTES) as usize;
            let crcs = whole.crcs.as_ref().map(|crcs| crcs[first..first + blocks_of(range) as usize].to_vec());
            self.writes.add(part, whole.part_of(id, range, crcs));
            if self.in_force.is_guarded(range) { self.log(part) } else { self.leave(part) }
        }
    }

    /// Cuts a write into what records have room for.
    fn queue_write(&mut self, id: u64) {
        let blocks_max = PAYLOAD_BLOCKS_MAX.min(u64::from(self.map.ring.blocks()) / 8);
        let since = self.condition.now();
        let write = self.writes.get_mut(id);
        let Some(crcs) = &write.crcs else {
            self.log.queue.push(Item { write: id, range: write.range, crcs: None, since });
            return write.log(1);
        };
        let first = write.range.offset / BLOCK_BYTES;
        let mut items = 0;
        for (chunk, index) in crcs.chunks(blocks_max as usize).zip(0..) {
            let blocks = Range::new((first + index * blocks_max) * BLOCK_BYTES, blocks_max * BLOCK_BYTES);
            let range = write.range.intersection(blocks);
            self.log.queue.push(Item { write: id, range, crcs: Some(chunk.to_vec()), since });
            items += 1;
        }
        write.log(items);
    }

    /// A part of a write is in the log, or has ended.
    pub(super) fn on_logged(&mut self, id: u64, ok: bool) {
        let write = self.writes.get_mut(id);
        if write.end_one(ok) {
            let ok = !write.has_failed();
            self.end_write(id, ok);
        }
    }

    /// The first write in the log's queue that has waited for long enough goes to the disk
    /// instead, if nothing of it is in flight and it may.
    pub(super) fn divert(&mut self) -> bool {
        let wait = self.policy.waits_for_room(&self.load());
        let may = |item: &&Item| self.condition.now().since(item.since) >= wait && self.is_divertible(item);
        let found = self.log.queue.iter_by_age().take(DIVERTED_MAX).find(may).map(|item| item.write);
        let Some(id) = found else { return false };
        self.log.queue.remove_write(id);
        self.writes.get_mut(id).divert();
        let length = self.writes.wait(id);
        self.counters.diverted(length);
        self.orders.note_moves(1);
        true
    }

    /// Whether a write may go to the disk instead of the log.
    fn is_divertible(&self, item: &Item) -> bool {
        let write = self.writes.get(item.write);
        write.is_divertible(|| self.log.queue.count_of(item.write)) && !self.in_force.is_guarded(write.range)
    }

    pub(super) fn pump_writes(&mut self) {
        // One after the other, not each within the end of the one it waited for.
        while let Some(id) = self.writes.pop_refused() {
            self.end_write(id, false);
        }
        let was_crowded = self.writes.set_crowded(false);
        for id in self.writes.waiting() {
            let range = self.writes.get(id).range;
            if self.condition.disk_failed() {
                self.end_write(id, false);
                continue;
            }
            if self.map.heads.touches(range) {
                if self.condition.flash_failed() {
                    self.end_write(id, false);
                } else {
                    self.end_heads(range);
                }
                continue;
            }
            let in_write_back = self.write_backs.touch(range);
            let has_room = self.has_room_for_bypass();
            if !has_room {
                self.writes.set_crowded(true);
            }
            if !in_write_back && has_room {
                self.bypass(id, range);
            }
        }
        // Room is made for those that wait for nothing else.
        self.orders.note_moves(u64::from(self.writes.are_crowded() && !was_crowded));
    }

    fn bypass(&mut self, id: u64, range: Range) {
        self.writes.begin_bypass(id);
        let is_zero = self.writes.get(id).is_zero();
        for cut in self.in_force.cuts(range) {
            let orders = match is_zero {
                true => self.zero_orders(cut),
                false => vec![(cut, Action::Write(vec![self.writes.get(id).part(cut)]))],
            };
            self.queue_bypass(id, orders);
        }
    }

    fn queue_bypass(&mut self, id: u64, orders: Vec<(Range, Action)>) {
        self.writes.get_mut(id).expect(orders.len());
        for (part, action) in orders {
            let purpose = match action {
                Action::Zero => Purpose::Zeroing(id, part),
                _ => Purpose::Bypass(vec![(id, part)]),
            };
            self.queue_disk_as(action, part, purpose, Kind::Joined);
        }
    }

    /// The disk has made a part of a write of zeros, or has refused to: then it is written, as all zeros are from now
    /// on.
    pub(super) fn on_zeroed(&mut self, id: u64, part: Range, ok: bool) {
        if !ok {
            self.settings.zero_bytes_max = 0;
            self.queue_bypass(id, self.zero_orders(part));
        }
        self.on_bypassed(id, true);
    }

    /// Whether something is under way, or may be, that could make room: in the log, or in a checkpoint.
    fn may_make_room(&self) -> bool {
        let owed = self.flushes.owed.awaits_flush();
        let is_said = self.flushes.owed.flushed() == 0 && self.checkpoints.is_idle() && !self.checkpoints.is_wanted();
        let is_durable = self.flushes.flash.is_idle() && !self.map.heads.is_ending();
        // A bypass of what could not be written back cleans it.
        let is_bypassed = |range: Range| self.writes.bypass(range);
        // Once a reader of it has ended, what nobody needs is overwritten.
        let is_free = self.map.ring.oldest().is_some_and(|oldest| !oldest.live);
        let comes = self.log.records.may_complete()
            || self.log.records.has_hole()
            || is_free
            || !is_said
            || !is_durable
            || (owed && !self.condition.disk_failed())
            || !self.write_backs.is_empty()
            || self.may_write_back()
            // Until it has ended, room is kept for what it may cut.
            || (self.writes.are_crowded() && self.writes.bypasses() > 0)
            || self.write_backs.refused.iter().any(is_bypassed);
        comes && !self.condition.flash_failed()
    }

    /// Fails the first write that waits for room while nothing could make some; whether there was one. Reads,
    /// timers and writes of other places go on meanwhile.
    pub(super) fn fail_stalled(&mut self) -> bool {
        let is_idle = self.orders.is_empty() && self.next_timer().is_none();
        if !is_idle && (!self.is_short_of_room() || self.may_make_room()) {
            return false;
        }
        // Who may be diverted waits for that.
        let diverts = !is_idle && self.policy.waits_for_room(&self.load()) < Nanos::MAX;
        let first = self.log.queue.iter_by_age().find(|item| !diverts || !self.is_divertible(item));
        let first = first.map(|item| item.write);
        if let Some(id) = first {
            (0..self.log.queue.remove_write(id)).for_each(|_| self.on_logged(id, false));
            return true;
        }
        let may_fail = is_idle || self.writes.are_crowded();
        let stalled = self.writes.first_waiting().filter(|_| may_fail);
        stalled.inspect(|id| self.end_write(*id, false)).is_some()
    }

    /// One that was gathered of several and failed is tried again part by part: others' bad sectors are not theirs.
    pub(super) fn on_bypass(&mut self, parts: Vec<(u64, Range)>, ok: bool) {
        if ok || parts.len() == 1 {
            parts.into_iter().for_each(|(id, _)| self.on_bypassed(id, ok));
            return;
        }
        for (id, range) in parts {
            let action = Action::Write(vec![self.writes.get(id).part(range)]);
            self.queue_disk_as(action, range, Purpose::Bypass(vec![(id, range)]), Kind::Single);
        }
    }

    fn on_bypassed(&mut self, id: u64, ok: bool) {
        let write = self.writes.get_mut(id);
        let is_last = write.end_one(ok);
        let (range, ok) = (write.range, !write.has_failed());
        self.flushes.note_disk_write();
        if !is_last {
            return;
        }
        self.writes.end_bypass();
        if ok {
            // Rule 1: no record of the range is in flight, so that all there are are older.
            let upto = self.log.records.seq_next() - 1;
            if self.map.set_clean(range, upto) {
                self.flushes.owed.raise(range, upto);
            }
            self.write_backs.refused.forget(range);
        }
        // A bypass that failed may have written some of it, and reads may have seen that.
        self.flushes.note_bypass();
        self.end_write(id, ok);
    }

    /// Acknowledges a write and lets those behind it go on.
    fn end_write(&mut self, id: u64, ok: bool) {
        self.writes.end_wait(id);
        let write = self.writes.end(id);
        self.copies.cancel(write.range);
        if let Some(whole) = write.whole {
            self.on_logged(whole, ok);
        } else {
            self.writes.note_answered(write.range.length);
            match (ok, write.fua) {
                (true, true) => self.add_fua(write.tag),
                (true, false) => self.orders.reply(write.tag, Ok(Vec::new())),
                (false, _) => self.orders.reply(write.tag, Err(Error::Io)),
            }
        }
        for blocked in write.blocked {
            if self.writes.get_mut(blocked).unblock() {
                self.begin_write(blocked);
            }
        }
    }
}
