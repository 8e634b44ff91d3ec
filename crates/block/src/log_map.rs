//! What the log says of the disk: the replay of every record that has completed.
//!
//! Payload lies in a [`PayloadMap`]; zeros and damage, which have no place, in [`Ranges`]. A bit of each says
//! that it is the newest there is (*dirty*); where it is clear the disk is as new and answers reads, and a
//! CLEAN record is owed. The bit is memory's alone: replay knows the log, and rule 4 asks for the replay.
//!
//! Records may complete in any order: two that put something never overlap while both are in flight (rule 1),
//! and CLEAN spares what is newer than it says.

mod snapshots;

use super::heads::Heads;
use super::payload_map::{self, Held, PayloadMap};
pub use super::piece::{Content, Piece};
use super::record::blocks_of;
use super::ring::Ring;
use super::snapshot::Snapshot;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Placeless {
    zeros: bool,
    seq: u64,
    dirty: bool,
}

impl Placeless {
    fn is_dirty_zeros(self) -> bool {
        self.zeros && self.dirty
    }
}

/// The map, the ring it lies in, and a checksum for each block of the ring.
#[derive(Clone, Debug)]
pub struct LogMap {
    payload: PayloadMap,
    placeless: Ranges<Placeless>,
    crcs: Vec<u32>,
    encoded_bytes: u64,
    dirty_bytes: u64,
    /// Those of them that are zeros: asked for at every step, so it is not searched for.
    dirty_zero_bytes: u64,
    /// The checkpoint that is being made of it.
    snapshot: Option<Box<Snapshot>>,
    /// The ring.
    pub ring: Ring,
    /// Heads on flash.
    pub heads: Heads,
}

impl LogMap {
    /// A map of nothing.
    pub fn new(ring: Ring) -> LogMap {
        LogMap {
            payload: PayloadMap::default(),
            placeless: Ranges::default(),
            crcs: vec![0; ring.blocks() as usize],
            encoded_bytes: 0,
            dirty_bytes: 0,
            dirty_zero_bytes: 0,
            snapshot: None,
            ring,
            heads: Heads::default(),
        }
    }

    fn piece(&self, held: Held) -> Piece {
        let seq = self.ring.seq_of((held.place / BLOCK_BYTES) as u32);
        Piece { range: held.range, seq, content: Content::Payload { place: held.place }, dirty: held.dirty }
    }

    /// What the log holds of `range`, cut to it, in address order.
    pub fn pieces(&self, range: Range) -> Vec<Piece> {
        let payload = self.payload.overlapping(range).map(|held| self.piece(held));
        let placeless = self.placeless.overlapping(range).map(|(held, value)| placeless_piece(held, value));
        let mut pieces: Vec<Piece> = payload.chain(placeless).map(|piece| piece.part(range)).collect();
        pieces.sort_by_key(|piece| piece.range.offset);
        pieces
    }

