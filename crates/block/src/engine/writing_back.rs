//! Write-back: durable records only (rule 5 asks for it where heads are; the model for every record),
//! neighbours in one write.
//!
//! A write may be absorbed meanwhile: the CLEAN that is owed afterwards names the seq that was written back,
//! and spares it.

use super::Engine;
use super::orders::Purpose;
use super::write_backs::{Made, WriteBack, cut_long};
use crate::devices::Device;
use crate::log_map::{Content, Piece};
use crate::order::{Action, OrderId, Part};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    /// Whether a piece may be written back now, and what follows it too.
    fn may_be_written_back(&self, piece: &Piece) -> bool {
        piece.dirty
            && piece.content != Content::Damaged
            && piece.seq <= self.log.records.durable_to()
            && !self.write_backs.refused.is_put_off(piece.range)
            && !self.write_backs.touch(piece.range)
            && !self.writes.hold_disk(piece.range)
    }

    /// Whether some dirty piece may be written back, now or when what is under way has ended.
    pub(super) fn may_write_back(&self) -> bool {
        if self.condition.disk_failed() || self.condition.flash_failed() {
            return false;
        }
        let mut at = 0;
        while let Some(piece) = self.map.next_dirty(at) {
            let is_held = || self.writes.wait_for_disk(piece.range);
            if piece.content != Content::Damaged && !self.write_backs.refused.is_put_off(piece.range) && !is_held() {
                return true;
            }
            at = piece.range.end();
        }
        false
    }

    pub(super) fn pump_write_backs(&mut self) {
        // Who ends a volume and keeps what is dirty waits for nothing but what was asked for; a write may
        // wait for room.
        if self.condition.is_stopping() && !self.condition.is_draining() && !self.is_short_of_room() {
            return;
        }
        if self.condition.disk_failed()
            || self.condition.flash_failed()
            || self.flushes.owed.unflushed() >= 2 * self.settings.owed_max
        {
            return;
        }
        self.write_backs.refused.retry_due(self.condition.now());
        while let Some(from) = self.policy.next_write_back(&self.load()) {
            let found = self.find(from, u64::MAX).or_else(|| self.find(0, from));
            let Some(first) = found else {
                // Perhaps only because nothing is durable yet.
                self.want_durable();
                return;
            };
            self.begin_write_back(first);
        }
    }

    fn find(&self, from: u64, end: u64) -> Option<Piece> {
        let mut at = from;
        while let Some(piece) = self.map.next_dirty(at).filter(|piece| piece.range.offset < end) {
            if self.may_be_written_back(&piece) {
                return Some(piece);
            }
            at = piece.range.end();
        }
        None
    }

    /// Whether the disk makes zeros of a piece, or of most of it: nothing is gathered with that.
    fn is_zeroed_by_disk(&self, piece: &Piece) -> bool {
        piece.content == Content::Zeros && !self.zeroed_by_disk(piece.range).is_empty()
    }

    fn begin_write_back(&mut self, first: Piece) {
        if self.is_zeroed_by_disk(&first) {
            return self.begin_zeroing(first);
        }
        let bytes_max = self.policy.write_back_bytes_max();
        let mut pieces = vec![cut_long(first, bytes_max)];
        let mut end = pieces[0].range.end();
        let is_alone = self.write_backs.refused.is_apart(first.range);
        while let Some(next) = self.map.next_dirty(end).filter(|next| next.range.offset == end && !is_alone) {
            if self.write_backs.refused.is_apart(next.range)
                || next.range.end() - first.range.offset > bytes_max
                || self.is_zeroed_by_disk(&next)
                || !self.may_be_written_back(&next)
            {
                break;
            }
            end = next.range.end();
            pieces.push(next);
        }
        let id = self.write_backs.name();
        let mut payloads = Vec::new();
        let mut parts = Vec::new();
        for piece in &pieces {
            let order = match piece.content {
                Content::Payload { place } => {
                    Some(self.read_payload(*piece, place, Purpose::WriteBackRead(id), &mut payloads))
                }
                Content::Zeros | Content::Damaged => None,
            };
            for cut in self.in_force.cuts(piece.range) {
                let offset = piece.range.offset % BLOCK_BYTES + cut.offset - piece.range.offset;
                let length = cut.length;
                parts.push((cut, order.map_or(Part::Zeros(length), |order| Part::Buffer { order, offset, length })));
            }
        }
        let write_back = WriteBack::of_parts(pieces, payloads, parts);
        let is_read = write_back.has_all();
        self.policy.on_write_back(self.condition.now(), write_back.range());
        self.write_backs.begin(id, write_back);
        if is_read {
            self.write_disk(id);
        }
    }

    fn begin_zeroing(&mut self, first: Piece) {
        // The next one begins with a block.
        let end = (first.range.offset + self.settings.zero_bytes_max) / BLOCK_BYTES * BLOCK_BYTES;
        let piece = Piece { range: Range::between(first.range.offset, first.range.end().min(end)), ..first };
        let id = self.write_backs.name();
        self.policy.on_zeroing(piece.range);
        let orders: Vec<_> =
            self.in_force.cuts(piece.range).into_iter().flat_map(|cut| self.zero_orders(cut)).collect();
        self.write_backs.begin(id, WriteBack::by_disk(piece, orders.len()));
        for (range, action) in orders {
            debug_assert!(
                !self.map.heads.touches(range),
                "rule 5: what ended a head is durable before its disk is written"
            );
            self.order(Device::Disk, action, range, Purpose::WriteBackWrite(id));
        }
    }

    pub(super) fn on_write_back_read(&mut self, id: u64, order: OrderId, result: Result<&[u8], ()>) {
        let write_back = self.write_backs.get_mut(id);
        let (seq, bad) = write_back.end_read(order, result);
        let (is_read, has_failed) = (write_back.has_all(), write_back.has_failed());
        self.map.ring.unpin(seq);
        if let Some(bad) = bad {
            self.write_backs.refused.put_off(self.condition.now(), bad);
        }
        match (is_read, has_failed) {
            (true, true) => self.end_write_back(id),
            (true, false) => self.write_disk(id),
            (false, _) => {}
        }
    }

    fn write_disk(&mut self, id: u64) {
        let writes = self.write_backs.get_mut(id).take_writes(&self.in_force);
        for (range, parts) in writes {
            debug_assert!(
                !self.map.heads.touches(range),
                "rule 5: what ended a head is durable before its disk is written"
            );
            self.order(Device::Disk, Action::Write(parts), range, Purpose::WriteBackWrite(id));
        }
    }

    pub(super) fn on_write_back_write(&mut self, id: u64, ok: bool) {
        let write_back = self.write_backs.get_mut(id);
        write_back.end_write(ok);
        let is_last = write_back.has_all();
        self.flushes.note_disk_write();
        if is_last {
            self.end_write_back(id);
        }
    }

    /// All of it was read and written, or some could not be.
    fn end_write_back(&mut self, id: u64) {
        let write_back = self.write_backs.end(id);
        if write_back.was_written() {
            write_back.note_guarded(&mut self.in_force);
            self.note_written_back(&write_back);
        }
        self.counters.failed_write_backs_total += u64::from(write_back.has_failed());
        self.policy.on_background_end(self.condition.now(), write_back.range());
        write_back.buffers().for_each(|order| self.orders.release(order));
    }

    fn note_written_back(&mut self, write_back: &WriteBack) {
        let refused = &mut self.write_backs.refused;
        if !write_back.has_failed() {
            self.counters.write_backs_total += 1;
            self.counters.written_back_bytes_total += write_back.range().length;
            for piece in write_back.pieces() {
                refused.rejoin(piece.range);
                self.map.set_clean(piece.range, piece.seq);
                self.flushes.owed.raise(piece.range, piece.seq);
            }
            self.write_backs.note_written(write_back.range().length);
            return;
        }
        match (write_back.made(), write_back.pieces()) {
            (Made::ByDisk, _) => {
                // Written at once, as all zeros are from now on; if that fails too, the disk is bad there.
                self.settings.zero_bytes_max = 0;
                self.orders.note_moves(1);
            }
            (Made::OfParts, [piece]) => refused.put_off(self.condition.now(), piece.range),
            (Made::OfParts, pieces) => pieces.iter().for_each(|piece| refused.set_apart(piece.range)),
        }
    }
}
