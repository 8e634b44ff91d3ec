//! While flash holds newer bytes the managed directory shows it.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use serde_json::Value;
use site::{TestSite, content, managed, role, wait_for};

/// Roles: `write FILE OFFSET LENGTH` (several, separated by commas), then, with `wait` in front, stays until
/// the file `go` is there; `open FILE` opens for writing and waits.
fn play() {
    let role = role().unwrap();
    let (waits, orders) = role.strip_prefix("wait ").map_or((false, role.as_str()), |rest| (true, rest));
    let mut files = Vec::new();
    for order in orders.split(',') {
        let words: Vec<&str> = order.split(' ').collect();
        let path = managed().join(words[1]);
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        if words[0] == "write" {
            let (offset, length) = (words[2].parse().unwrap(), words[3].parse().unwrap());
            file.write_all_at(&content(1, offset, length), offset).unwrap();
        }
        files.push(file);
    }
    if waits {
        fs::write(managed().with_file_name("written"), std::process::id().to_string()).unwrap();
        wait_for("go", || managed().with_file_name("go").exists());
    }
}

fn start(site: &TestSite, options: &[&str], test: &str, role: &str) -> Child {
    let child = site.play(options, test, role).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    child
}

fn go_on(site: &TestSite, child: Child) {
    fs::write(site.path("go"), b"").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    fs::remove_file(site.path("go")).unwrap();
    fs::remove_file(site.path("written")).unwrap();
}

/// The list: its heading and its files.
fn listed(site: &TestSite) -> Option<(Value, Vec<Value>)> {
    let text = fs::read_to_string(site.slow.join("HEADSTART-DIRTY")).ok()?;
    assert!(text.starts_with('#') && text.contains("headstart drain"), "people must understand it:\n{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut objects = lines.map(|line| serde_json::from_str(line).unwrap());
    let heading = objects.next().unwrap();
    Some((heading, objects.collect()))
}

fn ranges(site: &TestSite, path: &str) -> Option<Value> {
    let (_, files) = listed(site)?;
    files.iter().find(|file| file["path"] == path).map(|file| file["ranges"].clone())
}

fn attribute(site: &TestSite, path: &str) -> Option<Value> {
    let text = xattr::get(site.slow.join(path), "user.headstart.dirty").unwrap()?;
    Some(serde_json::from_slice(&text).unwrap())
}

#[test]
fn the_list_is_there_before_a_file_open_for_writing_can_hold_a_dirty_byte() {
    let test = "the_list_is_there_before_a_file_open_for_writing_can_hold_a_dirty_byte";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let program = start(&site, &[], test, "wait open a");
    let (heading, files) = listed(&site).expect("it is open for writing");
    assert_eq!(heading["dirty_bytes"], 0);
    assert_eq!((&files[0]["path"], &files[0]["open_for_writing"]), (&"a".into(), &true.into()));
    go_on(&site, program);
    assert!(listed(&site).is_none(), "the run ended with everything on disk");
    site.succeed(&["run", "--", "cat", site.slow.join("a").to_str().unwrap()]);
    assert!(listed(&site).is_none(), "reading makes nothing dirty");
}

#[test]
fn list_and_attribute_name_the_ranges_while_they_are_dirty_and_go_with_them() {
    let test = "list_and_attribute_name_the_ranges_while_they_are_dirty_and_go_with_them";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::create_dir(site.slow.join("below")).unwrap();
    fs::write(site.slow.join("a"), vec![0; 50_000]).unwrap();
    let orders = "wait write a 0 1000,write a 1000 500,write a 20000 7,write below/b 0 30";
    let program = start(&site, &["--keep-dirty"], test, orders);
    // While the program runs the list follows by itself.
    wait_for("the list follows", || ranges(&site, "below/b") == Some(serde_json::json!([[0, 30]])));
    wait_for("the list follows", || ranges(&site, "a") == Some(serde_json::json!([[0, 1500], [20000, 7]])));
    wait_for("the attribute follows", || attribute(&site, "a").is_some_and(|found| found["dirty_bytes"] == 1507));
    go_on(&site, program);
    let (heading, files) = listed(&site).unwrap();
    assert_eq!((&heading["dirty_bytes"], &heading["files"]), (&1537.into(), &2.into()));
    assert_eq!(heading["fast"], site.fast.to_str().unwrap());
    assert!(files.iter().all(|file| file["open_for_writing"] == false), "{files:?}");
    site.succeed(&["drain", site.slow.join("a").to_str().unwrap()]);
    assert_eq!(ranges(&site, "a"), None);
    assert_eq!(attribute(&site, "a"), None);
    assert_eq!(attribute(&site, "below/b").unwrap()["ranges"], serde_json::json!([[0, 30]]));
    site.succeed(&["drain"]);
    assert!(listed(&site).is_none());
    assert_eq!(attribute(&site, "below/b"), None);
}

#[test]
fn the_list_outlives_a_killed_agent_and_is_put_right_by_the_next() {
    let test = "the_list_outlives_a_killed_agent_and_is_put_right_by_the_next";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write a 0 1000,write b 0 1000");
    site.kill_agent();
    assert_eq!(listed(&site).unwrap().1.len(), 2);
    // What a crash may leave: an attribute of a file that is clean by now, and a list of before.
    let old = fs::read(site.slow.join("HEADSTART-DIRTY")).unwrap();
    site.succeed(&["drain", site.slow.join("a").to_str().unwrap()]);
    site.kill_agent();
    let mark = serde_json::json!({ "inode": 1, "dirty_bytes": 1000 }).to_string();
    xattr::set(site.slow.join("a"), "user.headstart.dirty", mark.as_bytes()).unwrap();
    fs::write(site.slow.join("HEADSTART-DIRTY"), old).unwrap();
    site.played(&["--keep-dirty"], test, "open c");
    assert_eq!(ranges(&site, "a"), None);
    assert_eq!(attribute(&site, "a"), None);
    assert_eq!(ranges(&site, "b"), Some(serde_json::json!([[0, 1000]])));
    site.succeed(&["drain"]);
    site.kill_agent();
    assert!(listed(&site).is_none());
    site.succeed(&["run", "--", "true"]);
    assert!(listed(&site).is_none());
}

#[test]
fn a_list_left_by_an_agent_killed_with_nothing_dirty_goes_with_the_next() {
    let test = "a_list_left_by_an_agent_killed_with_nothing_dirty_goes_with_the_next";
    if role().is_some() {
        return play();
    }
    use std::os::unix::process::CommandExt;
    let site = TestSite::with_capacity("64MiB");
    let mut run = site.play(&[], test, "wait open a").process_group(0).spawn().unwrap();
    wait_for("the program has opened", || site.path("written").exists());
    site.kill_agent();
    wait_for("its process is written", || fs::metadata(site.path("written")).unwrap().len() > 0);
    let program: i32 = fs::read_to_string(site.path("written")).unwrap().parse().unwrap();
    site::kill(-(run.id() as i32), Signal::SIGKILL);
    run.wait().unwrap();
    wait_for("the program has ended", || site::has_ended(program));
    assert!(listed(&site).is_some());
    site.succeed(&["run", "--", "true"]);
    assert!(listed(&site).is_none());
}

#[test]
fn a_list_that_somebody_removes_comes_back() {
    let test = "a_list_that_somebody_removes_comes_back";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let program = start(&site, &["--keep-dirty"], test, "wait write a 0 1000");
    fs::remove_file(site.slow.join("HEADSTART-DIRTY")).unwrap();
    go_on(&site, program);
    assert!(ranges(&site, "a").is_some());
}

#[test]
fn a_list_removed_while_no_agent_runs_is_made_anew_before_the_journal_is() {
    let test = "a_list_removed_while_no_agent_runs_is_made_anew_before_the_journal_is";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "write a 0 1000");
    site.succeed(&["stop", "--keep-dirty"]);
    fs::remove_file(site.slow.join("HEADSTART-DIRTY")).unwrap();
    // The next agent gets as far as the list, and no further.
    let stumble = site.fast.join(".headstart/journal.new");
    fs::create_dir(&stumble).unwrap();
    site.fail(125, &["drain"], &["write the journal"]);
    assert_eq!(ranges(&site, "a"), Some(serde_json::json!([[0, 1000]])));
    assert_eq!(site.headstart(&["check"]).status.code(), Some(75), "list and journal belong together");
    fs::remove_dir(&stumble).unwrap();
    site.succeed(&["drain"]);
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 1000));
}

