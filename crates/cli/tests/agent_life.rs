//! An agent's end: killed under commands, idle for long, told to stop; and what it leaves behind.

#[path = "support/site.rs"]
mod site;

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use headstart_agent::site::{AgentSettings, Site};
use headstart_protocol::SHARED_FILE;
use headstart_protocol::marks::Marks;
use headstart_protocol::shared::Region;
use nix::sys::signal::Signal;
use site::{TestSite, content, has_ended, kill, managed, role, said, text, wait_for};

/// What a program writes: enough that it takes a while to write back.
const PIECE: usize = 16 << 10;
const PIECES: u64 = 1500;

fn beside(name: &str) -> PathBuf {
    managed().with_file_name(name)
}

/// Role: writes a file, then ends with the status of its name; `orphan` in front sees to it that no agent is there and
/// none starts.
fn play() {
    let role = role().unwrap();
    let (is_orphan, status) = role.strip_prefix("orphan ").map_or((false, role.as_str()), |rest| (true, rest));
    let file = File::create(managed().join("a")).unwrap();
    for piece in 0..PIECES {
        // Backwards, so that nothing joins.
        let offset = (PIECES - 1 - piece) * PIECE as u64;
        file.write_all_at(&content(1, offset, PIECE), offset).unwrap();
    }
    if is_orphan {
        let owner: serde_json::Value =
            serde_json::from_slice(&fs::read(managed().join(".headstart-owner")).unwrap()).unwrap();
        fs::write(std::env::var_os("HEADSTART_SITE").unwrap(), "nonsense").unwrap();
        let agent = owner["pid"].as_i64().unwrap() as i32;
        kill(agent, Signal::SIGKILL);
        wait_for("the agent is gone", || has_ended(agent));
    }
    fs::write(beside("written"), b"").unwrap();
    // Closing it would wait for an agent.
    std::mem::forget(file);
    std::process::exit(status.parse().unwrap());
}

fn is_whole(site: &TestSite) -> bool {
    let whole: Vec<u8> = (0..PIECES).flat_map(|piece| content(1, piece * PIECE as u64, PIECE)).collect();
    fs::read(site.slow.join("a")).unwrap() == whole
}

/// Kills agents, as many as there are in time, while a command is at work.
fn under_fire(site: &TestSite, command: Child) -> Output {
    for _ in 0..4 {
        if let Some(agent) = site.agent() {
            kill(agent, Signal::SIGKILL);
            wait_for("the agent is gone", || has_ended(agent));
        }
    }
    command.wait_with_output().unwrap()
}

#[test]
fn a_run_whose_agent_dies_while_it_writes_back_goes_on_with_another() {
    let test = "a_run_whose_agent_dies_while_it_writes_back_goes_on_with_another";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1GiB");
    let run = site.play(&[], test, "7").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program has written", || site.path("written").exists());
    let output = under_fire(&site, run);
    assert_eq!(output.status.code(), Some(7), "the program's own\n{}", site.say(&output));
    assert!(is_whole(&site), "{}", site.say(&output));
    assert_eq!(site.headstart(&["check"]).status.code(), Some(0));
}

#[test]
fn where_no_agent_can_be_had_at_the_end_the_programs_status_counts_and_what_is_dirty_is_said() {
    let test = "where_no_agent_can_be_had_at_the_end_the_programs_status_counts_and_what_is_dirty_is_said";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1GiB");
    for (status, expected) in [("7", 7), ("0", 75)] {
        let output = site.play(&[], test, &format!("orphan {status}")).output().unwrap();
        let words = said(&output);
        // The agent may have had the time to write everything back by itself.
        let is_dirty = words.contains("are dirty on flash") && words.contains("'headstart drain'");
        assert!(is_dirty || words.contains("nothing is only on flash"), "{words}");
        let expected = if is_dirty { expected } else { status.parse().unwrap() };
        assert_eq!(output.status.code(), Some(expected), "{}", site.say(&output));
        site.write_site("1GiB");
        site.succeed(&["drain"]);
        assert!(is_whole(&site));
    }
}

