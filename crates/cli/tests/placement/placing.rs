//! Placing and giving back.

use std::fs;

use headstart_insight::plan::Choice;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;
use crate::site::data_files;

#[test]
fn placed_regions_are_on_flash_compared_and_stay_over_runs_and_agents() {
    let test = "placing::placed_regions_are_on_flash_compared_and_stay_over_runs_and_agents";
    if role().is_some() {
        return play();
    }
    let site = prepared("6MiB");
    let plan = plan_for_a(&site, &[(0, MIB), (3 * MIB, MIB), (4 * MIB, 2 * MIB)]);
    let said = site.succeed(&["place", &plan]);
    assert!(said.contains("3 of 3 regions, 4MiB of 4MiB, in 1 files; compared"), "{said}");
    assert_eq!((site.figure("/mapped_bytes"), site.figure("/dirty_bytes")), (4 * MIB, 0));
    assert_eq!((site.figure("/placement/wanted_bytes"), site.figure("/placement/placed_bytes")), (4 * MIB, 4 * MIB));
    for policy in ["carl", "off", "carl,s4d", "auto"] {
        let report = reported(&site, &["--policy", policy], test, "read a 1 0 8388608");
        let served = of(&report, "/requests/flash_read_bytes_total");
        if policy == "carl" || policy == "off" {
            assert_eq!(served, 4 * MIB, "{policy}");
        }
        assert!(served >= 4 * MIB, "{policy}");
        assert_eq!(of(&report, "/dirty_bytes"), 0);
        site.succeed(&["stop"]);
    }
    site.played(&[], test, "read a 1 0 4096");
    site.kill_agent();
    let report = reported(&site, &["--policy", "carl"], test, "read a 1 3145728 1048576");
    assert_eq!(of(&report, "/requests/flash_read_bytes_total"), MIB);
    assert_eq!(site.figure("/placement/placed_bytes"), 4 * MIB);
}

#[test]
fn placing_again_copies_nothing_that_is_there_and_another_plan_moves_the_regions_of_its_files() {
    let site = prepared("4MiB");
    fs::write(site.slow.join("b"), bytes(5, SIZE)).unwrap();
    let plan = plan_for_a(&site, &[(0, 2 * MIB)]);
    site.succeed(&["place", &plan]);
    let fetched = site.figure("/agent/fetched_bytes_total");
    assert_eq!(fetched, 2 * MIB);
    site.succeed(&["place", &plan]);
    assert_eq!(site.figure("/agent/fetched_bytes_total"), fetched);
    let of_b = save(&site, "b.toml", Choice::Gain, vec![planned(&site, "b", &[(MIB, MIB)])]);
    site.succeed(&["place", &of_b]);
    assert_eq!(site.figure("/placement/placed_bytes"), 3 * MIB, "plans for other files stay");
    let moved = save(&site, "moved.toml", Choice::Gain, vec![planned(&site, "a", &[(MIB, 2 * MIB)])]);
    site.succeed(&["place", &moved]);
    assert_eq!(site.figure("/placement/placed_bytes"), 3 * MIB);
    assert_eq!(site.figure("/mapped_bytes"), 3 * MIB, "what the new plan does not name has left flash");
    assert_eq!(site.figure("/agent/fetched_bytes_total"), fetched + 2 * MIB, "what both name was not copied again");
}

#[test]
fn unplacing_frees_flash_of_one_plan_or_of_all() {
    let site = prepared("6MiB");
    fs::write(site.slow.join("b"), bytes(5, SIZE)).unwrap();
    let of_a = save(&site, "a.toml", Choice::Gain, vec![planned(&site, "a", &[(0, 2 * MIB)])]);
    let of_b = save(&site, "b.toml", Choice::Gain, vec![planned(&site, "b", &[(MIB, MIB), (4 * MIB, MIB)])]);
    site.succeed(&["place", &of_a]);
    site.succeed(&["place", &of_b]);
    assert_eq!(site.figure("/mapped_bytes"), 4 * MIB);
    let said = site.succeed(&["unplace", &of_a]);
    assert!(said.contains("2MiB of 1 files"), "{said}");
    assert_eq!((site.figure("/placement/files"), site.figure("/mapped_bytes")), (1, 2 * MIB));
    site.succeed(&["unplace"]);
    assert_eq!((site.figure("/placement/files"), site.figure("/mapped_bytes")), (0, 0));
    crate::site::wait_for("flash is given back", || site.flash_bytes() == 0);
    site.succeed(&["unplace"]);
    site.succeed(&["stop"]);
    let agent_less = site.headstart(&["unplace"]);
    assert!(agent_less.status.success(), "it starts an agent");
    site.fail(125, &["run", "--policy", "carl", "--", "true"], &["none are known"]);
}

#[test]
fn unplacing_writes_back_what_is_dirty_first() {
    let test = "placing::unplacing_writes_back_what_is_dirty_first";
    if role().is_some() {
        return play();
    }
    let site = prepared("64MiB");
    site.succeed(&["place", &plan_for_a(&site, &[(0, 2 * MIB)])]);
    site.played(&["--policy", "carl", "--keep-dirty"], test, "write a 2 1048576 1048576");
    assert!(site.figure("/dirty_bytes") > 0 && site.figure("/mapped_bytes") == 2 * MIB);
    site.succeed(&["unplace"]);
    assert_eq!((site.figure("/dirty_bytes"), site.figure("/mapped_bytes")), (0, 0));
    let expected =
        [&bytes(1, MIB)[..], &bytes(2, 2 * MIB)[MIB as usize..], &bytes(1, SIZE)[2 * MIB as usize..]].concat();
    assert!(on_disk(&site, "a") == expected);
}

