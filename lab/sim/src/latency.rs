//! Latencies of any number of requests in bounded memory: counts by size, each bucket 1/64 of its power of two wide.

use serde::{Deserialize, Serialize};

const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;
const BUCKETS: usize = ((64 - SUB_BITS) as usize + 1) << SUB_BITS;

/// Counts of latencies in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Empty until something is counted.
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

/// What is reported of a histogram, in milliseconds; zero if nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean, exact.
    pub mean_ms: f64,
    /// Median, to 1.6 %.
    pub p50_ms: f64,
    /// 80th percentile, to 1.6 %.
    pub p80_ms: f64,
    /// 99th percentile, to 1.6 %.
    pub p99_ms: f64,
    /// The longest, exact.
    pub max_ms: f64,
}

fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    (((u64::from(shift) + 1) << SUB_BITS) + ((ns >> shift) - SUB)) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let (row, column) = (bucket as u64 >> SUB_BITS, bucket as u64 % SUB);
    if row == 0 {
        return column;
    }
    let shift = row - 1;
    ((SUB + column) << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The share `q` of all is no longer than this.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return middle(bucket).min(self.max_ns);
            }
        }
        0
    }

    /// The figures of the report.
    pub fn latency(&self) -> Latency {
        let ms = |ns: u64| ns as f64 * 1e-6;
        Latency {
            mean_ms: if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 * 1e-6 },
            p50_ms: ms(self.quantile_ns(0.5)),
            p80_ms: ms(self.quantile_ns(0.8)),
            p99_ms: ms(self.quantile_ns(0.99)),
            max_ms: ms(self.max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_again_within_a_64th() {
        for ns in (0..200).chain((0..60).map(|power| (1u64 << power) + (1 << power) / 3)).chain([u64::MAX]) {
            let found = middle(bucket(ns));
            assert!(found.abs_diff(ns) as f64 <= ns as f64 / 64.0, "{ns} became {found}");
        }
    }

    #[test]
    fn quantiles_and_means_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        (1..=1000u64).for_each(|k| histogram.add(k * 1_000_000));
        let found = histogram.latency();
        assert_eq!((found.mean_ms, found.max_ms), (500.5, 1000.0));
        assert!((found.p50_ms - 500.0).abs() < 9.0 && (found.p99_ms - 990.0).abs() < 16.0, "{found:?}");
        assert_eq!(Histogram::default().latency(), Latency::default());
    }
}
