//! One extent.

use headstart_units::chunked_map::Extent;
use headstart_units::request::Range;

use crate::recency::Stamp;

/// Longest extent of a map: a multiple of the page that 31 bits hold.
pub(super) const LENGTH_MAX: u64 = 1 << 30;

/// What one access to an extent saves, on a scale of an eighth of an octave of nanoseconds per KiB; decides
/// which clean bytes a fetch may displace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Benefit(pub(crate) u8);

impl Benefit {
    /// That of absorbed bytes, which no fetch displaces.
    pub const HIGHEST: Benefit = Benefit(u8::MAX);

    /// So many nanoseconds per KiB; less than the highest.
    pub fn per_kib(nanoseconds: u64) -> Benefit {
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        let octave = nanoseconds.checked_ilog2().unwrap_or(0);
        // Three bits behind the first one; below eight, each number has its own.
        let eighths = if octave < 3 { return Benefit(nanoseconds as u8) } else { (nanoseconds >> (octave - 3)) & 7 };
        Benefit((8 * (octave - 2) + eighths) as u8)
    }
}

/// Bytes of a slow file that lie on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Bytes of the slow file.
    pub range: Range,
    /// The data file that holds them.
    pub data_file: u32,
    /// Where they begin in it; equal to `range.offset` modulo 4096.
    pub place: u64,
    /// Whether the slow file holds something older.
    pub dirty: bool,
    /// When they were last used.
    pub stamp: Stamp,
    /// What one access saves.
    pub benefit: Benefit,
}

impl Mapped {
    /// The part of it in `range`.
    pub fn part(&self, range: Range) -> Mapped {
        let part = self.range.intersection(range);
        Mapped { range: part, place: self.place + (part.offset.max(self.range.offset) - self.range.offset), ..*self }
    }

    /// The same in parts no longer than an extent of a map may be, cut at pages, so that no two share one.
    pub fn parts(self) -> impl Iterator<Item = Mapped> {
        let mut rest = self.range;
        std::iter::from_fn(move || {
            let end = rest.end().min((rest.offset - rest.offset % LENGTH_MAX).saturating_add(LENGTH_MAX));
            let part = Range::between(rest.offset, end);
            rest = Range::between(end, rest.end());
            (!part.is_empty()).then(|| self.part(part))
        })
    }

    /// Whether `other`'s bytes were part of this extent when it was made: same data file, same distance of
    /// place and offset.
    pub fn same_place(&self, data_file: u32, offset: u64, place: u64) -> bool {
        self.data_file == data_file && self.place.wrapping_sub(self.range.offset) == place.wrapping_sub(offset)
    }
}

impl Extent for Mapped {
    fn range(&self) -> Range {
        self.range
    }

    fn is_dirty(&self) -> bool {
        self.dirty
    }

    fn part(&self, range: Range) -> Mapped {
        Mapped::part(self, range)
    }
}
