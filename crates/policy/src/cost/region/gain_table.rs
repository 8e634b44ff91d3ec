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
mod tests {
    use super::super::Parameters;
    use super::*;
    use proptest::prelude::*;

    fn costs() -> Costs {
        let read = Parameters {
            hdd_servers: 8,
            ssd_servers: 4,
            stripe_bytes: 100,
            hdd_startup_s_min: 0.002,
            hdd_startup_s_max: 0.010,
            hdd_s_per_byte: 1e-6,
            ssd_s_per_byte: 3e-6,
            ssd_startup_s: 0.0,
            ssd_busy_s_per_byte: None,
            near_stays: false,
            interleaved_stays: false,
        };
        Costs { write: Parameters { ssd_s_per_byte: 9e-6, ..read.clone() }, read }
    }

    fn table(requests: &[(u32, Direction, Range)]) -> BTreeMap<RegionId, RegionGain> {
        let mut table = GainTable::new(costs());
        for (file, direction, range) in requests {
            table.add(*file, 1000 + u64::from(*file), *direction, *range, Known::Nothing);
        }
        table.into_regions()
    }

    #[test]
    fn a_gain_is_the_sum_over_the_requests_of_equation_9() {
        let found = table(&[
            (0, Direction::Read, Range::new(10, 50)),
            (0, Direction::Read, Range::new(900, 80)),
            (0, Direction::Write, Range::new(0, 7)),
            (0, Direction::Read, Range::new(1000, 5)),
        ]);
        let gain = |direction, length| costs().gain_ns(direction, length);
        let expected = gain(Direction::Read, 50) + gain(Direction::Read, 80) + gain(Direction::Write, 7);
        let region = found[&(0, 0)];
        assert_eq!((region.gain_ns(1000), region.reads, region.writes, region.bytes), (expected, 2, 1, 137));
        assert_eq!(found[&(0, 1)].gain_ns(1000), gain(Direction::Read, 5));
    }

    #[test]
    fn beside_s4d_bytes_written_once_gain_nothing_and_those_written_again_do() {
        const REGION: u64 = 64 << 20;
        let table = |requests: &[(Direction, Range)]| {
            let mut table = GainTable::new(costs());
            requests.iter().for_each(|(direction, range)| table.add(0, REGION, *direction, *range, Known::Nothing));
            table.into_regions()[&(0, 0)]
        };
        let write = |index: u64| (Direction::Write, Range::new(index * 8192 % REGION, 8192));
        let once: Vec<_> = (0..8192).map(write).collect();
        assert_eq!(table(&once).gain_beside_s4d_ns(REGION), 0);
        assert!(table(&once).gain_ns(REGION) != 0);
        // All of it twice more: two writes of three.
        let thrice: Vec<_> = (0..3 * 8192).map(write).collect();
        let found = table(&thrice);
        assert_eq!(found.gain_beside_s4d_ns(REGION), found.gain_ns(REGION) / 3 * 2);
        // Half a part again and again, and reads count as ever.
        let hot: Vec<_> =
            (0..1600).map(|index| write(index % 8)).chain([(Direction::Read, Range::new(0, 100))]).collect();
        let (found, read) = (table(&hot), costs().gain_ns(Direction::Read, 100));
        assert_eq!(found.gain_beside_s4d_ns(REGION) - read, (found.gain_ns(REGION) - read) / 100 * 99);
    }

