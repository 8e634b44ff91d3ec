//! Extents by offset in little memory: what the maps of a client's files and of a volume's log are made of.
//!
//! ```text
//! BTreeMap: base of a chunk -> chunk: [entry, entry, ..] sorted by offset, 1 to Chunk::ENTRIES_MAX
//! ```
//!
//! Extents never overlap and never merge; an extent only shrinks. A chunk holds the extents from its base up
//! to the base of the next one, and keeps of an offset what tells it apart within a window. Bases lie in
//! these windows; the first chunk of a window begins where the window does. A chunk that is full is split,
//! one that has few entries joins the one before.
//!
//! What is kept of an extent is the [`Chunk`]'s: `extent_map` of the overlay, `payload_map` of the
//! block engine.

pub mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::request::Range;

/// Bytes that lie somewhere else too.
pub trait Extent: Copy {
    /// Which.
    fn range(&self) -> Range;

    /// Whether what they are a copy of is older.
    fn is_dirty(&self) -> bool;

    /// A part of it.
    fn part(&self, range: Range) -> Self;
}

/// A run of neighbouring extents, in order of their offsets; never empty within a map.
pub trait Chunk: Default {
    /// What it holds.
    type Extent: Extent;
    /// What it keeps of one.
    type Entry: Copy;
    /// What entries of every chunk of a map refer to.
    type Shared: Clone + Debug + Default;
    /// Entries of a chunk: more cost time to move when one is put in, fewer cost room for the chunks.
    const ENTRIES_MAX: usize;
    /// As many are put into a chunk that is filled in address order.
    const ENTRIES_IN_ORDER: usize = Self::ENTRIES_MAX;
    /// Offsets are told apart within so many bytes.
    const WINDOW_BYTES: u64;

    /// The entries.
    fn entries(&self) -> &[Self::Entry];

    /// Where an entry begins in its window.
    fn within(entry: &Self::Entry) -> u64;

    /// Whether the extent is dirty.
    fn is_dirty(entry: &Self::Entry) -> bool;

    /// How many are.
    fn dirty(&self) -> usize;

    /// Entries it has room for.
    fn capacity(&self) -> usize;

    /// The extent of an entry, in the window that begins at `window`.
    fn extent(&self, entry: &Self::Entry, window: u64, shared: &Self::Shared) -> Self::Extent;

    /// Puts an extent in, whose place is not taken.
    fn insert(&mut self, extent: &Self::Extent, shared: &mut Self::Shared);

    /// Takes an entry out.
    fn remove(&mut self, index: usize) -> Self::Entry;

    /// Takes the entries from `index` on out into a chunk of their own.
    fn split_off(&mut self, index: usize) -> Self;

    /// Takes in the entries of the chunk that follows.
    fn append(&mut self, next: Self);

    /// How many entries begin before an offset within the window.
    fn before(&self, within: u64) -> usize {
        self.entries().partition_point(|entry| Self::within(entry) < within)
    }

    /// Where the entry stands that begins at an offset within the window.
    fn find(&self, within: u64) -> Option<usize> {
        self.entries().binary_search_by_key(&within, Self::within).ok()
    }

    /// Whether every entry begins before an offset within the window.
    fn is_before(&self, within: u64) -> bool {
        self.entries().last().is_none_or(|last| Self::within(last) < within)
    }
}

/// What carving a range out of a map changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<E> {
    /// Extents that are no longer there as they were.
    pub removed: Vec<E>,
    /// What is left of them.
    pub kept: Vec<E>,
}

/// The extents, by offset.
#[derive(Clone, Debug, Default)]
pub struct ChunkedMap<C: Chunk> {
    /// By base.
    pub chunks: BTreeMap<u64, C>,
    of_all: OfAll<C::Shared>,
}

/// What is known of all chunks together.
#[derive(Clone, Debug, Default)]
struct OfAll<S> {
    /// Bases of those with dirty extents.
    dirty_chunks: BTreeSet<u64>,
    shared: S,
    extents: usize,
    dirty: usize,
}

impl<S: Default> OfAll<S> {
    /// Puts an extent into the chunk at `base`.
    #[inline]
    fn insert<C: Chunk<Shared = S>>(&mut self, base: u64, chunk: &mut C, extent: &C::Extent) {
        if self.extents == 0 {
            self.shared = S::default();
        }
        chunk.insert(extent, &mut self.shared);
        self.extents += 1;
        if extent.is_dirty() {
            self.dirty += 1;
            if chunk.dirty() == 1 {
                self.dirty_chunks.insert(base);
            }
        }
    }
}

