//! A run of neighbouring extents of one file, sixteen bytes each.
//!
//! All offsets of a chunk lie in one window of 4 GiB, so that their low 32 bits tell them apart. Room grows
//! and shrinks in steps of a few entries: what a chunk has allocated beyond its entries is bounded.

use super::mapped::{Benefit, LENGTH_MAX, Mapped};
use crate::recency::Stamp;
use headstart_units::PAGE_BYTES;
use headstart_units::chunked_map;
use headstart_units::request::Range;

/// Room grows in steps of this many entries.
const STEP: usize = 8;
const DIRTY: u32 = 1 << 31;

/// An extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Low 32 bits of the offset.
    low: u32,
    /// Length, and a bit that says that it is dirty.
    length: u32,
    /// Page of the place; within the page it lies as the offset does in its own.
    page: u32,
    /// Index in the map's table of data files.
    data_file: u16,
    /// Benefit of an access.
    benefit: u8,
    /// Generation of the last use, as of the chunk's folds.
    generation: u8,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// An extent, with its data file by index and the generation of its last use.
    fn new(mapped: &Mapped, data_file: u16, generation: u8) -> Entry {
        let Range { offset, length } = mapped.range;
        assert!(length <= LENGTH_MAX, "longer extents are put in as several");
        assert!(mapped.place % PAGE_BYTES == offset % PAGE_BYTES, "place and offset are equal modulo the page");
        let page = u32::try_from(mapped.place / PAGE_BYTES).expect("a data file ends at 16 TiB");
        let dirty = if mapped.dirty { DIRTY } else { 0 };
        Entry {
            low: offset as u32,
            length: length as u32 | dirty,
            page,
            data_file,
            benefit: mapped.benefit.0,
            generation,
        }
    }

    fn length(&self) -> u64 {
        u64::from(self.length & !DIRTY)
    }

    fn place(&self) -> u64 {
        u64::from(self.page) * PAGE_BYTES + u64::from(self.low) % PAGE_BYTES
    }

    fn is_dirty(&self) -> bool {
        self.length & DIRTY != 0
    }
}

/// Data files by their index in the entries.
#[derive(Clone, Debug, Default)]
pub struct DataFiles(Vec<u32>);

impl DataFiles {
    fn index_of(&mut self, data_file: u32) -> u16 {
        // Nearly always the newest.
        let index = self.0.iter().rposition(|known| *known == data_file).unwrap_or_else(|| {
            self.0.push(data_file);
            self.0.len() - 1
        });
        u16::try_from(index).expect("a file has extents in fewer than 65,536 data files, one an agent's life")
    }
}

/// The entries.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    entries: Vec<Entry>,
    /// As of which fold the generations are meant.
    folds: u32,
    dirty: u16,
    /// No clean entry is of an older generation.
    oldest: u8,
}

impl Chunk {
    fn fold_to(&mut self, folds: u32) {
        if folds <= self.folds {
            return;
        }
        let halved = |generation: u8| Stamp { generation, folds: self.folds }.at(folds).generation;
        let oldest = halved(self.oldest);
        self.entries.iter_mut().for_each(|entry| entry.generation = halved(entry.generation));
        self.oldest = oldest;
        self.folds = folds;
    }

    fn generation_of(&mut self, stamp: Stamp) -> u8 {
        self.fold_to(stamp.folds);
        stamp.at(self.folds).generation
    }

    /// The entry is clean from now on.
    pub fn set_clean(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        if entry.is_dirty() {
            entry.length &= !DIRTY;
            self.dirty -= 1;
            self.oldest = self.oldest.min(entry.generation);
        }
    }

    /// The entry was used.
    pub fn set_stamp(&mut self, index: usize, stamp: Stamp) {
        let generation = self.generation_of(stamp);
        self.entries[index].generation = generation;
        self.oldest = self.oldest.min(generation);
    }

    /// Whether a clean entry may be of generation `limit` or older.
    pub fn may_hold(&self, limit: Stamp) -> bool {
        usize::from(self.dirty) < self.entries.len()
            && Stamp { generation: self.oldest, folds: self.folds }.at(limit.folds).generation <= limit.generation
    }

    /// The first clean entry at or behind `low` of generation `limit` or older. Learns how old the oldest is.
    pub fn oldest_from(&mut self, low: u32, limit: Stamp) -> Option<usize> {
        self.fold_to(limit.folds);
        let clean = self.entries.iter().filter(|entry| !entry.is_dirty());
        self.oldest = clean.map(|entry| entry.generation).min().unwrap_or(u8::MAX);
        if self.oldest > limit.generation {
            return None;
        }
        let found = |entry: &Entry| entry.low >= low && !entry.is_dirty() && entry.generation <= limit.generation;
        self.entries.iter().position(found)
    }
}

impl chunked_map::Chunk for Chunk {
    type Extent = Mapped;
    type Entry = Entry;
    type Shared = DataFiles;
    const ENTRIES_MAX: usize = 128;
    const WINDOW_BYTES: u64 = 1 << 32;

    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn within(entry: &Entry) -> u64 {
        u64::from(entry.low)
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

    fn extent(&self, entry: &Entry, window: u64, data_files: &DataFiles) -> Mapped {
        Mapped {
            range: Range::new(window + u64::from(entry.low), entry.length()),
            data_file: data_files.0[usize::from(entry.data_file)],
            place: entry.place(),
            dirty: entry.is_dirty(),
            stamp: Stamp { generation: entry.generation, folds: self.folds },
            benefit: Benefit(entry.benefit),
        }
    }

    fn insert(&mut self, mapped: &Mapped, data_files: &mut DataFiles) {
        let entry = Entry::new(mapped, data_files.index_of(mapped.data_file), self.generation_of(mapped.stamp));
        if self.entries.is_empty() {
            self.oldest = u8::MAX;
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(STEP - self.entries.len() % STEP);
        }
        self.entries.insert(self.before(Self::within(&entry)), entry);
        self.dirty += u16::from(entry.is_dirty());
        if !entry.is_dirty() {
            self.oldest = self.oldest.min(entry.generation);
        }
    }

    fn remove(&mut self, index: usize) -> Entry {
        let entry = self.entries.remove(index);
        self.dirty -= u16::from(entry.is_dirty());
        if self.entries.capacity() - self.entries.len() > 3 * STEP {
            self.entries.shrink_to(self.entries.len().next_multiple_of(STEP));
        }
        entry
    }

    fn split_off(&mut self, index: usize) -> Chunk {
        let entries = self.entries[index..].to_vec();
        self.entries.truncate(index);
        self.entries.shrink_to(index.next_multiple_of(STEP));
        let dirty = entries.iter().filter(|entry| entry.is_dirty()).count() as u16;
        self.dirty -= dirty;
        Chunk { entries, folds: self.folds, dirty, oldest: self.oldest }
    }

    fn append(&mut self, mut next: Chunk) {
        let folds = self.folds.max(next.folds);
        self.fold_to(folds);
        next.fold_to(folds);
        self.entries
            .reserve_exact((self.entries.len() + next.entries.len()).next_multiple_of(STEP) - self.entries.len());
        self.entries.extend_from_slice(&next.entries);
        self.dirty += next.dirty;
        self.oldest = self.oldest.min(next.oldest);
    }
}
