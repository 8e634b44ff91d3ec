//! The profiled site parameters say what the measurement says.

use headstart_testbed::TestbedConfig;
use headstart_testbed::profile::{Pattern, site_parameters};

#[test]
fn random_small_requests_go_to_flash_and_4_mib_to_disk() {
    let site = site_parameters(&TestbedConfig::default()).unwrap();
    println!("{site}");
    for cell in site.cells.iter().filter(|cell| cell.pattern == Pattern::Random) {
        match cell.size_bytes >> 10 {
            8..=64 => assert!(cell.model_benefit_s > 0.0 && cell.hdd_latency_s > cell.ssd_latency_s, "{cell:?}"),
            4096 => assert!(cell.model_benefit_s <= 0.0 && cell.hdd_latency_s < cell.ssd_latency_s, "{cell:?}"),
            _ => {}
        }
    }
    let (agreeing, total) = site.agreement();
    assert!(agreeing * 10 >= total * 9, "{site}");
}

#[test]
fn the_disks_data_sheet_is_found_again() {
    let site = site_parameters(&TestbedConfig::default()).unwrap();
    // 7200 turns per minute; full stroke 14.2 ms.
    assert!((site.rotation_s * 1e3 - 4.17).abs() < 0.2, "{}", site.rotation_s);
    assert!((site.seek_max_device_s * 1e3 - 14.2).abs() < 0.4, "{}", site.seek_max_device_s);
    assert!(site.seek_max_s < 0.002, "a file of 64 MiB per disk needs no long seeks");
    assert_eq!(site.seek_s(0), 0.0);
}

#[test]
fn the_same_configuration_gives_the_same_parameters() {
    let config = TestbedConfig { hdd_profile: "wd1602".to_string(), ..TestbedConfig::default() };
    assert_eq!(site_parameters(&config).unwrap(), site_parameters(&config).unwrap());
}

/// Compares within a share.
fn assert_near(name: &str, found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{name}: {found}, not {expected}");
}

#[test]
fn the_costs_of_idle_servers_are_those_of_their_devices_and_network() {
    let network = 1.0 / 117e6;
    for (cache_bytes, write_startup_s, write_s_per_byte) in
        [(0, 0.00045, 1.0 / 190e6 + network), (8 << 20, 0.0002, network)]
    {
        let config = TestbedConfig { server_cache_bytes: cache_bytes, ..TestbedConfig::default() };
        let carl = site_parameters(&config).unwrap().carl;
        // Overhead 0.3 ms and network 0.2 ms, seeks of about a millisecond, up to a turn of 8.3 ms; writes
        // settle for 1 ms.
        for (direction, costs, settle_s) in [("read", &carl.read, 0.0), ("write", &carl.write, 0.001)] {
            assert_eq!((costs.hdd_servers, costs.ssd_servers, costs.stripe_bytes), (8, 4, 65536));
            assert_near(direction, costs.hdd_startup_s_min, 0.0015 + settle_s, 0.03);
            assert_near(direction, costs.hdd_startup_s_max, 0.0098 + settle_s, 0.02);
            assert_near(direction, costs.hdd_s_per_byte, 1.0 / 100e6 + network, 0.02);
            assert_near(direction, costs.ssd_busy_s_per_byte.unwrap(), network, 0.01);
            assert_eq!(costs.check(), Ok(()));
        }
        assert_near("read", carl.read.ssd_startup_s, 0.0007, 0.01);
        assert_near("read", carl.read.ssd_s_per_byte, 1.0 / 220e6 + network, 0.01);
        assert_near("write", carl.write.ssd_startup_s, write_startup_s, 0.02);
        assert_near("write", carl.write.ssd_s_per_byte, write_s_per_byte, 0.01);
    }
}

#[test]
fn what_drives_keep_for_a_while_is_not_in_the_costs_of_idle_disks() {
    let carl = |config: TestbedConfig| site_parameters(&config).unwrap().carl;
    let plain = TestbedConfig { server_cache_bytes: 0, drive_read_ahead: None, ..TestbedConfig::default() };
    let disk = |costs: &headstart_policy::cost::region::Costs| {
        [&costs.read, &costs.write].map(|side| (side.hdd_startup_s_min, side.hdd_startup_s_max, side.hdd_s_per_byte))
    };
    let cached = TestbedConfig { drive_write_cache: true, ..TestbedConfig::default() };
    assert_eq!(disk(&carl(plain)), disk(&carl(cached)));
}

#[test]
fn servers_without_devices_or_network_cost_nothing() {
    let none = TestbedConfig {
        hdd_profile: "null".into(),
        ssd_profile: "null".into(),
        network: "none".parse().unwrap(),
        ..TestbedConfig::default()
    };
    let carl = site_parameters(&none).unwrap().carl;
    assert_eq!(carl.check(), Ok(()));
    assert_eq!((carl.read.disk_s(1 << 20), carl.read.flash_s(1 << 20), carl.write.disk_s(4096)), (0.0, 0.0, 0.0));
}

#[test]
fn on_a_testbed_that_was_slowed_down_requests_cost_what_programs_wait() {
    let carl = |time_scale| site_parameters(&TestbedConfig { time_scale, ..TestbedConfig::default() }).unwrap().carl;
    assert_near("read", carl(4.0).read.disk_s(8192), 4.0 * carl(1.0).read.disk_s(8192), 1e-9);
    assert_eq!(carl(0.0), carl(1.0), "where no time passes, regions still have their order");
}
