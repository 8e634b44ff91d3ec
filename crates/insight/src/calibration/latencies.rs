//! A distribution of latencies: quantiles, means, and CARL's startup range.

use serde::Serialize;

/// What is cut off at each end before means are taken: replies that a busy machine delivered late, and their like.
const TRIM: f64 = 0.01;

/// Servers whose longest startup the range is fitted to: eq. 4 of CARL for m = 1 to this many.
const SERVERS: i32 = 8;

/// Points of a cumulative distribution in plots and reports.
const CDF_POINTS: usize = 200;

/// Latencies in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    sorted_ns: Vec<u64>,
}

/// The uniform law that CARL takes the startup of a disk server to follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StartupRange {
    /// a, seconds.
    pub min_s: f64,
    /// b, seconds.
    pub max_s: f64,
}

impl Latencies {
    /// Of these nanoseconds, in any order.
    pub fn new(mut ns: Vec<u64>) -> Latencies {
        ns.sort_unstable();
        Latencies { sorted_ns: ns }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.sorted_ns.len()
    }

    /// The latency that a share `q` of all does not exceed, seconds.
    pub fn quantile_s(&self, q: f64) -> Option<f64> {
        let last = self.sorted_ns.len().checked_sub(1)?;
        let at = q.clamp(0.0, 1.0) * last as f64;
        let (low, high) = (self.sorted_ns[at.floor() as usize], self.sorted_ns[at.ceil() as usize]);
        Some((low as f64 + (high - low) as f64 * at.fract()) * 1e-9)
    }

    /// All but the lowest and highest hundredth.
    fn trimmed(&self) -> &[u64] {
        let cut = (self.sorted_ns.len() as f64 * TRIM) as usize;
        &self.sorted_ns[cut..self.sorted_ns.len() - cut]
    }

    /// The mean without the lowest and highest hundredth, seconds.
    pub fn trimmed_mean_s(&self) -> Option<f64> {
        let kept = self.trimmed();
        (!kept.is_empty()).then(|| kept.iter().map(|&ns| ns as f64).sum::<f64>() / kept.len() as f64 * 1e-9)
    }

    /// The share of latencies below `limit_s`.
    pub fn share_below(&self, limit_s: f64) -> f64 {
        let below = self.sorted_ns.partition_point(|&ns| (ns as f64) * 1e-9 < limit_s);
        below as f64 / self.sorted_ns.len().max(1) as f64
    }

    /// (latency in seconds, share) at even shares.
    pub fn cdf(&self) -> Vec<(f64, f64)> {
        let shares = (0..=CDF_POINTS).map(|point| point as f64 / CDF_POINTS as f64);
        shares.filter_map(|share| Some((self.quantile_s(share)?, share))).collect()
    }

    /// The expected longest of `m` latencies drawn at random, seconds; without the lowest and highest hundredth.
    fn expected_longest_s(&self, m: i32) -> f64 {
        let kept = self.trimmed();
        let count = kept.len() as f64;
        let share = |index: usize| (index as f64 / count).powi(m);
        let parts = kept.iter().enumerate();
        parts.map(|(index, &ns)| ns as f64 * 1e-9 * (share(index + 1) - share(index))).sum()
    }

    /// The range [a, b] with which eq. 4 of CARL, a + m/(m+1) (b - a), is nearest to the expected longest of
    /// m of these latencies less `transfer_s`, for m = 1 to 8: that is all the model uses of the range. The
    /// shortest and the longest latency ever seen would be the range of a uniform law alone; seeks and
    /// rotation together are none.
    pub fn startup_range(&self, transfer_s: f64) -> Option<StartupRange> {
        if self.count() < 2 {
            return None;
        }
        // Linear in b and the width: longest(m) = b - width/(m+1).
        let points: Vec<(f64, f64)> =
            (1..=SERVERS).map(|m| (1.0 / f64::from(m + 1), self.expected_longest_s(m) - transfer_s)).collect();
        let (intercept, slope) = line(&points);
        let max_s = intercept.max(0.0);
        Some(StartupRange { min_s: (max_s + slope.min(0.0)).max(0.0), max_s })
    }
}

/// Least squares: intercept and slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (mean_x, mean_y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (mean_x, mean_y) = (mean_x / count, mean_y / count);
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    let slope = covariance / variance;
    (mean_y - slope * mean_x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours_and_nothing_has_none() {
        let latencies = Latencies::new(vec![30, 10, 20]);
        assert_eq!(latencies.quantile_s(0.0), Some(10e-9));
        assert!((latencies.quantile_s(0.75).unwrap() - 25e-9).abs() < 1e-15);
        assert_eq!(latencies.share_below(20e-9), 1.0 / 3.0);
        let none = Latencies::default();
        assert_eq!((none.quantile_s(0.5), none.trimmed_mean_s(), none.startup_range(0.0)), (None, None, None));
    }

    #[test]
    fn a_hundredth_of_late_replies_does_not_move_the_mean() {
        let mut ns = vec![1000; 990];
        ns.extend([1_000_000; 10]);
        assert!((Latencies::new(ns).trimmed_mean_s().unwrap() - 1000e-9).abs() < 1e-12);
    }

    #[test]
    fn the_startup_range_of_a_uniform_law_is_that_law_less_a_hundredth_at_each_end() {
        let latencies = Latencies::new((0..10_000).map(|k| 2_000_000 + k * 800).collect());
        let range = latencies.startup_range(0.5e-3).unwrap();
        assert!((range.min_s - 1.5e-3).abs() < 0.1e-3 && (range.max_s - 9.5e-3).abs() < 0.1e-3, "{range:?}");
    }

    #[test]
    fn a_hundredth_of_late_replies_does_not_move_the_startup_range() {
        let uniform = (0..9_950).map(|k| 2_000_000 + k * 800);
        let range = |ns: Vec<u64>| Latencies::new(ns).startup_range(0.0).unwrap();
        let (calm, busy) = (range(uniform.clone().collect()), range(uniform.chain([500_000_000; 50]).collect()));
        assert!(
            (calm.max_s - busy.max_s).abs() < 0.1e-3 && (calm.min_s - busy.min_s).abs() < 0.1e-3,
            "{calm:?} {busy:?}"
        );
    }

    #[test]
    fn a_range_never_begins_below_zero() {
        let mut ns = vec![1; 90];
        ns.extend([1_000_000_000; 10]);
        assert_eq!(Latencies::new(ns).startup_range(0.0).unwrap().min_s, 0.0);
    }
}
