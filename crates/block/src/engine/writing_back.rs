//! Write-back: durable records only (rule 5 asks for it where heads are; the model for every record),
//! neighbours in one write.
//!
//! A write may be absorbed meanwhile: the CLEAN that is owed afterwards names the seq that was written back,
//! and spares it.

use super::Engine;
use super::in_force::InForce;
use super::orders::Purpose;
use super::reading::Payload;
use crate::devices::Device;
use crate::log_map::{Content, Piece};
use crate::order::{Action, OrderId, Part};
use headstart_policy::server::Policy;
use headstart_units::Nanos;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

/// A write-back under way: pieces that follow each other on the disk.
#[derive(Clone, Debug)]
pub struct WriteBack {
    pieces: Vec<Piece>,
    payloads: Vec<(OrderId, Payload)>,
    /// Pieces' bytes, cut where the guard begins or ends.
    parts: Vec<(Range, Part)>,
    missing: usize,
    failed: bool,
    /// The disk makes zeros of it.
    is_zeroing: bool,
}

/// What could not be written back is tried again after so long (assumed: a path to a disk has come back by
/// then, and a disk that reports each bad sector late is not kept busy with them).
const RETRIED_AFTER: Nanos = Nanos(30_000_000_000);

impl WriteBack {
    /// What is written.
    pub fn range(&self) -> Range {
        let first = self.pieces[0].range;
        Range::between(first.offset, self.pieces.last().map_or(first.end(), |piece| piece.range.end()))
    }
}

impl<P: Policy> Engine<P> {
    /// Whether a piece may be written back now, and what follows it too.
    fn may_be_written_back(&self, piece: &Piece) -> bool {
        piece.dirty
            && piece.content != Content::Damaged
            && piece.seq <= self.durable_to
            && !self.stuck.touches(piece.range)
            && !self.write_backs.values().any(|other| other.range().overlaps(piece.range))
            && !self.writes.values().any(|write| write.holds_disk() && write.range.overlaps(piece.range))
    }

    /// Whether some dirty piece may be written back, now or when what is under way has ended.
    pub(super) fn may_write_back(&self) -> bool {
        if self.condition.disk_failed() || self.condition.flash_failed() {
            return false;
        }
        let mut at = 0;
        while let Some(piece) = self.map.next_dirty(at) {
            let is_held =
                || self.writes.values().any(|write| write.waits_for_disk() && write.range.overlaps(piece.range));
            if piece.content != Content::Damaged && !self.stuck.touches(piece.range) && !is_held() {
                return true;
            }
            at = piece.range.end();
        }
        false
    }

    /// Puts off what could not be written back.
    fn put_off(&mut self, range: Range) {
        self.stuck.insert(range, ());
        self.stuck_until = self.condition.now() + RETRIED_AFTER;
    }

    pub(super) fn pump_write_backs(&mut self) {
        // Who ends a volume and keeps what is dirty waits for nothing but what was asked for; a write may
        // wait for room.
        if self.condition.is_stopping() && !self.condition.is_draining() && !self.is_short_of_room() {
            return;
        }
        if self.condition.disk_failed()
            || self.condition.flash_failed()
            || self.owed.len() >= 2 * self.settings.owed_max
        {
            return;
        }
        if !self.stuck.is_empty() && self.condition.now() >= self.stuck_until {
            self.stuck = Ranges::default();
        }
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
        let is_alone = self.apart.touches(first.range);
        while let Some(next) = self.map.next_dirty(end).filter(|next| next.range.offset == end && !is_alone) {
            if self.apart.touches(next.range)
                || next.range.end() - first.range.offset > bytes_max
                || self.is_zeroed_by_disk(&next)
                || !self.may_be_written_back(&next)
            {
                break;
            }
            end = next.range.end();
            pieces.push(next);
        }
        self.write_backs_begun += 1;
        let id = self.write_backs_begun;
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
        let missing = payloads.len();
        let write_back = WriteBack { pieces, payloads, parts, missing, failed: false, is_zeroing: false };
        self.policy.on_write_back(self.condition.now(), write_back.range());
        self.write_backs.insert(id, write_back);
        if missing == 0 {
            self.write_disk(id);
        }
    }

    fn begin_zeroing(&mut self, first: Piece) {
        // The next one begins with a block.
        let end = (first.range.offset + self.settings.zero_bytes_max) / BLOCK_BYTES * BLOCK_BYTES;
        let piece = Piece { range: Range::between(first.range.offset, first.range.end().min(end)), ..first };
        self.write_backs_begun += 1;
        let id = self.write_backs_begun;
        self.policy.on_zeroing(piece.range);
        let orders: Vec<_> =
            self.in_force.cuts(piece.range).into_iter().flat_map(|cut| self.zero_orders(cut)).collect();
        let (payloads, parts, missing) = (Vec::new(), Vec::new(), orders.len());
        self.write_backs
            .insert(id, WriteBack { pieces: vec![piece], payloads, parts, missing, failed: false, is_zeroing: true });
        for (range, action) in orders {
            debug_assert!(
                !self.map.heads.touches(range),
                "rule 5: what ended a head is durable before its disk is written"
            );
            self.order(Device::Disk, action, range, Purpose::WriteBackWrite(id));
        }
    }

