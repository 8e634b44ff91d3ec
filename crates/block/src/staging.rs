//! Staging: bytes of the disk that were read ahead of their readers, on flash, dropped once read.
//!
//! The area is cut into slots; a slot holds part of one fetch. Memory alone knows what is where, so a start
//! finds staging empty. An extent is a clean copy of the disk: any write of its range drops it, and what
//! fails its checksum is read from the disk.
//!
//! ```text
//! free --allocate--> taken by a fetch --install--> holds extents --all read, dropped or evicted, none being read--> free
//! ```

use std::collections::{BTreeMap, VecDeque};

use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Bytes of extents in it.
    bytes: u64,
    /// Reads of it under way.
    pins: u32,
    /// A fetch fills it.
    is_taken: bool,
    /// When it was filled, in installs; its key among those that may be evicted.
    age: u64,
    /// What it was filled with.
    range: Range,
}

/// Where an extent is.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    /// Byte of the area less byte of the disk, so that an extent that is cut keeps it.
    shift: u64,
}

/// A part of staging that is being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Bytes of the disk.
    pub range: Range,
    /// Byte of the area.
    pub place: u64,
    /// Its slot, for `unpin`.
    pub slot: u32,
}

/// What is staged.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    slot_blocks: u32,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    by_age: BTreeMap<u64, u32>,
    installs: u64,
    extents: Ranges<Place>,
    crcs: Vec<u32>,
}

impl Staging {
    /// An empty area of `blocks`.
    pub(crate) fn new(blocks: u64, slot_blocks: u32) -> Staging {
        let count = blocks / u64::from(slot_blocks);
        Staging {
            slot_blocks,
            slots: vec![Slot::default(); count as usize],
            free: (0..count as u32).collect(),
            by_age: BTreeMap::new(),
            installs: 0,
            extents: Ranges::default(),
            crcs: vec![0; (count * u64::from(slot_blocks)) as usize],
        }
    }

