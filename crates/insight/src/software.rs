//! What Headstart and what lies beneath it take of processors.

use serde::{Deserialize, Serialize};

/// Processors' time that absorbed requests and copies back take, of all processors of a job's nodes together.
/// None, by default: then devices alone say how long a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// How many.
    pub processors: u32,
    /// Of one, for a request that flash serves, milliseconds.
    pub request_cpu_ms: f64,
    /// The same for a piece that is written back.
    pub copy_cpu_ms: f64,
}

impl Default for Software {
    fn default() -> Software {
        Software { processors: 1, request_cpu_ms: 0.0, copy_cpu_ms: 0.0 }
    }
}

impl Software {
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if self.processors == 0 {
            return Err("processors is 0; it is at least 1".into());
        }
        for (name, value) in [("request_cpu_ms", self.request_cpu_ms), ("copy_cpu_ms", self.copy_cpu_ms)] {
            if !(0.0..=1e6).contains(&value) {
                return Err(format!("{name} is {value}; it is a number of milliseconds"));
            }
        }
        Ok(())
    }

    /// How long a request keeps the processors busy, as one that is as fast as all of them together, and
    pub(crate) fn request_s(&self) -> f64 {
        self.request_cpu_ms * 1e-3 / f64::from(self.processors)
    }

    /// how much longer it takes than that, as in fact it has one of them (A. Seidmann, P. Schweitzer, S.
    /// Shalev-Oren, Large Scale Systems 12, 1987), in seconds.
    pub(crate) fn outside_s(&self) -> f64 {
        self.request_cpu_ms * 1e-3 - self.request_s()
    }

    /// The same with so many copies beside so many requests, as if requests took what both take.
    pub(crate) fn with_copies(self, copies: f64, requests: f64) -> Software {
        Software { request_cpu_ms: self.request_cpu_ms + self.copy_cpu_ms * copies / requests.max(1.0), ..self }
    }

    /// Seconds that all processors need for so many copies.
    pub(crate) fn copies_s(&self, copies: f64) -> f64 {
        copies * self.copy_cpu_ms * 1e-3 / f64::from(self.processors)
    }
}

/// Exponent of [`both`] for disks that write-back keeps busy beside the rest: a long queue wavers little
/// (assumed: of 3 to 20, 5 to 8 are nearest to runs on emulated servers).
pub(crate) const DISKS_WAVER: f64 = 5.0;

/// Time of what needs both, at rates that waver: near the longer of the two, more where they are alike; the
/// less, the higher the exponent.
pub(crate) fn both(a: f64, b: f64, exponent: f64) -> f64 {
    let (less, more) = (a.min(b), a.max(b));
    if less > 0.0 { more * (1.0 + (less / more).powf(exponent)).powf(exponent.recip()) } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_of_the_processors() {
        let software = Software { processors: 4, request_cpu_ms: 0.1, copy_cpu_ms: 0.2 };
        assert!((software.request_s() - 25e-6).abs() < 1e-12);
        assert!((software.request_s() + software.outside_s() - 100e-6).abs() < 1e-12);
        assert!((software.copies_s(20_000.0) - 1.0).abs() < 1e-12);
        assert!((software.with_copies(500.0, 1000.0).request_cpu_ms - 0.2).abs() < 1e-12);
    }

    #[test]
    fn what_needs_both_takes_longest_where_they_are_alike() {
        assert!((both(1.0, 1.0, 3.0) - 2f64.cbrt()).abs() < 1e-12);
        assert!((both(1.0, 2.0, 3.0) - 9f64.cbrt()).abs() < 1e-12);
        assert_eq!((both(0.0, 3.0, 5.0), both(3.0, 0.0, 5.0)), (3.0, 3.0));
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert!(Software { processors: 0, ..Software::default() }.check().unwrap_err().contains("processors"));
        assert!(Software { copy_cpu_ms: f64::NAN, ..Software::default() }.check().unwrap_err().contains("copy_cpu_ms"));
        assert!(
            Software { request_cpu_ms: -1.0, ..Software::default() }.check().unwrap_err().contains("request_cpu_ms")
        );
    }
}
