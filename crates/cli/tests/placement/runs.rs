//! Runs by regions.

use std::fs;

use headstart_insight::plan::Choice;

use super::*;

#[test]
fn under_carl_writes_to_regions_are_absorbed_and_others_go_to_disk() {
    let test = "runs::under_carl_writes_to_regions_are_absorbed_and_others_go_to_disk";
    if role().is_some() {
        return play();
    }
    let site = prepared("4MiB");
    site.succeed(&["place", &plan_for_a(&site, &[(MIB, MIB)])]);
    let report = reported(&site, &["--policy", "carl"], test, "write a 2 0 4194304;read a 2 0 4194304");
    assert_eq!(of(&report, "/requests/absorbed_bytes_total"), MIB);
    assert_eq!(of(&report, "/requests/disk_write_unwanted_bytes_total"), 3 * MIB);
    assert_eq!(of(&report, "/requests/flash_read_bytes_total"), MIB);
    assert_eq!((site.figure("/dirty_bytes"), site.figure("/placement/placed_bytes")), (0, MIB), "it stays, clean");
    assert!(on_disk(&site, "a")[..4 * MIB as usize] == bytes(2, 4 * MIB));
    let report = reported(&site, &["--policy", "carl"], test, "read a 2 0 4194304");
    assert_eq!(of(&report, "/requests/flash_read_bytes_total"), MIB, "for the next run");
}

#[test]
fn a_plan_alone_brings_regions_to_flash_as_the_program_asks_for_them() {
    let test = "runs::a_plan_alone_brings_regions_to_flash_as_the_program_asks_for_them";
    if role().is_some() {
        return play();
    }
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(MIB, MIB), (6 * MIB, MIB)]);
    let report = reported(&site, &["--policy", "carl", "--plan", &plan], test, "write a 2 6291456 1048576");
    assert_eq!(of(&report, "/requests/absorbed_bytes_total"), MIB, "the first write is absorbed");
    assert_eq!((site.figure("/mapped_bytes"), site.figure("/dirty_bytes")), (MIB, 0), "nothing else is copied");
    // Fetches come when the disks have time for them: while the program runs.
    let role = "read a 1 1048576 4096;say read;wait fetched";
    let report = site.path("report.json");
    let options = ["--policy", "carl", "--plan", &plan, "--report", report.to_str().unwrap()];
    let mut run = site.play(&options, test, role).spawn().unwrap();
    crate::site::wait_for("the program has read", || site.path("read").exists());
    crate::site::wait_for("what it read is fetched", || site.figure("/mapped_bytes") > MIB);
    fs::write(site.path("fetched"), b"").unwrap();
    assert!(run.wait().unwrap().success());
    let report = reported(&site, &["--policy", "carl"], test, "read a 1 1048576 4096;read a 1 0 4096");
    assert_eq!(of(&report, "/requests/flash_read_bytes_total"), 4096);
}

#[test]
fn a_file_that_the_program_makes_anew_has_the_regions_of_its_name() {
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(MIB, MIB)]);
    let script = "import os
path = os.environ['HEADSTART_SLOW'] + '/a'
for _ in range(3):
    if os.path.exists(path): os.remove(path)
    f = os.open(path, os.O_RDWR | os.O_CREAT)
    for k in range(0, 3 << 20, 65536): os.pwrite(f, b'n' * 65536, k)
    os.close(f)";
    for there in [true, false] {
        if !there {
            fs::remove_file(site.slow.join("a")).unwrap();
        }
        let report = site.path("report.json");
        let options = ["run", "--policy", "carl", "--plan", &plan, "--report", report.to_str().unwrap()];
        site.succeed(&[&options, &["--", "python3", "-c", script][..]].concat());
        let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
        assert_eq!(of(&report, "/requests/absorbed_bytes_total"), 3 * MIB, "{there}");
        assert_eq!(on_disk(&site, "a"), vec![b'n'; 3 << 20]);
    }
    site.succeed(&["run", "--policy", "carl", "--", "true"]);
    site.succeed(&["unplace", &plan]);
    site.fail(125, &["run", "--policy", "carl", "--", "true"], &["none are known"]);
}