impl<C: Chunk> ChunkedMap<C> {
    /// The first extent that `find` names by its place within a chunk; it is asked of each chunk from the one
    /// that holds `offset` on, with the chunk's base.
    pub fn find_from(&mut self, offset: u64, mut find: impl FnMut(u64, &mut C) -> Option<usize>) -> Option<C::Extent> {
        let first = self.base_of(offset).unwrap_or(offset);
        let (base, index) =
            self.chunks.range_mut(first..).find_map(|(base, chunk)| Some((*base, find(*base, chunk)?)))?;
        Some(self.extent(base, index))
    }

    /// The base of every `step`th chunk, in order: bounds between parts of about as many chunks.
    pub fn bases(&self, step: usize) -> impl Iterator<Item = u64> {
        self.chunks.keys().copied().step_by(step)
    }

    /// Where the window of an offset begins.
    fn window(offset: u64) -> u64 {
        offset - Self::within(offset)
    }

    /// Where an offset lies in its window.
    pub(crate) fn within(offset: u64) -> u64 {
        offset % C::WINDOW_BYTES
    }

    /// The extent of an entry of the chunk at `base`.
    fn extent(&self, base: u64, index: usize) -> C::Extent {
        let chunk = &self.chunks[&base];
        chunk.extent(&chunk.entries()[index], Self::window(base), &self.of_all.shared)
    }

