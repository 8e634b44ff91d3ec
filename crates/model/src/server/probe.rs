//! What LiU's sizes follow from, measured on the models as `headstart volume create` measures it on devices: one command at a time.

use headstart_core::chance::Random;
use headstart_core::units::{MIB, Nanos};
use headstart_core::volume::policy::chain::Names;
use headstart_core::volume::policy::liu::{Probe, Sizes};

use super::config::{DeviceConfig, ServerConfig};
use crate::device::{Command, Device};
use crate::server::Operation;

/// The part of a disk that is measured, as in LiU's Fig. 2.
const PROBED_BYTES: u64 = 10_000_000_000;
/// Random reads: p80 within about a twentieth.
const READS: u64 = 500;
const READ_BYTES: u64 = 4096;
/// Bytes read in order, of the disk and of flash.
const SEQUENTIAL_BYTES: u64 = 64 * MIB;

/// LiU's sizes for a server's disk and a flash device; the paper's where no policy has segments.
pub fn sizes(names: Names, disk: &ServerConfig, flash: DeviceConfig) -> Sizes {
    if names.has_liu() { Sizes::fit(&probe(disk, flash, PROBED_BYTES)) } else { Sizes::PAPER }
}

/// Measures a server's disk, over the first `span_bytes` of it, and a flash device.
fn probe(disk: &ServerConfig, flash: DeviceConfig, span_bytes: u64) -> Probe {
    let mut device = disk.build_device();
    let span = device.capacity_bytes().map_or(span_bytes, |bytes| bytes.min(span_bytes)).max(MIB);
    let (mut now, mut random) = (Nanos(1), Random(1));
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..READS {
        let address = random.below(span / READ_BYTES) * READ_BYTES;
        // Pauses of any length, so that the spindle's phase is any.
        now += Nanos(random.below(20_000_000));
        times.push(read(&mut *device, &mut now, address, READ_BYTES));
    }
    times.sort_by(f64::total_cmp);
    let disk_bytes_per_s = rate(&mut *device, &mut now);
    let mut flash = ServerConfig::bare_device(flash);
    let flash_bytes_per_s = rate(&mut *flash, &mut Nanos(1));
    Probe {
        positioning_p80_s: times[(READS * 4 / 5) as usize],
        positioning_mean_s: times.iter().sum::<f64>() / READS as f64,
        disk_bytes_per_s,
        flash_bytes_per_s,
    }
}

/// Of reads of a MiB behind each other, which the first of them positions.
fn rate(device: &mut dyn Device, now: &mut Nanos) -> f64 {
    read(device, now, 0, MIB);
    let seconds: f64 = (1..=SEQUENTIAL_BYTES / MIB).map(|index| read(device, now, index * MIB, MIB)).sum();
    SEQUENTIAL_BYTES as f64 / seconds.max(1e-9)
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
        let found = probe(&ServerConfig::new(Profile::Wd1602), Profile::Onyx.device(), 10_000_000_000);
        println!("{found:?}");
        assert!((found.positioning_p80_s * 1e3 - 12.0).abs() < 0.4, "{found:?}");
        assert_eq!(Sizes::fit(&found), Sizes::PAPER);
        assert!(Sizes::PAPER.hide_positioning(&found), "{found:?}");
    }
}
