//! `headstart check` and `drain --discard`: how a directory stands, what is lost with its flash, and giving that up.

#[path = "support/site.rs"]
mod site;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use site::{TestSite, content, data_files, managed, role, wait_for};

/// Role: `FILE OFFSET LENGTH`, separated by commas, are written; with `wait` in front the program stays until
/// `go` is there.
fn play() {
    let role = role().unwrap();
    let (waits, orders) = role.strip_prefix("wait ").map_or((false, role.as_str()), |rest| (true, rest));
    let mut files = Vec::new();
    for order in orders.split(',') {
        let words: Vec<&str> = order.split(' ').collect();
        let path = managed().join(words[0]);
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
        let (offset, length) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        file.write_all_at(&content(1, offset, length), offset).unwrap();
        files.push(file);
    }
    if waits {
        fs::write(managed().with_file_name("written"), b"").unwrap();
        wait_for("go", || managed().with_file_name("go").exists());
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// `headstart check --json`: its status and what it says.
fn check(site: &TestSite) -> (i32, Value) {
    let output = site.headstart(&["check", "--json"]);
    let status = output.status.code().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", site.say(&output)));
    assert_eq!(found["exit_status"], status);
    (status, found)
}

fn file<'a>(found: &'a Value, name: &str) -> &'a Value {
    let files = found["files"].as_array().unwrap();
    files.iter().find(|file| file["path"].as_str().unwrap().ends_with(name)).unwrap_or_else(|| panic!("{found:#}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn check_tells_clean_from_dirty_with_and_without_an_agent() {
    let test = "check_tells_clean_from_dirty_with_and_without_an_agent";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    let (status, found) = check(&site);
    assert_eq!((status, &found["verdict"], &found["owner"]), (0, &json!("clean"), &Value::Null));
    site.played(&["--keep-dirty"], test, "a 0 1000,a 1000 500,b 4000 10");
    for runs in [true, false] {
        let (status, found) = check(&site);
        assert_eq!((status, &found["journal"]), (75, &json!("usable")));
        assert_eq!((&found["agent_runs"], &found["dirty_bytes"]), (&json!(runs), &json!(1510)));
        assert_eq!(file(&found, "/a")["ranges"], json!([[0, 1500]]));
        assert_eq!(file(&found, "/b")["ranges"], json!([[4000, 10]]));
        assert_eq!(found["lost_bytes"], 0);
        let output = site.headstart(&["check", text(&site.slow)]);
        assert!(said(&output).contains("0-1500") && said(&output).contains("headstart drain"), "{}", said(&output));
        if runs {
            site.succeed(&["stop", "--keep-dirty"]);
        }
    }
    site.succeed(&["drain"]);
    assert_eq!(check(&site).0, 0);
    site.fail(125, &["check", "/no/such/directory"], &["/no/such/directory"]);
}

#[test]
fn a_lost_fast_directory_stops_runs_is_named_byte_by_byte_and_can_be_given_up() {
    let test = "a_lost_fast_directory_stops_runs_is_named_byte_by_byte_and_can_be_given_up";
    if role().is_some() {
        return play();
    }
    for replaced in [true, false] {
        let site = TestSite::with_capacity("64MiB");
        fs::write(site.slow.join("a"), vec![9; 2000]).unwrap();
        site.played(&["--keep-dirty"], test, "a 100 1000,b 0 30");
        site.kill_agent();
        // The device is gone, or an empty one stands in its place.
        let gone = site.path("gone");
        fs::rename(&site.fast, &gone).unwrap();
        if replaced {
            fs::create_dir(&site.fast).unwrap();
        }
        let (status, found) = check(&site);
        assert_eq!((status, &found["journal"]), (77, &json!("absent")), "{found:#}");
        assert_eq!(found["lost_bytes"], 1030);
        assert_eq!(file(&found, "/a")["lost"], json!([[100, 1000]]));
        assert_eq!(file(&found, "/b")["lost"], json!([[0, 30]]));
        let mark = site.path("ran");
        let fast = text(&site.fast).to_string();
        let words = ["1030 bytes of 2 files", &fast, "headstart check", "headstart drain --discard"];
        site.fail(125, &["run", "--", "touch", text(&mark)], &words);
        assert!(!mark.exists());

        site.fail(125, &["drain", "--discard"], &["--yes"]);
        site.fail(125, &["drain", "--discard", "--yes", text(&site.slow.join("a"))], &["without naming files"]);
        let output = site.headstart(&["drain", "--discard", "--yes"]);
        assert!(output.status.success(), "{}", site.say(&output));
        assert!(said(&output).contains("100-1100") && said(&output).contains("given up"), "{}", said(&output));
        assert!(!site.slow.join("HEADSTART-DIRTY").exists());
        assert_eq!(xattr::get(site.slow.join("a"), "user.headstart.dirty").unwrap(), None);
        assert_eq!(check(&site).0, 0);
        // Without flash the program runs all the same; with new flash it uses that.
        site.succeed(&["run", "--", "touch", text(&mark)]);
        // The old device comes back: what it holds was given up.
        if replaced {
            site.succeed(&["stop"]);
            fs::remove_dir_all(&site.fast).unwrap();
        }
        fs::rename(&gone, &site.fast).unwrap();
        fs::write(site.slow.join("a"), vec![7; 2000]).unwrap();
        site.succeed(&["run", "--", "true"]);
        site.succeed(&["drain"]);
        assert!(fs::read(site.slow.join("a")).unwrap() == vec![7; 2000], "old bytes came back");
        site.succeed(&["stop"]);
    }
}

#[test]
fn a_missing_data_file_loses_its_own_bytes_and_no_others() {
    let test = "a_missing_data_file_loses_its_own_bytes_and_no_others";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "a 0 1000");
    let first = data_files(&site.fast);
    site.played(&["--keep-dirty"], test, "b 0 2000");
    site.succeed(&["stop", "--keep-dirty"]);
    assert_eq!(first.len(), 1);
    fs::remove_file(&first[0]).unwrap();
    let (status, found) = check(&site);
    assert_eq!((status, &found["lost_bytes"]), (77, &json!(1000)), "{found:#}");
    assert_eq!(file(&found, "/a")["missing_data"], json!([text(&first[0])]));
    assert_eq!(file(&found, "/b")["lost"], json!([]));
    site.fail(75, &["drain"], &[text(&site.slow.join("a")), "cannot be written back"]);
    assert!(fs::read(site.slow.join("b")).unwrap() == content(1, 0, 2000), "the rest goes on");
    site.succeed(&["drain", "--discard", "--yes", text(&site.slow.join("a"))]);
    assert_eq!(check(&site).0, 0);
    site.played(&[], test, "a 0 1000");
    assert!(fs::read(site.slow.join("a")).unwrap() == content(1, 0, 1000));
}

#[test]
fn slow_files_that_are_missing_replaced_or_changed_are_told_apart() {
    let test = "slow_files_that_are_missing_replaced_or_changed_are_told_apart";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    for name in ["missing", "replaced", "changed", "found"] {
        fs::write(site.slow.join(name), vec![0; 3000]).unwrap();
    }
    site.played(&["--keep-dirty"], test, "missing 0 10,replaced 0 10,changed 0 10,found 0 10");
    site.succeed(&["stop", "--keep-dirty"]);
    fs::remove_file(site.slow.join("missing")).unwrap();
    fs::write(site.slow.join("new"), vec![1; 3000]).unwrap();
    fs::rename(site.slow.join("new"), site.slow.join("replaced")).unwrap();
    fs::write(site.slow.join("changed"), vec![1; 4000]).unwrap();
    let (status, found) = check(&site);
    assert_eq!(status, 76, "{found:#}");
    for name in ["missing", "replaced", "changed", "found"] {
        assert_eq!(file(&found, &format!("/{name}"))["slow"], name, "{found:#}");
    }
    site.fail(75, &["drain"], &["headstart drain"]);
    let given_up = ["missing", "replaced"].map(|name| site.slow.join(name));
    let paths: Vec<&str> = given_up.iter().map(|path| text(path)).collect();
    site.succeed(&[&["drain", "--discard", "--yes"], &paths[..]].concat());
    // What another program wrote is overwritten only where somebody says so.
    site.fail(75, &["drain"], &["/changed", "headstart drain FILE"]);
    site.succeed(&["drain", text(&site.slow.join("changed"))]);
    assert_eq!(check(&site).0, 0);
    assert!(fs::read(site.slow.join("replaced")).unwrap() == vec![1; 3000]);
    assert!(fs::read(site.slow.join("found")).unwrap()[..10] == content(1, 0, 10));
}

#[test]
fn one_files_dirty_bytes_are_given_up_and_the_disk_keeps_what_it_has() {
    let test = "one_files_dirty_bytes_are_given_up_and_the_disk_keeps_what_it_has";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::write(site.slow.join("a"), vec![9; 2000]).unwrap();
    let (a, b) = (site.slow.join("a"), site.slow.join("b"));
    let program = site.play(&["--keep-dirty"], test, "wait a 100 1000,b 0 30");
    let program = { program }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    site.fail(125, &["drain", "--discard", "--yes", text(&a)], &[text(&a), "has it open"]);
    fs::write(site.path("go"), b"").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));

    site.fail(125, &["drain", "--discard", text(&a)], &["--yes"]);
    site.fail(125, &["drain", "--yes"], &["--discard"]);
    site.fail(125, &["drain", "--discard", "--yes", "/etc/passwd"], &["/etc/passwd"]);
    assert_eq!(site.figure("/dirty_bytes"), 1030);
    let output = site.succeed(&["drain", "--discard", "--yes", text(&a)]);
    assert!(output.contains("100-1100") && output.contains(text(&a)), "{output}");
    assert_eq!(site.figure("/dirty_bytes"), 30);
    // It stays given up, whatever happens to the agent.
    site.kill_agent();
    fs::remove_dir_all(site.runtime_base()).unwrap();
    assert_eq!(check(&site).1["dirty_bytes"], 30);
    site.succeed(&["drain"]);
    assert!(fs::read(&a).unwrap() == vec![9; 2000]);
    assert!(fs::read(&b).unwrap() == content(1, 0, 30));
    assert!(site.succeed(&["drain", "--discard", "--yes"]).contains("nothing"));
}

