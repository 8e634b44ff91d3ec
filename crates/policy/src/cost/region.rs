//! The cost model of CARL (S. He, X.-H. Sun, B. Feng, X. Huang, K. Feng, "A Cost-Aware Region-Level Data
//! Placement Scheme for Hybrid Parallel I/O Systems", 2013, §III-C, equations 1 to 8): what a request costs
//! on the disk servers and on the flash servers.
//!
//! ```text
//! T_H = T_s + T_t                                    (1)   startup and transfer on the disk servers
//! startup of one server uniform in [a, b]            (2)   its distribution function
//! T_s = a + m/(m+1) (b - a)                          (4)   expected maximum over m servers (density: eq. 3)
//! S_n = ⌊S/(N Str)⌋ Str + min(Str, S mod (N Str))    (5)   the most one of N disk servers has to move
//! T_H = (a + b)/2 + S β_H                S < Str
//!       a + k/(k+1) (b - a) + Str β_H    Str <= S < N Str, k = ⌊S/Str⌋
//!       a + N/(N+1) (b - a) + S_n β_H    N Str <= S                                (6)
//! S_m = ⌊S/(M Str)⌋ Str + min(Str, S mod (M Str))    (7)   the same of M flash servers
//! T_S = S β_S, Str β_S, S_m β_S          as in (6), with M and without startup     (8)
//! ```
//!
//! N counts disk servers here and M flash servers: the other way round than in S4D. The model sees a
//! request's size and never its offset. It has one pair of rates; reads and writes have parameters of their
//! own here ([`Costs`]).

pub mod gain_table;

use serde::{Deserialize, Serialize};

use super::benefit::{self, ParameterError};
use headstart_units::Nanos;
use headstart_units::request::Direction;

/// Parameters of Table II, for one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// N, number of disk servers.
    pub hdd_servers: u32,
    /// M, number of flash servers.
    pub ssd_servers: u32,
    /// Str, bytes.
    pub stripe_bytes: u64,
    /// a, the shortest startup of a disk server, seconds.
    pub hdd_startup_s_min: f64,
    /// b, the longest startup of a disk server, seconds.
    pub hdd_startup_s_max: f64,
    /// β_H, seconds per byte on a disk server.
    pub hdd_s_per_byte: f64,
    /// β_S, seconds per byte on a flash server.
    pub ssd_s_per_byte: f64,
    /// What a request to the flash servers takes beside its bytes, seconds. Not in the paper, nor in any of
    /// its equations: for predicted run times alone.
    #[serde(default)]
    pub ssd_startup_s: f64,
    /// For how long a byte keeps a flash server from others, seconds: less than β_S where device and network
    /// pass bytes on to each other; β_S if absent. Beyond the paper like the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_busy_s_per_byte: Option<f64>,
    /// As of S4D's parameters ([`benefit::Parameters::near_stays`]): requests that go on from those before
    /// them gain nothing. Beyond the paper.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub near_stays: bool,
    /// The same of [`benefit::Parameters::interleaved_stays`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interleaved_stays: bool,
}

/// One set of parameters a direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Reads.
    pub read: Parameters,
    /// Writes.
    pub write: Parameters,
}

impl Costs {
    /// Those of eight disks and four flash servers, which the tests of several crates share.
    pub fn of_a_test() -> Costs {
        let read = Parameters {
            hdd_servers: 8,
            ssd_servers: 4,
            stripe_bytes: 65536,
            hdd_startup_s_min: 0.002,
            hdd_startup_s_max: 0.010,
            hdd_s_per_byte: 2e-8,
            ssd_s_per_byte: 1e-7,
            ssd_startup_s: 0.0,
            ssd_busy_s_per_byte: None,
            near_stays: false,
            interleaved_stays: false,
        };
        Costs { write: read.clone(), read }
    }

