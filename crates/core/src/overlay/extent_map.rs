//! Which bytes of one file live on flash, and which of those are dirty.
//!
//! ```text
//! BTreeMap: base of a chunk -> [extent, extent, ..] sorted by offset, 1 to 128 of 16 bytes (`chunk`)
//! ```
//!
//! Extents never overlap and never merge; an extent only shrinks. So a copy of an extent's bytes may be recognised later by
//! its place: the place is the generation (an absorbed write always goes to new space). Place and offset are equal modulo the
//! page.
//!
//! A chunk holds the extents from its base up to the base of the next one. Bases lie in windows of 4 GiB; the first chunk of a
//! window begins where the window does. A chunk that is full is split, one that has few entries joins the one before.

mod chunk;
#[cfg(test)]
mod reference_tests;

use std::collections::{BTreeMap, BTreeSet};

use super::recency::Stamp;
use crate::request::Range;
use chunk::{Chunk, ENTRIES_MAX, Entry, LENGTH_MAX};

/// What one access to an extent saves, on a scale of an eighth of an octave of nanoseconds per KiB; decides which clean bytes a
/// fetch may displace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Benefit(u8);

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

/// The extents of one file, by offset.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    /// By base.
    chunks: BTreeMap<u64, Chunk>,
    /// Bases of the chunks with dirty extents.
    dirty_chunks: BTreeSet<u64>,
    /// Data files by their index in the entries.
    data_files: Vec<u32>,
    extents: usize,
    dirty: usize,
}

/// Where the window of an offset begins.
fn window(offset: u64) -> u64 {
    offset & !u64::from(u32::MAX)
}

impl ExtentMap {
    fn mapped(&self, base: u64, chunk: &Chunk, entry: &Entry) -> Mapped {
        Mapped {
            range: Range::new(window(base) | u64::from(entry.low), entry.length()),
            data_file: self.data_files[usize::from(entry.data_file)],
            place: entry.place(),
            dirty: entry.is_dirty(),
            stamp: chunk.stamp(entry),
            benefit: Benefit(entry.benefit),
        }
    }

