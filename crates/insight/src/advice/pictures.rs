//! What a run looked like, in bounded memory: sizes and latencies of requests, where in its files it was
//! when, and some requests whole.
//!
//! Axes whose length is not known beforehand, time and offset, have a fixed number of bins, whose width
//! doubles when the axis is full.

use std::collections::BTreeMap;

use headstart_units::Nanos;
use headstart_units::chance::splitmix64;
use headstart_units::request::{Access, Direction};

/// Bins of time, and of offset within a file.
pub const TIME_BINS: usize = 96;
/// See [`TIME_BINS`].
pub const OFFSET_BINS: usize = 32;
/// Files with a map of their own: those that came first.
const FILES_MAX: usize = 64;
/// Requests kept whole, at most.
const SAMPLE_MAX: usize = 4096;
/// Classes of latency an octave.
const LATENCY_STEPS: u32 = 8;

/// Requests of each power of two of bytes, and their bytes.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Requests by the binary logarithm of their size, rounded down.
    pub counts: BTreeMap<u32, u64>,
    /// Bytes of all.
    pub bytes: u64,
    /// Number of all.
    pub requests: u64,
}

/// Bytes asked for by offset and time in one file.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Width of a bin of offset, bytes.
    pub bin_bytes: u64,
    /// Width of a bin of time, ns: of [`Pictures::bin_ns`] when it was last touched.
    bin_ns: u64,
    /// By offset, then time.
    pub bytes: Vec<[u64; TIME_BINS]>,
}

/// A request kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The file.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// When it began.
    pub start: Nanos,
    /// Reading or writing.
    pub direction: Direction,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Pictures {
    /// Reads, writes.
    pub sizes: [Sizes; 2],
    /// Of both: requests by class of latency; see [`latency_s`].
    pub latencies: [BTreeMap<u32, u64>; 2],
    /// By file.
    pub maps: BTreeMap<u32, HeatMap>,
    /// Width of a bin of time, ns.
    pub bin_ns: u64,
    /// Requests kept whole, by start.
    pub sample: Vec<Sampled>,
    /// When the first request started.
    pub begin: Nanos,
    /// One in so many is kept, as a power of two.
    sample_shift: u32,
    count: u64,
}

impl Default for Pictures {
    fn default() -> Pictures {
        Pictures {
            sizes: Default::default(),
            latencies: Default::default(),
            maps: BTreeMap::new(),
            bin_ns: 1_000_000,
            sample: Vec::new(),
            begin: Nanos::ZERO,
            sample_shift: 0,
            count: 0,
        }
    }
}

impl Pictures {
    /// Adds a request, by start.
    pub(crate) fn add(&mut self, access: &Access) {
        let class = usize::from(access.direction == Direction::Write);
        let sizes = &mut self.sizes[class];
        *sizes.counts.entry(access.range.length.max(1).ilog2()).or_default() += 1;
        sizes.bytes = sizes.bytes.saturating_add(access.range.length);
        sizes.requests += 1;
        if access.end > access.start {
            *self.latencies[class].entry(latency_class(access.end.since(access.start))).or_default() += 1;
        }
        if self.count == 0 {
            self.begin = access.start;
        }
        self.count += 1;
        self.add_to_map(access);
        let mut state = self.count;
        if splitmix64(&mut state) >> 32 & ((1 << self.sample_shift) - 1) == 0 {
            self.keep(access);
        }
    }

    fn add_to_map(&mut self, access: &Access) {
        let at_ns = access.start.since(self.begin).0;
        while at_ns / self.bin_ns >= TIME_BINS as u64 {
            self.bin_ns *= 2;
        }
        if self.maps.len() >= FILES_MAX && !self.maps.contains_key(&access.file) {
            return;
        }
        let bin_ns = self.bin_ns;
        let new = || HeatMap { bin_bytes: 1 << 16, bin_ns, bytes: vec![[0; TIME_BINS]; OFFSET_BINS] };
        let map = self.maps.entry(access.file).or_insert_with(new);
        map.fit(bin_ns, access.range.offset);
        let cell = &mut map.bytes[(access.range.offset / map.bin_bytes) as usize][(at_ns / bin_ns) as usize];
        *cell = cell.saturating_add(access.range.length);
    }