/// Role `churn`: writes, cuts, renames and removes files of its own until `go` is there.
fn churn() {
    let at = |name: &str, number: u64| managed().join(format!("{name}{}", number % 7));
    for number in 0.. {
        let path = at("f", number);
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        for piece in 0..20 {
            let offset = (number * 31 + piece * 17) % 40 * 7000;
            file.write_all_at(&content(number, offset, 6000), offset).unwrap();
        }
        file.set_len((number * 13 % 40) * 7000).unwrap();
        drop(file);
        match number % 5 {
            0 => fs::remove_file(&path).unwrap(),
            1 => fs::rename(&path, at("g", number)).unwrap(),
            _ => {}
        }
        if number == 20 {
            fs::write(managed().with_file_name("written"), b"").unwrap();
        }
        if managed().with_file_name("go").exists() {
            return;
        }
    }
}

#[test]
fn beside_programs_that_write_and_agents_that_die_nothing_is_said_to_be_lost_or_changed() {
    let test = "beside_programs_that_write_and_agents_that_die_nothing_is_said_to_be_lost_or_changed";
    if role().is_some() {
        return churn();
    }
    // So little that space is freed and used again all the time.
    let site = TestSite::with_capacity("1MiB");
    let program = site.play(&[], test, "churn").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    for look in 0..24 {
        if look % 8 == 7 {
            site.kill_agent();
        }
        let output = site.headstart(&["check", "--json"]);
        let found = || String::from_utf8_lossy(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 75)), "look {look}: {}", found());
    }
    fs::write(site.path("go"), b"").unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
}