#[test]
fn with_carl_and_s4d_regions_come_first_and_s4d_has_the_rest() {
    let test = "runs::with_carl_and_s4d_regions_come_first_and_s4d_has_the_rest";
    if role().is_some() {
        return play();
    }
    for policy in ["carl,s4d", "auto"] {
        let site = prepared("3MiB");
        site.succeed(&["place", &plan_for_a(&site, &[(MIB, MIB)])]);
        let report = reported(&site, &["--policy", policy], test, "write a 2 2097152 4194304;read a 1 1048576 1048576");
        assert!(of(&report, "/requests/absorbed_bytes_total") >= MIB, "{policy}");
        assert!(of(&report, "/requests/flash_read_bytes_total") == MIB, "{policy}: what S4D took made no region leave");
        assert_eq!(site.figure("/placement/placed_bytes"), MIB);
        assert!(on_disk(&site, "a")[2 * MIB as usize..6 * MIB as usize] == bytes(2, 6 * MIB)[2 * MIB as usize..]);
    }
}

#[test]
fn auto_without_regions_is_s4d() {
    let test = "runs::auto_without_regions_is_s4d";
    if role().is_some() {
        return play();
    }
    let site = prepared("8MiB");
    let report = reported(&site, &["--policy", "auto"], test, "write a 2 0 1048576");
    assert_eq!(of(&report, "/requests/absorbed_bytes_total"), MIB);
}

#[test]
fn a_plan_whose_regions_were_drawn_at_random_is_followed_as_any_other() {
    let test = "runs::a_plan_whose_regions_were_drawn_at_random_is_followed_as_any_other";
    if role().is_some() {
        return play();
    }
    let site = prepared("4MiB");
    let random = save(&site, "random.toml", Choice::Random(7), vec![planned(&site, "a", &[(MIB, MIB)])]);
    let report = reported(&site, &["--policy", "carl", "--plan", &random], test, "write a 2 0 4194304");
    assert_eq!(of(&report, "/requests/absorbed_bytes_total"), MIB);
}

#[test]
fn arguments_that_do_not_go_together_are_refused_with_what_does() {
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(MIB, MIB)]);
    let run = |options: &[&str], words: &[&str]| {
        site.fail(125, &[&["run"], options, &["--", "true"]].concat(), words);
    };
    run(&["--policy", "crl"], &["crl", "s4d", "carl,s4d", "auto", "off"]);
    run(&["--policy", "s4d,carl"], &["carl,s4d"]);
    run(&["--policy", "s4d", "--plan", &plan], &["--policy s4d goes by no plan"]);
    run(&["--plan", &plan], &["goes by no plan", "carl"]);
    run(&["--policy", "carl"], &["none are known", "headstart place", "--plan"]);
    run(&["--policy", "carl", "--plan", "/absent.toml"], &["/absent.toml"]);
}

#[test]
fn regions_are_placed_and_given_back_while_a_program_writes_them() {
    let test = "runs::regions_are_placed_and_given_back_while_a_program_writes_them";
    if role().is_some() {
        return play();
    }
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(0, MIB), (2 * MIB, MIB)]);
    let writes: Vec<String> =
        (2..60).map(|generation| format!("write a {generation} 0 4194304;read a {generation} 0 4194304")).collect();
    let role = format!("say begun;{}", writes.join(";"));
    let mut run = site.play(&["--policy", "auto"], test, &role).spawn().unwrap();
    crate::site::wait_for("the program has begun", || site.path("begun").exists());
    while run.try_wait().unwrap().is_none() {
        for arguments in [&["place", &plan][..], &["unplace"]] {
            let output = site.headstart(arguments);
            assert!(output.status.success(), "{arguments:?}: {}", site.say(&output));
        }
    }
    assert!(run.wait().unwrap().success());
    assert!(on_disk(&site, "a")[..4 * MIB as usize] == bytes(59, 4 * MIB));
}
