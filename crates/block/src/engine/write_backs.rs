//! Write-backs under way, and the ranges that disk or flash refused to write back.

use std::collections::BTreeMap;

use super::in_force::InForce;
use super::payload::Payload;
use crate::log_map::{Content, Piece};
use crate::order::{OrderId, Part};
use headstart_units::Nanos;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

/// What could not be written back is tried again after so long (assumed: a path to a disk has come back by
/// then, and a disk that reports each bad sector late is not kept busy with them).
const RETRIED_AFTER: Nanos = Nanos(30_000_000_000);

/// Who makes what is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// The engine, of parts.
    OfParts,
    /// The disk, which makes zeros.
    ByDisk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Flash reads its payload.
    Reading,
    /// The disk has it.
    Writing,
}

/// A write-back under way: pieces that follow each other on the disk.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    pieces: Vec<Piece>,
    payloads: Vec<(OrderId, Payload)>,
    /// Pieces' bytes, cut where the guard begins or ends.
    parts: Vec<(Range, Part)>,
    missing: usize,
    stage: Stage,
    failed: bool,
    made: Made,
}

impl WriteBack {
    /// Of pieces, the payload of which is being read.
    pub(super) fn of_parts(
        pieces: Vec<Piece>,
        payloads: Vec<(OrderId, Payload)>,
        parts: Vec<(Range, Part)>,
    ) -> WriteBack {
        let missing = payloads.len();
        WriteBack { pieces, payloads, parts, missing, stage: Stage::Reading, failed: false, made: Made::OfParts }
    }

    /// Of zeros, which so many orders make.
    pub(super) fn by_disk(piece: Piece, orders: usize) -> WriteBack {
        let (payloads, parts) = (Vec::new(), Vec::new());
        let (pieces, missing, made) = (vec![piece], orders, Made::ByDisk);
        WriteBack { pieces, payloads, parts, missing, stage: Stage::Writing, failed: false, made }
    }

    /// What is written.
    pub(super) fn range(&self) -> Range {
        let first = self.pieces[0].range;
        Range::between(first.offset, self.pieces.last().map_or(first.end(), |piece| piece.range.end()))
    }

    /// Its pieces.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether it is over: nothing more comes of what it has asked for.
    pub(super) fn has_all(&self) -> bool {
        self.missing == 0
    }

    /// Whether some of it failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether the disk was asked to write it: all of its payload was what it should be.
    pub(super) fn was_written(&self) -> bool {
        self.stage == Stage::Writing
    }

    /// Who makes what is written.
    pub(super) fn made(&self) -> Made {
        self.made
    }

    /// Orders whose buffers hold its payload.
    pub(super) fn buffers(&self) -> impl Iterator<Item = OrderId> {
        self.payloads.iter().map(|(order, _)| *order)
    }

    /// An order has read payload, or has not: the record to unpin, and the range that is bad if it is.
    pub(super) fn end_read(&mut self, order: OrderId, result: Result<&[u8], ()>) -> (u64, Option<Range>) {
        self.missing -= 1;
        let index = self.payloads.iter().position(|(of, _)| *of == order).expect("it reads this");
        let payload = &self.payloads[index].1;
        let seq = payload.seq;
        if result.is_ok_and(|data| payload.matches(data)) {
            return (seq, None);
        }
        // Never wrong bytes to the disk; what the log says of the others stays.
        self.failed = true;
        let pieces = self.pieces.iter().filter(|piece| matches!(piece.content, Content::Payload { .. }));
        let bad = pieces.map(|piece| piece.range).nth(index).expect("each payload is a piece's");
        (seq, Some(bad))
    }

    /// The writes that make it, neighbours in one unless the guard begins or ends between them.
    pub(super) fn take_writes(&mut self, in_force: &InForce) -> Vec<(Range, Vec<Part>)> {
        let mut writes: Vec<(Range, Vec<Part>)> = Vec::new();
        for (range, part) in std::mem::take(&mut self.parts) {
            match writes.last_mut() {
                Some((last, gathered)) if in_force.is_guarded(*last) == in_force.is_guarded(range) => {
                    *last = Range::between(last.offset, range.end());
                    gathered.push(part);
                }
                _ => writes.push((range, vec![part])),
            }
        }
        (self.missing, self.stage) = (writes.len(), Stage::Writing);
        writes
    }

    /// The disk has written some of it, or has not.
    pub(super) fn end_write(&mut self, ok: bool) {
        self.missing -= 1;
        self.failed |= !ok;
    }

    /// Guarded blocks that were written back are known from then on, unless it failed.
    pub(super) fn note_guarded(&self, in_force: &mut InForce) {
        let mut payloads = self.payloads.iter();
        for piece in &self.pieces {
            let crcs = match piece.content {
                Content::Payload { .. } => payloads.next().map(|(_, payload)| payload.crcs.as_slice()),
                Content::Zeros | Content::Damaged => None,
            };
            let first = piece.range.offset / BLOCK_BYTES;
            in_force.note_written(piece.range, |block| {
                let crc = |crcs: &[u32]| crcs[(block.offset / BLOCK_BYTES - first) as usize];
                let zeros = || crc32c::crc32c(&[0; BLOCK_BYTES as usize]);
                (!self.failed).then(|| crcs.map_or_else(zeros, crc))
            });
        }
    }
}

