//! A checkpoint: the replay of the log up to S, as a stream of extents in address order, and of heads behind them.
//!
//! It is made a chunk at a time, at a start by several threads a part of the disk each. What records behind S
//! change meanwhile is no part of it: the map remembers what it said (`snapshot`). What the disk durably
//! holds though no durable CLEAN says so is left out (rule 4), as long as the area has room for the pieces
//! that leaves.

use std::collections::VecDeque;

use super::fields::{put, u32_at, u64_at};
use super::heads::{Head, Heads};
use super::log_map::{Content, LogMap, Piece};
use super::record::{PAYLOAD_BLOCKS_MAX, blocks_of};
use headstart_policy::server::segments::HEAD_BLOCKS_MAX;
use headstart_units::SECTOR_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

const HEAD_BYTES: usize = 24;
/// Pieces whose places are looked up at the same time: more than memory answers at once, and few enough to
/// stay in the nearest cache.
pub const PIECES_AT_ONCE: usize = 64;
const BLOCK: usize = headstart_units::BLOCK_BYTES as usize;

/// An extent of a checkpoint. Checksums of its blocks stand beside it: there are millions of extents, and no
/// memory is theirs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the disk.
    pub range: Range,
    /// The record's number; zero for a head, which has none.
    pub seq: u64,
    /// What it holds.
    pub content: Stored,
}

/// What an extent of a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Payload, with a checksum for each block.
    Payload {
        /// Block of the ring where it begins.
        block: u32,
    },
    /// Zeros.
    Zeros,
    /// Lost bytes.
    Damaged,
    /// A head, with a checksum for each block.
    Head {
        /// Where its copy is.
        slot: u32,
    },
}

/// CRC32C of each block of an extent, as they lie on flash.
#[derive(Clone, Copy, Debug)]
pub struct Crcs<'a>(&'a [u8]);

impl<'a> Crcs<'a> {
    /// One after the other.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.0.chunks_exact(4).map(|crc| u32_at(crc, 0))
    }
}

impl Extent {
    /// Bytes in front of the checksums.
    fn fixed_bytes(&self) -> usize {
        HEAD_BYTES + if matches!(self.content, Stored::Payload { .. }) { 4 } else { 0 }
    }

    fn has_crcs(&self) -> bool {
        matches!(self.content, Stored::Payload { .. } | Stored::Head { .. })
    }

    /// Bytes it takes, checksums included.
    #[inline]
    pub fn encoded_bytes(&self) -> usize {
        self.fixed_bytes() + if self.has_crcs() { 4 * blocks_of(self.range) as usize } else { 0 }
    }

    /// Appends the bytes.
    #[inline]
    pub fn encode(&self, crcs: &[u32], bytes: &mut Vec<u8>) {
        let (kind, value) = match self.content {
            Stored::Payload { .. } => (1, self.seq),
            Stored::Zeros => (2, self.seq),
            Stored::Head { slot } => (4, slot.into()),
            Stored::Damaged => (7, self.seq),
        };
        let mut head = [0; HEAD_BYTES];
        put(&mut head, 0, &self.range.offset.to_le_bytes());
        put(&mut head, 8, &self.range.length.to_le_bytes());
        put(&mut head, 16, &(kind | value << 8).to_le_bytes());
        bytes.extend_from_slice(&head);
        if let Stored::Payload { block } = self.content {
            bytes.extend_from_slice(&block.to_le_bytes());
        }
        crcs.iter().for_each(|crc| bytes.extend_from_slice(&crc.to_le_bytes()));
    }

