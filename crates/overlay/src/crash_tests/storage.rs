//! Simulated storage: what a read sees now, and what a power loss would leave.
//!
//! Bytes are not stored one by one: [`Cells`] holds runs of equal value, split wherever an operation began or
//! ended, so that byte-exact tests over gigabytes of address space stay small. A written byte remembers the
//! write and the file offset it was written for, so that bytes in a wrong place are noticed.

use std::collections::BTreeMap;

use headstart_units::chance::Random;
use headstart_units::request::Range;

/// Values over all addresses, as runs.
#[derive(Clone, Debug)]
pub struct Cells<T> {
    runs: BTreeMap<u64, T>,
}

impl<T: Clone> Cells<T> {
    pub fn new(value: T) -> Cells<T> {
        Cells { runs: BTreeMap::from([(0, value)]) }
    }

    fn split(&mut self, at: u64) {
        let (&start, value) = self.runs.range(..=at).next_back().expect("a run begins at zero");
        if start != at {
            let value = value.clone();
            self.runs.insert(at, value);
        }
    }

    pub fn update(&mut self, range: Range, mut change: impl FnMut(&mut T)) {
        if range.is_empty() {
            return;
        }
        self.split(range.offset);
        self.split(range.end());
        self.runs.range_mut(range.offset..range.end()).for_each(|(_, value)| change(value));
    }

    /// The runs of `range`, cut to it.
    pub fn get(&self, range: Range) -> Vec<(Range, T)> {
        let mut found = Vec::new();
        let mut at = range.offset;
        while at < range.end() {
            let (_, value) = self.runs.range(..=at).next_back().expect("a run begins at zero");
            let next = self.runs.range(at + 1..).next().map_or(u64::MAX, |(start, _)| *start).min(range.end());
            found.push((Range::between(at, next), value.clone()));
            at = next;
        }
        found
    }
}

/// What one byte of storage holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// Never written in a slow file, or beyond its end.
    Zero,
    /// Never written in a data file.
    Garbage,
    /// Written by write `version`; its address here minus its offset in the slow file is `shift`.
    Written { version: u32, shift: u64 },
}

impl Byte {
    /// The byte after a copy from address `from` to address `to`.
    pub fn moved(self, from: u64, to: u64) -> Byte {
        match self {
            Byte::Written { version, shift } => {
                Byte::Written { version, shift: shift.wrapping_add(to).wrapping_sub(from) }
            }
            other => other,
        }
    }
}

/// Runs of bytes with their addresses.
pub type Bytes = Vec<(Range, Byte)>;

/// The same bytes at addresses `to - from` further on.
pub fn moved(bytes: &Bytes, from: u64, to: u64) -> Bytes {
    bytes
        .iter()
        .map(|(range, byte)| {
            (Range::new(range.offset.wrapping_add(to).wrapping_sub(from), range.length), byte.moved(from, to))
        })
        .collect()
}

#[derive(Clone, Debug)]
struct Contents {
    cells: Cells<Byte>,
    size: u64,
}

impl Contents {
    fn write(&mut self, range: Range, byte: Byte) {
        self.cells.update(range, |cell| *cell = byte);
        self.size = self.size.max(range.end());
    }

    fn truncate(&mut self, size: u64) {
        self.cells.update(Range::new(size, u64::MAX), |cell| *cell = Byte::Zero);
        self.size = size;
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(Bytes),
    Truncate(u64),
}

/// A file: its contents now, those that are stable, and what lies between.
#[derive(Clone, Debug)]
pub struct Store {
    current: Contents,
    stable: Contents,
    unsynced: Vec<Change>,
}

const SECTOR_BYTES: u64 = 512;

impl Store {
    pub fn new(empty: Byte) -> Store {
        let contents = Contents { cells: Cells::new(empty), size: 0 };
        Store { current: contents.clone(), stable: contents, unsynced: Vec::new() }
    }

    pub fn size(&self) -> u64 {
        self.current.size
    }

    pub fn read(&self, range: Range) -> Bytes {
        self.current.cells.get(range)
    }

    pub fn write(&mut self, bytes: Bytes) {
        bytes.iter().for_each(|&(range, byte)| self.current.write(range, byte));
        self.unsynced.push(Change::Write(bytes));
    }

    pub fn truncate(&mut self, size: u64) {
        self.current.truncate(size);
        self.unsynced.push(Change::Truncate(size));
    }

    pub fn sync(&mut self) {
        self.stable = self.current.clone();
        self.unsynced.clear();
    }

    /// What was not synced is lost, kept or torn at sectors, each change for itself.
    pub fn lose_power(&mut self, random: &mut Random) {
        let mood = random.below(4);
        for change in std::mem::take(&mut self.unsynced) {
            let keep = match mood {
                0 => false,
                1 => true,
                _ => random.chance(50),
            };
            match change {
                Change::Truncate(size) if keep => self.stable.truncate(size),
                Change::Truncate(_) => {}
                Change::Write(bytes) => {
                    let torn = mood == 3;
                    for (range, byte) in bytes {
                        let mut at = range.offset;
                        while at < range.end() {
                            let end = if torn { (at / SECTOR_BYTES + 1) * SECTOR_BYTES } else { range.end() }
                                .min(range.end());
                            if if torn { random.chance(50) } else { keep } {
                                self.stable.write(Range::between(at, end), byte);
                            }
                            at = end;
                        }
                    }
                }
            }
        }
        self.current = self.stable.clone();
    }
}

/// The journal's file: appended bytes, of which a prefix is stable.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub bytes: Vec<u8>,
    pub stable: usize,
}

impl Log {
    /// Any prefix beyond the stable one may survive, its last bytes torn.
    pub fn lose_power(&mut self, random: &mut Random) {
        let kept = self.stable + random.below((self.bytes.len() - self.stable) as u64 + 1) as usize;
        self.bytes.truncate(kept);
        if kept > self.stable && random.chance(50) {
            let at = self.stable + random.below((kept - self.stable) as u64) as usize;
            self.bytes[at] ^= 0x5a;
        }
    }
}
