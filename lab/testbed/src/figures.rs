//! A device's own figures: what a calibration of it should find.
//!
//! Those of a disk come from its profile's mechanics, command overhead + seek + rotational wait + transfer at
//! uniform places and phases, not from a run of the device's model and not from any measurement. Those of
//! flash are single commands on an idle device.

use headstart_insight::calibration::{BLOCK_BYTES, Latencies};
use headstart_model::device::config::DeviceConfig;
use headstart_model::device::hdd::HddConfig;
use headstart_model::device::hdd::geometry::Geometry;
use headstart_model::profile::Profile;
use headstart_model::request::Operation;
use headstart_policy::cost::KNEE_SHARE;
use headstart_units::{MIB, Nanos};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::placement::Region;
use crate::servers::{Ask, Servers};

/// Reads drawn: percentiles are good to a thousandth.
const READS: usize = 200_000;

/// Reads of each size while the knee is looked for.
const KNEE_READS: usize = 20_000;

/// What calibration looks for, of a device alone and idle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of a disk.
    Disk {
        /// The part of the disk that random reads go to, from its outer edge.
        span_bytes: u64,
        /// The latency that four fifths of random reads of 4 KiB do not exceed, ms.
        p80_ms: f64,
        /// Sequential rate at the outer edge, bytes per second.
        rate_bytes_per_s: f64,
        /// Size of random reads at which their rate is 85 % of that.
        knee_bytes: f64,
        /// CARL's a, ms.
        startup_ms_min: f64,
        /// CARL's b, ms.
        startup_ms_max: f64,
        /// R, ms.
        rotation_ms: f64,
        /// S, the mean time to seek as far as the span is long, ms.
        seek_ms_max: f64,
    },
    /// Of flash.
    Flash {
        /// A read of 4 KiB, ms.
        read_ms: f64,
        /// A read of 1 MiB, ms: a head.
        head_ms: f64,
    },
}

/// The figures of a profile for reads over `span_bytes`.
///
/// # Errors
/// An unknown profile.
pub fn figures(name: &str, span_bytes: u64) -> Result<Figures> {
    let profile: Profile =
        name.parse().map_err(|error| Error::Invalid { option: "PROFILE", reason: format!("{error}") })?;
    match profile.device() {
        DeviceConfig::Hdd(disk) => Ok(of_disk(disk, span_bytes)),
        DeviceConfig::Ssd(_) | DeviceConfig::Null => {
            Ok(Figures::Flash { read_ms: single_ms(name, BLOCK_BYTES)?, head_ms: single_ms(name, MIB)? })
        }
    }
}

fn of_disk(disk: HddConfig, span_bytes: u64) -> Figures {
    let geometry = Geometry::new(disk.mechanics, 0);
    let span_bytes = span_bytes.min(geometry.capacity_bytes());
    let small = Latencies::new(reads(&geometry, disk.command_overhead, span_bytes, BLOCK_BYTES, READS));
    let quantile_ms = |q| small.quantile_s(q).map_or(0.0, |seconds| seconds * 1e3);
    let rate_bytes_per_s = 1e9 / geometry.sustained_ns_per_byte(0);
    let block_s = BLOCK_BYTES as f64 / rate_bytes_per_s;
    let range = small.startup_range(block_s).expect("reads were drawn");
    // The rate rises with the size: bisection.
    let share = |size: u64| {
        let ns = reads(&geometry, disk.command_overhead, span_bytes, size, KNEE_READS);
        let mean_s = ns.iter().map(|&ns| ns as f64).sum::<f64>() / ns.len() as f64 * 1e-9;
        size as f64 / mean_s / rate_bytes_per_s
    };
    let (mut low, mut high) = (BLOCK_BYTES, 256 * MIB);
    while high - low > 4 * BLOCK_BYTES {
        let middle = (low + high) / 2;
        *(if share(middle) < KNEE_SHARE { &mut low } else { &mut high }) = middle;
    }
    let stroke = geometry.locate(span_bytes.min(geometry.capacity_bytes() - 1)).cylinder;
    Figures::Disk {
        span_bytes,
        p80_ms: quantile_ms(0.8),
        rate_bytes_per_s,
        knee_bytes: ((low + high) / 2) as f64,
        startup_ms_min: range.min_s * 1e3,
        startup_ms_max: range.max_s * 1e3,
        rotation_ms: geometry.turn_ns() / 2.0 * 1e-6,
        seek_ms_max: geometry.seek_ns(stroke.into()) * 1e-6,
    }
}

/// Latencies of random reads, one at a time, in nanoseconds.
fn reads(geometry: &Geometry, overhead: Nanos, span_bytes: u64, size: u64, count: usize) -> Vec<u64> {
    let mut state = 1u64;
    let mut below = |bound: u64| {
        // Xorshift; the seed is fixed so that a figure is always the same.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut arm = geometry.locate(0);
    let read = |_| {
        let address = below((span_bytes - size) / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let place = geometry.locate(address);
        // A second holds whole turns of no disk, a thousand of them any phase.
        let position_ns = geometry.position_ns(&arm, &place, geometry.turn_at(Nanos(below(1_000_000_000_000))), false);
        let (transfer_ns, end) = geometry.transfer_ns(place, address, size);
        arm = end;
        overhead.0 + (position_ns + transfer_ns).round() as u64
    };
    (0..count).map(read).collect()
}

/// One read on an idle device.
fn single_ms(profile: &str, size: u64) -> Result<f64> {
    let mut device = Servers::single_disk(profile, false)?;
    let place = Region { first_server: 0, base: 0, bytes: u64::MAX };
    let mut completions = Vec::new();
    device.on_request(Nanos::ZERO, 0, Ask { operation: Operation::Read, place, offset: 0, length: size });
    while completions.is_empty() {
        let at = device.next_timer().expect("a request is under way");
        device.on_timer(at, &mut completions);
    }
    Ok(completions[0].at.millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_lius_disk_are_lius() {
        let Figures::Disk { p80_ms, rate_bytes_per_s, knee_bytes, startup_ms_min, startup_ms_max, .. } =
            figures("wd1602", 10_000_000_000).unwrap()
        else {
            panic!("a disk has the figures of a disk")
        };
        assert!((p80_ms - 12.0).abs() < 0.12, "{p80_ms}");
        assert!((rate_bytes_per_s / 70e6 - 1.0).abs() < 0.001, "{rate_bytes_per_s}");
        assert!((3.5e6..4.3e6).contains(&knee_bytes), "LiU's body has 4 MB: {knee_bytes}");
        assert!(startup_ms_min > 2.5 && startup_ms_max < 16.0, "{startup_ms_min} {startup_ms_max}");
        assert!(startup_ms_min < 6.09 && startup_ms_max > 13.0, "the range holds the middle four fifths");
    }

    #[test]
    fn flash_has_a_startup_and_a_rate_and_a_floppy_is_no_profile() {
        let Figures::Flash { read_ms, head_ms } = figures("revodrive-x2", 1 << 30).unwrap() else {
            panic!("flash has the figures of flash")
        };
        assert!((read_ms - (0.5 + 4096.0 / 220e3)).abs() < 1e-3, "{read_ms}");
        // Two commands of 512 KiB at a time.
        assert!((head_ms - (0.5 + 524.288 / 220.0)).abs() < 1e-3, "{head_ms}");
        assert!(figures("floppy", 1 << 30).unwrap_err().to_string().contains("floppy"));
    }
}