    /// Those of a direction.
    pub fn of(&self, direction: Direction) -> &Parameters {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// T_H - T_S of one request, one term of eq. 9, in whole nanoseconds, so that sums do not depend on their order.
    pub(crate) fn gain_ns(&self, direction: Direction, length: u64) -> i64 {
        let parameters = self.of(direction);
        ((parameters.disk_s(length) - parameters.flash_s(length)) * 1e9).round() as i64
    }

    /// Checks both directions; the error is told with the direction it concerns.
    pub fn check(&self) -> Result<(), (Direction, ParameterError)> {
        self.read.check().map_err(|error| (Direction::Read, error))?;
        self.write.check().map_err(|error| (Direction::Write, error))
    }
}

/// S4D's parameters as CARL's, for a site that has no others: a = F(0) + R and b = S + R, as in S4D's eq. 2.
impl From<&benefit::Parameters> for Parameters {
    fn from(s4d: &benefit::Parameters) -> Parameters {
        Parameters {
            hdd_servers: s4d.hdd_servers,
            ssd_servers: s4d.ssd_servers,
            stripe_bytes: s4d.stripe_bytes,
            hdd_startup_s_min: s4d.seek_s(0) + s4d.rotation_s,
            hdd_startup_s_max: s4d.seek_s_max + s4d.rotation_s,
            hdd_s_per_byte: s4d.hdd_s_per_byte,
            ssd_s_per_byte: s4d.ssd_s_per_byte,
            ssd_startup_s: 0.0,
            ssd_busy_s_per_byte: None,
            near_stays: s4d.near_stays,
            interleaved_stays: s4d.interleaved_stays,
        }
    }
}

impl Parameters {
    /// Checks every figure: counts and stripe at least one, times and rates finite and not negative, a no more than b.
    pub fn check(&self) -> Result<(), ParameterError> {
        let bad = |name, value: String, expected| Err(ParameterError { name, value, expected });
        for (name, count) in [
            ("hdd_servers", self.hdd_servers.into()),
            ("ssd_servers", self.ssd_servers.into()),
            ("stripe_bytes", self.stripe_bytes),
        ] {
            if count == 0 {
                return bad(name, "0".into(), "it must be at least 1");
            }
        }
        for (name, value) in [
            ("hdd_startup_s_min", self.hdd_startup_s_min),
            ("hdd_startup_s_max", self.hdd_startup_s_max),
            ("hdd_s_per_byte", self.hdd_s_per_byte),
            ("ssd_s_per_byte", self.ssd_s_per_byte),
            ("ssd_startup_s", self.ssd_startup_s),
            ("ssd_busy_s_per_byte", self.ssd_busy_s_per_byte.unwrap_or(0.0)),
        ] {
            if !(0.0..1e6).contains(&value) {
                return bad(name, value.to_string(), "it must be seconds, not negative");
            }
        }
        if self.hdd_startup_s_min > self.hdd_startup_s_max {
            let expected = "it must be no more than hdd_startup_s_max";
            return bad("hdd_startup_s_min", self.hdd_startup_s_min.to_string(), expected);
        }
        Ok(())
    }

    /// T_s in seconds (eq. 4): the expected longest startup of `servers` servers. With one it is the mean of a and b.
    pub(crate) fn startup_s(&self, servers: u64) -> f64 {
        let (low, high) = (self.hdd_startup_s_min, self.hdd_startup_s_max);
        low + servers as f64 / (servers as f64 + 1.0) * (high - low)
    }

    /// m of a request to the disk servers, as the cases of eq. 6 take it: ⌊S/Str⌋, at least 1 and at most N.
    pub(crate) fn disk_servers(&self, length: u64) -> u64 {
        servers_involved(length, self.stripe_bytes, self.hdd_servers)
    }

    /// T_H in seconds (eq. 1, 6; S_n: eq. 5).
    pub fn disk_s(&self, length: u64) -> f64 {
        let bytes = largest_part(length, self.stripe_bytes, self.hdd_servers);
        self.startup_s(self.disk_servers(length)) + bytes as f64 * self.hdd_s_per_byte
    }

    /// T_S in seconds (eq. 8; S_m: eq. 7).
    pub fn flash_s(&self, length: u64) -> f64 {
        largest_part(length, self.stripe_bytes, self.ssd_servers) as f64 * self.ssd_s_per_byte
    }