    fn keep(&mut self, access: &Access) {
        if self.sample.len() >= SAMPLE_MAX {
            // Every other one, and one in twice as many from now on.
            self.sample_shift += 1;
            let mut number = 0;
            self.sample.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        let Access { file, direction, start, .. } = *access;
        self.sample.push(Sampled { file, offset: access.range.offset, start, direction });
    }

    /// Brings all maps to the same bins of time.
    pub(crate) fn finish(&mut self) {
        let bin_ns = self.bin_ns;
        self.maps.values_mut().for_each(|map| map.fit(bin_ns, 0));
    }
}

impl HeatMap {
    /// Widens bins until they are of `bin_ns` and hold the offset.
    fn fit(&mut self, bin_ns: u64, offset: u64) {
        while self.bin_ns < bin_ns {
            self.bin_ns *= 2;
            for row in &mut self.bytes {
                for bin in 0..TIME_BINS {
                    let of = |nth: usize| row.get(2 * bin + nth).copied().unwrap_or(0);
                    row[bin] = of(0).saturating_add(of(1));
                }
            }
        }
        while offset / self.bin_bytes >= OFFSET_BINS as u64 {
            self.bin_bytes *= 2;
            for bin in 0..OFFSET_BINS {
                let of = |nth: usize| self.bytes.get(2 * bin + nth).copied().unwrap_or([0; TIME_BINS]);
                let (low, high) = (of(0), of(1));
                self.bytes[bin] = std::array::from_fn(|time| low[time].saturating_add(high[time]));
            }
        }
    }
}

/// The class of a latency: eight for each octave of nanoseconds.
fn latency_class(latency: Nanos) -> u32 {
    let ns = latency.0.max(1);
    let octave = ns.ilog2();
    let step = if octave >= 3 { (ns >> (octave - 3)) as u32 % LATENCY_STEPS } else { 0 };
    octave * LATENCY_STEPS + step
}

/// The upper end of a class of latencies, seconds.
pub fn latency_s(class: u32) -> f64 {
    let (octave, step) = (class / LATENCY_STEPS, class % LATENCY_STEPS);
    (octave as f64).exp2() * (1.0 + f64::from(step + 1) / f64::from(LATENCY_STEPS)) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::request::Range;

    fn access(k: u64, offset: u64) -> Access {
        let (direction, range) = (Direction::Read, Range::new(offset, 4096));
        Access {
            file: 0,
            rank: 0,
            direction,
            range,
            start: Nanos(k * 10_000_000),
            end: Nanos(k * 10_000_000 + 77_000),
            without_flash: true,
        }
    }

    #[test]
    fn nothing_is_lost_when_bins_widen() {
        let mut pictures = Pictures::default();
        (0..50_000).for_each(|k| pictures.add(&access(k, k * 131_072 % (1 << 40))));
        pictures.finish();
        let map = &pictures.maps[&0];
        assert_eq!(map.bytes.iter().flatten().sum::<u64>(), 50_000 * 4096);
        assert!(map.bytes[0][0] > 0 && pictures.bin_ns * TIME_BINS as u64 > 500_000_000_000, "{}", pictures.bin_ns);
        assert!(pictures.sample.len() > SAMPLE_MAX / 4 && pictures.sample.len() <= SAMPLE_MAX);
        assert_eq!(pictures.latencies[0].values().sum::<u64>(), 50_000);
    }

    #[test]
    fn a_latency_is_at_most_an_eighth_below_the_end_of_its_class() {
        for ns in [1u64, 9, 100, 12_345, 77_000, 1_000_000_007, 3 << 40] {
            let end = latency_s(latency_class(Nanos(ns))) * 1e9;
            assert!(end > ns as f64 * 0.999 && end <= ns as f64 * 2.0, "{ns} {end}");
            assert!(ns < 8 || end <= ns as f64 * 1.126, "{ns} {end}");
        }
    }

    #[test]
    fn the_farthest_offset_there_is_has_a_bin() {
        let mut pictures = Pictures::default();
        pictures.add(&access(0, i64::MAX as u64 - 4096));
        assert_eq!(pictures.maps[&0].bytes.iter().flatten().sum::<u64>(), 4096);
    }
}
