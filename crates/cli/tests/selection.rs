//! Include and exclude patterns, and where settings come from: command line, then environment, then site file.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Output;

use headstart_agent::site::Site;
use site::{HEADSTART, TestSite, content, managed, role, wait_for};

const NAMES: [&str; 4] = ["plain", "logs/a.log", "logs/keep.dat", "deep/er/b.log"];
const LENGTH: usize = 20_000;

/// Role `write N` writes generation N to every name, `read N` expects it.
fn play() {
    let role = role().unwrap();
    let (verb, generation) = role.split_once(' ').unwrap();
    for name in NAMES {
        let path = managed().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        let bytes = content(generation.parse().unwrap(), 0, LENGTH);
        if verb == "write" {
            file.write_all_at(&bytes, 0).unwrap();
        }
        let mut found = vec![0; LENGTH];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == bytes, "wrong bytes in {name}");
    }
}

fn patterns(site: &TestSite, include: &[&str], exclude: &[&str]) {
    let mut settings: Site = toml::from_str(&fs::read_to_string(&site.file).unwrap()).unwrap();
    settings.include = include.iter().map(|pattern| pattern.to_string()).collect();
    settings.exclude = exclude.iter().map(|pattern| pattern.to_string()).collect();
    fs::write(&site.file, settings.to_toml()).unwrap();
}

/// Writes the names; how many of them were absorbed and how many left on the disk by a pattern.
fn written(site: &TestSite, test: &str, options: &[&str], environment: &[(&str, &str)]) -> (u64, u64) {
    let figures = || {
        let figure = |name| if site.agent().is_some() { site.figure(name) } else { 0 };
        (figure("/requests/absorbed_requests_total"), figure("/requests/disk_write_excluded_requests_total"))
    };
    let before = figures();
    let output: Output = site.play(options, test, "write 1").envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    for name in NAMES {
        assert!(fs::read(site.slow.join(name)).unwrap() == content(1, 0, LENGTH), "{name}");
    }
    let after = figures();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn patterns_keep_files_off_flash_and_the_command_line_comes_before_environment_and_file() {
    let test = "patterns_keep_files_off_flash_and_the_command_line_comes_before_environment_and_file";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1MiB");
    assert_eq!(written(&site, test, &[], &[]), (4, 0));
    patterns(&site, &["**", "logs/keep.dat"], &["logs", "**/*.log"]);
    assert_eq!(written(&site, test, &[], &[]), (2, 2), "from the file, by an agent that runs");
    let text = site.succeed(&["status"]);
    assert!(text.contains("exclude    logs **/*.log") && text.contains("writes, disk: excluded"), "{text}");
    assert_eq!(site.figure("/service/opens_excluded_total"), 2);
    let none = [("HEADSTART_EXCLUDE", "")];
    assert_eq!(written(&site, test, &[], &none), (4, 0), "the environment comes before it");
    assert_eq!(written(&site, test, &["--exclude", "pl*"], &none), (3, 1), "the command line before that");
    assert_eq!(written(&site, test, &["--include", "deep", "--exclude", "x"], &[]), (1, 3));
    site.succeed(&["stop"]);
    assert_eq!(written(&site, test, &[], &[]), (2, 2), "from the file, by a new agent");
    site.fail(125, &["run", "--exclude", "/abs", "--", "true"], &["exclude", "/abs"]);
    let mut command = site.command(HEADSTART);
    let output = command.env("HEADSTART_AGENT_DIRTY_HIGH", "2").args(["site", "check"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("dirty_high is 2"), "{}", site.say(&output));
}

#[test]
fn an_agent_that_follows_one_that_was_killed_knows_the_patterns_of_the_command_line() {
    let test = "an_agent_that_follows_one_that_was_killed_knows_the_patterns_of_the_command_line";
    if role().is_some() {
        fs::write(managed().with_file_name("started"), b"").unwrap();
        wait_for("go", || managed().with_file_name("go").exists());
        return play();
    }
    let site = TestSite::with_capacity("1MiB");
    let program = site.play(&["--keep-dirty", "--exclude", "logs"], test, "write 1").spawn().unwrap();
    wait_for("the program runs", || site.path("started").exists());
    let first = site.agent();
    site.kill_agent();
    wait_for("another agent follows", || site.agent().is_some_and(|next| Some(next) != first));
    fs::write(site.path("go"), b"").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    assert_eq!(site.figure("/dirty_bytes"), 2 * LENGTH as u64);
    assert_eq!(site.figure("/requests/disk_write_excluded_requests_total"), 2);
}

#[test]
fn dirty_bytes_of_a_file_that_is_excluded_later_are_read_overwritten_and_written_back() {
    let test = "dirty_bytes_of_a_file_that_is_excluded_later_are_read_overwritten_and_written_back";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1MiB");
    site.played(&["--keep-dirty"], test, "write 1");
    assert_eq!(site.figure("/dirty_bytes"), 4 * LENGTH as u64);
    site.played(&["--keep-dirty", "--exclude", "**"], test, "read 1");
    assert_eq!(site.figure("/dirty_bytes"), 4 * LENGTH as u64, "it is excluded from coming, not from being found");
    assert!(site.figure("/requests/flash_read_bytes_total") >= 4 * LENGTH as u64);
    site.played(&["--keep-dirty", "--exclude", "**"], test, "write 2");
    assert_eq!(site.figure("/dirty_bytes"), 0, "what is written over it goes to the disk");
    site.played(&[], test, "read 2");
    for name in NAMES {
        assert!(fs::read(site.slow.join(name)).unwrap() == content(2, 0, LENGTH), "{name}");
    }
}
