//! The mount shows the models and hides nothing of them. Figures come from the models' own counters, not from
//! the wall clock.

#[path = "support/testbed.rs"]
mod testbed;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

use headstart_testbed::config::Network;
use headstart_testbed::stats::MountStats;
use testbed::Testbed;

const STRIPE: u64 = 64 << 10;

/// Disks whose requests take long enough that every writer has its request in before the first is done.
fn slow_disks(scale: f64, server_cache_bytes: u64) -> Option<(Testbed, File)> {
    let testbed = Testbed::start_with(|config| {
        config.hdd_profile = "seagate-250".to_string();
        config.network = Network::Gbe;
        config.server_cache_bytes = server_cache_bytes;
        config.time_scale = scale;
    })?;
    let path = testbed.slow.join("a");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len(64 << 20).unwrap();
    testbed.server.reset_stats();
    Some((testbed, file))
}

fn sum(stats: &MountStats, value: impl Fn(&headstart_testbed::servers::ServerStats) -> u64) -> u64 {
    stats.servers.iter().map(value).sum()
}

#[test]
fn sixteen_writers_of_one_file_reach_all_servers_at_once() {
    let Some((testbed, file)) = slow_disks(100.0, 0) else { return };
    let together = Barrier::new(16);
    std::thread::scope(|scope| {
        for rank in 0..16 {
            let (together, file) = (&together, &file);
            scope.spawn(move || {
                together.wait();
                file.write_all_at(&[rank as u8; STRIPE as usize], rank * STRIPE).unwrap();
            });
        }
    });
    let stats = testbed.slow_stats();
    assert!(stats.in_flight_max > 8, "{} writes at once: the kernel serialises them", stats.in_flight_max);
    assert!(stats.servers.iter().all(|server| server.write_count == 2), "{stats}");
    assert!(stats.servers.iter().any(|server| server.queue_depth_max == 2), "{stats}");
}

#[test]
fn a_write_of_4_mib_is_one_request_and_one_device_command_per_server() {
    let Some((testbed, file)) = slow_disks(1.0, 0) else { return };
    if testbed.server.stats().request_bytes_max < 4 << 20 {
        println!("SKIPPED: the kernel limits requests to 1 MiB and this user may not raise fs.fuse.max_pages_limit");
        return;
    }
    // One byte off a page boundary, so that the buffer touches a page more than it fills.
    let buffer = vec![1u8; (4 << 20) + 1];
    file.write_all_at(&buffer[1..], 0).unwrap();
    let stats = testbed.slow_stats();
    assert_eq!(stats.write_count, 1);
    for server in &stats.servers {
        assert_eq!((server.write_count, server.write_bytes, server.device_command_count), (1, 512 << 10, 1), "{stats}");
    }
}

#[test]
fn fsync_waits_until_every_server_has_written_everything() {
    let Some((testbed, file)) = slow_disks(10.0, 8 << 20) else { return };
    file.write_all_at(&[1; 2 << 20], 0).unwrap();
    assert!(sum(&testbed.slow_stats(), |server| server.dirty_bytes) > 0, "the write was acknowledged from the caches");
    file.sync_all().unwrap();
    let stats = testbed.slow_stats();
    assert_eq!((stats.flush_count, sum(&stats, |server| server.dirty_bytes)), (1, 0));
    assert!(stats.servers.iter().all(|server| server.flush_count == 1 && server.device_command_count > 0), "{stats}");
}

#[test]
fn time_scale_stretches_real_time_and_not_the_model() {
    let mut modelled = Vec::new();
    for scale in [0.5, 4.0] {
        let Some((testbed, file)) = slow_disks(scale, 0) else { return };
        (0..8).for_each(|i| file.read_exact_at(&mut [0; 4096], i * 40 * STRIPE).unwrap());
        let stats = testbed.slow_stats();
        let (count, service) = (sum(&stats, |server| server.read_count) as f64, stats.service.mean_ns as f64);
        let model: f64 = stats.servers.iter().map(|s| s.service_ns_mean * s.read_count as f64).sum::<f64>() / count;
        assert_eq!(count, 8.0);
        assert!((service / (model * scale) - 1.0).abs() < 0.01, "{service} ns is not {scale} times {model} ns");
        modelled.push(model);
    }
    assert!(modelled.iter().all(|ns| (1e6..30e6).contains(ns)), "{modelled:?} ns are no disk's times");
}

#[test]
fn reads_beyond_the_end_ask_no_server_and_holes_do() {
    let Some((testbed, file)) = slow_disks(1.0, 0) else { return };
    assert_eq!(file.read_at(&mut [0; 4096], 1 << 40).unwrap(), 0);
    assert_eq!(testbed.slow_stats().read_count, 0);
    file.read_exact_at(&mut [0; 4096], 32 << 20).unwrap();
    assert_eq!(testbed.slow_stats().read_count, 1);
}

#[test]
fn files_do_not_all_start_on_the_same_server() {
    let Some(testbed) = Testbed::start() else { return };
    (0..64).for_each(|i| std::fs::write(testbed.slow.join(format!("{i}")), "x").unwrap());
    let stats = testbed.slow_stats();
    assert_eq!(sum(&stats, |server| server.write_count), 64);
    assert!(stats.servers.iter().all(|server| (1..32).contains(&server.write_count)), "{stats}");
}
