//! Eight processes on shared files against an array of bytes a file, with a cache so small that everything is
//! absorbed, written back, fetched, evicted and refused all the time; then the same while ranks and agents
//! are killed; then both under policies that go by regions, while other regions are placed and given back.
//! Prints its seed and takes `SEED=`; `CASES=` multiplies the operations.
//!
//! Not checked here: power loss (the crash tests of `core` and `agent`), mappings and streams, order between
//! operations of different files.

#[path = "support/site.rs"]
mod site;

#[path = "support/file_system.rs"]
mod file_system;

#[path = "reference_model/model.rs"]
mod model;
#[path = "reference_model/operation.rs"]
mod operation;
#[path = "reference_model/regions.rs"]
mod regions;
#[path = "reference_model/stage.rs"]
mod stage;
#[path = "reference_model/worker.rs"]
mod worker;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use file_system::{Inside, enter, inside};
use regions::Plans;
use site::{TestSite, role};
use stage::{Script, Stage, TALLY};

const QUIET: &str = "eight_processes_on_shared_files_see_what_an_array_of_bytes_would_hold";
const REGIONS: &str = "eight_processes_see_an_array_of_bytes_whatever_regions_of_it_are_on_flash";
const REGIONS_KILLED: &str =
    "nothing_acknowledged_is_lost_whatever_regions_are_on_flash_when_ranks_and_agents_are_killed";
const GLUSTERFS: &str = "eight_processes_on_glusterfs_see_what_they_wrote";
const KILLED: &str = "nothing_acknowledged_is_lost_when_ranks_and_agents_are_killed";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    number("SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000)
}

/// Plays `worker`, or the stage of `SEED OPERATIONS KILLS AGENTS_DIE`; true if there was a role to play.
fn played(test: &'static str) -> bool {
    match role().as_deref() {
        None => return false,
        Some("worker") => worker::work(),
        Some(script) => {
            let numbers: Vec<u64> = script.split(' ').map(|word| word.parse().unwrap()).collect();
            Stage::play(
                Script { seed: numbers[0], operations: numbers[1], kills: numbers[2], agents_die: numbers[3] != 0 },
                test,
            );
        }
    }
    true
}

fn run(test: &'static str, site: TestSite, operations: u64, kills: u64, agents_die: bool) {
    run_under(test, site, Case { policy: "s4d", regions: Regions::None, operations, kills, agents_die });
}

/// Which regions there are.
#[derive(Clone, Copy, PartialEq)]
enum Regions {
    None,
    /// Those of plans that come and go.
    Planned,
    /// Those that the agent chooses while the program runs (D-CARL).
    Followed,
}

/// What a run is under, and what it does.
struct Case<'a> {
    policy: &'a str,
    regions: Regions,
    operations: u64,
    kills: u64,
    agents_die: bool,
}

fn run_under(test: &'static str, site: TestSite, case: Case<'_>) {
    let Case { policy, regions, operations, kills, agents_die } = case;
    let seed = seed();
    let operations = operations * number("CASES").unwrap_or(1);
    println!("SEED={seed} ({operations} operations, {kills} kills, {policy})");
    let report = site.path("report.json");
    let role = format!("{seed} {operations} {kills} {}", u8::from(agents_die));
    let plans = Plans::draw(&site, seed);
    let mut options = vec!["--report", report.to_str().unwrap(), "--policy", policy];
    if regions == Regions::Planned {
        options.extend(["--plan", &plans.paths[0]]);
    }
    let ended = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let output = site.play(&options, test, &role).output().unwrap();
            ended.store(true, Ordering::SeqCst);
            output
        });
        match regions {
            Regions::None => {}
            Regions::Planned => plans.come_and_go(&site, &ended),
            // An agent that is killed has to see the program anew.
            Regions::Followed => {
                assert!(have_come(&site, &ended) || agents_die, "SEED={seed}: no region has come to flash")
            }
        }
        run.join().unwrap()
    });
    assert!(output.status.success(), "SEED={seed}\n{}", site.say(&output));
    check_tally(&output, operations, kills, agents_die);
    assert_eq!(site.figure("/dirty_bytes"), 0);
    for entry in fs::read_dir(site.slow.parent().unwrap()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some(number) = name.strip_prefix("expected-") {
            let found = fs::read(site.slow.join(format!("file-{number}"))).unwrap();
            assert!(found == fs::read(entry.path()).unwrap(), "SEED={seed}: file-{number} differs on disk");
        }
    }
    let said: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    // After a kill the last agent may have come when almost all was done.
    let share = if regions == Regions::None { 100 } else { 1000 };
    let least = if kills == 0 { operations / share } else { 1 };
    let of = if regions == Regions::None { &said["agent_after"] } else { &said["requests"] };
    let absorbed = of["absorbed_requests_total"].as_u64();
    assert!(absorbed >= Some(least), "flash took no part: {said}");
}

