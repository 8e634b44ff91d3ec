//! What a map is compared with in tests, of this crate and of those that use the map: extents by offset, one by one.

use std::collections::BTreeMap;

use super::{Chunk, ChunkedMap, Extent};
use crate::request::Range;

/// The extents.
pub struct Reference<E>(pub BTreeMap<u64, E>);

impl<E> Default for Reference<E> {
    fn default() -> Self {
        Reference(BTreeMap::new())
    }
}

impl<E: Extent> Reference<E> {
    /// See [`ChunkedMap::overlapping`].
    pub fn overlapping(&self, range: Range) -> Vec<E> {
        self.0.values().filter(|extent| extent.range().overlaps(range)).copied().collect()
    }

    /// See [`ChunkedMap::put`].
    pub fn put(&mut self, extent: E) {
        self.0.insert(extent.range().offset, extent);
    }

    /// See [`ChunkedMap::carve`].
    pub fn carve(&mut self, range: Range) {
        for old in self.overlapping(range) {
            let whole = old.range();
            self.0.remove(&whole.offset);
            for rest in [Range::between(whole.offset, range.offset), Range::between(range.end(), whole.end())] {
                if !rest.is_empty() {
                    self.put(old.part(rest));
                }
            }
        }
    }

    /// That a map counts the same, and that its chunks are as they should be.
    pub fn check<C: Chunk<Extent = E>>(&self, map: &ChunkedMap<C>) {
        assert_eq!(map.len(), self.0.len());
        assert_eq!(map.is_empty(), self.0.is_empty());
        assert_eq!(map.dirty(), self.0.values().filter(|extent| extent.is_dirty()).count());
        assert_eq!(map.end(), self.0.values().next_back().map_or(0, |extent| extent.range().end()));
        let dirty: Vec<u64> = map.chunks.iter().filter(|(_, chunk)| chunk.dirty() > 0).map(|(base, _)| *base).collect();
        assert!(map.of_all.dirty_chunks.iter().copied().eq(dirty));
        for chunk in map.chunks.values() {
            assert!((1..=C::ENTRIES_MAX).contains(&chunk.entries().len()), "no chunk is empty or too long");
            assert_eq!(chunk.dirty(), chunk.entries().iter().filter(|entry| C::is_dirty(entry)).count());
        }
    }
}

/// Puts `count` extents into a map, in three orders, and takes nine of ten out: chunks are never fewer than
/// half full before, nor a sixth after, and an extent takes no more than `bytes`, of what is left twice that.
pub fn check_room<C: Chunk>(count: u64, bytes: u64, extent: impl Fn(u64) -> C::Extent) {
    let orders: [fn(u64, u64) -> u64; 3] = [|k, _| k, |k, count| count - 1 - k, |k, count| k * 7919 % count];
    for order in orders {
        let mut map = ChunkedMap::<C>::default();
        (0..count).for_each(|k| map.put(extent(order(k, count))));
        let chunks = map.chunks.len() as u64;
        assert!(chunks <= 2 * count.div_ceil(C::ENTRIES_MAX as u64), "{chunks} chunks");
        assert!((map.memory_bytes() as u64) < bytes * count, "{} bytes", map.memory_bytes());
        // What is left joins.
        for k in (0..count).filter(|k| k % 10 != 0) {
            map.carve(extent(k).range());
        }
        let chunks = map.chunks.len() as u64;
        assert!(chunks <= count / 10 * 6 / C::ENTRIES_MAX as u64, "{chunks} chunks");
        assert!((map.memory_bytes() as u64) < 2 * bytes * count / 10, "{} bytes of the rest", map.memory_bytes());
    }
}
