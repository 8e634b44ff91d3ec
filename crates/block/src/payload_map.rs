//! Which bytes of the disk have payload in the ring, and where: extents of eight bytes each.
//!
//! A [`ChunkedMap`] whose chunks have up to 256 entries, in windows of 256 MiB:
//!
//! ```text
//! entry: sector in its window, 19 bits | sectors less one, 12 | dirty, 1 | block of the ring, 32
//! ```
//!
//! Place and offset are equal modulo a block, so that a block says where an extent begins.

use super::record::PAYLOAD_BLOCKS_MAX;
use headstart_units::chunked_map;
use headstart_units::chunked_map::{Chunk as _, ChunkedMap, Extent};
use headstart_units::request::Range;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

const SECTOR_BITS: u32 = 19;
const WINDOW_BYTES: u64 = SECTOR_BYTES << SECTOR_BITS;
const SECTOR_SHIFT: u32 = 64 - SECTOR_BITS;
const LENGTH_SHIFT: u32 = 33;
const LENGTH_MASK: u64 = (1 << (SECTOR_SHIFT - LENGTH_SHIFT)) - 1;
const DIRTY: u64 = 1 << 32;

const _: () = assert!(PAYLOAD_BLOCKS_MAX * BLOCK_BYTES == (LENGTH_MASK + 1) * SECTOR_BYTES, "a record's payload fits");

/// Bytes of the disk that have payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Whole sectors, at most a record's payload.
    pub range: Range,
    /// Byte of the ring; equal to `range.offset` modulo a block.
    pub place: u64,
    /// Whether the disk holds something older.
    pub dirty: bool,
}

impl Extent for Held {
    fn range(&self) -> Range {
        self.range
    }

    fn is_dirty(&self) -> bool {
        self.dirty
    }

    fn part(&self, range: Range) -> Held {
        Held { range, place: self.place + (range.offset - self.range.offset), ..*self }
    }
}

/// An extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    fn new(held: &Held) -> Entry {
        let Range { offset, length } = held.range;
        assert!(offset % SECTOR_BYTES == 0 && length % SECTOR_BYTES == 0, "extents are whole sectors");
        assert!(held.place % BLOCK_BYTES == offset % BLOCK_BYTES, "place and offset are equal modulo a block");
        let block = u32::try_from(held.place / BLOCK_BYTES).expect("a ring has fewer than 2^32 blocks");
        let sectors = (length / SECTOR_BYTES).checked_sub(1).expect("an extent has a byte");
        assert!(sectors <= LENGTH_MASK, "an extent is part of a record's payload");
        let dirty = if held.dirty { DIRTY } else { 0 };
        let sector = offset % WINDOW_BYTES / SECTOR_BYTES;
        Entry(sector << SECTOR_SHIFT | sectors << LENGTH_SHIFT | dirty | u64::from(block))
    }

    fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }
}

/// The entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    entries: Vec<Entry>,
    dirty: u16,
}

impl chunked_map::Chunk for Chunk {
    type Extent = Held;
    type Entry = Entry;
    type Shared = ();
    const ENTRIES_MAX: usize = 256;
    /// The next few that come between them do not split a chunk.
    const ENTRIES_IN_ORDER: usize = Self::ENTRIES_MAX - Self::ENTRIES_MAX / 16;
    const WINDOW_BYTES: u64 = WINDOW_BYTES;

    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn within(entry: &Entry) -> u64 {
        (entry.0 >> SECTOR_SHIFT) * SECTOR_BYTES
    }

    fn is_dirty(entry: &Entry) -> bool {
        entry.is_dirty()
    }

    fn dirty(&self) -> usize {
        usize::from(self.dirty)
    }

    fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    fn extent(&self, entry: &Entry, window: u64, (): &()) -> Held {
        let offset = window + Self::within(entry);
        let length = ((entry.0 >> LENGTH_SHIFT & LENGTH_MASK) + 1) * SECTOR_BYTES;
        let place = u64::from(entry.0 as u32) * BLOCK_BYTES + offset % BLOCK_BYTES;
        Held { range: Range::new(offset, length), place, dirty: entry.is_dirty() }
    }

    fn insert(&mut self, held: &Held, (): &mut ()) {
        let entry = Entry::new(held);
        self.dirty += u16::from(held.dirty);
        let within = Self::within(&entry);
        if self.is_before(within) {
            self.entries.push(entry);
        } else {
            self.entries.insert(self.before(within), entry);
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

    fn split_off(&mut self, index: usize) -> Chunk {
        let mut entries = Vec::with_capacity(Self::ENTRIES_MAX);
        entries.extend(self.entries.drain(index..));
        let dirty = entries.iter().filter(|entry| entry.is_dirty()).count() as u16;
        self.dirty -= dirty;
        Chunk { entries, dirty }
    }

    fn append(&mut self, next: Chunk) {
        self.entries.extend_from_slice(&next.entries);
        self.dirty += next.dirty;
    }
}

/// The extents, by offset.
pub(crate) type PayloadMap = ChunkedMap<Chunk>;

/// Where parts of the disk with about so many extents each begin, in address order.
pub(crate) fn bounds(map: &PayloadMap, extents: usize) -> impl Iterator<Item = u64> + '_ {
    map.bases((extents / Chunk::ENTRIES_IN_ORDER).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::chance::Random;
    use headstart_units::chunked_map::reference::{Reference, check_room};

    fn check_whole(map: &PayloadMap, reference: &Reference<Held>) {
        assert!(map.iter().eq(reference.0.values().copied()));
        reference.check(map);
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
                    reference.put(held);
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
        check_room::<Chunk>(20_000, 20, |k| {
            let offset = k * 2 * BLOCK_BYTES;
            Held { range: Range::new(offset, BLOCK_BYTES), place: offset, dirty: true }
        });
    }
}