#[test]
fn dirty_bytes_keep_no_region_from_flash() {
    let test = "placing::dirty_bytes_keep_no_region_from_flash";
    if role().is_some() {
        return play();
    }
    let site = prepared("4400KiB");
    fs::write(site.slow.join("b"), bytes(5, SIZE)).unwrap();
    site.played(&["--keep-dirty"], test, "write b 6 0 3145728");
    let said = site.succeed(&["place", &plan_for_a(&site, &[(0, 2 * MIB), (4 * MIB, 2 * MIB)])]);
    assert!(said.contains("2 of 2 regions"), "{said}");
    site.succeed(&["drain"]);
    assert!(on_disk(&site, "b")[..3 * MIB as usize] == bytes(6, 3 * MIB));
    site.played(&["--policy", "carl"], test, "read a 1 0 8388608;read b 6 0 3145728");
}

#[test]
fn of_a_plan_larger_than_the_capacity_the_regions_of_most_gain_are_placed_and_the_rest_is_said() {
    let site = prepared("2304KiB");
    let plan = plan_for_a(&site, &[(5 * MIB, MIB), (0, MIB), (3 * MIB, MIB), (7 * MIB, MIB)]);
    let output = site.headstart(&["place", &plan]);
    assert!(output.status.success(), "{}", site.say(&output));
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(warned.contains("4MiB do not fit into the capacity, 2304KiB"), "{warned}");
    assert!(said.contains("placed     2 of 4 regions") && said.contains("left out   2 regions, 2MiB"), "{said}");
    assert_eq!(site.figure("/mapped_bytes"), 2 * MIB);
    site.succeed(&["capacity", "4608KiB"]);
    let said = site.succeed(&["place", &plan]);
    assert!(said.contains("placed     4 of 4 regions"), "{said}");
    site.succeed(&["capacity", "1152KiB"]);
    crate::site::wait_for("flash holds no more than it may", || site.figure("/mapped_bytes") <= 1152 << 10);
    let said = site.succeed(&["place", &plan]);
    assert!(said.contains("placed     1 of 4 regions"), "{said}");
}

/// Undone at the end.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_fast_directory_smaller_than_the_capacity_takes_what_fits_and_the_rest_is_said() {
    let test = "placing::a_fast_directory_smaller_than_the_capacity_takes_what_fits_and_the_rest_is_said";
    if role().is_some() {
        return play();
    }
    let site = prepared("64MiB");
    if let Err(error) = mount(Some("tmpfs"), &site.fast, Some("tmpfs"), MsFlags::empty(), Some("size=4m")) {
        return println!("SKIPPED: mounting a tmpfs needs root ({error})");
    }
    let _mounted = Mounted(&site.fast);
    let plan = plan_for_a(&site, &[(MIB, 2 * MIB), (3 * MIB, 5 * MIB)]);
    site.fail(125, &["place", &plan], &["what fits is placed", "a: No space left on device"]);
    let placed = site.figure("/placement/placed_bytes");
    assert!((2 * MIB..4 * MIB).contains(&placed), "{placed}");
    let report = reported(&site, &["--policy", "carl"], test, "read a 1 0 8388608");
    assert!(of(&report, "/requests/flash_read_bytes_total") >= 2 * MIB);
    site.succeed(&["unplace"]);
    site.succeed(&["stop"]);
}

#[test]
fn a_byte_on_flash_that_is_not_the_disks_is_found_and_named() {
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(2 * MIB, MIB)]);
    site.succeed(&["place", &plan]);
    let data = data_files(&site.fast).into_iter().find(|path| fs::metadata(path).unwrap().len() >= MIB).unwrap();
    damage(&data, 5000);
    site.fail(125, &["place", &plan], &["a: byte ", "on flash is not what the disk has", "headstart unplace"]);
    site.succeed(&["unplace"]);
    site.succeed(&["place", &plan]);
}

#[test]
fn status_and_metrics_say_what_is_placed() {
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(0, MIB), (2 * MIB, MIB)]);
    assert!(!site.succeed(&["status"]).contains("regions"));
    site.succeed(&["place", &plan]);
    let said = site.succeed(&["status"]);
    assert!(said.contains("regions    2MiB of 2MiB in 1 files\n"), "{said}");
    let status = site.status();
    assert_eq!(status["file_placements"][0]["path"], site.slow.join("a").to_str().unwrap());
    assert_eq!(status["file_placements"][0]["placed_bytes"], 2 * MIB);
}

#[test]
fn a_plan_that_is_none_or_places_nothing_is_said_to_be_so() {
    let site = prepared("4MiB");
    fs::write(site.path("none.toml"), "no plan").unwrap();
    for command in ["place", "unplace"] {
        site.fail(125, &[command, site.path("none.toml").to_str().unwrap()], &["none.toml"]);
        site.fail(125, &[command, site.path("absent.toml").to_str().unwrap()], &["absent.toml"]);
    }
    let mut file = planned(&site, "a", &[(0, MIB)]);
    file.regions[0].place = false;
    let nothing = save(&site, "nothing.toml", Choice::Gain, vec![file]);
    let said = site.succeed(&["place", &nothing]);
    assert!(said.contains("0 of 0 regions"), "{said}");
}
