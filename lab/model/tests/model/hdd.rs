//! Hard disks against their tables: calibrated figures of the three profiles, anchors of LiU MASCOTS'13.

use headstart_model::device::config::DeviceConfig;
use headstart_model::device::hdd::{Hdd, HddConfig};
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::Operation;
use headstart_model::server::{Server, ServerConfig};
use headstart_units::{KIB, MIB, Nanos};

use crate::driver::{Random, assert_near, closed_loop, read, serve, write};

pub fn config(profile: Profile) -> HddConfig {
    let DeviceConfig::Hdd(config) = profile.device() else { panic!("{profile} is no hard disk") };
    config
}

pub fn without_caches(profile: Profile) -> Hdd {
    Hdd::new(HddConfig { read_ahead: None, write_cache_bytes: 0, ..config(profile) }, 0)
}

pub fn bare_server(profile: Profile) -> ServerConfig {
    ServerConfig { nic: NicConfig::NONE, ..ServerConfig::new(profile) }
}

pub const GB: u64 = 1_000_000_000;
const DISKS: [Profile; 3] = [Profile::Wd1602, Profile::Seagate250, Profile::Nearline24t];

#[test]
fn the_layout_is_the_calibrated_one() {
    let expected = [(311_552, 653_000, 374_000), (173_568, 933_000, 507_000), (602_960, 2_660_000, 1_320_000)];
    for (profile, (cylinders, outer, inner)) in DISKS.into_iter().zip(expected) {
        let disk = without_caches(profile);
        assert_eq!(disk.geometry().cylinder_count(), cylinders, "{profile}");
        let (outer_bytes, inner_bytes) = disk.geometry().track_bytes();
        assert_near(&format!("{profile} outer track"), outer_bytes as f64, outer as f64, 0.3, 0.0);
        assert_near(&format!("{profile} inner track"), inner_bytes as f64, inner as f64, 0.3, 0.0);
        let capacity = config(profile).mechanics.capacity_bytes as f64;
        assert_near(&format!("{profile} size"), disk.geometry().capacity_bytes() as f64, capacity, 0.05, 0.0);
    }
}

#[test]
fn average_and_full_stroke_seek_are_the_calibrated_ones() {
    for (profile, (average, full)) in DISKS.into_iter().zip([(9.1, 16.7), (8.6, 14.2), (7.5, 14.8)]) {
        let disk = without_caches(profile);
        let geometry = disk.geometry();
        assert_near(&format!("{profile} average seek"), average_seek_ns(&disk) * 1e-6, average, 1.0, 0.1);
        let stroke = geometry.seek_ns(geometry.cylinder_count() - 1) * 1e-6;
        assert_near(&format!("{profile} full stroke"), stroke, full, 1.0, 0.1);
    }
}

fn average_seek_ns(disk: &Hdd) -> f64 {
    let (geometry, mut random) = (disk.geometry(), Random::new(1));
    let mut cylinder = || random.below(geometry.cylinder_count());
    let seeks = (0..60_000).map(|_| geometry.seek_ns(cylinder().abs_diff(cylinder())));
    seeks.sum::<f64>() / 60_000.0
}

/// Latencies in ms of one-sector reads at random within `span`, sorted.
fn latencies(profile: Profile, span: u64) -> Vec<f64> {
    let (mut disk, mut random, mut now) = (without_caches(profile), Random::new(2), Nanos::ZERO);
    let mut latencies = Vec::new();
    for _ in 0..40_000 {
        now += Nanos(random.below(1_000_000));
        let done = serve(&mut disk, now, Operation::Read, random.below(span - 4096), 512);
        latencies.push(done.since(now).millis());
        now = done;
    }
    latencies.sort_by(f64::total_cmp);
    latencies
}