    /// The pieces, whole, that end behind `offset`, in address order.
    pub fn from(&self, offset: u64) -> impl Iterator<Item = Piece> + '_ {
        let rest = Range::between(offset, u64::MAX);
        let mut payload = self.payload.overlapping(rest).map(|held| self.piece(held)).peekable();
        let mut placeless =
            self.placeless.overlapping(rest).map(|(held, value)| placeless_piece(held, value)).peekable();
        std::iter::from_fn(move || match (payload.peek(), placeless.peek()) {
            (Some(one), Some(other)) if one.range.offset < other.range.offset => payload.next(),
            (Some(_), None) => payload.next(),
            _ => placeless.next(),
        })
    }

    /// The first piece that begins at or behind `offset`, can be written back and is not on the disk.
    pub fn next_dirty(&self, offset: u64) -> Option<Piece> {
        let payload = self.payload.next_dirty(offset).map(|held| self.piece(held));
        if self.dirty_zero_bytes == 0 {
            return payload;
        }
        let placeless = self.placeless.overlapping(Range::between(offset, u64::MAX));
        let zeros = placeless.filter(|(held, value)| held.offset >= offset && value.is_dirty_zeros());
        let zeros = zeros.map(|(held, value)| placeless_piece(held, value)).next();
        payload.into_iter().chain(zeros).min_by_key(|piece| piece.range.offset)
    }

    /// Whether the log holds nothing; heads do not count.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.placeless.is_empty()
    }

    /// Whether the disk lacks anything of it.
    pub fn has_dirty(&self) -> bool {
        self.payload.dirty() > 0 || self.dirty_zero_bytes > 0
    }

    /// Whether nothing is left to be written back.
    pub fn is_written_back(&self) -> bool {
        !self.has_dirty()
    }

    /// Bytes of which the disk holds something older, or nothing that is known.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Most bytes a checkpoint of it takes.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes + self.heads.encoded_bytes()
    }

    /// The range holds payload from the ring's `block` on, which has these checksums; `seq` is the record that says so.
    pub fn put_payload(&mut self, range: Range, block: u32, crcs: &[u32], seq: u64) {
        self.carve(range, seq);
        self.crcs[block as usize..block as usize + crcs.len()].copy_from_slice(crcs);
        self.insert_payload(range, u64::from(block) * BLOCK_BYTES + range.offset % BLOCK_BYTES, true);
        self.ring.live(block);
    }

    /// The same, from a checkpoint: behind all other payload, and the ring has counted it.
    #[inline]
    pub fn load_payload(&mut self, range: Range, block: u32, crcs: impl Iterator<Item = u32>) {
        self.crcs[block as usize..].iter_mut().zip(crcs).for_each(|(kept, crc)| *kept = crc);
        let place = u64::from(block) * BLOCK_BYTES + range.offset % BLOCK_BYTES;
        self.payload.push(Held { range, place, dirty: true });
        self.count_payload(range, true);
    }

    fn insert_payload(&mut self, range: Range, place: u64, dirty: bool) {
        self.payload.put(Held { range, place, dirty });
        self.count_payload(range, dirty);
    }

    fn count_payload(&mut self, range: Range, dirty: bool) {
        self.encoded_bytes += Piece::encoded_bytes(range);
        self.dirty_bytes += if dirty { range.length } else { 0 };
    }

    /// The range holds zeros, or bytes that are lost.
    pub fn put_placeless(&mut self, range: Range, content: Content, seq: u64) {
        self.carve(range, seq);
        self.insert_placeless(range, Placeless { zeros: content == Content::Zeros, seq, dirty: true });
    }

    fn insert_placeless(&mut self, range: Range, value: Placeless) {
        let before = self.placeless.len();
        if self.snapshot.is_none() {
            // Zeros of a whole disk are written back piece by piece, and are two extents meanwhile, not as many as
            // there are pieces.
            self.placeless.join(range, value);
        } else {
            // A checkpoint has come as far as some extent's end.
            self.placeless.insert(range, value);
        }
        self.dirty_bytes += if value.dirty { range.length } else { 0 };
        self.dirty_zero_bytes += if value.is_dirty_zeros() { range.length } else { 0 };
        self.count_placeless(before);
    }

    /// There are not so many any more.
    fn count_placeless(&mut self, before: usize) {
        let each = Piece::encoded_bytes(Range::default());
        self.encoded_bytes = self.encoded_bytes + each * self.placeless.len() as u64 - each * before as u64;
    }

    /// The log says nothing of the range any more, by the record `ended_by`.
    pub fn carve(&mut self, range: Range, ended_by: u64) {
        self.keep_for_snapshot(range);
        self.take_out(range, ended_by);
    }

    fn take_out(&mut self, range: Range, ended_by: u64) {
        let change = self.payload.carve(range);
        let dirty = |held: &&Held| held.dirty;
        self.dirty_bytes += change.kept.iter().filter(dirty).map(|kept| kept.range.length).sum::<u64>();
        self.dirty_bytes -= change.removed.iter().filter(dirty).map(|removed| removed.range.length).sum::<u64>();
        for kept in &change.kept {
            self.ring.live((kept.place / BLOCK_BYTES) as u32);
            self.encoded_bytes += Piece::encoded_bytes(kept.range);
        }
        for removed in &change.removed {
            self.ring.dead((removed.place / BLOCK_BYTES) as u32, ended_by);
            self.encoded_bytes -= Piece::encoded_bytes(removed.range);
        }
        let before = self.placeless.len();
        let carved = self.placeless.carve(range);
        for (part, value) in &carved {
            self.dirty_bytes -= if value.dirty { part.length } else { 0 };
            self.dirty_zero_bytes -= if value.is_dirty_zeros() { part.length } else { 0 };
        }
        self.count_placeless(before);
    }

    /// Carves what is not newer than `upto`.
    pub fn carve_up_to(&mut self, range: Range, upto: u64, ended_by: u64) {
        for piece in self.pieces(range) {
            if piece.seq <= upto {
                self.carve(piece.range, ended_by);
            }
        }
    }

    /// The disk is as new as what is not newer than `upto`; whether the log names any of that.
    pub fn set_clean(&mut self, range: Range, upto: u64) -> bool {
        let mut named = false;
        for piece in self.pieces(range) {
            if piece.seq > upto {
                continue;
            }
            named = true;
            match piece.content {
                _ if !piece.dirty => {}
                Content::Payload { place } => {
                    let block = (place / BLOCK_BYTES) as u32;
                    // Counted before it is carved, so that its record is alive throughout.
                    self.ring.live(block);
                    self.take_out(piece.range, 0);
                    self.insert_payload(piece.range, place, false);
                }
                Content::Zeros | Content::Damaged => {
                    self.take_out(piece.range, 0);
                    let zeros = piece.content == Content::Zeros;
                    self.insert_placeless(piece.range, Placeless { zeros, seq: piece.seq, dirty: false });
                }
            }
        }
        named
    }

    /// The next `count` extents of payload that end behind `offset` are about to be read: theirs are places
    /// in no order, of which memory is asked at once here and not one after the other there.
    pub fn fetch_near(&self, offset: u64, count: usize) {
        let next = self.payload.overlapping(Range::between(offset, u64::MAX)).take(count);
        let read = next
            .map(|held| (held.place / BLOCK_BYTES) as u32)
            .fold(0, |read, block| read ^ self.ring.near(block) ^ self.crcs[block as usize]);
        std::hint::black_box(read);
    }

    /// The same of blocks whose checksums are about to be loaded.
    pub fn fetch_crcs_near(&self, blocks: impl Iterator<Item = u32>) {
        let crcs = blocks.filter_map(|block| self.crcs.get(block as usize));
        std::hint::black_box(crcs.fold(0, |read, crc| read ^ crc));
    }

    /// The whole disk, cut into parts of about so many extents of payload each.
    pub fn parts(&self, extents: usize) -> Vec<Range> {
        let ends = payload_map::bounds(&self.payload, extents).skip(1).chain([u64::MAX]);
        ends.scan(0, |begin, end| Some(Range::between(std::mem::replace(begin, end), end))).collect()
    }

    /// Checksum of a block of the ring.
    pub fn crc(&self, block: u32) -> u32 {
        self.crcs[block as usize]
    }

    /// Checksums of the blocks that hold `range`.
    pub fn crcs(&self, range: Range, place: u64) -> &[u32] {
        let first = (place / BLOCK_BYTES) as usize;
        &self.crcs[first..first + blocks_of(range) as usize]
    }

    /// Extents of payload.
    pub fn extents(&self) -> usize {
        self.payload.len()
    }

    /// Bytes of memory of what grows with the ring: payload, its checksums, records.
    pub fn memory_bytes(&self) -> usize {
        self.payload.memory_bytes() + size_of_val(&self.crcs[..]) + self.ring.memory_bytes()
    }
}