#[test]
fn nobody_is_told_to_give_up_bytes_while_an_agent_or_a_program_may_need_them() {
    let test = "nobody_is_told_to_give_up_bytes_while_an_agent_or_a_program_may_need_them";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    for name in ["changed", "renamed"] {
        fs::write(site.slow.join(name), vec![0; 3000]).unwrap();
    }
    site.played(&["--keep-dirty"], test, "changed 0 10,renamed 0 10");
    fs::write(site.slow.join("changed"), vec![1; 4000]).unwrap();
    fs::rename(site.slow.join("renamed"), site.slow.join("elsewhere")).unwrap();
    let status_and_words = || {
        let output = site.headstart(&["check"]);
        (output.status.code(), said(&output))
    };
    // What the agent can write back, wherever its file is by now, is no trouble; what it cannot is.
    let (status, words) = status_and_words();
    assert!(status == Some(76) && words.contains("changed the file since"), "{words}");
    assert!(!words.contains("--discard") && words.contains("stop --keep-dirty"), "{words}");
    site.succeed(&["stop", "--keep-dirty"]);
    let (status, words) = status_and_words();
    assert!(status == Some(76) && words.contains("--discard"), "{words}");
    site.succeed(&["drain", text(&site.slow.join("changed"))]);
    site.succeed(&["drain"]);

    // Bytes that are gone indeed, under an agent and under a program that outlives it.
    let mut program = site.play(&["--keep-dirty"], test, "wait changed 0 10");
    let mut program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    data_files(&site.fast).iter().for_each(|path| fs::remove_file(path).unwrap());
    let (status, words) = status_and_words();
    assert!(status == Some(77) && !words.contains("--discard"), "{words}");
    let (run, agent) = (program.id() as i32, site.agent().unwrap());
    site::kill(run, nix::sys::signal::Signal::SIGKILL);
    program.wait().unwrap();
    site::kill(agent, nix::sys::signal::Signal::SIGKILL);
    wait_for("the agent is gone", || site::has_ended(agent));
    let (status, words) = status_and_words();
    assert!(status == Some(77) && !words.contains("--discard") && words.contains("headstart agent"), "{words}");
    fs::write(site.path("go"), b"").unwrap();
    wait_for("the program has ended", || !status_and_words().1.contains("takes part"));
    let (status, words) = status_and_words();
    assert!(status == Some(77) && words.contains("--discard"), "{words}");
}