#[test]
fn random_read_latency_percentiles_meet_the_tables() {
    let cells = [
        (Profile::Wd1602, 1, 10.1),
        (Profile::Wd1602, 10, 12.0),
        (Profile::Wd1602, 20, 12.6),
        (Profile::Seagate250, 1, 8.4),
        (Profile::Seagate250, 10, 9.6),
        (Profile::Seagate250, 16, 10.2),
        (Profile::Nearline24t, 1, 7.8),
        (Profile::Nearline24t, 10, 7.9),
        (Profile::Nearline24t, 100, 8.1),
        (Profile::Nearline24t, 23_500, 14.7),
    ];
    for (profile, span_gb, expected) in cells {
        let latencies = latencies(profile, span_gb * GB);
        let at = |fraction: f64| latencies[(latencies.len() as f64 * fraction) as usize];
        assert_near(&format!("{profile} p80 over {span_gb} GB, ms"), at(0.8), expected, 1.0, 0.1);
    }
    let latencies = latencies(Profile::Wd1602, 10 * GB);
    for (fraction, expected) in [(0.1, 6.09), (0.5, 9.49), (0.9, 13.0), (0.99, 14.4)] {
        let value = latencies[(latencies.len() as f64 * fraction) as usize];
        assert_near(&format!("wd1602 quantile {fraction} over 10 GB, ms"), value, expected, 2.0, 0.0);
    }
}

#[test]
fn sequential_rates_meet_the_tables() {
    let cells = [(70.0, 58.0, 42.0), (100.0, 82.0, 57.0), (285.0, 227.0, 151.0)];
    for (profile, (outer, middle, inner)) in DISKS.into_iter().zip(cells) {
        for (fraction, expected) in [(0.0, outer), (0.5, middle), (0.95, inner)] {
            let start = (without_caches(profile).geometry().capacity_bytes() as f64 * fraction) as u64;
            let mut disk = Hdd::new(config(profile), 0);
            let warm = serve(&mut disk, Nanos::ZERO, Operation::Read, start, MIB);
            let mut now = warm;
            for index in 1..=400 {
                now = serve(&mut disk, now, Operation::Read, start + index * MIB, MIB);
            }
            let rate = 400.0 * MIB as f64 / now.since(warm).seconds() / 1e6;
            assert_near(&format!("{profile} streaming at {fraction}, MB/s"), rate, expected, 3.0, 0.0);
        }
    }
}

const SIZES_A: [(u64, f64); 11] = [
    (4, 0.4),
    (16, 1.6),
    (64, 6.0),
    (256, 19.1),
    (512, 29.9),
    (1024, 41.8),
    (2048, 52.5),
    (4096, 59.4),
    (8192, 64.0),
    (16384, 66.5),
    (32768, 67.9),
];
const SIZES_B: [(u64, f64); 10] = [
    (4, 0.5),
    (16, 2.1),
    (64, 8.0),
    (256, 25.6),
    (512, 40.8),
    (1024, 58.1),
    (2048, 73.6),
    (4096, 84.4),
    (8192, 91.8),
    (32768, 97.8),
];
const SIZES_C: [(u64, f64); 8] = [
    (64, 11.4),
    (256, 39.8),
    (1024, 114.0),
    (2048, 164.0),
    (4096, 205.0),
    (8192, 238.0),
    (16384, 261.0),
    (32768, 272.0),
];

type SizeTable = &'static [(u64, f64)];

fn random_size_tables() -> [(Profile, u64, SizeTable); 3] {
    [
        (Profile::Wd1602, 20 * GB, &SIZES_A),
        (Profile::Seagate250, 16 * GB, &SIZES_B),
        (Profile::Nearline24t, 100 * GB, &SIZES_C),
    ]
}

#[test]
fn random_reads_of_every_size_meet_the_tables() {
    for (profile, span, table) in random_size_tables() {
        for &(size_kib, expected) in table {
            let (size, count) = (size_kib * KIB, if size_kib <= 1024 { 1500 } else { 300 });
            let (mut disk, mut random, mut now) = (without_caches(profile), Random::new(3), Nanos::ZERO);
            for _ in 0..count {
                now = serve(&mut disk, now, Operation::Read, random.below(span - size), size);
            }
            let rate = (count * size) as f64 / now.seconds() / 1e6;
            assert_near(&format!("{profile} random {size_kib} KiB, MB/s"), rate, expected, 4.0, 0.1);
        }
    }
}