    /// The same with what a request takes beside its bytes.
    pub(crate) fn flash_ns(&self, length: u64) -> Nanos {
        Nanos::from_seconds(self.ssd_startup_s + self.flash_s(length))
    }
}

/// m as eq. 6 and 8 take it, from the size alone.
fn servers_involved(length: u64, stripe_bytes: u64, servers: u32) -> u64 {
    (length / stripe_bytes).clamp(1, servers.into())
}

/// The most bytes that one of the servers has to move: S below a stripe, a stripe below a whole row of
/// stripes, else S_n of eq. 5, which is S_m of eq. 7.
pub fn largest_part(length: u64, stripe_bytes: u64, servers: u32) -> u64 {
    if length < stripe_bytes {
        return length;
    }
    let row_bytes = stripe_bytes.saturating_mul(servers.into());
    if length < row_bytes {
        return stripe_bytes;
    }
    length / row_bytes * stripe_bytes + stripe_bytes.min(length % row_bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use headstart_units::request::Range;
    use headstart_units::stripe::spread;
    use proptest::prelude::*;

    const STRIPE: u64 = 65536;

    pub(crate) fn parameters() -> Parameters {
        Parameters {
            hdd_servers: 8,
            ssd_servers: 4,
            stripe_bytes: STRIPE,
            hdd_startup_s_min: 0.002,
            hdd_startup_s_max: 0.010,
            hdd_s_per_byte: 1e-8,
            ssd_s_per_byte: 5e-9,
            ssd_startup_s: 0.0005,
            ssd_busy_s_per_byte: None,
            near_stays: false,
            interleaved_stays: false,
        }
    }

    #[test]
    fn the_three_cases_of_equation_6_give_the_sums_worked_by_hand() {
        let p = parameters();
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        near(p.disk_s(8192), 0.006 + 8192.0 * 1e-8);
        near(p.disk_s(STRIPE), 0.006 + 65536.0 * 1e-8);
        near(p.disk_s(3 * STRIPE + 1), 0.002 + 3.0 / 4.0 * 0.008 + 65536.0 * 1e-8);
        near(p.disk_s(8 * STRIPE), 0.002 + 8.0 / 9.0 * 0.008 + 65536.0 * 1e-8);
        near(p.disk_s(17 * STRIPE + 5), 0.002 + 8.0 / 9.0 * 0.008 + 3.0 * 65536.0 * 1e-8);
        near(p.disk_s(16 * STRIPE + 5), 0.002 + 8.0 / 9.0 * 0.008 + (2.0 * 65536.0 + 5.0) * 1e-8);
    }

    #[test]
    fn the_three_cases_of_equation_8_have_no_startup() {
        let p = parameters();
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        near(p.flash_s(8192), 8192.0 * 5e-9);
        near(p.flash_s(3 * STRIPE), 65536.0 * 5e-9);
        near(p.flash_s(9 * STRIPE), 3.0 * 65536.0 * 5e-9);
        near(p.flash_s(8 * STRIPE + 7), (2.0 * 65536.0 + 7.0) * 5e-9);
    }

    #[test]
    fn the_expected_longest_startup_is_what_drawing_it_gives() {
        // eq. 3 and 4 against a mean over a grid of draws: for m = 2, the maximum of two of 1000 equally
        // likely startups.
        let p = parameters();
        let startup = |step: u64| 0.002 + (step as f64 + 0.5) / 1000.0 * 0.008;
        let sum: f64 = (0..1000).flat_map(|x| (0..1000).map(move |y| startup(x.max(y)))).sum();
        assert!((sum / 1e6 - p.startup_s(2)).abs() < 1e-5);
        assert!((p.startup_s(1) - 0.006).abs() < 1e-15);
    }

    #[test]
    fn small_requests_gain_and_large_ones_lose_where_disks_move_more_bytes_together() {
        let p = Parameters { ssd_s_per_byte: 4e-8, ..parameters() };
        let costs = Costs { read: p.clone(), write: Parameters { ssd_s_per_byte: 1e-6, ..p } };
        assert!(costs.gain_ns(Direction::Read, 8192) > 0);
        assert!(costs.gain_ns(Direction::Read, 8 << 20) < 0);
        assert!(costs.gain_ns(Direction::Write, 65536) < 0, "writes have rates of their own");
    }

    #[test]
    fn senseless_parameters_are_named() {
        assert_eq!(parameters().check(), Ok(()));
        let name = |parameters: Parameters| parameters.check().unwrap_err().name;
        assert_eq!(name(Parameters { ssd_servers: 0, ..parameters() }), "ssd_servers");
        assert_eq!(name(Parameters { stripe_bytes: 0, ..parameters() }), "stripe_bytes");
        assert_eq!(name(Parameters { hdd_s_per_byte: f64::NAN, ..parameters() }), "hdd_s_per_byte");
        assert_eq!(name(Parameters { ssd_startup_s: -1.0, ..parameters() }), "ssd_startup_s");
        assert_eq!(name(Parameters { hdd_startup_s_min: 0.011, ..parameters() }), "hdd_startup_s_min");
        let costs = Costs { read: parameters(), write: Parameters { hdd_servers: 0, ..parameters() } };
        assert_eq!(costs.check().unwrap_err().0, Direction::Write);
    }

    #[test]
    fn a_site_with_s4d_parameters_alone_has_carls() {
        let s4d = benefit::Parameters { rotation_s: 0.004, seek_s_max: 0.010, ..benefit::Parameters::default() };
        let p = Parameters::from(&s4d);
        assert_eq!(p.check(), Ok(()));
        assert_eq!((p.hdd_startup_s_min, p.hdd_startup_s_max), (0.004, 0.014));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]
        #[test]
        fn the_largest_part_is_that_of_a_request_that_begins_at_a_row_of_stripes(
            length in 1u64..6_000, stripe in 1u64..130, servers in 1u32..10
        ) {
            let exact = spread(Range::new(0, length), stripe, servers.into());
            prop_assert_eq!(largest_part(length, stripe, servers), exact.bytes_max);
        }

        #[test]
        fn costs_rise_with_size(length in 1u64..1 << 24, more in 0u64..1 << 22) {
            let p = parameters();
            prop_assert!(p.disk_s(length) <= p.disk_s(length + more) + 1e-12);
            prop_assert!(p.flash_s(length) <= p.flash_s(length + more) + 1e-12);
        }
    }
}
