//! The cost model of S4D-Cache (ICDCS'14, §III-B, equations 1 to 8): what serving a request from flash saves.
//!
//! ```text
//! T_D = T_s + T_t                          (1)   startup and transfer on the disk servers
//! startup of one server uniform in [a, b]  (2)   a = F(d) + R, b = S + R
//! T_s = a + m/(m+1) (b - a)                (4)   expected maximum over m servers (density: eq. 3)
//! T_t = s_m β_D                            (5)   s_m, m: eq. 6 and Table II, see `stripe`
//! T_C = S_n β_C                            (7)   no startup on flash
//! B   = T_D - T_C                          (8)   cache if positive
//! ```
//!
//! Here M counts disk servers and N flash servers. T_C has no startup term, so that bare device rates make
//! every request critical up to far above 4 MiB; the rates belong to be *profiled* at the site's concurrency,
//! network included.
//!
//! Nor does T_D know of anything beneath the disk servers that takes their seeks away, for those requests
//! alone that follow each other (a volume, a controller's cache): where that was measured, `near_stays` keeps
//! them there, or `interleaved_stays` those of processes that go through a file together.

use serde::{Deserialize, Serialize};

use crate::client::Request;
use crate::order::Distance;
use headstart_units::request::Range;
use headstart_units::stripe::spread;

/// One point of F: seeking over `distance_bytes` of a file takes `seek_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeekPoint {
    /// Distance in the file's address space, bytes.
    pub distance_bytes: u64,
    /// Seek time, seconds.
    pub seek_s: f64,
}

/// Parameters of Table I, for one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// M, number of disk servers.
    pub hdd_servers: u32,
    /// N, number of flash servers.
    pub ssd_servers: u32,
    /// str, bytes.
    pub stripe_bytes: u64,
    /// R, average rotation delay, seconds.
    pub rotation_s: f64,
    /// S, maximum seek time, seconds.
    pub seek_s_max: f64,
    /// β_D, seconds per byte on a disk server.
    pub hdd_s_per_byte: f64,
    /// β_C, seconds per byte on a flash server.
    pub ssd_s_per_byte: f64,
    /// F by rising distance; linear between points, constant outside, capped by S.
    pub seek_curve: Vec<SeekPoint>,
    /// Requests that go on from those before them are served by the disk servers as soon as by flash, writes
    /// as soon as by flash and back again, whatever the equations say. Beyond the paper.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub near_stays: bool,
    /// The same of requests with which processes go through a file together, each with the next piece, alone:
    /// a server's cache joins them to one stream. Beyond the paper.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interleaved_stays: bool,
    /// Of writes: what write-back leaps over behind a short piece, bytes. A disk that is not ready for the
    /// next command at once misses what begins behind a small gap, and waits for a turn. Beyond the paper.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_back_leap_bytes: u32,
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

impl Default for Parameters {
    /// A single disk and a single flash device of the paper's cluster class: 7200 rpm, 100 MB/s and 220 MB/s.
    fn default() -> Parameters {
        Parameters {
            hdd_servers: 1,
            ssd_servers: 1,
            stripe_bytes: 65536,
            rotation_s: 0.00417,
            seek_s_max: 0.0142,
            hdd_s_per_byte: 1.0 / 100e6,
            ssd_s_per_byte: 1.0 / 220e6,
            seek_curve: Vec::new(),
            near_stays: false,
            interleaved_stays: false,
            write_back_leap_bytes: 0,
        }
    }
}

/// A parameter that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}; {expected}")]
pub struct ParameterError {
    /// The field.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it must be.
    pub expected: &'static str,
}

impl Parameters {
    /// Checks every figure: counts and stripe at least one, times and rates finite and not negative, F sorted
    /// by distance.
    pub fn check(&self) -> Result<(), ParameterError> {
        let bad = |name, value: String, expected| Err(ParameterError { name, value, expected });
        if self.hdd_servers == 0 {
            return bad("hdd_servers", "0".into(), "it must be at least 1");
        }
        if self.ssd_servers == 0 {
            return bad("ssd_servers", "0".into(), "it must be at least 1");
        }
        if self.stripe_bytes == 0 {
            return bad("stripe_bytes", "0".into(), "it must be at least 1");
        }
        for (name, value) in [
            ("rotation_s", self.rotation_s),
            ("seek_s_max", self.seek_s_max),
            ("hdd_s_per_byte", self.hdd_s_per_byte),
            ("ssd_s_per_byte", self.ssd_s_per_byte),
        ] {
            if !(0.0..1e6).contains(&value) {
                return bad(name, value.to_string(), "it must be seconds, not negative");
            }
        }
        for pair in self.seek_curve.windows(2) {
            if pair[0].distance_bytes >= pair[1].distance_bytes {
                return bad("seek_curve", pair[1].distance_bytes.to_string(), "distances must rise");
            }
        }
        if let Some(point) = self.seek_curve.iter().find(|point| !(0.0..1e6).contains(&point.seek_s)) {
            return bad("seek_curve", point.seek_s.to_string(), "seek times must be seconds, not negative");
        }
        Ok(())
    }