#[test]
fn dirty_bytes_of_a_file_that_was_renamed_under_a_living_agent_are_given_up_by_its_new_name() {
    let test = "dirty_bytes_of_a_file_that_was_renamed_under_a_living_agent_are_given_up_by_its_new_name";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "a 100 1000,b 0 30");
    let new = site.slow.join("new");
    fs::rename(site.slow.join("a"), &new).unwrap();
    let output = site.succeed(&["drain", "--discard", "--yes", text(&new)]);
    assert!(output.contains("100-1100"), "{output}");
    assert_eq!(site.figure("/dirty_bytes"), 30);
}

#[test]
fn a_damaged_journal_is_moved_away_when_its_bytes_are_given_up() {
    let test = "a_damaged_journal_is_moved_away_when_its_bytes_are_given_up";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    site.played(&["--keep-dirty"], test, "a 0 1000");
    site.succeed(&["stop", "--keep-dirty"]);
    fs::write(site.fast.join(".headstart/journal"), b"nonsense").unwrap();
    let (status, found) = check(&site);
    assert_eq!((status, &found["journal"], &found["lost_bytes"]), (77, &json!("unusable"), &json!(1000)));
    site.fail(125, &["run", "--", "true"], &["1000 bytes of 1 files"]);
    site.succeed(&["drain", "--discard", "--yes"]);
    site.played(&["--keep-dirty"], test, "a 0 500");
    assert_eq!(site.figure("/dirty_bytes"), 500);
    let away = fs::read_dir(&site.fast).unwrap().flatten();
    assert!(away.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(".headstart-discarded")));
    site.succeed(&["drain"]);
}

#[test]
fn attributes_name_what_is_lost_where_the_list_is_gone_too() {
    let test = "attributes_name_what_is_lost_where_the_list_is_gone_too";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("64MiB");
    fs::create_dir(site.slow.join("below")).unwrap();
    site.played(&["--keep-dirty"], test, "below/a 0 1000");
    site.kill_agent();
    fs::remove_dir_all(site.fast.join(".headstart")).unwrap();
    fs::remove_file(site.slow.join("HEADSTART-DIRTY")).unwrap();
    let output = site.headstart(&["check", "--scan", "--json"]);
    assert_eq!(output.status.code(), Some(77), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(file(&found, "/below/a")["lost"], json!([[0, 1000]]));
}
