//! What LiU's sizes follow from, measured on the models as `headstart volume create` measures it on devices:
//! one command at a time.

use headstart_policy::server::chain::Names;
use headstart_policy::server::liu::{PROBE_READ_BYTES, PROBE_SEQUENTIAL_BYTES, PROBED_BYTES, usual_s};
use headstart_policy::server::liu::{Probe, Sizes};
use headstart_units::chance::Random;
use headstart_units::{MIB, Nanos};

use super::config::ServerConfig;
use crate::device::config::DeviceConfig;
use crate::device::{Command, Device};
use crate::request::Operation;

/// Random reads: p80 within about a twentieth.
const READS: u64 = 500;

/// LiU's sizes for a server's disk and a flash device; the paper's where no policy has segments.
pub fn sizes(names: Names, disk: &ServerConfig, flash: DeviceConfig) -> Sizes {
    if names.has_liu() { Sizes::fit(&probe(disk, Some(flash), PROBED_BYTES)) } else { Sizes::PAPER }
}

/// Measures a server's disk, over the first `span_bytes` of it, and a flash device.
pub fn probe(disk: &ServerConfig, flash: Option<DeviceConfig>, span_bytes: u64) -> Probe {
    let mut device = disk.build_device();
    let span = device.capacity_bytes().map_or(span_bytes, |bytes| bytes.min(span_bytes)).max(MIB);
    let (mut now, mut random) = (Nanos(1), Random(1));
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..READS {
        let address = random.below(span / PROBE_READ_BYTES) * PROBE_READ_BYTES;
        // Pauses of any length, so that the spindle's phase is any.
        now += Nanos(random.below(20_000_000));
        times.push(read(&mut *device, &mut now, address, PROBE_READ_BYTES));
    }
    let disk_bytes_per_s = rate(&mut *device, &mut now);
    Probe { flash_bytes_per_s: flash.map(rate_of), ..Probe::of_disk(times, disk_bytes_per_s) }
}

/// Bytes per second of a device that is read in order.
pub fn rate_of(device: DeviceConfig) -> f64 {
    rate(&mut *ServerConfig::bare_device(device), &mut Nanos(1))
}

/// Of reads of a MiB behind each other, which the first of them positions.
fn rate(device: &mut dyn Device, now: &mut Nanos) -> f64 {
    read(device, now, 0, MIB);
    let count = PROBE_SEQUENTIAL_BYTES / MIB;
    let mut times: Vec<f64> = (1..=count).map(|index| read(device, now, index * MIB, MIB)).collect();
    MIB as f64 / usual_s(&mut times).max(1e-9)
}

/// Seconds of one read.
fn read(device: &mut dyn Device, now: &mut Nanos, address: u64, length: u64) -> f64 {
    let begun = *now;
    device.on_command(begun, Command { tag: 0, operation: Operation::Read, address, length });
    let mut finished = Vec::new();
    while finished.is_empty() {
        let at = device.next_timer().expect("a command is under way");
        device.on_timer(at, &mut finished);
    }
    *now = finished[0].at.max(begun);
    // It comes to rest.
    while let Some(at) = device.next_timer() {
        device.on_timer(at, &mut finished);
    }
    now.since(begun).seconds()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn lius_disk_and_flash_give_lius_sizes() {
        let found = probe(&ServerConfig::new(Profile::Wd1602), Some(Profile::Onyx.device()), PROBED_BYTES);
        println!("{found:?}");
        assert!((found.positioning_p80_s * 1e3 - 12.0).abs() < 0.4, "{found:?}");
        assert_eq!(Sizes::fit(&found), Sizes::PAPER);
        assert!(Sizes::PAPER.hide_positioning(&found), "{found:?}");
    }
}