#[test]
fn cutting_long_reads_into_commands_costs_nothing_with_or_without_read_ahead() {
    for (profile, span, table) in random_size_tables() {
        for read_ahead in [Some((16, MIB)), None] {
            for &(size_kib, expected) in table.iter().filter(|(size_kib, _)| *size_kib >= 64) {
                let (size, count) = (size_kib * KIB, if size_kib <= 1024 { 1500 } else { 300 });
                let mut server = Server::new(ServerConfig { drive_read_ahead: read_ahead, ..bare_server(profile) });
                let mut random = Random::new(3);
                let end = closed_loop(&mut server, 1, count, |id| read(id, random.below(span - size), size));
                let rate = (count * size) as f64 / end.seconds() / 1e6;
                let what = format!("{profile} server, random {size_kib} KiB, read-ahead {read_ahead:?}, MB/s");
                assert_near(&what, rate, expected, 4.0, 0.1);
            }
        }
    }
}

pub fn iops(config: ServerConfig, depth: u64, operation: Operation) -> f64 {
    let (mut server, mut random, count) = (Server::new(config), Random::new(4), 6000);
    let span = server.capacity_bytes().expect("a disk has an end") / 100 * 98;
    let end = closed_loop(&mut server, depth, count, |id| match operation {
        Operation::Read => read(id, random.below(span), 4096),
        _ => write(id, random.below(span), 4096),
    });
    count as f64 / end.seconds()
}

/// The tables chose without an age limit, among all commands of the depth; a drive holds 31.
#[test]
fn iops_by_queue_depth_meet_the_tables_without_an_age_limit() {
    let tables = [(Profile::Wd1602, [73.0, 97.0, 118.0, 130.0]), (Profile::Nearline24t, [86.0, 121.0, 172.0, 205.0])];
    for (profile, expected) in tables {
        for (depth, expected) in [1, 4, 16, 32].into_iter().zip(expected) {
            let device = DeviceConfig::Hdd(HddConfig { age_limit: Nanos::MAX, ..config(profile) });
            let value = iops(ServerConfig { device, ..bare_server(profile) }, depth, Operation::Read);
            assert_near(&format!("{profile} IOPS at depth {depth}"), value, expected, 10.0, 0.0);
        }
    }
}

/// With the age limit of 500 ms, profile A loses at depth 32, where the mean wait is half of it: 114 where the table
/// has 130 (the reference model gives 114 too at 31 commands and the same limit). Every other cell keeps to 10 %.
#[test]
fn the_age_limit_costs_throughput_only_where_waits_reach_it() {
    let tables = [(Profile::Wd1602, [73.0, 97.0, 118.0, 114.0]), (Profile::Nearline24t, [86.0, 121.0, 172.0, 205.0])];
    for (profile, expected) in tables {
        for (depth, expected) in [1, 4, 16, 32].into_iter().zip(expected) {
            let value = iops(bare_server(profile), depth, Operation::Read);
            assert_near(&format!("{profile} IOPS at depth {depth}, age limit on"), value, expected, 10.0, 0.0);
        }
    }
}

#[test]
fn random_reads_at_depth_one_take_overhead_seek_half_a_turn_and_transfer() {
    for profile in DISKS {
        let mut disk = without_caches(profile);
        let span = disk.geometry().capacity_bytes() / 100 * 98;
        let (mut random, mut now, count) = (Random::new(5), Nanos::ZERO, 20_000);
        for _ in 0..count {
            now = serve(&mut disk, now, Operation::Read, random.below(span), 4096);
        }
        let transfer_ns = 4096.0 * disk.geometry().sustained_ns_per_byte(span / 2);
        let overhead_ns = config(profile).command_overhead.0 as f64;
        let expected = overhead_ns + average_seek_ns(&disk) + disk.geometry().turn_ns() / 2.0 + transfer_ns;
        let mean = now.0 as f64 / count as f64;
        assert_near(&format!("{profile} mean, ns"), mean, expected, 4.0, 0.0);
    }
}
