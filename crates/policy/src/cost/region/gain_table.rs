//! The region gain table (CARL §III-D, eq. 9): what each region of each file would have saved on flash.
//!
//! ```text
//! g_i = sum over the requests j of region i of (T_H^j - T_S^j)      (9)
//! ```
//!
//! Files are divided into regions of a fixed length, which may differ from file to file; the last one ends
//! with the file. A request that crosses regions is split: each part counts as a request of its own length in
//! the region it falls into. One pass over the requests in any order; memory grows with the regions that were
//! touched, never with the requests.

use std::collections::BTreeMap;

use super::Costs;
use headstart_units::PAGE_BYTES;
use headstart_units::request::{Direction, Range};
use headstart_units::{MIB, Nanos};

/// Length of regions if nobody says otherwise: the larger of the paper's two examples.
pub const REGION_BYTES: u64 = 64 * MIB;

/// A region: file and number within it.
pub type RegionId = (u32, u64);

/// What one region was asked for, and what that would have saved on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionGain {
    /// Requests to read, parts of requests that cross regions included.
    pub reads: u64,
    /// Requests to write, likewise.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// g_i, nanoseconds.
    gain_ns: i128,
    /// What of it is that of writes.
    write_gain_ns: i128,
    written_bytes: u64,
    /// Bytes of reads that took less than flash does, and what the model takes them to gain more than they would have.
    quick_bytes: u64,
    quick_ns: i128,
    /// Which of its parts of equal length were written, or touched at all.
    written: Parts,
    touched: Parts,
}

/// What a table is told of a request beside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// The disks serve it as soon as flash: it gains nothing.
    Stays,
    /// How long it took.
    Took(Nanos),
}

fn clamped(gain_ns: i128) -> i64 {
    gain_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Words of one bit for each part of a region.
const PARTS_WORDS: usize = 8;

/// A bit for each of a region's parts of equal length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts([u64; PARTS_WORDS]);

impl Parts {
    /// Length of a part.
    fn part_bytes(region_bytes: u64) -> u64 {
        region_bytes.div_ceil(64 * PARTS_WORDS as u64).max(1)
    }

    /// Notes a range, from the begin of the region.
    fn note(&mut self, range: Range, region_bytes: u64) {
        let length = Parts::part_bytes(region_bytes);
        for part in range.offset / length..range.end().div_ceil(length) {
            self.0[part as usize / 64] |= 1 << (part % 64);
        }
    }

    fn add(&mut self, other: Parts) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Of so many bytes of ranges that were noted those that were noted before: at least so many.
    fn again(self, bytes: u64, region_bytes: u64) -> u64 {
        let parts: u64 = self.0.iter().map(|word| u64::from(word.count_ones())).sum();
        bytes.saturating_sub(parts * Parts::part_bytes(region_bytes))
    }
}

impl RegionGain {
    /// g_i (eq. 9), nanoseconds, of a region of a file with regions of `region_bytes`. Reads of bytes that
    /// were touched before, at least as far as the parts show it, gain what they took more than flash does,
    /// if they took less: servers or the node have them in memory.
    pub fn gain_ns(&self, region_bytes: u64) -> i64 {
        clamped(self.gain_ns - self.not_gained_ns(region_bytes))
    }

    /// What of g_i reads do not gain that memory serves.
    fn not_gained_ns(&self, region_bytes: u64) -> i128 {
        let again = self.touched.again(self.bytes, region_bytes).min(self.quick_bytes);
        self.quick_ns * i128::from(again) / i128::from(self.quick_bytes.max(1))
    }

    /// g_i beside S4D, nanoseconds, of a region of a file with regions of `region_bytes`. What is written for
    /// the first time S4D absorbs wherever it lies, and flash that is a region's absorbs nothing else: of the
    /// writes those count that write bytes again, at least as far as the parts show that were written.
    pub fn gain_beside_s4d_ns(&self, region_bytes: u64) -> i64 {
        let again = self.written.again(self.written_bytes, region_bytes);
        let of_writes = self.write_gain_ns * i128::from(again) / i128::from(self.written_bytes.max(1));
        clamped(self.gain_ns - self.write_gain_ns + of_writes - self.not_gained_ns(region_bytes))
    }

    /// Adds what other requests for the same region were.
    pub fn add(&mut self, other: &RegionGain) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.gain_ns += other.gain_ns;
        self.write_gain_ns += other.write_gain_ns;
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.quick_bytes = self.quick_bytes.saturating_add(other.quick_bytes);
        self.quick_ns += other.quick_ns;
        self.written.add(other.written);
        self.touched.add(other.touched);
    }
}