#[test]
fn commands_go_on_with_another_agent_where_the_first_dies_under_them() {
    let test = "commands_go_on_with_another_agent_where_the_first_dies_under_them";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1GiB");
    for command in [&["drain"][..], &["unplace"], &["drain", text(&site.slow.join("a"))]] {
        site.played(&["--keep-dirty"], test, "0");
        let mut started = site.command(site::HEADSTART);
        let started = started.args(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = under_fire(&site, started);
        assert!(output.status.success(), "{command:?}: {}", site.say(&output));
        assert!(is_whole(&site), "{command:?}: {}", site.say(&output));
        // What is asked of one that is gone is told without it.
        site.succeed(&["status"]);
        site.succeed(&["run", "--", "true"]);
        site.succeed(&["stop"]);
    }
}

#[test]
fn an_idle_agent_gives_the_directory_up_and_clean_bytes_are_there_for_the_next() {
    let test = "an_idle_agent_gives_the_directory_up_and_clean_bytes_are_there_for_the_next";
    if role().is_some() {
        return play();
    }
    let site = TestSite::with_capacity("1GiB");
    let mut settings: Site = Site::load(&site.file).unwrap();
    settings.agent = Some(AgentSettings { idle_s: Some(1), ..AgentSettings::default() });
    fs::write(&site.file, settings.to_toml()).unwrap();
    let owner = site.slow.join(".headstart-owner");
    site.played(&[], test, "0");
    wait_for("the idle agent has given the directory up", || !owner.exists());
    assert_eq!(site.headstart(&["check"]).status.code(), Some(0));
    // While a run is connected it is needed, whatever the program does.
    let go = site.path("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.1; done", go.display());
    let mut run = site.command(site::HEADSTART).args(["run", "--", "sh", "-c", &script]).spawn().unwrap();
    wait_for("an agent serves", || site.agent().is_some());
    let agent = site.agent().unwrap();
    assert!(site.figure("/mapped_bytes") > 0, "what was clean on flash is found");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(!has_ended(agent), "a run is connected");
    fs::write(&go, b"").unwrap();
    assert!(run.wait().unwrap().success());
    wait_for("the idle agent has ended", || has_ended(agent));
}

/// Bytes of memory behind the runtime directory.
fn memory(site: &TestSite) -> u64 {
    let blocks = |entry: fs::DirEntry| entry.metadata().map_or(0, |found| found.blocks());
    fs::read_dir(site.runtime()).unwrap().flatten().map(blocks).sum::<u64>() * 512
}

#[test]
fn memory_that_nobody_uses_goes_back_while_an_agent_serves_and_when_it_stops() {
    let site = TestSite::with_capacity("64MiB");
    fs::create_dir(site.slow.join("many")).unwrap();
    (0..3000).for_each(|number| fs::write(site.slow.join(format!("many/{number}")), b"x").unwrap());
    site.succeed(&["run", "--", "true"]);
    let before = memory(&site);
    let script = format!("cat {}/many/* > /dev/null", site.slow.display());
    site.succeed(&["run", "--policy", "off", "--", "sh", "-c", &script]);
    let grown = memory(&site) - before;
    assert!(grown < 16 << 20, "{grown} bytes more, for 3000 files that were opened once");
    site.succeed(&["run", "--", "sh", "-c", &format!("echo kept > {}/a", site.slow.display())]);
    let mapped = site.figure("/mapped_bytes");
    site.succeed(&["stop"]);
    assert!(memory(&site) < 1 << 20, "the log and a lock");
    site.succeed(&["run", "--", "true"]);
    assert_eq!((site.figure("/mapped_bytes"), mapped > 0), (mapped, true), "what is clean on flash is found again");
}

/// Whether the agent sleeps, and whether a slot is marked, as the shared file says.
fn rest(site: &TestSite) -> (bool, bool) {
    let file = File::open(site.runtime().join(SHARED_FILE)).unwrap();
    let mut marks = [0; size_of::<Marks>()];
    let [_, _, place, _, _] = Region::always();
    file.read_exact_at(&mut marks, place.start as u64).unwrap();
    let is_any = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
    let words = offset_of!(Marks, words)..offset_of!(Marks, sleeping);
    (is_any(&marks[words.end..][..8]), is_any(&marks[words]))
}

/// Role: reads a little, then more when told to.
fn read_and_wait() {
    let file = File::open(managed().join("a")).unwrap();
    let read = |block: u64| file.read_exact_at(&mut [0; 4096], block * 4096).unwrap();
    read(0);
    fs::write(beside("joined"), b"").unwrap();
    wait_for("it is to read", || beside("go").exists());
    [35, 12, 60, 4, 20].into_iter().for_each(read);
    fs::write(beside("read"), b"").unwrap();
    wait_for("it is to end", || beside("end").exists());
    std::process::exit(0);
}

#[test]
fn an_agent_beside_programs_that_do_nothing_sleeps_until_one_leaves_something_for_it() {
    let test = "an_agent_beside_programs_that_do_nothing_sleeps_until_one_leaves_something_for_it";
    if role().is_some() {
        return read_and_wait();
    }
    let site = TestSite::with_capacity("1GiB");
    fs::write(site.slow.join("a"), content(1, 0, 64 * 4096)).unwrap();
    let run = site.play(&[], test, "reader").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the program takes part", || site.path("joined").exists());
    wait_for("the agent sleeps", || rest(&site) == (true, false));
    fs::write(site.path("go"), b"").unwrap();
    wait_for("the program has read", || site.path("read").exists());
    wait_for("the agent has looked", || !rest(&site).1);
    wait_for("and sleeps again", || rest(&site) == (true, false));
    fs::write(site.path("end"), b"").unwrap();
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", site.say(&output));
    assert!(site.figure("/agent/critical_reads_total") > 0, "it left hints");
}
