//! Commands and agents that are stopped or killed in the middle. Points are drawn from SEED.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::*;
use crate::site::{HEADSTART, kill};

/// Enough that something is under way when the signal comes.
const REGIONS: Regions = &[(0, 2 * MIB), (3 * MIB, MIB + 4097), (5 * MIB + 777, 2 * MIB)];
const PLACED: u64 = 5 * MIB + 4097;

struct Random(u64);

impl Random {
    fn from_seed() -> Random {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed =
            std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now.as_nanos() as u64 % 1_000_000);
        println!("SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// What is to be hit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hit {
    CommandInterrupted,
    CommandKilled,
    AgentKilled,
}

/// Starts a command and hits it, or the agent, after a while.
fn hit(site: &TestSite, arguments: &[&str], hit: Hit, after: Duration) {
    let agent = site.agent();
    let mut command = site.command(HEADSTART);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.args(arguments).spawn().unwrap();
    std::thread::sleep(after);
    match hit {
        Hit::CommandInterrupted => kill(child.id() as i32, Signal::SIGINT),
        Hit::CommandKilled => kill(child.id() as i32, Signal::SIGKILL),
        Hit::AgentKilled => agent.into_iter().for_each(|agent| kill(agent, Signal::SIGKILL)),
    }
    child.wait().unwrap();
}

#[test]
fn placing_and_unplacing_may_be_stopped_or_killed_at_any_point_and_done_again() {
    let test = "interrupted::placing_and_unplacing_may_be_stopped_or_killed_at_any_point_and_done_again";
    if role().is_some() {
        return play();
    }
    let mut random = Random::from_seed();
    let site = prepared("7MiB");
    let plan = plan_for_a(&site, REGIONS);
    let start = std::time::Instant::now();
    site.succeed(&["place", &plan]);
    let whole = start.elapsed().as_micros() as u64;
    site.succeed(&["unplace"]);
    let (mut generation, mut partly) = (1, 0);
    for round in 0..30 {
        let what = [Hit::CommandInterrupted, Hit::CommandKilled, Hit::AgentKilled][round % 3];
        let arguments = if random.below(3) > 0 { vec!["place", &plan] } else { vec!["unplace"] };
        hit(&site, &arguments, what, Duration::from_micros(random.below(whole * 5 / 4)));
        if site.agent().is_some() {
            let placed = site.figure("/placement/placed_bytes");
            partly += u64::from(placed > 0 && placed < PLACED);
        }
        // Some go on from where that was, others find bytes that are dirty.
        match random.below(4) {
            0 => site.played(&["--policy", "auto"], test, &format!("read a {generation} 0 {SIZE}")),
            1 => {
                generation += 1;
                site.played(&["--policy", "auto", "--keep-dirty"], test, &format!("write a {generation} 0 {SIZE}"));
            }
            _ => {}
        }
    }
    println!("{partly} rounds left regions partly on flash");
    let said = site.succeed(&["place", &plan]);
    assert!(said.contains("3 of 3 regions"), "{said}");
    assert_eq!(site.figure("/placement/placed_bytes"), PLACED);
    site.succeed(&["drain"]);
    assert!(on_disk(&site, "a") == bytes(generation, SIZE));
    assert_eq!(site.figure("/placement/placed_bytes"), PLACED);
    let report = reported(&site, &["--policy", "carl"], test, &format!("read a {generation} 0 {SIZE}"));
    assert!(of(&report, "/requests/flash_read_bytes_total") >= PLACED);
    site.succeed(&["unplace"]);
    assert_eq!(site.figure("/placement/files"), 0);
}

#[test]
fn an_agent_killed_under_a_run_is_followed_by_one_that_knows_the_regions_of_names() {
    let test = "interrupted::an_agent_killed_under_a_run_is_followed_by_one_that_knows_the_regions_of_names";
    if let Some(role) = role() {
        let first = managed().join("a");
        fs::remove_file(&first).unwrap();
        fs::write(managed().with_file_name("begun"), b"").unwrap();
        crate::site::wait_for("the agent is another one", || managed().with_file_name("killed").exists());
        assert_eq!(role, "makes its file anew");
        let file = fs::File::create_new(first).unwrap();
        for offset in (0..3 * MIB).step_by(PIECE as usize) {
            file.write_all_at(&content(2, offset, PIECE as usize), offset).unwrap();
        }
        return;
    }
    let site = prepared("4MiB");
    let plan = plan_for_a(&site, &[(MIB, MIB)]);
    let report = site.path("report.json");
    let options = ["--policy", "carl", "--plan", &plan, "--report", report.to_str().unwrap()];
    let mut run = site.play(&options, test, "makes its file anew").spawn().unwrap();
    crate::site::wait_for("the program has begun", || site.path("begun").exists());
    site.kill_agent();
    crate::site::wait_for("another agent knows the name", || {
        let status: Value = serde_json::from_slice(&site.headstart(&["status", "--json"]).stdout).unwrap_or_default();
        status.pointer("/placement/names") == Some(&Value::from(1))
    });
    fs::write(site.path("killed"), b"").unwrap();
    assert!(run.wait().unwrap().success());
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(of(&report, "/requests/absorbed_bytes_total"), MIB, "those of the region");
    assert!(on_disk(&site, "a") == bytes(2, 3 * MIB));
}

#[test]
fn an_agent_killed_under_a_run_by_regions_is_followed_by_one_that_knows_them() {
    let test = "interrupted::an_agent_killed_under_a_run_by_regions_is_followed_by_one_that_knows_them";
    if role().is_some() {
        return play();
    }
    let site = prepared("7MiB");
    let plan = plan_for_a(&site, REGIONS);
    site.succeed(&["place", &plan]);
    let role = "write a 2 0 1048576;say begun;wait killed;write a 2 1048576 4194304;read a 2 0 5242880;read a 1 6291456 1048576";
    let mut run = site.play(&["--policy", "carl"], test, role).spawn().unwrap();
    crate::site::wait_for("the program has begun", || site.path("begun").exists());
    site.kill_agent();
    std::fs::write(site.path("killed"), b"").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!((site.figure("/placement/wanted_bytes"), site.figure("/dirty_bytes")), (PLACED, 0));
    assert!(on_disk(&site, "a")[..5 * MIB as usize] == bytes(2, 5 * MIB));
}
