//! Which bytes of the disk have payload in the ring, and where: extents of eight bytes each.
//!
//! ```text
//! BTreeMap: base of a chunk -> [extent, extent, ..] sorted by offset, 1 to 256
//! extent: sector in its window, 19 bits | sectors less one, 12 | dirty, 1 | block of the ring, 32
//! ```
//!
//! Extents never overlap and never merge; they only shrink. Place and offset are equal modulo a block, so that a block says where an
//! extent begins. A chunk holds the extents from its base up to the base of the next one. Bases lie in windows of 256 MiB; the first chunk
//! of a window begins where the window does. A chunk that is full is split, one that has few entries joins the one before.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{BLOCK_BYTES, SECTOR_BYTES};
use super::record::PAYLOAD_BLOCKS_MAX;
use crate::request::Range;

/// Entries of a chunk: more cost time to move when one is put in, fewer cost room for the chunks.
const ENTRIES_MAX: usize = 256;
/// As many are put into a chunk that is filled in address order: the next few that come between them do not split it.
const ENTRIES_IN_ORDER: usize = ENTRIES_MAX - ENTRIES_MAX / 16;
const SECTOR_BITS: u32 = 19;
const WINDOW_BYTES: u64 = SECTOR_BYTES << SECTOR_BITS;
const SECTOR_SHIFT: u32 = 64 - SECTOR_BITS;
const LENGTH_SHIFT: u32 = 33;
const LENGTH_MASK: u64 = (1 << (SECTOR_SHIFT - LENGTH_SHIFT)) - 1;
const DIRTY: u64 = 1 << 32;

const _: () = assert!(PAYLOAD_BLOCKS_MAX * BLOCK_BYTES == (LENGTH_MASK + 1) * SECTOR_BYTES, "a record's payload fits");

/// Bytes of the disk that have payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whole sectors, at most a record's payload.
    pub range: Range,
    /// Byte of the ring; equal to `range.offset` modulo a block.
    pub place: u64,
    /// Whether the disk holds something older.
    pub dirty: bool,
}

impl Held {
    fn part(&self, range: Range) -> Held {
        Held { range, place: self.place + (range.offset - self.range.offset), ..*self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

/// Sector of an offset in its window.
fn sector(offset: u64) -> u64 {
    offset % WINDOW_BYTES / SECTOR_BYTES
}

impl Entry {
    fn new(held: &Held) -> Entry {
        let Range { offset, length } = held.range;
        assert!(offset % SECTOR_BYTES == 0 && length % SECTOR_BYTES == 0, "extents are whole sectors");
        assert!(held.place % BLOCK_BYTES == offset % BLOCK_BYTES, "place and offset are equal modulo a block");
        let block = u32::try_from(held.place / BLOCK_BYTES).expect("a ring has fewer than 2^32 blocks");
        let sectors = (length / SECTOR_BYTES).checked_sub(1).expect("an extent has a byte");
        assert!(sectors <= LENGTH_MASK, "an extent is part of a record's payload");
        let dirty = if held.dirty { DIRTY } else { 0 };
        Entry(sector(offset) << SECTOR_SHIFT | sectors << LENGTH_SHIFT | dirty | u64::from(block))
    }

    fn sector(self) -> u64 {
        self.0 >> SECTOR_SHIFT
    }

    fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The extent, in the window of its chunk's base.
    fn held(self, base: u64) -> Held {
        let offset = base / WINDOW_BYTES * WINDOW_BYTES + self.sector() * SECTOR_BYTES;
        let length = ((self.0 >> LENGTH_SHIFT & LENGTH_MASK) + 1) * SECTOR_BYTES;
        let place = u64::from(self.0 as u32) * BLOCK_BYTES + offset % BLOCK_BYTES;
        Held { range: Range::new(offset, length), place, dirty: self.is_dirty() }
    }
}

/// Entries in order of their offsets; never empty within a map.
#[derive(Clone, Debug, Default)]
struct Chunk {
    entries: Vec<Entry>,
    dirty: u16,
}

impl Chunk {
    /// How many entries begin before a sector.
    fn before(&self, sector: u64) -> usize {
        self.entries.partition_point(|entry| entry.sector() < sector)
    }

    fn find(&self, sector: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&sector, |entry| entry.sector()).ok()
    }

    fn is_behind_all(&self, sector: u64) -> bool {
        self.entries.last().is_none_or(|last| last.sector() < sector)
    }

    fn insert(&mut self, entry: Entry) {
        self.dirty += u16::from(entry.is_dirty());
        if self.is_behind_all(entry.sector()) {
            self.entries.push(entry);
        } else {
            self.entries.insert(self.before(entry.sector()), entry);
        }
    }

    fn remove(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        self.dirty -= u16::from(entry.is_dirty());
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.capacity() / 2);
        }
        entry
    }

