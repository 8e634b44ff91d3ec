//! Plans for files that are not what they were.

use std::fs;
use std::io::Write;

use headstart_insight::plan::Choice;

use super::*;

#[test]
fn files_that_vanished_were_replaced_or_lie_elsewhere_are_named_and_the_others_are_placed() {
    let site = prepared("8MiB");
    for name in ["vanished", "replaced", "excluded"] {
        fs::write(site.slow.join(name), bytes(3, MIB)).unwrap();
    }
    let regions: Regions = &[(0, MIB)];
    let mut files: Vec<PlanFile> =
        ["vanished", "a", "replaced", "excluded"].iter().map(|name| planned(&site, name, regions)).collect();
    fs::write(site.path("elsewhere"), bytes(3, MIB)).unwrap();
    let mut outside = planned(&site, "a", regions);
    (outside.path, outside.inode) = (site.path("elsewhere").to_str().unwrap().into(), None);
    files.push(outside);
    let plan = save(&site, "plan.toml", Choice::Gain, files);
    fs::remove_file(site.slow.join("vanished")).unwrap();
    fs::write(site.slow.join("new"), bytes(4, MIB)).unwrap();
    fs::rename(site.slow.join("new"), site.slow.join("replaced")).unwrap();
    let mut command = site.command(crate::site::HEADSTART);
    let output = command.args(["place", &plan]).env("HEADSTART_EXCLUDE", "excluded").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for (name, problem) in [
        ("vanished", "it has vanished"),
        ("replaced", "another file has its name"),
        ("excluded", "patterns keep it off flash"),
        ("elsewhere", "it does not lie in the slow directory"),
    ] {
        let line = warned.lines().find(|line| line.contains(&format!("{name}: "))).unwrap_or_default();
        assert!(line.contains(problem), "{name}: {warned}");
    }
    assert!(said.contains("placed     1 of 1 regions"), "{said}");
    assert_eq!(site.figure("/placement/placed_bytes"), MIB);
    let mut run = site.command(crate::site::HEADSTART);
    let output = run.args(["run", "--policy", "carl", "--plan", &plan, "--", "true"]).output().unwrap();
    assert!(output.status.success(), "a run goes on without: {}", site.say(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("elsewhere: it does not lie in the slow directory"));
}

#[test]
fn a_file_that_grew_is_placed_as_planned_and_one_that_shrank_as_far_as_it_goes() {
    let test = "changed_files::a_file_that_grew_is_placed_as_planned_and_one_that_shrank_as_far_as_it_goes";
    if role().is_some() {
        return play();
    }
    let site = prepared("8MiB");
    let plan = plan_for_a(&site, &[(0, MIB), (6 * MIB, MIB), (7 * MIB, MIB)]);
    fs::OpenOptions::new().append(true).open(site.slow.join("a")).unwrap().write_all(&[1; 4096]).unwrap();
    let output = site.headstart(&["place", &plan]);
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(warned.contains("taken as they are") && said.contains("3 of 3 regions"), "{said}{warned}");
    fs::File::options().write(true).open(site.slow.join("a")).unwrap().set_len(6 * MIB + 5000).unwrap();
    let output = site.headstart(&["place", &plan]);
    assert!(output.status.success(), "{}", site.say(&output));
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(warned.contains("1 of its 3 regions lie beyond its end"), "{warned}");
    assert!(said.contains("2 of 2 regions"), "{said}");
    site.played(&["--policy", "carl"], test, "read a 1 0 6291456");
}

#[test]
fn what_another_program_changes_after_placing_is_read_from_disk_and_placed_anew() {
    let test = "changed_files::what_another_program_changes_after_placing_is_read_from_disk_and_placed_anew";
    if role().is_some() {
        return play();
    }
    let site = prepared("8MiB");
    let plan = plan_for_a(&site, &[(0, 2 * MIB)]);
    for (generation, placed_again) in [(2, false), (3, true)] {
        site.succeed(&["place", &plan]);
        assert_eq!(site.figure("/placement/placed_bytes"), 2 * MIB);
        // So that the time of last write differs, whatever the clock's grain.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::OpenOptions::new()
            .write(true)
            .open(site.slow.join("a"))
            .unwrap()
            .write_all(&bytes(generation, SIZE))
            .unwrap();
        if placed_again {
            let said = site.succeed(&["place", &plan]);
            assert!(said.contains("1 of 1 regions"), "{said}");
        }
        let report = reported(&site, &["--policy", "carl"], test, &format!("read a {generation} 0 {SIZE}"));
        assert_eq!(of(&report, "/requests/flash_read_bytes_total") > 0, placed_again);
    }
}

#[test]
fn a_file_that_a_program_has_mapped_is_not_copied_while_it_lives() {
    let site = prepared("8MiB");
    let plan = plan_for_a(&site, &[(0, MIB)]);
    let script = "import mmap, os, sys, time
file = os.open(os.environ['HEADSTART_SLOW'] + '/a', os.O_RDONLY)
mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
open(sys.argv[1] + '/mapped', 'w').close()
while not os.path.exists(sys.argv[1] + '/placed'): time.sleep(0.005)";
    let mut run = site.command(crate::site::HEADSTART);
    run.args(["run", "--", "python3", "-c", script]).arg(site.directory.path());
    let mut run = run.spawn().unwrap();
    crate::site::wait_for("it is mapped", || site.path("mapped").exists());
    let output = site.headstart(&["place", &plan]);
    assert_eq!(site.figure("/placement/placed_bytes"), 0, "{}", site.say(&output));
    fs::write(site.path("placed"), b"").unwrap();
    assert!(run.wait().unwrap().success());
    let said = site.succeed(&["place", &plan]);
    assert!(said.contains("1 of 1 regions"), "{said}");
}
