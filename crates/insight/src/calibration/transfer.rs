//! Latency by request size: startup + bytes / rate, and where the rate gets near its peak.

use serde::Serialize;

use headstart_policy::cost::KNEE_SHARE;

use super::fit_error::FitError;

/// t(n) = startup + n / rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transfer {
    /// Seconds of a request beside its bytes.
    pub startup_s: f64,
    /// Seconds of a byte.
    pub s_per_byte: f64,
    /// Of the latencies.
    pub error: FitError,
}

impl Transfer {
    /// Least squares of the relative error over (bytes, mean seconds); none without two sizes.
    pub(crate) fn fit(points: &[(u64, f64)]) -> Option<Transfer> {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(bytes, seconds) in points.iter().filter(|(_, seconds)| *seconds > 0.0) {
            let (x, weight) = (bytes as f64, 1.0 / (seconds * seconds));
            w += weight;
            wx += weight * x;
            wy += weight * seconds;
            wxx += weight * x * x;
            wxy += weight * x * seconds;
        }
        let determinant = w * wxx - wx * wx;
        if determinant <= 1e-9 * w * wxx {
            return None;
        }
        let s_per_byte = ((w * wxy - wx * wy) / determinant).max(0.0);
        let startup_s = ((wy - s_per_byte * wx) / w).max(0.0);
        let fitted = Transfer { startup_s, s_per_byte, error: FitError::default() };
        let error = FitError::of(points.iter().map(|&(bytes, seconds)| (seconds, fitted.seconds(bytes))));
        Some(Transfer { error, ..fitted })
    }

    /// Of a request of so many bytes.
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.startup_s + bytes as f64 * self.s_per_byte
    }

    /// Bytes of a request at which the rate is [`KNEE_SHARE`] of what it tends to: n / (t0 + n/B) = 0.85 B.
    pub fn knee_bytes(&self) -> f64 {
        KNEE_SHARE / (1.0 - KNEE_SHARE) * self.startup_s / self.s_per_byte.max(1e-15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_and_rate_come_back_and_the_knee_is_where_the_rate_is_85_percent() {
        let points: Vec<(u64, f64)> =
            (12..25).map(|power| (1u64 << power, 0.010 + (1u64 << power) as f64 / 70e6)).collect();
        let fit = Transfer::fit(&points).unwrap();
        assert!((fit.startup_s - 0.010).abs() < 1e-9 && (fit.s_per_byte * 70e6 - 1.0).abs() < 1e-9, "{fit:?}");
        assert!(fit.error.max < 1e-6);
        let knee = fit.knee_bytes();
        assert!((knee / fit.seconds(knee as u64) / 70e6 - 0.85).abs() < 1e-6);
    }

    #[test]
    fn one_size_is_not_enough() {
        assert_eq!(Transfer::fit(&[(4096, 0.01), (4096, 0.02)]), None);
        assert_eq!(Transfer::fit(&[]), None);
    }

    #[test]
    fn a_curve_that_is_none_has_a_large_error() {
        let fit = Transfer::fit(&[(4096, 0.01), (65536, 0.001), (1 << 20, 0.02)]).unwrap();
        assert!(fit.error.max > 0.5, "{fit:?}");
    }
}