/// How long a file is, and its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRegions {
    /// The file's size.
    pub size_bytes: u64,
    /// Length of its regions, at least 1.
    pub region_bytes: u64,
}

impl FileRegions {
    /// Region `number` of the file: shorter where the file ends, empty beyond.
    pub fn range(&self, number: u64) -> Range {
        let start = number.saturating_mul(self.region_bytes);
        Range::between(start, start.saturating_add(self.region_bytes).min(self.size_bytes))
    }

    /// How many regions the file has.
    pub fn count(&self) -> u64 {
        self.size_bytes.div_ceil(self.region_bytes)
    }
}

/// What a range takes on flash: whole pages.
pub fn flash_bytes(range: Range) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let end = range.end().div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
    end - range.offset / PAGE_BYTES * PAGE_BYTES
}

/// The parts of a request by regions of `region_bytes`, in order: the region's number and the bytes in it.
pub fn parts(range: Range, region_bytes: u64) -> impl Iterator<Item = (u64, Range)> {
    let mut at = range.offset;
    std::iter::from_fn(move || {
        if at >= range.end() {
            return None;
        }
        let number = at / region_bytes;
        let end = (number + 1).saturating_mul(region_bytes).min(range.end());
        let part = Range::between(at, end);
        at = end;
        Some((number, part))
    })
}

/// The table, RGT.
#[derive(Clone, Debug)]
pub struct GainTable {
    costs: Costs,
    regions: BTreeMap<RegionId, RegionGain>,
    /// The region of the last part and what it has got since: programs stay in a region for a while.
    recent: Option<(RegionId, RegionGain)>,
    /// The last gain computed, and of what: programs repeat their sizes.
    priced: (Direction, u64, i64),
}

impl GainTable {
    /// An empty table under these costs.
    pub fn new(costs: Costs) -> GainTable {
        let priced = (Direction::Read, 0, costs.gain_ns(Direction::Read, 0));
        GainTable { costs, regions: BTreeMap::new(), recent: None, priced }
    }

    /// Adds one request for a file with regions of `region_bytes`, which is at least 1 and the same for every
    /// request of a file.
    pub fn add(&mut self, file: u32, region_bytes: u64, direction: Direction, range: Range, known: Known) {
        let measured_ns = self.measured_gain_ns(direction, range.length, known);
        for (number, part) in parts(range, region_bytes) {
            if (self.priced.0, self.priced.1) != (direction, part.length) {
                self.priced = (direction, part.length, self.costs.gain_ns(direction, part.length));
            }
            let gain_ns = i128::from(if known == Known::Stays { 0 } else { self.priced.2 });
            let within = Range::new(part.offset - number * region_bytes, part.length);
            let region = self.region((file, number));
            match direction {
                Direction::Read => region.reads += 1,
                Direction::Write => {
                    region.writes += 1;
                    region.write_gain_ns += gain_ns;
                    region.written_bytes = region.written_bytes.saturating_add(part.length);
                    region.written.note(within, region_bytes);
                }
            }
            region.touched.note(within, region_bytes);
            region.bytes = region.bytes.saturating_add(part.length);
            region.gain_ns += gain_ns;
            if let Some(measured_ns) = measured_ns {
                region.quick_bytes = region.quick_bytes.saturating_add(part.length);
                region.quick_ns += gain_ns - measured_ns * i128::from(part.length) / i128::from(range.length);
            }
        }
    }

    /// What a read would have gained that took less than flash does: less than nothing.
    fn measured_gain_ns(&self, direction: Direction, length: u64, known: Known) -> Option<i128> {
        let (Direction::Read, Known::Took(took)) = (direction, known) else { return None };
        let flash = self.costs.read.flash_ns(length);
        (took < flash).then(|| i128::from(took.0) - i128::from(flash.0))
    }

    fn region(&mut self, id: RegionId) -> &mut RegionGain {
        if self.recent.is_none_or(|(recent, _)| recent != id) {
            self.flush();
            self.recent = Some((id, RegionGain::default()));
        }
        &mut self.recent.as_mut().expect("it was set just now").1
    }

    fn flush(&mut self) {
        let Some((id, new)) = self.recent.take() else { return };
        self.regions.entry(id).or_default().add(&new);
    }

    /// Regions touched so far, or one more.
    pub fn count(&self) -> usize {
        self.regions.len() + usize::from(self.recent.is_some())
    }

    /// The regions that were touched, by file and number.
    pub fn into_regions(mut self) -> BTreeMap<RegionId, RegionGain> {
        self.flush();
        self.regions
    }
}

#[cfg(test)]
mod tests;