    /// Bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> u64 {
        u64::from(self.slot_blocks) * BLOCK_BYTES
    }

    /// Bytes of the area.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.len() as u64 * self.slot_bytes()
    }

    /// Bytes that are staged.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.by_age.values().map(|slot| self.slots[*slot as usize].bytes).sum()
    }

    /// Slots for a fetch of `bytes`; what was staged longest ago gives way. None: so many are being filled or read.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<Vec<u32>> {
        let count = bytes.div_ceil(self.slot_bytes()) as usize;
        let evictable = self.by_age.values().filter(|slot| self.slots[**slot as usize].pins == 0);
        if self.free.len() + evictable.count() < count {
            return None;
        }
        while self.free.len() < count {
            let idle = self.by_age.values().find(|slot| self.slots[**slot as usize].pins == 0);
            let range = self.slots[*idle.expect("there are enough") as usize].range;
            self.drop_range(range);
        }
        let slots: Vec<u32> = self.free.drain(..count).collect();
        slots.iter().for_each(|slot| self.slots[*slot as usize].is_taken = true);
        Some(slots)
    }

    /// First byte of a slot in the area.
    pub(crate) fn place_of(&self, slot: u32) -> u64 {
        u64::from(slot) * self.slot_bytes()
    }

    /// Notes the checksums of what is written from a byte of the area on.
    pub(crate) fn set_crcs(&mut self, place: u64, crcs: &[u32]) {
        let block = (place / BLOCK_BYTES) as usize;
        self.crcs[block..block + crcs.len()].copy_from_slice(crcs);
    }

    /// Checksums of the blocks that hold a part of the area.
    pub(crate) fn crcs(&self, place: u64, length: u64) -> &[u32] {
        &self.crcs[(place / BLOCK_BYTES) as usize..(place + length).div_ceil(BLOCK_BYTES) as usize]
    }

    /// A fetch has filled a slot that it took: with `parts` of `range`, the first byte of which lies at the
    /// slot's begin.
    pub(crate) fn install(&mut self, slot: u32, range: Range, parts: &[Range]) {
        let shift = self.place_of(slot).wrapping_sub(range.offset);
        for part in parts {
            self.drop_range(*part);
            self.extents.insert(*part, Place { slot, shift });
        }
        self.installs += 1;
        let bytes = parts.iter().map(|part| part.length).sum();
        self.slots[slot as usize] = Slot { bytes, pins: 0, is_taken: false, age: self.installs, range };
        self.by_age.insert(self.installs, slot);
        self.free_if_empty(slot);
    }

    /// What is staged of `range`.
    pub(crate) fn staged(&self, range: Range) -> impl Iterator<Item = Range> + '_ {
        self.extents.overlapping(range).map(move |(held, _)| held.intersection(range))
    }

    /// Takes what is staged of `range` out, to be read: its slots are not used again before `unpin`.
    pub(crate) fn take(&mut self, range: Range) -> Vec<Taken> {
        let carved = self.extents.carve(range);
        let taken: Vec<Taken> = carved
            .iter()
            .map(|(range, at)| Taken { range: *range, place: range.offset.wrapping_add(at.shift), slot: at.slot })
            .collect();
        for Taken { range, slot, .. } in &taken {
            self.slots[*slot as usize].bytes -= range.length;
            self.slots[*slot as usize].pins += 1;
        }
        taken
    }

    /// A read of a slot has ended.
    pub(crate) fn unpin(&mut self, slot: u32) {
        self.slots[slot as usize].pins -= 1;
        self.free_if_empty(slot);
    }

    /// Nothing of `range` is staged any more.
    pub(crate) fn drop_range(&mut self, range: Range) {
        for (part, place) in self.extents.carve(range) {
            self.slots[place.slot as usize].bytes -= part.length;
            self.free_if_empty(place.slot);
        }
    }

    fn free_if_empty(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        if state.bytes == 0 && state.pins == 0 && !state.is_taken && self.by_age.remove(&state.age).is_some() {
            self.free.push_back(slot);
        }
    }

    /// A fetch gives slots back that it did not fill.
    pub(crate) fn give_back(&mut self, slots: &[u32]) {
        for slot in slots {
            self.slots[*slot as usize].is_taken = false;
            self.free.push_back(*slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_bytes_are_read_or_dropped_and_nobody_reads_it() {
        let mut staging = Staging::new(2, 1);
        let slots = staging.allocate(2 * BLOCK_BYTES).unwrap();
        assert_eq!(staging.allocate(1), None, "both are taken");
        for (index, slot) in slots.iter().enumerate() {
            let range = Range::new(index as u64 * BLOCK_BYTES, BLOCK_BYTES);
            staging.install(*slot, range, &[range]);
        }
        let taken = staging.take(Range::new(512, BLOCK_BYTES));
        assert_eq!(taken.iter().map(|part| part.place).collect::<Vec<_>>(), [512, BLOCK_BYTES]);
        staging.drop_range(Range::new(0, 2 * BLOCK_BYTES));
        assert_eq!(staging.allocate(1), None, "both are being read");
        taken.iter().for_each(|part| staging.unpin(part.slot));
        assert_eq!(staging.allocate(2 * BLOCK_BYTES).map(|slots| slots.len()), Some(2));
    }

    #[test]
    fn what_was_staged_longest_ago_gives_way() {
        let mut staging = Staging::new(3, 1);
        for block in [7, 5, 6] {
            let slot = staging.allocate(1).unwrap()[0];
            let range = Range::new(block * BLOCK_BYTES, BLOCK_BYTES);
            staging.install(slot, range, &[range]);
        }
        staging.allocate(1).unwrap();
        let left: Vec<u64> = staging.staged(Range::new(0, 1 << 20)).map(|part| part.offset / BLOCK_BYTES).collect();
        assert_eq!(left, [5, 6]);
    }
}