    #[test]
    fn reads_of_what_was_touched_before_gain_what_they_took_more_than_flash_if_they_took_less() {
        const REGION: u64 = 64 << 20;
        let gain = |blocks: u64, reads: u64, took: Nanos| {
            let mut table = GainTable::new(costs());
            for read in 0..reads {
                let range = Range::new(read % blocks * 131_072, 131_072);
                table.add(0, REGION, Direction::Read, range, Known::Took(took));
            }
            table.into_regions()[&(0, 0)].gain_ns(REGION)
        };
        let flash = costs().read.flash_ns(131_072);
        let (modelled, quick) = (costs().gain_ns(Direction::Read, 131_072), Nanos(flash.0 / 3));
        assert_eq!(gain(10, 10, quick), 10 * modelled, "each for the first time, whatever it took");
        let less = flash.0 as i64 - quick.0 as i64;
        assert_eq!(gain(10, 40, quick), 10 * modelled - 30 * less);
        assert_eq!(gain(10, 40, flash), 40 * modelled, "not sooner than flash");
    }

    #[test]
    fn a_request_across_regions_counts_in_each_with_the_bytes_that_fall_there() {
        let found = table(&[(0, Direction::Read, Range::new(950, 2100))]);
        let bytes: Vec<_> = found.iter().map(|(id, region)| (id.1, region.bytes, region.reads)).collect();
        assert_eq!(bytes, [(0, 50, 1), (1, 1000, 1), (2, 1000, 1), (3, 50, 1)]);
        assert_eq!(found[&(0, 1)].gain_ns(1000), costs().gain_ns(Direction::Read, 1000));
        assert!(table(&[(0, Direction::Read, Range::new(950, 0))]).is_empty());
    }

    #[test]
    fn the_last_region_ends_with_the_file_and_takes_whole_pages() {
        let file = FileRegions { size_bytes: 10_000, region_bytes: 4096 };
        assert_eq!(file.count(), 3);
        assert_eq!(file.range(2), Range::new(8192, 1808));
        assert_eq!(flash_bytes(file.range(2)), 4096);
        assert!(file.range(3).is_empty() && flash_bytes(file.range(3)) == 0);
        assert_eq!(flash_bytes(Range::new(4095, 2)), 8192);
    }

    #[test]
    fn requests_at_the_end_of_the_address_space_are_split_as_well() {
        let found: Vec<_> = parts(Range::new(u64::MAX - 10, 100), 1 << 63).collect();
        assert_eq!(found, [(1, Range::new(u64::MAX - 10, 10))]);
        assert_eq!(parts(Range::new(u64::MAX - 10, 10), u64::MAX).count(), 1);
    }

    fn request() -> impl Strategy<Value = (u32, Direction, Range)> {
        let direction = any::<bool>().prop_map(|read| if read { Direction::Read } else { Direction::Write });
        (0u32..3, direction, 0u64..20_000, 0u64..3_000)
            .prop_map(|(file, direction, offset, length)| (file, direction, Range::new(offset, length)))
    }

    proptest! {
        #[test]
        fn the_table_does_not_depend_on_the_order_of_requests(
            (requests, shuffled) in prop::collection::vec(request(), 0..60)
                .prop_flat_map(|requests| (Just(requests.clone()), Just(requests).prop_shuffle()))
        ) {
            prop_assert_eq!(table(&requests), table(&shuffled));
        }

        #[test]
        fn splitting_conserves_bytes_and_leaves_no_gap(
            offset in 0u64..1 << 40, length in 0u64..1 << 30, region_bytes in 1u64 << 10..1 << 35
        ) {
            prop_assume!(length / region_bytes < 10_000);
            let range = Range::new(offset, length);
            let mut at = offset;
            for (number, part) in parts(range, region_bytes) {
                prop_assert_eq!(part.offset, at);
                prop_assert!(!part.is_empty());
                prop_assert_eq!(part.offset / region_bytes, number);
                prop_assert_eq!((part.end() - 1) / region_bytes, number);
                at = part.end();
            }
            prop_assert_eq!(at, range.end());
        }

        #[test]
        fn the_table_has_every_byte_of_every_request(requests in prop::collection::vec(request(), 0..60)) {
            let bytes: u64 = requests.iter().map(|(_, _, range)| range.length).sum();
            prop_assert_eq!(table(&requests).values().map(|region| region.bytes).sum::<u64>(), bytes);
        }
    }
}