    /// The extents from the last one that begins before `offset` on.
    fn around(&self, offset: u64) -> impl Iterator<Item = Mapped> + '_ {
        let before = |(base, chunk): (&u64, &Chunk)| {
            let within = *base >= window(offset);
            let count = if within { chunk.before(offset as u32) } else { chunk.entries().len() };
            count.checked_sub(1).map(|index| (*base, index))
        };
        // The chunk that may hold the offset, or else the one in front of it.
        let (base, index) = self.chunks.range(..=offset).rev().take(2).find_map(before).unwrap_or((0, 0));
        let mut skipped = index;
        self.chunks.range(base..).flat_map(move |(base, chunk)| {
            let entries = &chunk.entries()[std::mem::take(&mut skipped)..];
            entries.iter().map(move |entry| self.mapped(*base, chunk, entry))
        })
    }

    /// The extents that share a byte with `range`, whole, in address order.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = Mapped> + '_ {
        self.around(range.offset)
            .skip_while(move |mapped| mapped.range.end() <= range.offset)
            .take_while(move |mapped| mapped.range.overlaps(range))
    }

    /// The base of the chunk an extent at `offset` stands in, if there is one.
    fn base_of(&self, offset: u64) -> Option<u64> {
        self.chunks.range(window(offset)..=offset).next_back().map(|(base, _)| *base)
    }

    fn find(&self, offset: u64) -> Option<(u64, usize)> {
        let base = self.base_of(offset)?;
        self.chunks[&base].find(offset as u32).map(|index| (base, index))
    }

    /// The extent that begins at `offset`.
    pub fn at(&self, offset: u64) -> Option<Mapped> {
        let (base, index) = self.find(offset)?;
        let chunk = &self.chunks[&base];
        Some(self.mapped(base, chunk, &chunk.entries()[index]))
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
            self.remove(old.range.offset);
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

    /// Adds an extent of at most a GiB ([`Mapped::parts`]) where nothing is mapped.
    pub fn put(&mut self, mapped: Mapped) {
        debug_assert!(!mapped.range.is_empty() && !self.touches(mapped.range), "an extent is put into a hole");
        let data_file = self.index_of(mapped.data_file);
        self.insert(mapped.range.offset, Entry::new(&mapped, data_file), mapped.stamp);
    }

    fn index_of(&mut self, data_file: u32) -> u16 {
        if self.extents == 0 {
            self.data_files.clear();
        }
        // Nearly always the newest.
        let index = self.data_files.iter().rposition(|known| *known == data_file).unwrap_or_else(|| {
            self.data_files.push(data_file);
            self.data_files.len() - 1
        });
        u16::try_from(index).expect("a file has extents in fewer than 65,536 data files, one an agent's life")
    }

    fn insert(&mut self, offset: u64, entry: Entry, stamp: Stamp) {
        let mut base = self.base_of(offset).unwrap_or(window(offset));
        if self.chunks.get(&base).is_some_and(|chunk| chunk.entries().len() == ENTRIES_MAX) {
            base = self.split(base, offset);
        }
        self.chunks.entry(base).or_default().insert(entry, stamp);
        self.extents += 1;
        self.dirty += usize::from(entry.is_dirty());
        if entry.is_dirty() {
            self.dirty_chunks.insert(base);
        }
    }

    /// Makes room in a full chunk for an extent at `offset`; the base of the chunk it goes to.
    fn split(&mut self, base: u64, offset: u64) -> u64 {
        let chunk = self.chunks.get_mut(&base).expect("the caller found it");
        let at = chunk.before(offset as u32);
        if at == ENTRIES_MAX {
            // Extents that come in address order leave full chunks behind.
            return offset;
        }
        let next = chunk.split_off(ENTRIES_MAX / 2);
        let next_base = window(base) | u64::from(next.entries()[0].low);
        if chunk.dirty() == 0 {
            self.dirty_chunks.remove(&base);
        }
        if next.dirty() > 0 {
            self.dirty_chunks.insert(next_base);
        }
        self.chunks.insert(next_base, next);
        if offset < next_base { base } else { next_base }
    }

    fn remove(&mut self, offset: u64) {
        let (base, index) = self.find(offset).expect("the caller found it");
        let chunk = self.chunks.get_mut(&base).expect("the caller found it");
        let entry = chunk.remove(index);
        let (left, dirty) = (chunk.entries().len(), chunk.dirty());
        self.extents -= 1;
        self.dirty -= usize::from(entry.is_dirty());
        if dirty == 0 {
            self.dirty_chunks.remove(&base);
        }
        if left == 0 {
            self.chunks.remove(&base);
        } else if left < ENTRIES_MAX / 4 {
            self.join(base);
        }
    }

    /// Joins a chunk with the one before it in its window, if the two leave room.
    fn join(&mut self, base: u64) {
        let Some((&before, first)) = self.chunks.range(window(base)..base).next_back() else { return };
        if first.entries().len() + self.chunks[&base].entries().len() > ENTRIES_MAX * 3 / 4 {
            return;
        }
        let next = self.chunks.remove(&base).expect("the caller found it");
        if self.dirty_chunks.remove(&base) {
            self.dirty_chunks.insert(before);
        }
        self.chunks.get_mut(&before).expect("it was found").append(next);
    }

    /// Marks the extent that begins at `offset` clean.
    pub fn set_clean(&mut self, offset: u64) {
        let Some((base, index)) = self.find(offset) else { return };
        let chunk = self.chunks.get_mut(&base).expect("it was found");
        self.dirty -= usize::from(chunk.entries()[index].is_dirty());
        chunk.set_clean(index);
        if chunk.dirty() == 0 {
            self.dirty_chunks.remove(&base);
        }
    }

    /// The extent that begins at `offset` was used.
    pub fn set_stamp(&mut self, offset: u64, stamp: Stamp) {
        if let Some((base, index)) = self.find(offset) {
            self.chunks.get_mut(&base).expect("it was found").set_stamp(index, stamp);
        }
    }

    /// The first dirty extent that begins at or behind `offset`.
    pub fn next_dirty(&self, offset: u64) -> Option<Mapped> {
        let first = self.base_of(offset).unwrap_or(offset);
        self.dirty_chunks.range(first..).find_map(|base| {
            let chunk = &self.chunks[base];
            let start = if *base < offset { chunk.before(offset as u32) } else { 0 };
            let entry = chunk.entries()[start..].iter().find(|entry| entry.is_dirty())?;
            Some(self.mapped(*base, chunk, entry))
        })
    }

    /// The first clean extent at or behind `offset` that was last used in the generation of `limit` or before.
    pub fn oldest(&mut self, offset: u64, limit: Stamp) -> Option<Mapped> {
        let first = self.base_of(offset).unwrap_or(offset);
        let (base, index) = self.chunks.range_mut(first..).find_map(|(base, chunk)| {
            let low = if *base < offset { offset as u32 } else { 0 };
            let index = chunk.may_hold(limit).then(|| chunk.oldest_from(low, limit)).flatten()?;
            Some((*base, index))
        })?;
        let chunk = &self.chunks[&base];
        Some(self.mapped(base, chunk, &chunk.entries()[index]))
    }

    /// All extents in address order.
    pub fn iter(&self) -> impl Iterator<Item = Mapped> + '_ {
        self.around(0)
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.extents == 0
    }

    /// Number of extents.
    pub fn len(&self) -> usize {
        self.extents
    }

    /// Number of dirty extents.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// One past the last mapped byte.
    pub fn end(&self) -> u64 {
        self.chunks.last_key_value().map_or(0, |(base, chunk)| {
            chunk.entries().last().map_or(0, |entry| self.mapped(*base, chunk, entry).range.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64, place: u64) -> Mapped {
        let (stamp, benefit) = (Stamp::default(), Benefit::default());
        Mapped { range: Range::new(offset, length), data_file: 1, place, dirty: true, stamp, benefit }
    }

    #[test]
    fn a_write_in_the_middle_of_an_extent_leaves_both_ends_at_their_places() {
        let mut map = ExtentMap::default();
        map.put(extent(100, 50, 4196));
        let change = map.carve(Range::new(110, 20));
        assert_eq!(change.removed, vec![extent(100, 50, 4196)]);
        assert_eq!(change.kept, vec![extent(100, 10, 4196), extent(130, 20, 4226)]);
        assert_eq!(map.iter().collect::<Vec<_>>(), change.kept);
        assert!(change.kept[1].same_place(1, 100, 4196));
    }

    #[test]
    fn an_extent_longer_than_an_entry_can_say_comes_in_parts_that_share_no_page() {
        let long = extent(5000, 5 << 30, 5000 + (1 << 40));
        let parts: Vec<Mapped> = long.parts().collect();
        assert!(parts.iter().all(|part| part.same_place(1, 5000, long.place)));
        assert!(parts.windows(2).all(|pair| pair[0].range.end() == pair[1].range.offset));
        assert!(parts[1..].iter().all(|part| part.range.offset % 4096 == 0));
        assert_eq!((parts[0].range.offset, parts.last().unwrap().range.end()), (5000, long.range.end()));
        let mut map = ExtentMap::default();
        parts.iter().for_each(|part| map.put(*part));
        assert_eq!(map.iter().collect::<Vec<_>>(), parts);
        assert_eq!(map.overlapping(Range::new(3 << 30, 1)).count(), 1);
    }

    #[test]
    fn the_scale_of_benefits_keeps_order_and_tells_eighths_of_an_octave_apart() {
        let mut before = Benefit::per_kib(0);
        for nanoseconds in (0..64).chain((1..400).map(|step| 64 + step * step * step * 60)) {
            let benefit = Benefit::per_kib(nanoseconds);
            assert!(before <= benefit && benefit < Benefit::HIGHEST);
            assert!(Benefit::per_kib(nanoseconds + nanoseconds / 7 + 1) > benefit);
            before = benefit;
        }
        assert_eq!(Benefit::per_kib(7), Benefit(7));
        assert_eq!(Benefit::per_kib(8), Benefit(8));
        assert!(Benefit::per_kib(u64::MAX) < Benefit::HIGHEST);
    }
}
