//! Disk servers with volumes: bytes are as without, and what the volumes' flash holds reaches the disks.

#[path = "support/testbed.rs"]
mod testbed;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use headstart_model::server::VolumeStats;
use headstart_testbed::config::TestbedConfig;
use testbed::Testbed;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 2000;

fn with_volumes(adjust: impl FnOnce(&mut TestbedConfig)) -> Option<Testbed> {
    Testbed::start_with(|config| {
        config.server_policy = "itransformer".to_string();
        config.server_slice_bytes = 64 << 20;
        config.server_cache_bytes = 0;
        config.hdd_servers = 2;
        adjust(config);
    })
}

fn volumes(testbed: &Testbed, value: impl Fn(&VolumeStats) -> u64) -> u64 {
    testbed.slow_stats().servers.iter().map(|server| value(&server.volume.expect("each disk server has one"))).sum()
}

/// Writes blocks all over a file, some of them twice; what the file then holds.
fn write_scattered(testbed: &Testbed) -> Vec<u8> {
    let path = testbed.slow.join("a");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
    let mut expected = vec![0; BLOCK * BLOCKS as usize];
    file.set_len(expected.len() as u64).unwrap();
    for step in 0..BLOCKS {
        let at = (step * 7919 % (BLOCKS / 2)) as usize * 2 * BLOCK;
        let block = &mut expected[at..at + BLOCK];
        block.fill(step as u8 | 1);
        file.write_all_at(block, at as u64).unwrap();
    }
    expected
}

#[test]
fn bytes_read_are_bytes_written_and_counted_by_the_volumes() {
    let Some(testbed) = with_volumes(|_| ()) else { return };
    let expected = write_scattered(&testbed);
    assert_eq!(std::fs::read(testbed.slow.join("a")).unwrap(), expected);
    assert_eq!(volumes(&testbed, |volume| volume.absorbed_writes_total), BLOCKS);
    assert_eq!(volumes(&testbed, |volume| volume.absorbed_bytes_total), BLOCKS * BLOCK as u64);
    let stats = testbed.server.stats();
    assert!(stats.to_string().contains("written back MiB"), "{stats}");
    let json = serde_json::to_string(&stats).unwrap();
    let told: headstart_testbed::stats::TestbedStats = serde_json::from_str(&json).unwrap();
    let told = told.mounts[0].servers.iter().map(|server| server.volume.unwrap().absorbed_writes_total);
    assert_eq!(told.sum::<u64>(), BLOCKS);
    testbed.server.reset_stats();
    assert_eq!(volumes(&testbed, |volume| volume.absorbed_writes_total), 0);
    assert!(stats.mounts[1].servers.iter().all(|server| server.volume.is_none()), "flash servers have none");
}

#[test]
fn what_is_dirty_is_written_back_at_the_end_and_not_lost() {
    let disks = |config: &mut TestbedConfig| {
        config.hdd_profile = "wd1602".to_string();
        // A hundred times as slow: nothing is written back while this writes.
        config.time_scale = 100.0;
        config.server_flash_profile = "null".to_string();
    };
    let Some(testbed) = with_volumes(disks) else { return };
    let expected = write_scattered(&testbed);
    let dirty = volumes(&testbed, |volume| volume.dirty_bytes);
    assert!(dirty > 0, "{}", testbed.slow_stats());
    testbed.server.unmount();
    let said = testbed.server.drain().expect("there was something to write back");
    assert!(said.starts_with("disk servers wrote back"), "{said}");
    assert_eq!(volumes(&testbed, |volume| volume.dirty_bytes), 0);
    assert!(volumes(&testbed, |volume| volume.written_back_bytes_total) >= dirty);
    assert_eq!(testbed.server.drain(), None, "once");
    assert_eq!(std::fs::read(testbed.backing.join("slow/a")).unwrap(), expected);
}

#[test]
fn segments_are_loaded_again_once_the_servers_were_cooled() {
    let liu = |config: &mut TestbedConfig| config.server_policy = "liu".to_string();
    let Some(testbed) = with_volumes(liu) else { return };
    let path = testbed.slow.join("a");
    std::fs::write(&path, vec![7; 8 << 20]).unwrap();
    let loads = || {
        assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7));
        volumes(&testbed, |volume| volume.loads_total)
    };
    // The first time its segments are found strong, the next time they are loaded, then read from memory.
    let (_, loaded) = (loads(), loads());
    assert!(loaded > 0);
    assert_eq!(loads(), loaded);
    testbed.server.empty_buffers();
    assert!(loads() > loaded);
}

#[test]
fn a_policy_or_slice_that_is_none_is_refused_with_its_option() {
    let adjusted = |adjust: fn(&mut TestbedConfig)| {
        let mut config = TestbedConfig { slow: "/slow".into(), fast: "/fast".into(), ..TestbedConfig::default() };
        config.server_policy = "itransformer".to_string();
        adjust(&mut config);
        config.validate().map_err(|error| error.to_string())
    };
    assert_eq!(adjusted(|_| ()), Ok(()));
    assert_eq!(adjusted(|config| config.server_policy = "liu,itransformer".to_string()), Ok(()));
    for (adjust, option) in [
        ((|config| config.server_policy = "fifo".to_string()) as fn(&mut TestbedConfig), "--server-policy"),
        (|config| config.server_flash_profile = "wd1602".to_string(), "--server-flash"),
        (|config| config.server_slice_bytes = 4096, "--server-slice"),
        (|config| config.server_delay_max_ms = 0.0, "--server-delay-max-ms"),
    ] {
        let refused = adjusted(adjust).unwrap_err();
        assert!(refused.contains(option), "{refused}");
    }
}

#[test]
fn all_that_is_counted_begins_anew_with_a_report_and_nothing_else() {
    let mut numbers = serde_json::to_value(VolumeStats::default()).unwrap();
    for (key, value) in numbers.as_object_mut().unwrap() {
        *value = if key.contains("_ms_") { 5.0.into() } else { 5.into() };
    }
    let now: VolumeStats = serde_json::from_value(numbers).unwrap();
    for (key, value) in serde_json::to_value(now.since(&now)).unwrap().as_object().unwrap() {
        let counted = key.ends_with("_total") || ["flash_busy_ns", "flash_commands"].contains(&key.as_str());
        assert_eq!(value.as_f64(), Some(if counted { 0.0 } else { 5.0 }), "{key}");
    }
}
