//! What a map said when a checkpoint of it began, while it goes on.
//!
//! A record behind S may end what the checkpoint has to say. So the map keeps what such records took out of
//! it, as far as the checkpoint has not come yet; what they put in is told by its seq.

use std::collections::BTreeMap;

use super::piece::Piece;
use headstart_units::request::Range;

/// A checkpoint that is being made of a map.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Seq of the first record that is no part of it.
    start_seq: u64,
    /// It has been made up to this byte of the disk.
    cursor: u64,
    /// Pieces that were taken out since, by offset, and checksums of their blocks: their places may have been
    /// written again.
    ended: BTreeMap<u64, (Piece, Vec<u32>)>,
}

impl Snapshot {
    /// Of all records below `start_seq`.
    pub(crate) fn new(start_seq: u64) -> Snapshot {
        Snapshot { start_seq, cursor: 0, ended: BTreeMap::new() }
    }

    /// Seq of the first record that is no part of it.
    pub(crate) fn start_seq(&self) -> u64 {
        self.start_seq
    }

    /// What lies before `offset` is not asked for again.
    pub(crate) fn pass(&mut self, offset: u64) {
        self.cursor = offset;
        self.ended = self.ended.split_off(&offset);
    }

    /// What of a range may still be asked for.
    pub(crate) fn ahead(&self, range: Range) -> Range {
        Range::between(range.offset.max(self.cursor), range.end())
    }

    /// A piece is taken out, the blocks of which have these checksums.
    pub(crate) fn keep(&mut self, piece: Piece, crcs: Vec<u32>) {
        self.ended.insert(piece.range.offset, (piece, crcs));
    }

    /// Pieces that were taken out since, from `offset` on.
    pub(crate) fn ended(&self, offset: u64) -> impl Iterator<Item = (Piece, &[u32])> {
        self.ended.range(offset..).map(|(_, (piece, crcs))| (*piece, &crcs[..]))
    }

    /// How many there are.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.ended.len()
    }
}