    /// F(d), seconds; never more than S.
    #[inline]
    pub fn seek_s(&self, distance_bytes: u64) -> f64 {
        let after = self.seek_curve.partition_point(|point| point.distance_bytes <= distance_bytes);
        let seek = match (after.checked_sub(1).map(|before| self.seek_curve[before]), self.seek_curve.get(after)) {
            (Some(low), Some(high)) => {
                let span = (high.distance_bytes - low.distance_bytes) as f64;
                low.seek_s + (high.seek_s - low.seek_s) * (distance_bytes - low.distance_bytes) as f64 / span
            }
            (Some(last), None) => last.seek_s,
            (None, Some(first)) => first.seek_s,
            (None, None) => 0.0,
        };
        seek.min(self.seek_s_max)
    }

    /// Whether a request that lies so to those before it stays on the disk servers whatever its benefit. The
    /// first may be that of a sequence.
    pub(crate) fn stays(&self, distance: Distance) -> bool {
        distance.stays(self.near_stays, self.interleaved_stays)
    }

    /// T_D in seconds (eq. 1 to 6).
    #[inline]
    pub fn disk_s(&self, range: Range, distance: u64) -> f64 {
        let spread = spread(range, self.stripe_bytes, self.hdd_servers.into());
        let low = self.seek_s(distance) + self.rotation_s;
        let high = self.seek_s_max + self.rotation_s;
        let servers = spread.servers as f64;
        low + servers / (servers + 1.0) * (high - low) + spread.bytes_max as f64 * self.hdd_s_per_byte
    }

    /// T_C in seconds (eq. 7).
    #[inline]
    pub fn flash_s(&self, range: Range) -> f64 {
        spread(range, self.stripe_bytes, self.ssd_servers.into()).bytes_max as f64 * self.ssd_s_per_byte
    }

    /// B in seconds (eq. 8): positive when flash serves the request sooner.
    #[inline]
    pub fn benefit_s(&self, request: &Request) -> f64 {
        self.disk_s(request.range, request.distance.bytes) - self.flash_s(request.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::request::Direction;

    fn parameters() -> Parameters {
        Parameters {
            hdd_servers: 8,
            ssd_servers: 4,
            stripe_bytes: 65536,
            rotation_s: 0.004,
            seek_s_max: 0.014,
            hdd_s_per_byte: 1e-8,
            ssd_s_per_byte: 5e-9,
            seek_curve: vec![
                SeekPoint { distance_bytes: 0, seek_s: 0.0 },
                SeekPoint { distance_bytes: 1000, seek_s: 0.010 },
                SeekPoint { distance_bytes: 2000, seek_s: 0.020 },
            ],
            ..Parameters::default()
        }
    }

    #[test]
    fn the_equations_give_the_sum_worked_by_hand() {
        // 192 KiB from a stripe bound: E - B = 3, m = 4, s_m = one stripe; d = 500: F = 5 ms.
        let range = Range::new(0, 3 * 65536);
        let (low, high) = (0.005 + 0.004, 0.014 + 0.004);
        let startup = low + 4.0 / 5.0 * (high - low);
        let p = parameters();
        assert!((p.disk_s(range, 500) - (startup + 65536.0 * 1e-8)).abs() < 1e-15);
        assert!((p.flash_s(range) - 65536.0 * 5e-9).abs() < 1e-15);
        let request = Request { direction: Direction::Read, range, distance: Distance::far(500) };
        assert!((p.benefit_s(&request) - (p.disk_s(range, 500) - p.flash_s(range))).abs() < 1e-15);
    }

    #[test]
    fn seek_time_is_linear_between_points_and_capped() {
        let p = parameters();
        assert_eq!(p.seek_s(0), 0.0);
        assert!((p.seek_s(500) - 0.005).abs() < 1e-12);
        assert_eq!(p.seek_s(u64::MAX), 0.014, "F never exceeds S");
        assert_eq!(Parameters { seek_curve: vec![], ..p }.seek_s(77), 0.0);
    }

    #[test]
    fn large_requests_lose_once_flash_is_slower_in_parallel() {
        let p = Parameters { ssd_s_per_byte: 2e-7, hdd_s_per_byte: 3e-8, ..parameters() };
        let benefit = |length| {
            p.benefit_s(&Request {
                direction: Direction::Write,
                range: Range::new(0, length),
                distance: Distance::far(1 << 30),
            })
        };
        assert!(benefit(16 << 10) > 0.0);
        assert!(benefit(4 << 20) < 0.0);
    }

    #[test]
    fn senseless_parameters_are_named() {
        assert_eq!(parameters().check(), Ok(()));
        assert_eq!(Parameters { hdd_servers: 0, ..parameters() }.check().unwrap_err().name, "hdd_servers");
        assert_eq!(Parameters { rotation_s: f64::NAN, ..parameters() }.check().unwrap_err().name, "rotation_s");
        let unsorted = Parameters { seek_curve: vec![SeekPoint { distance_bytes: 2, seek_s: 0.0 }; 2], ..parameters() };
        assert_eq!(unsorted.check().unwrap_err().name, "seek_curve");
    }
}