/// Whether as much was done, and as many were killed, as was wanted; a tenth of them agents, and no other agent died.
fn check_tally(output: &Output, operations: u64, kills: u64, agents_die: bool) {
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (_, tally) = printed.split_once(TALLY).expect("the stage says what was done");
    let tally = tally.lines().next().unwrap();
    println!("{TALLY}{tally}");
    let numbers: Vec<u64> = tally.split(' ').map(|word| word.parse().unwrap()).collect();
    let [done, killed, agents_killed] = numbers[..] else { panic!("three numbers: {tally}") };
    assert!(done >= operations, "{done} operations were answered");
    assert_eq!(killed, kills, "kills");
    assert!(agents_killed >= if agents_die { kills / 10 } else { 0 }, "{agents_killed} agents were killed");
    // `run` does not speak of one that had hardly begun, or of the last one if the program ends at once.
    let followed = said.matches("starting another one").count() as u64;
    assert!(followed <= agents_killed && (followed > 0) == agents_die, "{followed} of {agents_killed}: {said}");
}

/// Whether any bytes of regions were on flash before the run had ended.
fn have_come(site: &TestSite, ended: &AtomicBool) -> bool {
    let mut have_come = false;
    while !ended.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        // There may be no agent just now.
        let said = site.headstart(&["status", "--json"]).stdout;
        let status = serde_json::from_slice::<serde_json::Value>(&said).unwrap_or_default();
        have_come |= status["placement"]["placed_bytes"].as_u64() > Some(0);
    }
    have_come
}

#[test]
fn eight_processes_on_shared_files_see_what_an_array_of_bytes_would_hold() {
    if !played(QUIET) {
        run(QUIET, TestSite::with_capacity("96KiB"), 120_000, 0, false);
        run(QUIET, TestSite::with_capacity("512KiB"), 80_000, 0, false);
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_ranks_and_agents_are_killed() {
    if !played(KILLED) {
        run(KILLED, TestSite::with_capacity("256KiB"), 200_000, 200, true);
    }
}

#[test]
fn eight_processes_see_an_array_of_bytes_whatever_regions_of_it_are_on_flash() {
    if !played(REGIONS) {
        for (policy, capacity) in [("carl", "256KiB"), ("carl,s4d", "512KiB"), ("auto", "2MiB")] {
            run_under(
                REGIONS,
                TestSite::with_capacity(capacity),
                Case { policy, regions: Regions::Planned, operations: 30_000, kills: 0, agents_die: false },
            );
        }
        run_under(
            REGIONS,
            TestSite::with_capacity("2MiB"),
            Case { policy: "auto", regions: Regions::Followed, operations: 30_000, kills: 0, agents_die: false },
        );
    }
}

#[test]
fn nothing_acknowledged_is_lost_whatever_regions_are_on_flash_when_ranks_and_agents_are_killed() {
    if !played(REGIONS_KILLED) {
        for (policy, capacity) in [("carl", "512KiB"), ("carl,s4d", "256KiB"), ("auto", "2MiB")] {
            run_under(
                REGIONS_KILLED,
                TestSite::with_capacity(capacity),
                Case { policy, regions: Regions::Planned, operations: 12_000, kills: 30, agents_die: true },
            );
        }
        run_under(
            REGIONS_KILLED,
            TestSite::with_capacity("2MiB"),
            Case { policy: "auto", regions: Regions::Followed, operations: 12_000, kills: 30, agents_die: true },
        );
    }
}

#[test]
fn eight_processes_on_glusterfs_see_what_they_wrote() {
    match inside() {
        Inside::Here(slow, fast) => {
            let site = |name: &str| TestSite::on(made(&slow, name), made(&fast, name), "256KiB");
            run(GLUSTERFS, site("quiet"), 4_000, 0, false);
            // It opens no file a second time that has no name: the next agent could not always reach what
            // ranks have open.
            run(GLUSTERFS, site("killed"), 2_000, 10, false);
        }
        Inside::Elsewhere => drop(played(GLUSTERFS)),
        Inside::Not => enter("glusterfs.sh", GLUSTERFS),
    }
}

fn made(parent: &Path, name: &str) -> PathBuf {
    let path = parent.join(name).join("managed");
    fs::create_dir_all(&path).unwrap();
    path
}
