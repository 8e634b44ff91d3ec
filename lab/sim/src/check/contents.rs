//! What every place holds.

use std::collections::BTreeMap;

use headstart_units::request::Range;

use super::RequestId;
use super::ranges::Ranges;

/// Where bytes can lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// A file on the disks.
    Disk(u32),
    /// A file on flash: a data file of the overlay, or the flash part of a file.
    Flash(u32),
}

/// A byte's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The space.
    pub space: Space,
    /// Where in it.
    pub offset: u64,
}

/// What bytes are: those of a file from an offset on, as a request wrote them; version zero is what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The file, or nobody's.
    pub file: u32,
    /// The first byte's place in the file.
    pub offset: u64,
    /// Who wrote it.
    pub version: RequestId,
}

/// The file of bytes that nobody wrote.
const NOBODY: u32 = u32::MAX;

impl Value {
    /// The same, so many bytes further.
    pub fn from(self, skip: u64) -> Value {
        Value { offset: self.offset.wrapping_add(skip), ..self }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    written: BTreeMap<Space, Ranges<Value>>,
    /// Whose bytes spaces hold where nothing was written.
    initial: BTreeMap<Space, u32>,
}

impl Contents {
    /// The space holds the file's bytes from the begin.
    pub fn holds(&mut self, space: Space, file: u32) {
        self.initial.insert(space, file);
    }

    /// Puts bytes of `value` at a spot.
    pub fn put(&mut self, spot: Spot, length: u64, value: Value) {
        let ranges = self.written.entry(spot.space).or_default();
        ranges.set(Range::new(spot.offset, length), value, |value, skip| value.from(skip));
    }

    /// The bytes at a spot: lengths and what they are.
    pub fn take(&self, spot: Spot, length: u64) -> Vec<(u64, Value)> {
        let range = Range::new(spot.offset, length);
        let file = match spot.space {
            Space::Disk(file) => Some(file),
            Space::Flash(_) => self.initial.get(&spot.space).copied(),
        };
        let initial = |part: Range| Value { file: file.unwrap_or(NOBODY), offset: part.offset, version: 0 };
        let Some(ranges) = self.written.get(&spot.space) else { return vec![(length, initial(range))] };
        let mut parts = Vec::new();
        for (part, value) in ranges.parts(range) {
            // A value is that of its first byte, which may lie before the part.
            let found = value.map(|value| value.from(part.offset - ranges.start_of(part.offset)));
            parts.push((part.length, found.unwrap_or_else(|| initial(part))));
        }
        parts
    }
}