/// The beginning of a piece; zeros may be longer than a write.
pub(super) fn cut_long(piece: Piece, bytes_max: u64) -> Piece {
    match piece.content {
        Content::Zeros => {
            let whole = bytes_max / SECTOR_BYTES * SECTOR_BYTES;
            Piece { range: Range::new(piece.range.offset, piece.range.length.min(whole)), ..piece }
        }
        Content::Payload { .. } | Content::Damaged => piece,
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteBacks {
    /// What could not be written back.
    pub refused: Refused,
    under_way: BTreeMap<u64, WriteBack>,
    begun: u64,
    /// Bytes written back since the last disk FLUSH was given.
    unreclaimed_bytes: u64,
}

impl WriteBacks {
    /// A name for one that will begin.
    pub(super) fn name(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// One begins.
    pub(super) fn begin(&mut self, id: u64, write_back: WriteBack) {
        self.under_way.insert(id, write_back);
    }

    /// One that is under way.
    pub(super) fn get_mut(&mut self, id: u64) -> &mut WriteBack {
        self.under_way.get_mut(&id).expect("it is under way")
    }

    /// One has ended.
    pub(super) fn end(&mut self, id: u64) -> WriteBack {
        self.under_way.remove(&id).expect("it was under way")
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether one that is shares a byte with a range.
    pub(super) fn touch(&self, range: Range) -> bool {
        self.under_way.values().any(|write_back| write_back.range().overlaps(range))
    }

    /// So many bytes were written back.
    pub(super) fn note_written(&mut self, bytes: u64) {
        self.unreclaimed_bytes += bytes;
    }

    /// A disk FLUSH is given.
    pub(super) fn note_flush(&mut self) {
        self.unreclaimed_bytes = 0;
    }

    /// Bytes written back since the last was.
    pub(super) fn unreclaimed_bytes(&self) -> u64 {
        self.unreclaimed_bytes
    }
}

/// Ranges that could not be written back.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    /// Could not be read from flash or written to the disk: tried again when they are written, when a drain
    /// begins, or after a while.
    put_off: Ranges<()>,
    /// When they are tried again.
    until: Nanos,
    /// Could not be written back in one order with their neighbours: each is tried alone.
    apart: Ranges<()>,
}

impl Refused {
    /// Puts off what could not be written back.
    pub(super) fn put_off(&mut self, now: Nanos, range: Range) {
        self.put_off.insert(range, ());
        self.until = now + RETRIED_AFTER;
    }

    /// What was put off for long enough is tried again.
    pub(super) fn retry_due(&mut self, now: Nanos) {
        if !self.put_off.is_empty() && now >= self.until {
            self.retry();
        }
    }

    /// What was put off is tried again.
    pub(super) fn retry(&mut self) {
        self.put_off = Ranges::default();
    }

    /// Whether some of a range is put off.
    pub(super) fn is_put_off(&self, range: Range) -> bool {
        self.put_off.touches(range)
    }

    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.put_off.is_empty()
    }

    /// All that is put off.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.put_off.iter().map(|(range, ())| range)
    }

    /// From now on a range is written back alone.
    pub(super) fn set_apart(&mut self, range: Range) {
        self.apart.insert(range, ());
    }

    /// A range was written back: it need not be alone any more.
    pub(super) fn rejoin(&mut self, range: Range) {
        self.apart.carve(range);
    }

    /// Whether some of a range is to be written back alone.
    pub(super) fn is_apart(&self, range: Range) -> bool {
        self.apart.touches(range)
    }

    /// A range was written anew: what was refused of it is gone.
    pub(super) fn forget(&mut self, range: Range) {
        self.put_off.carve(range);
        self.apart.carve(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_off_is_tried_again_after_a_while_or_when_it_is_written() {
        let mut refused = Refused::default();
        let range = |block: u64| Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
        refused.put_off(Nanos(5), range(1));
        refused.put_off(Nanos(5), range(2));
        refused.set_apart(range(2));
        refused.forget(range(2));
        assert_eq!((refused.iter().collect::<Vec<_>>(), refused.is_apart(range(2))), (vec![range(1)], false));
        refused.retry_due(Nanos(5));
        assert!(refused.is_put_off(range(1)));
        refused.retry_due(Nanos(5) + RETRIED_AFTER);
        assert!(refused.is_empty());
    }

    #[test]
    fn payload_that_is_not_what_its_checksums_say_fails_its_piece_alone() {
        let piece = |block: u64, content| Piece {
            range: Range::new(block * BLOCK_BYTES, BLOCK_BYTES),
            seq: 3,
            content,
            dirty: true,
        };
        let pieces = vec![piece(7, Content::Zeros), piece(8, Content::Payload { place: 0 })];
        let payload = Payload { crcs: vec![crc32c::crc32c(&[1; 4096])], seq: 3 };
        let mut write_back = WriteBack::of_parts(pieces.clone(), vec![(9, payload)], Vec::new());
        let mut good = write_back.clone();
        assert_eq!(good.end_read(9, Ok(&[1; 4096])), (3, None));
        assert!(good.has_all() && !good.has_failed());
        assert_eq!(write_back.end_read(9, Ok(&[2; 4096])), (3, Some(pieces[1].range)));
        assert!(write_back.has_failed() && write_back.range() == pieces[0].range.hull(pieces[1].range));
    }
}
