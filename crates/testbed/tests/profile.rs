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
