//! Pieces: ranges of the disk of which the log holds something.

use crate::record::blocks_of;
use headstart_units::request::Range;

/// What the log holds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Payload, from this byte of the ring on.
    Payload {
        /// Equal to the range's offset modulo a block.
        place: u64,
    },
    /// Zeros.
    Zeros,
    /// Bytes that are lost: reads fail.
    Damaged,
}

/// A range of which the log holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the disk.
    pub range: Range,
    /// The record's number.
    pub seq: u64,
    /// What.
    pub content: Content,
    /// The disk holds something older.
    pub dirty: bool,
}

impl Piece {
    /// The part of it that lies in a range.
    pub(crate) fn part(self, range: Range) -> Piece {
        let range = self.range.intersection(range);
        let content = match self.content {
            Content::Payload { place } => Content::Payload { place: place + (range.offset - self.range.offset) },
            other => other,
        };
        Piece { range, content, ..self }
    }

    /// Most bytes it takes in a checkpoint.
    pub fn encoded_bytes(range: Range) -> u64 {
        28 + 4 * blocks_of(range)
    }
}
