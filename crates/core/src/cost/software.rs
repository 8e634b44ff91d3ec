//! What Headstart and what lies beneath it take of processors.

use serde::{Deserialize, Serialize};

/// Processors' time that absorbed requests and copies back take, of all processors of a job's nodes together. None, by default: then
/// devices alone say how long a run takes.
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

    /// Seconds that all processors need for so many requests.
    pub fn requests_s(&self, requests: f64) -> f64 {
        requests * self.request_cpu_ms * 1e-3 / f64::from(self.processors)
    }

    /// The same of copies.
    pub fn copies_s(&self, copies: f64) -> f64 {
        copies * self.copy_cpu_ms * 1e-3 / f64::from(self.processors)
    }

    /// How long a run takes that would take `devices_s` on processors without bound, and of whose requests flash serves so many.
    pub fn bound(&self, devices_s: f64, requests: f64) -> f64 {
        both(devices_s, self.requests_s(requests), PROCESSORS_WAVER)
    }
}

/// Exponent of [`both`] for processors beside devices (assumed: of 2 to 5, 3 is nearest to runs on emulated servers).
pub const PROCESSORS_WAVER: f64 = 3.0;

/// The same for disks that write-back keeps busy beside the rest: a long queue wavers less (assumed: of 3 to 20, 5 to 8 are nearest).
pub const DISKS_WAVER: f64 = 5.0;

/// Time of what needs both, at rates that waver: near the longer of the two, more where they are alike; the less, the higher the exponent.
pub fn both(a: f64, b: f64, exponent: f64) -> f64 {
    let (less, more) = (a.min(b), a.max(b));
    if less > 0.0 { more * (1.0 + (less / more).powf(exponent)).powf(exponent.recip()) } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_bound_what_devices_do_sooner() {
        let software = Software { processors: 2, request_cpu_ms: 0.1, copy_cpu_ms: 0.2 };
        assert_eq!((software.requests_s(20_000.0), software.copies_s(20_000.0)), (1.0, 2.0));
        assert_eq!(software.bound(0.0, 20_000.0), 1.0);
        assert!((software.bound(1.0, 20_000.0) - 2f64.cbrt()).abs() < 1e-12);
        assert_eq!(Software::default().bound(3.0, 1e9), 3.0);
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