    pub(super) fn on_write_back_read(&mut self, id: u64, order: OrderId, result: Result<&[u8], ()>) {
        let write_back = self.write_backs.get_mut(&id).expect("it is under way");
        write_back.missing -= 1;
        let index = write_back.payloads.iter().position(|(of, _)| *of == order).expect("it reads this");
        let payload = &write_back.payloads[index].1;
        self.map.ring.unpin(payload.seq);
        if !result.is_ok_and(|data| payload.matches(data)) {
            // Never wrong bytes to the disk; what the log says of the others stays.
            write_back.failed = true;
            let pieces = write_back.pieces.iter().filter(|piece| matches!(piece.content, Content::Payload { .. }));
            let bad = pieces.map(|piece| piece.range).nth(index).expect("each payload is a piece's");
            self.put_off(bad);
        }
        let write_back = &self.write_backs[&id];
        if write_back.missing == 0 {
            if write_back.failed { self.end_write_back(id) } else { self.write_disk(id) }
        }
    }

    /// Writes the parts to the disk, neighbours in one order unless the guard begins or ends between them.
    fn write_disk(&mut self, id: u64) {
        let parts = std::mem::take(&mut self.write_backs.get_mut(&id).expect("it is under way").parts);
        let mut orders: Vec<(Range, Vec<Part>)> = Vec::new();
        for (range, part) in parts {
            match orders.last_mut() {
                Some((last, gathered)) if self.in_force.is_guarded(*last) == self.in_force.is_guarded(range) => {
                    *last = Range::between(last.offset, range.end());
                    gathered.push(part);
                }
                _ => orders.push((range, vec![part])),
            }
        }
        self.write_backs.get_mut(&id).expect("it is under way").missing = orders.len();
        for (range, parts) in orders {
            debug_assert!(
                !self.map.heads.touches(range),
                "rule 5: what ended a head is durable before its disk is written"
            );
            self.order(Device::Disk, Action::Write(parts), range, Purpose::WriteBackWrite(id));
        }
    }

    pub(super) fn on_write_back_write(&mut self, id: u64, ok: bool) {
        let write_back = self.write_backs.get_mut(&id).expect("it is under way");
        write_back.missing -= 1;
        write_back.failed |= !ok;
        self.disk_writes += 1;
        if write_back.missing > 0 {
            return;
        }
        note_guarded(write_back, &mut self.in_force);
        let pieces = write_back.pieces.clone();
        let (failed, is_one) = (write_back.failed, pieces.len() == 1);
        let is_refused = failed && write_back.is_zeroing;
        if is_refused {
            // Written at once, as all zeros are from now on; if that fails too, the disk is bad there.
            self.settings.zero_bytes_max = 0;
        }
        if !failed {
            self.counters.write_backs_total += 1;
            self.counters.written_back_bytes_total += write_back.range().length;
        }
        for piece in pieces {
            if is_refused {
                self.orders.note_moves(1);
            } else if failed && is_one {
                self.put_off(piece.range);
            } else if failed {
                self.apart.insert(piece.range, ());
            } else {
                self.apart.carve(piece.range);
                self.map.set_clean(piece.range, piece.seq);
                self.owed.raise(piece.range, piece.seq);
                self.unreclaimed_bytes += piece.range.length;
            }
        }
        self.end_write_back(id);
    }

    fn end_write_back(&mut self, id: u64) {
        let write_back = self.write_backs.remove(&id).expect("it was under way");
        self.counters.failed_write_backs_total += u64::from(write_back.failed);
        self.policy.on_background_end(self.condition.now(), write_back.range());
        write_back.payloads.iter().for_each(|(order, _)| self.orders.release(*order));
    }
}

/// Guarded blocks that were written back are known from then on, unless it failed.
fn note_guarded(write_back: &WriteBack, in_force: &mut InForce) {
    let mut payloads = write_back.payloads.iter();
    for piece in &write_back.pieces {
        let crcs = match piece.content {
            Content::Payload { .. } => payloads.next().map(|(_, payload)| payload.crcs.as_slice()),
            Content::Zeros | Content::Damaged => None,
        };
        let first = piece.range.offset / BLOCK_BYTES;
        in_force.note_written(piece.range, |block| {
            let crc = |crcs: &[u32]| crcs[(block.offset / BLOCK_BYTES - first) as usize];
            let zeros = || crc32c::crc32c(&[0; BLOCK_BYTES as usize]);
            (!write_back.failed).then(|| crcs.map_or_else(zeros, crc))
        });
    }
}

/// The beginning of a piece; zeros may be longer than a write.
fn cut_long(piece: Piece, bytes_max: u64) -> Piece {
    match piece.content {
        Content::Zeros => {
            let whole = bytes_max / SECTOR_BYTES * SECTOR_BYTES;
            Piece { range: Range::new(piece.range.offset, piece.range.length.min(whole)), ..piece }
        }
        Content::Payload { .. } | Content::Damaged => piece,
    }
}