    /// The first extent of `bytes`: `Ok(None)` if it is not whole, `Err` if it can be none.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Option<(Extent, Crcs<'_>)>, Malformed> {
        if bytes.len() < HEAD_BYTES {
            return Ok(None);
        }
        let (offset, length, word) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
        let end = offset.checked_add(length).ok_or(Malformed)?;
        if length == 0 || offset % SECTOR_BYTES != 0 || length % SECTOR_BYTES != 0 || end >= 1 << 62 {
            return Err(Malformed);
        }
        let range = Range::new(offset, length);
        // Where the payload begins is read once it is known to be there.
        let (content, seq, blocks_max) = match word as u8 {
            1 => (Stored::Payload { block: 0 }, word >> 8, PAYLOAD_BLOCKS_MAX),
            2 => (Stored::Zeros, word >> 8, u64::MAX),
            4 => (Stored::Head { slot: u32::try_from(word >> 8).map_err(|_| Malformed)? }, 0, HEAD_BLOCKS_MAX.into()),
            7 => (Stored::Damaged, word >> 8, u64::MAX),
            _ => return Err(Malformed),
        };
        if blocks_of(range) > blocks_max {
            return Err(Malformed);
        }
        let mut extent = Extent { range, seq, content };
        let Some(whole) = bytes.get(..extent.encoded_bytes()) else { return Ok(None) };
        if let Stored::Payload { block } = &mut extent.content {
            *block = u32_at(whole, HEAD_BYTES);
        }
        Ok(Some((extent, Crcs(&whole[extent.fixed_bytes()..]))))
    }
}

/// Bytes that are no extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A checkpoint that is being made.
#[derive(Clone, Debug)]
pub struct Encoder {
    skip: Ranges<u64>,
    cursor: u64,
    /// All extents are encoded.
    among_heads: bool,
    /// Heads that are not.
    heads: VecDeque<Head>,
    held: Option<Piece>,
    /// Checksums of its blocks.
    held_crcs: Vec<u32>,
    crc: u32,
    bytes: u64,
    ended: bool,
    /// Bytes that do not fill a block yet.
    rest: Vec<u8>,
}

impl Encoder {
    /// One that leaves out what is not newer than the seq that `skip` has for its range.
    pub fn new(skip: Ranges<u64>, heads: &Heads) -> Encoder {
        Encoder {
            skip,
            cursor: 0,
            among_heads: false,
            heads: heads.logged().cloned().collect(),
            held: None,
            held_crcs: Vec::new(),
            crc: 0,
            bytes: 0,
            ended: false,
            rest: Vec::new(),
        }
    }

    /// The next blocks of it: at least `bytes_min`, unless it ends; zeros fill the last one.
    pub fn chunk(&mut self, map: &LogMap, bytes_min: usize) -> Vec<u8> {
        let mut chunk = std::mem::take(&mut self.rest);
        let before = chunk.len();
        chunk.reserve(bytes_min.min(1 << 20));
        self.put_extents(map, Range::between(0, u64::MAX), bytes_min.max(BLOCK), &mut chunk);
        while chunk.len() < bytes_min.max(BLOCK) && !self.ended {
            self.put_head(&mut chunk);
        }
        self.seal(chunk, before)
    }

    /// The next extents, of those that begin in a part, until there are so many bytes in all.
    fn put_extents(&mut self, map: &LogMap, part: Range, bytes_min: usize, chunk: &mut Vec<u8>) {
        if self.among_heads {
            return;
        }
        let pieces = map.snapshot_from(self.cursor.max(part.offset));
        let pieces = pieces.skip_while(|(piece, _)| piece.range.offset < part.offset);
        let pieces = pieces.take_while(|(piece, _)| piece.range.offset < part.end());
        for (index, (piece, crcs)) in pieces.enumerate() {
            if chunk.len() >= bytes_min {
                return;
            }
            if index.is_multiple_of(PIECES_AT_ONCE) {
                map.fetch_near(piece.range.end(), PIECES_AT_ONCE);
            }
            self.cursor = piece.range.end();
            if self.skip.is_empty() {
                self.put(piece, crcs, chunk);
                continue;
            }
            for part in self.kept(piece) {
                let first = (part.range.offset / BLOCK as u64 - piece.range.offset / BLOCK as u64) as usize;
                let crcs = crcs.get(first..first + blocks_of(part.range) as usize).unwrap_or_default();
                self.put(part, crcs, chunk);
            }
        }
        self.emit_held(chunk);
        self.among_heads = true;
    }