    /// The second half of a full chunk, taken out into one of its own.
    fn split_off_half(&mut self) -> Chunk {
        let mut entries = Vec::with_capacity(ENTRIES_MAX);
        entries.extend(self.entries.drain(ENTRIES_MAX / 2..));
        let dirty = entries.iter().filter(|entry| entry.is_dirty()).count() as u16;
        self.dirty -= dirty;
        Chunk { entries, dirty }
    }
}

/// What carving a range out of the map changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Extents that are no longer there as they were.
    pub removed: Vec<Held>,
    /// What is left of them.
    pub kept: Vec<Held>,
}

/// The extents, by offset.
#[derive(Clone, Debug, Default)]
pub struct PayloadMap {
    /// By base.
    chunks: BTreeMap<u64, Chunk>,
    /// Bases of the chunks with dirty extents.
    dirty_chunks: BTreeSet<u64>,
    extents: usize,
    dirty: usize,
}

fn window(offset: u64) -> u64 {
    offset / WINDOW_BYTES * WINDOW_BYTES
}

impl PayloadMap {
    /// The extents from the last one that begins before `offset` on.
    fn around(&self, offset: u64) -> impl Iterator<Item = Held> + '_ {
        let before = |(base, chunk): (&u64, &Chunk)| {
            let within = *base >= window(offset);
            let count = if within { chunk.before(sector(offset)) } else { chunk.entries.len() };
            count.checked_sub(1).map(|index| (*base, index))
        };
        // The chunk that may hold the offset, or else the one in front of it.
        let (base, index) = self.chunks.range(..=offset).rev().take(2).find_map(before).unwrap_or((0, 0));
        let mut skipped = index;
        self.chunks.range(base..).flat_map(move |(base, chunk)| {
            let entries = &chunk.entries[std::mem::take(&mut skipped)..];
            entries.iter().map(move |entry| entry.held(*base))
        })
    }

    /// The extents that share a byte with `range`, whole, in address order.
    pub fn overlapping(&self, range: Range) -> impl Iterator<Item = Held> + '_ {
        self.around(range.offset)
            .skip_while(move |held| held.range.end() <= range.offset)
            .take_while(move |held| held.range.overlaps(range))
    }

    /// Where parts of the disk with about so many extents each begin, in address order.
    pub fn bounds(&self, extents: usize) -> impl Iterator<Item = u64> + '_ {
        self.chunks.keys().copied().step_by((extents / ENTRIES_IN_ORDER).max(1))
    }

    /// The base of the chunk an extent at `offset` stands in, if there is one.
    fn base_of(&self, offset: u64) -> Option<u64> {
        self.chunks.range(window(offset)..=offset).next_back().map(|(base, _)| *base)
    }

    /// Removes every byte of `range`; extents that reach beyond it are cut.
    pub fn carve(&mut self, range: Range) -> Change {
        let removed: Vec<Held> = self.overlapping(range).collect();
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

    /// Adds an extent where there is none.
    pub fn put(&mut self, held: Held) {
        let offset = held.range.offset;
        debug_assert!(self.overlapping(held.range).next().is_none(), "an extent is put into a hole");
        let mut base = self.base_of(offset).unwrap_or(window(offset));
        if self.chunks.get(&base).is_some_and(|chunk| chunk.entries.len() == ENTRIES_MAX) {
            base = self.split(base, offset);
        }
        let chunk = self.chunks.entry(base).or_default();
        chunk.insert(Entry::new(&held));
        self.count(base, held.dirty);
    }

    /// Adds an extent behind all others.
    #[inline]
    pub fn push(&mut self, held: Held) {
        let offset = held.range.offset;
        let entry = Entry::new(&held);
        if let Some(mut last) = self.chunks.last_entry()
            && *last.key() >= window(offset)
            && last.get().entries.len() < ENTRIES_IN_ORDER
        {
            assert!(last.get().is_behind_all(entry.sector()), "extents come in address order");
            last.get_mut().insert(entry);
            let (base, is_first_dirty) = (*last.key(), last.get().dirty == 1);
            self.extents += 1;
            self.dirty += usize::from(held.dirty);
            if held.dirty && is_first_dirty {
                self.dirty_chunks.insert(base);
            }
            return;
        }
        let begins_window = self.chunks.last_key_value().is_none_or(|(base, _)| *base < window(offset));
        let base = if begins_window { window(offset) } else { offset };
        self.chunks.entry(base).or_default().insert(entry);
        self.count(base, held.dirty);
    }

    fn count(&mut self, base: u64, is_dirty: bool) {
        self.extents += 1;
        self.dirty += usize::from(is_dirty);
        if is_dirty {
            self.dirty_chunks.insert(base);
        }
    }

    /// Makes room in a full chunk for an extent at `offset`; the base of the chunk it goes to.
    fn split(&mut self, base: u64, offset: u64) -> u64 {
        let chunk = self.chunks.get_mut(&base).expect("the caller found it");
        if chunk.is_behind_all(sector(offset)) {
            // Extents that come in address order leave full chunks behind.
            return offset;
        }
        let next = chunk.split_off_half();
        let next_base = next.entries[0].held(base).range.offset;
        if chunk.dirty == 0 {
            self.dirty_chunks.remove(&base);
        }
        if next.dirty > 0 {
            self.dirty_chunks.insert(next_base);
        }
        self.chunks.insert(next_base, next);
        if offset < next_base { base } else { next_base }
    }

    fn remove(&mut self, offset: u64) {
        let base = self.base_of(offset).expect("the caller found it");
        let chunk = self.chunks.get_mut(&base).expect("it was found");
        let index = chunk.find(sector(offset)).expect("the caller found it");
        let entry = chunk.remove(index);
        let (left, dirty) = (chunk.entries.len(), chunk.dirty);
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
        if first.entries.len() + self.chunks[&base].entries.len() > ENTRIES_MAX * 3 / 4 {
            return;
        }
        let next = self.chunks.remove(&base).expect("the caller found it");
        if self.dirty_chunks.remove(&base) {
            self.dirty_chunks.insert(before);
        }
        let first = self.chunks.get_mut(&before).expect("it was found");
        first.entries.extend_from_slice(&next.entries);
        first.dirty += next.dirty;
    }

    /// The first dirty extent that begins at or behind `offset`.
    pub fn next_dirty(&self, offset: u64) -> Option<Held> {
        let first = self.base_of(offset).unwrap_or(offset);
        self.dirty_chunks.range(first..).find_map(|base| {
            let chunk = &self.chunks[base];
            let start = if *base < offset { chunk.before(sector(offset)) } else { 0 };
            let entry = chunk.entries[start..].iter().find(|entry| entry.is_dirty())?;
            Some(entry.held(*base))
        })
    }

    /// Whether there is none.
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

    /// Bytes of memory, but for the nodes of the trees.
    pub fn memory_bytes(&self) -> usize {
        let of = |chunk: &Chunk| size_of::<(u64, Chunk)>() + chunk.entries.capacity() * size_of::<Entry>();
        self.chunks.values().map(of).sum::<usize>() + self.dirty_chunks.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    /// Extents by offset, in the order of the same operations.
    #[derive(Default)]
    struct Reference(BTreeMap<u64, Held>);

    impl Reference {
        fn overlapping(&self, range: Range) -> Vec<Held> {
            self.0.values().filter(|held| held.range.overlaps(range)).copied().collect()
        }

        fn carve(&mut self, range: Range) {
            for old in self.overlapping(range) {
                self.0.remove(&old.range.offset);
                for rest in
                    [Range::between(old.range.offset, range.offset), Range::between(range.end(), old.range.end())]
                {
                    if !rest.is_empty() {
                        self.0.insert(rest.offset, old.part(rest));
                    }
                }
            }
        }
    }

    fn check_whole(map: &PayloadMap, reference: &Reference) {
        assert!(map.overlapping(Range::new(0, u64::MAX)).eq(reference.0.values().copied()));
        assert_eq!(map.len(), reference.0.len());
        assert_eq!(map.is_empty(), reference.0.is_empty());
        assert_eq!(map.dirty(), reference.0.values().filter(|held| held.dirty).count());
        let dirty: Vec<u64> = map.chunks.iter().filter(|(_, chunk)| chunk.dirty > 0).map(|(base, _)| *base).collect();
        assert!(map.dirty_chunks.iter().copied().eq(dirty));
        for chunk in map.chunks.values() {
            assert!((1..=ENTRIES_MAX).contains(&chunk.entries.len()), "no chunk is empty or too long");
            assert_eq!(usize::from(chunk.dirty), chunk.entries.iter().filter(|entry| entry.is_dirty()).count());
        }
    }

    /// Where the operations of one case happen.
    fn range(random: &mut Random, wide: bool) -> Range {
        let sector = match random.below(4) {
            0 => random.below(1 << 13) * 8,
            1 => random.below(1 << 16),
            // About the bounds of windows.
            _ if wide => (random.below(6) << SECTOR_BITS).saturating_sub(1 << 6) + random.below(1 << 7),
            _ => random.below(1 << 10) * 16,
        };
        let sectors = match random.below(8) {
            0 => 1 + random.below(LENGTH_MASK + 1),
            1 => 1 + random.below(20),
            _ => 8,
        };
        Range::new(sector * SECTOR_BYTES, sectors * SECTOR_BYTES)
    }

    #[test]
    fn the_map_agrees_with_a_list_of_extents_under_random_operations() {
        let seed = std::env::var("SEED").ok().map_or(3, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        for _ in 0..12 {
            let (mut map, mut reference) = (PayloadMap::default(), Reference::default());
            let (wide, grow) = (random.chance(50), random.below(3));
            for _ in 0..4000 {
                let range = range(&mut random, wide);
                let before = reference.overlapping(range);
                let change = map.carve(range);
                reference.carve(range);
                assert_eq!(change.removed, before);
                assert!(change.kept.iter().all(|kept| reference.0[&kept.range.offset] == *kept));
                if random.below(4 + 4 * grow) > 2 {
                    let place = random.below(u32::MAX.into()) * BLOCK_BYTES + range.offset % BLOCK_BYTES;
                    let held = Held { range, place, dirty: random.chance(50) };
                    map.put(held);
                    reference.0.insert(range.offset, held);
                }
                let next = reference.0.range(range.offset..).map(|(_, held)| *held).find(|held| held.dirty);
                assert_eq!(map.next_dirty(range.offset), next);
            }
            check_whole(&map, &reference);
            // The same in address order, all at once.
            let mut pushed = PayloadMap::default();
            reference.0.values().for_each(|held| pushed.push(*held));
            check_whole(&pushed, &reference);
            map.carve(Range::new(0, u64::MAX));
            check_whole(&map, &Reference::default());
        }
    }

    #[test]
    fn extents_in_any_order_take_less_than_twenty_bytes_each() {
        let count = 20_000u64;
        let orders: [fn(u64, u64) -> u64; 3] = [|k, _| k, |k, count| count - 1 - k, |k, count| k * 7919 % count];
        for order in orders {
            let mut map = PayloadMap::default();
            for k in 0..count {
                let offset = order(k, count) * 2 * BLOCK_BYTES;
                map.put(Held { range: Range::new(offset, BLOCK_BYTES), place: offset, dirty: true });
            }
            assert!(map.chunks.len() as u64 <= 2 * count.div_ceil(ENTRIES_MAX as u64), "{} chunks", map.chunks.len());
            assert!((map.memory_bytes() as u64) < 20 * count, "{} bytes", map.memory_bytes());
            // Nine of ten go: what is left joins.
            for k in (0..count).filter(|k| k % 10 != 0) {
                map.carve(Range::new(k * 2 * BLOCK_BYTES, BLOCK_BYTES));
            }
            assert!(map.chunks.len() as u64 <= count / 10 * 6 / ENTRIES_MAX as u64, "{} chunks", map.chunks.len());
            assert!((map.memory_bytes() as u64) < 40 * count / 10, "{} bytes of the rest", map.memory_bytes());
        }
    }
}
