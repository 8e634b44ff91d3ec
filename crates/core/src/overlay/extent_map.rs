//! Which bytes of one file live on flash, and which of those are dirty.
//!
//! Extents never overlap and never merge; an extent only shrinks. So a copy of an extent's bytes may be recognised later by
//! its place: the place is the generation (an absorbed write always goes to new space).

use std::collections::BTreeMap;

use crate::request::Range;

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
    /// When they were last used, as a number of a use.
    pub stamp: u64,
    /// What one access saves, nanoseconds per KiB; decides which clean bytes a fetch may displace.
    pub benefit_per_kib: u32,
}

impl Mapped {
    /// The part of it in `range`.
    pub fn part(&self, range: Range) -> Mapped {
        let part = self.range.intersection(range);
        Mapped { range: part, place: self.place + (part.offset.max(self.range.offset) - self.range.offset), ..*self }
    }

    /// Whether `other`'s bytes were part of this extent when it was made: same data file, same distance of place and offset.
    pub fn same_place(&self, data_file: u32, offset: u64, place: u64) -> bool {
        self.data_file == data_file && self.place.wrapping_sub(self.range.offset) == place.wrapping_sub(offset)
    }
}

/// What carving a range out of the map changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Extents that are no longer there as they were.
    pub removed: Vec<Mapped>,
    /// What is left of them.
    pub kept: Vec<Mapped>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    length: u64,
    place: u64,
    stamp: u64,
    data_file: u32,
    benefit_per_kib: u32,
    dirty: bool,
}

/// The extents of one file, by offset.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    extents: BTreeMap<u64, Extent>,
}

impl ExtentMap {
    fn mapped(offset: u64, extent: &Extent) -> Mapped {
        Mapped {
            range: Range::new(offset, extent.length),
            data_file: extent.data_file,
            place: extent.place,
            dirty: extent.dirty,
            stamp: extent.stamp,
            benefit_per_kib: extent.benefit_per_kib,
        }
    }

    /// The extents that share a byte with `range`, whole, in address order.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = Mapped> + '_ {
        let before = self.extents.range(..range.offset).next_back().map(|(offset, _)| *offset);
        let start = before.unwrap_or(range.offset);
        self.extents
            .range(start..range.end().max(start))
            .map(|(offset, extent)| Self::mapped(*offset, extent))
            .filter(move |mapped| mapped.range.overlaps(range))
    }

    /// The extent that begins at `offset`.
    pub fn at(&self, offset: u64) -> Option<Mapped> {
        self.extents.get(&offset).map(|extent| Self::mapped(offset, extent))
    }

    /// Whether any byte of `range` is mapped.
    pub fn touches(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// Removes every mapped byte of `range`; extents that reach beyond it are cut.
    pub fn carve(&mut self, range: Range) -> Change {
        let removed: Vec<Mapped> = self.overlapping(range).collect();
        let mut kept = Vec::new();
        for old in &removed {
            self.extents.remove(&old.range.offset);
            for rest in [Range::between(old.range.offset, range.offset), Range::between(range.end(), old.range.end())] {
                if !rest.is_empty() {
                    let part = old.part(rest);
                    self.put(part);
                    kept.push(part);
                }
            }
        }
        Change { removed, kept }
    }

    /// Adds an extent where nothing is mapped.
    pub fn put(&mut self, mapped: Mapped) {
        debug_assert!(!mapped.range.is_empty() && !self.touches(mapped.range), "an extent is put into a hole");
        self.extents.insert(
            mapped.range.offset,
            Extent {
                length: mapped.range.length,
                place: mapped.place,
                stamp: mapped.stamp,
                data_file: mapped.data_file,
                benefit_per_kib: mapped.benefit_per_kib,
                dirty: mapped.dirty,
            },
        );
    }

    /// Marks the extent that begins at `offset` clean.
    pub fn set_clean(&mut self, offset: u64) {
        if let Some(extent) = self.extents.get_mut(&offset) {
            extent.dirty = false;
        }
    }

    /// Stamps the extent that begins at `offset`.
    pub fn stamp(&mut self, offset: u64, stamp: u64) {
        if let Some(extent) = self.extents.get_mut(&offset) {
            extent.stamp = stamp;
        }
    }

    /// All extents in address order.
    pub fn iter(&self) -> impl Iterator<Item = Mapped> + '_ {
        self.extents.iter().map(|(offset, extent)| Self::mapped(*offset, extent))
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Number of extents.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// One past the last mapped byte.
    pub fn end(&self) -> u64 {
        self.extents.iter().next_back().map_or(0, |(offset, extent)| offset + extent.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(offset: u64, length: u64, place: u64) -> Mapped {
        Mapped { range: Range::new(offset, length), data_file: 1, place, dirty: true, stamp: 0, benefit_per_kib: 0 }
    }

    #[test]
    fn a_write_in_the_middle_of_an_extent_leaves_both_ends_at_their_places() {
        let mut map = ExtentMap::default();
        map.put(extent(100, 50, 1100));
        let change = map.carve(Range::new(110, 20));
        assert_eq!(change.removed, vec![extent(100, 50, 1100)]);
        assert_eq!(change.kept, vec![extent(100, 10, 1100), extent(130, 20, 1130)]);
        assert_eq!(map.iter().collect::<Vec<_>>(), change.kept);
        assert!(change.kept[1].same_place(1, 100, 1100));
    }

    proptest! {
        #[test]
        fn the_map_agrees_with_an_array_of_places(writes in prop::collection::vec((0u64..200, 1u64..40, any::<bool>()), 1..60)) {
            let mut map = ExtentMap::default();
            let mut array = vec![None; 300];
            for (k, (offset, length, put)) in writes.into_iter().enumerate() {
                let place = 1000 * (k as u64 + 1);
                map.carve(Range::new(offset, length));
                if put {
                    map.put(extent(offset, length, place));
                }
                for byte in 0..length {
                    array[(offset + byte) as usize] = put.then_some(place + byte);
                }
                for (byte, expected) in array.iter().enumerate() {
                    let one = Range::new(byte as u64, 1);
                    let found = map.overlapping(one).next().map(|m| m.part(one).place);
                    prop_assert_eq!(found, *expected);
                }
            }
        }
    }
}
