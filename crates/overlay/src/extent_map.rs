//! Which bytes of one file live on flash, and which of those are dirty.
//!
//! A [`ChunkedMap`] whose chunks have up to 128 entries of 16 bytes (`chunk`), in windows of 4 GiB. As
//! extents never merge and only shrink, a copy of an extent's bytes may be recognised later by its place: the
//! place is the generation (an absorbed write always goes to new space). Place and offset are equal modulo
//! the page.

mod chunk;
mod mapped;
#[cfg(test)]
mod reference_tests;

use self::chunk::Chunk;
pub use self::mapped::{Benefit, Mapped};
use crate::recency::Stamp;
use headstart_units::chunked_map::ChunkedMap;

/// The extents of one file, by offset; each at most a GiB long ([`Mapped::parts`]).
#[derive(Clone, Debug, Default)]
pub struct ExtentMap(ChunkedMap<Chunk>);

impl std::ops::Deref for ExtentMap {
    type Target = ChunkedMap<Chunk>;

    fn deref(&self) -> &ChunkedMap<Chunk> {
        &self.0
    }
}

impl std::ops::DerefMut for ExtentMap {
    fn deref_mut(&mut self) -> &mut ChunkedMap<Chunk> {
        &mut self.0
    }
}

impl ExtentMap {
    /// Marks the extent that begins at `offset` clean.
    pub fn set_clean(&mut self, offset: u64) {
        self.update(offset, Chunk::set_clean);
    }

    /// The extent that begins at `offset` was used.
    pub fn set_stamp(&mut self, offset: u64, stamp: Stamp) {
        self.update(offset, |chunk, index| chunk.set_stamp(index, stamp));
    }

    /// The first clean extent at or behind `offset` that was last used in the generation of `limit` or before.
    pub fn oldest(&mut self, offset: u64, limit: Stamp) -> Option<Mapped> {
        self.find_from(offset, |base, chunk| {
            let low = if base < offset { offset as u32 } else { 0 };
            chunk.may_hold(limit).then(|| chunk.oldest_from(low, limit)).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::request::Range;

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