    /// What is whole of a chunk of which all but so many bytes are new.
    fn seal(&mut self, mut chunk: Vec<u8>, before: usize) -> Vec<u8> {
        self.crc = crc32c::crc32c_append(self.crc, &chunk[before..]);
        self.bytes += (chunk.len() - before) as u64;
        if self.ended {
            chunk.resize(chunk.len().next_multiple_of(BLOCK), 0);
        } else {
            self.rest = chunk.split_off(chunk.len() / BLOCK * BLOCK);
        }
        chunk
    }

    /// The next bytes of the extents that begin in a part alone, as they stand in the whole; nothing at its end.
    pub fn part(&mut self, map: &LogMap, part: Range, bytes_min: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_min);
        self.put_extents(map, part, bytes_min, &mut bytes);
        bytes
    }

    /// Goes on behind extents that were encoded apart: these are the next bytes of them, of a part that ends
    /// there. What is whole blocks.
    pub fn append(&mut self, extents: &[u8], end: u64) -> Vec<u8> {
        let mut chunk = std::mem::take(&mut self.rest);
        let before = chunk.len();
        chunk.extend_from_slice(extents);
        self.cursor = end;
        self.seal(chunk, before)
    }

    /// Extents that end up to this byte are not asked for again.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The next head, or the end.
    fn put_head(&mut self, chunk: &mut Vec<u8>) {
        let Some(head) = self.heads.pop_front() else {
            self.ended = true;
            return;
        };
        let content = Stored::Head { slot: head.slot };
        Extent { range: head.range, seq: 0, content }.encode(&head.crcs, chunk);
    }

    /// The parts of a piece that belong into the checkpoint.
    pub fn kept(&self, piece: Piece) -> Vec<Piece> {
        let mut parts = Vec::new();
        let mut at = piece.range.offset;
        for (skipped, upto) in self.skip.overlapping(piece.range) {
            if piece.seq <= upto {
                parts.push(Range::between(at, skipped.offset));
                at = skipped.end().min(piece.range.end());
            }
        }
        parts.push(Range::between(at, piece.range.end()));
        let shifted = |range: Range| match piece.content {
            Content::Payload { place } => Content::Payload { place: place + (range.offset - piece.range.offset) },
            other => other,
        };
        let parts = parts.into_iter().filter(|range| !range.is_empty());
        parts.map(|range| Piece { range, content: shifted(range), ..piece }).collect()
    }

    /// Puts a piece behind those before, together with the last one if they were one once.
    fn put(&mut self, piece: Piece, crcs: &[u32], chunk: &mut Vec<u8>) {
        if let Some(last) = self.held {
            let joined = Range::between(last.range.offset, piece.range.end());
            let follows = last.range.end() == piece.range.offset && last.seq == piece.seq;
            let same = match (last.content, piece.content) {
                (Content::Payload { place }, Content::Payload { place: next }) => {
                    place + last.range.length == next && blocks_of(joined) <= PAYLOAD_BLOCKS_MAX
                }
                (one, other) => one == other,
            };
            if follows && same {
                // A block that both have a part of counts once.
                let shared = usize::from(!crcs.is_empty() && !piece.range.offset.is_multiple_of(BLOCK as u64));
                self.held_crcs.extend_from_slice(&crcs[shared..]);
                self.held = Some(Piece { range: joined, ..last });
                return;
            }
            self.emit_held(chunk);
        }
        self.held = Some(piece);
        self.held_crcs.extend_from_slice(crcs);
    }

    fn emit_held(&mut self, chunk: &mut Vec<u8>) {
        let Some(piece) = self.held.take() else { return };
        let content = match piece.content {
            Content::Payload { place } => Stored::Payload { block: (place / BLOCK as u64) as u32 },
            Content::Zeros => Stored::Zeros,
            Content::Damaged => Stored::Damaged,
        };
        Extent { range: piece.range, seq: piece.seq, content }.encode(&self.held_crcs, chunk);
        self.held_crcs.clear();
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes so far, and their CRC32C.
    pub fn sum(&self) -> (u64, u32) {
        (self.bytes, self.crc)
    }

    /// What was left out.
    pub fn skipped(&self) -> &Ranges<u64> {
        &self.skip
    }
}