fn placeless_piece(range: Range, value: Placeless) -> Piece {
    let content = if value.zeros { Content::Zeros } else { Content::Damaged };
    Piece { range, seq: value.seq, content, dirty: value.dirty }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::chance::Random;

    #[test]
    fn what_is_dirty_is_counted_as_it_is_found() {
        let seed = std::env::var("SEED").ok().map_or(5, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        let mut map = LogMap::new(Ring::new(64, 0));
        for seq in 1..4000 {
            let range = Range::new(random.below(40) * 512, (1 + random.below(20)) * 512);
            match random.below(5) {
                0 => map.put_placeless(range, Content::Damaged, seq),
                1 => map.carve(range, seq),
                2 => drop(map.set_clean(range, seq - random.below(3))),
                _ => map.put_placeless(range, Content::Zeros, seq),
            }
            let pieces = map.pieces(Range::new(0, 1 << 20));
            let dirty = |content| {
                let of = pieces.iter().filter(|piece| piece.dirty && piece.content == content);
                of.map(|piece| piece.range.length).sum::<u64>()
            };
            assert_eq!(map.dirty_zero_bytes, dirty(Content::Zeros));
            assert_eq!(map.dirty_bytes(), dirty(Content::Zeros) + dirty(Content::Damaged));
            assert_eq!(map.next_dirty(0).is_some(), map.has_dirty());
        }
    }
}
