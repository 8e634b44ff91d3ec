//! A request for bytes of a file, as every policy sees it, and as a trace tells of it.

use serde::Serialize;

use crate::Nanos;

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Bytes come from storage.
    Read,
    /// Bytes go to storage.
    Write,
}

/// A half-open range of bytes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// The range of `length` bytes from `offset`; cut at the end of the address space.
    #[inline]
    pub fn new(offset: u64, length: u64) -> Range {
        Range { offset, length: length.min(u64::MAX - offset) }
    }

    /// The range from `start` up to, not including, `end`.
    #[inline]
    pub fn between(start: u64, end: u64) -> Range {
        Range { offset: start, length: end.saturating_sub(start) }
    }

    /// One past the last byte.
    #[inline]
    pub fn end(self) -> u64 {
        self.offset + self.length
    }

    /// Whether it holds no byte.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Range) -> bool {
        self.offset < other.end() && other.offset < self.end() && !self.is_empty() && !other.is_empty()
    }

    /// The shortest range that holds both.
    pub fn hull(self, other: Range) -> Range {
        Range::between(self.offset.min(other.offset), self.end().max(other.end()))
    }

    /// The bytes both hold; empty where they share none.
    pub fn intersection(self, other: Range) -> Range {
        Range::between(self.offset.max(other.offset), self.end().min(other.end()))
    }

    /// Whether every byte of `other` is in it.
    pub fn contains(self, other: Range) -> bool {
        other.is_empty() || (self.offset <= other.offset && other.end() <= self.end())
    }
}

/// One request of a program that ran: what a trace has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The file, by a number of the caller's.
    pub file: u32,
    /// The process or thread that waits for it: one has at most one request under way.
    pub rank: u32,
    /// Reading or writing.
    pub direction: Direction,
    /// The bytes.
    pub range: Range,
    /// When it was issued.
    pub start: Nanos,
    /// When it had completed. A trace without times has zero for both.
    pub end: Nanos,
    /// Whether flash is known to have had no part in it: its times are those of the disks, and of memory before them.
    pub without_flash: bool,
}
