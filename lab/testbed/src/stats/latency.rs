//! Latency histograms with logarithmic buckets: 16 per power of two, so that a quantile is exact to 6 %.

/// Sub-buckets of each power of two.
const SUB_BITS: u32 = 4;
const BUCKETS: usize = 64 << SUB_BITS;

/// A histogram of durations in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, 0 if there are none.
    pub fn mean_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { (self.sum_ns / u128::from(self.count)) as u64 }
    }

    /// The largest.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The upper edge of the bucket that holds quantile `q` of the durations, at most the largest of them.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_edge(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn bucket(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    // The top bit becomes the row, the next four the column.
    (((shift + 1) as usize) << SUB_BITS) + ((ns >> shift) as usize - (1 << SUB_BITS))
}

fn upper_edge(index: usize) -> u64 {
    let (row, column) = (index >> SUB_BITS, (index & ((1 << SUB_BITS) - 1)) as u64);
    if row == 0 {
        return column;
    }
    let shift = row as u32 - 1;
    (((u128::from((1 << SUB_BITS) + column + 1) << shift) - 1).min(u128::from(u64::MAX))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_to_a_sixteenth() {
        let mut histogram = Histogram::default();
        for ns in 1..=100_000u64 {
            histogram.record(ns);
        }
        for q in [0.01, 0.5, 0.99] {
            let exact = 100_000.0 * q;
            let error = histogram.quantile_ns(q) as f64 / exact - 1.0;
            assert!((0.0..0.07).contains(&error), "{q}: {error}");
        }
        assert_eq!(histogram.quantile_ns(1.0), 100_000);
        assert_eq!(histogram.mean_ns(), 50_000);
    }

    #[test]
    fn every_duration_lies_below_its_buckets_edge() {
        for ns in (0..64).map(|bit| 1u64 << bit).flat_map(|p| [p - 1, p, p + 1]).chain([u64::MAX]) {
            let index = bucket(ns);
            assert!(upper_edge(index) >= ns, "{ns}");
            assert!(index == 0 || upper_edge(index - 1) < ns, "{ns}");
        }
    }
}