    /// The extents from the last one that begins before `offset` on.
    fn around(&self, offset: u64) -> impl Iterator<Item = C::Extent> + '_ {
        let before = |(base, chunk): (&u64, &C)| {
            let within = *base >= Self::window(offset);
            let count = if within { chunk.before(Self::within(offset)) } else { chunk.entries().len() };
            count.checked_sub(1).map(|index| (*base, index))
        };
        // The chunk that may hold the offset, or else the one in front of it.
        let (base, index) = self.chunks.range(..=offset).rev().take(2).find_map(before).unwrap_or((0, 0));
        let mut skipped = index;
        self.chunks.range(base..).flat_map(move |(base, chunk)| {
            let entries = &chunk.entries()[std::mem::take(&mut skipped)..];
            let window = Self::window(*base);
            entries.iter().map(move |entry| chunk.extent(entry, window, &self.of_all.shared))
        })
    }

    /// All extents in address order.
    pub fn iter(&self) -> impl Iterator<Item = C::Extent> + '_ {
        self.around(0)
    }

    /// The extents that share a byte with `range`, whole, in address order.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = C::Extent> + '_ {
        self.around(range.offset)
            .skip_while(move |extent| extent.range().end() <= range.offset)
            .take_while(move |extent| extent.range().overlaps(range))
    }

    /// Whether any byte of `range` is in it.
    pub fn touches(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// The base of the chunk an extent at `offset` stands in, if there is one.
    fn base_of(&self, offset: u64) -> Option<u64> {
        self.chunks.range(Self::window(offset)..=offset).next_back().map(|(base, _)| *base)
    }

    fn find(&self, offset: u64) -> Option<(u64, usize)> {
        let base = self.base_of(offset)?;
        self.chunks[&base].find(Self::within(offset)).map(|index| (base, index))
    }

    /// The extent that begins at `offset`.
    pub fn at(&self, offset: u64) -> Option<C::Extent> {
        self.find(offset).map(|(base, index)| self.extent(base, index))
    }

    /// Removes every byte of `range`; extents that reach beyond it are cut.
    pub fn carve(&mut self, range: Range) -> Change<C::Extent> {
        let removed: Vec<C::Extent> = self.overlapping(range).collect();
        let mut kept = Vec::new();
        for old in &removed {
            let whole = old.range();
            self.remove(whole.offset);
            for rest in [Range::between(whole.offset, range.offset), Range::between(range.end(), whole.end())] {
                if !rest.is_empty() {
                    let part = old.part(rest);
                    self.put(part);
                    kept.push(part);
                }
            }
        }
        Change { removed, kept }
    }

    /// Adds an extent where there is none.
    pub fn put(&mut self, extent: C::Extent) {
        let range = extent.range();
        debug_assert!(!range.is_empty() && !self.touches(range), "an extent is put into a hole");
        let mut base = self.base_of(range.offset).unwrap_or(Self::window(range.offset));
        if self.chunks.get(&base).is_some_and(|chunk| chunk.entries().len() == C::ENTRIES_MAX) {
            base = self.split(base, range.offset);
        }
        self.insert(base, extent);
    }

    /// Adds an extent behind all others.
    #[inline]
    pub fn push(&mut self, extent: C::Extent) {
        let offset = extent.range().offset;
        let window = Self::window(offset);
        let mut base = window;
        if let Some(last) = self.chunks.last_entry().filter(|last| *last.key() >= window) {
            assert!(last.get().is_before(Self::within(offset)), "extents come in address order");
            if last.get().entries().len() < C::ENTRIES_IN_ORDER {
                return self.of_all.insert(*last.key(), last.into_mut(), &extent);
            }
            base = offset;
        }
        self.insert(base, extent);
    }

    fn insert(&mut self, base: u64, extent: C::Extent) {
        self.of_all.insert(base, self.chunks.entry(base).or_default(), &extent);
    }

    /// Makes room in a full chunk for an extent at `offset`; the base of the chunk it goes to.
    fn split(&mut self, base: u64, offset: u64) -> u64 {
        let chunk = self.chunks.get_mut(&base).expect("the caller found it");
        if chunk.is_before(Self::within(offset)) {
            // Extents that come in address order leave full chunks behind.
            return offset;
        }
        let next = chunk.split_off(C::ENTRIES_MAX / 2);
        let next_base = Self::window(base) + C::within(&next.entries()[0]);
        if chunk.dirty() == 0 {
            self.of_all.dirty_chunks.remove(&base);
        }
        if next.dirty() > 0 {
            self.of_all.dirty_chunks.insert(next_base);
        }
        self.chunks.insert(next_base, next);
        if offset < next_base { base } else { next_base }
    }

    fn remove(&mut self, offset: u64) {
        let (base, index) = self.find(offset).expect("the caller found it");
        let chunk = self.chunks.get_mut(&base).expect("it was found");
        let entry = chunk.remove(index);
        let (left, dirty) = (chunk.entries().len(), chunk.dirty());
        self.of_all.extents -= 1;
        self.of_all.dirty -= usize::from(C::is_dirty(&entry));
        if dirty == 0 {
            self.of_all.dirty_chunks.remove(&base);
        }
        if left == 0 {
            self.chunks.remove(&base);
        } else if left < C::ENTRIES_MAX / 4 {
            self.join(base);
        }
    }

    /// Joins a chunk with the one before it in its window, if the two leave room.
    fn join(&mut self, base: u64) {
        let Some((&before, first)) = self.chunks.range(Self::window(base)..base).next_back() else { return };
        if first.entries().len() + self.chunks[&base].entries().len() > C::ENTRIES_MAX * 3 / 4 {
            return;
        }
        let next = self.chunks.remove(&base).expect("the caller found it");
        if self.of_all.dirty_chunks.remove(&base) {
            self.of_all.dirty_chunks.insert(before);
        }
        self.chunks.get_mut(&before).expect("it was found").append(next);
    }

    /// Changes what is kept of the extent that begins at `offset`, if there is one: its chunk and where it
    /// stands in it. It may become clean, but not dirty.
    pub fn update(&mut self, offset: u64, change: impl FnOnce(&mut C, usize)) {
        let Some((base, index)) = self.find(offset) else { return };
        let chunk = self.chunks.get_mut(&base).expect("it was found");
        let before = chunk.dirty();
        change(chunk, index);
        self.of_all.dirty -= before - chunk.dirty();
        if before > 0 && chunk.dirty() == 0 {
            self.of_all.dirty_chunks.remove(&base);
        }
    }

    /// The first dirty extent that begins at or behind `offset`.
    pub fn next_dirty(&self, offset: u64) -> Option<C::Extent> {
        let first = self.base_of(offset).unwrap_or(offset);
        self.of_all.dirty_chunks.range(first..).find_map(|base| {
            let chunk = &self.chunks[base];
            let start = if *base < offset { chunk.before(Self::within(offset)) } else { 0 };
            let index = chunk.entries()[start..].iter().position(C::is_dirty)?;
            Some(self.extent(*base, start + index))
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.of_all.extents == 0
    }

    /// Number of extents.
    pub fn len(&self) -> usize {
        self.of_all.extents
    }

    /// Number of dirty extents.
    pub fn dirty(&self) -> usize {
        self.of_all.dirty
    }

    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.chunks
            .last_key_value()
            .map_or(0, |(base, chunk)| self.extent(*base, chunk.entries().len() - 1).range().end())
    }

    /// Bytes of memory, but for the nodes of the trees.
    pub fn memory_bytes(&self) -> usize {
        let of = |chunk: &C| size_of::<(u64, C)>() + chunk.capacity() * size_of::<C::Entry>();
        self.chunks.values().map(of).sum::<usize>() + self.of_all.dirty_chunks.len() * size_of::<u64>()
    }
}