#[test]
fn marks_are_no_foreign_change() {
    let test = "marks_are_no_foreign_change";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), vec![0; 50_000]).unwrap();
    site.played(&["--keep-dirty"], test, "write a 0 50000");
    assert!(attribute(&site, "a").is_some());
    site.succeed(&["stop", "--keep-dirty"]);
    site.played(&["--keep-dirty"], test, "open a");
    site.succeed(&["drain"]);
    assert_eq!(attribute(&site, "a"), None);
    let before = site.figure("/requests/flash_read_bytes_total");
    site.succeed(&["run", "--", "dd", &format!("if={}", site.slow.join("a").display()), "of=/dev/null", "bs=4000"]);
    assert!(site.figure("/requests/flash_read_bytes_total") > before, "clean bytes are trusted");
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 50_000));
}

#[test]
fn names_with_any_byte_are_listed() {
    let test = "names_with_any_byte_are_listed";
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"odd\xff\n#\"name");
    if role().is_some() {
        return fs::write(managed().join(name), b"bytes").unwrap();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "program");
    let (_, files) = listed(&site).unwrap();
    let hex: String = name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(files[0]["path_hex"], hex);
    site.succeed(&["stop", "--keep-dirty"]);
    site.succeed(&["drain"]);
    assert_eq!(fs::read(site.slow.join(name)).unwrap(), b"bytes");
    assert!(listed(&site).is_none());
}

#[test]
fn where_the_list_cannot_be_written_nothing_is_absorbed_and_the_program_goes_on() {
    let test = "where_the_list_cannot_be_written_nothing_is_absorbed_and_the_program_goes_on";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let options = Some("size=1m,nr_inodes=20");
    if let Err(error) = mount(Some("tmpfs"), &site.slow, Some("tmpfs"), MsFlags::empty(), options) {
        return println!("SKIPPED: mounting a tmpfs needs root ({error})");
    }
    fs::write(site.slow.join("a"), vec![0; 10_000]).unwrap();
    site.succeed(&["run", "--", "true"]); // the claim finds its place before
    let filled = (0..100).take_while(|number| fs::write(site.slow.join(format!("filler-{number}")), b"").is_ok());
    assert!(filled.count() < 100, "no file can be made any more");
    site.played(&[], test, "write a 0 10000");
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 10_000));
    assert_eq!(site.figure("/agent/absorbed_requests_total"), 0);
    assert!(listed(&site).is_none());
    site.succeed(&["stop"]);
    umount2(&site.slow, MntFlags::MNT_DETACH).unwrap();
}
