//! What servers and devices do, one by one; jobs that begin with cold servers; the disk without latency.

use headstart_model::request::Operation;
use headstart_model::server::Actor;
use headstart_sim::scenario::{Scenario, ServerPolicy};
use headstart_sim::{Options, Report, ServerAccess, TierName, run};

const RANDOM_WRITES: &str = include_str!("../../../scenarios/itransformer/random-write.toml");

fn traced(scenario: &Scenario) -> (Report, Vec<ServerAccess>) {
    let mut all = Vec::new();
    let mut add = |done: &ServerAccess| all.push(*done);
    let report = run(scenario, Options { accesses: Some(&mut add), ..Options::default() }).unwrap();
    (report, all)
}

#[test]
fn accesses_are_those_that_the_report_counts_in_order_of_time() {
    let stock = Scenario::from_toml(RANDOM_WRITES).unwrap();
    for scenario in [stock.clone(), Scenario { server_policy: ServerPolicy::ITRANSFORMER, ..stock }] {
        let (report, all) = traced(&scenario);
        assert!(all.is_sorted_by_key(|done| done.access.at));
        let count = |actor: fn(&Actor) -> bool| {
            let commands = all.iter().filter(|done| done.access.operation != Operation::Flush);
            commands.filter(|done| actor(&done.access.actor)).count() as u64
        };
        assert_eq!(count(|actor| *actor == Actor::Device), report.disk[0].commands);
        let flash = report.disk[0].volume.map_or(0, |volume| volume.flash_commands);
        assert_eq!(count(|actor| *actor == Actor::VolumeFlash), flash);
        assert_eq!(count(|actor| matches!(actor, Actor::Server { .. })), report.requests());
        assert!(all.iter().all(|done| (done.tier, done.server) == (TierName::Disk, 0)));
        assert_eq!(run(&scenario, Options::default()).unwrap(), report, "whoever looks on changes nothing");
    }
}

/// Two jobs read the same file in order, one after the other.
const TWICE: &str = "
[clients]
nodes = 1
bytes_per_s = 0
[disk]
servers = 1
profile = 'wd1602'
bytes_per_s = 0
latency_ms = 0
[disk.read_ahead]
window = 4
[[job]]
name = 'first'
files = 'data'
[job.workload]
kind = 'mpi-io-test'
ranks = 2
block = '64KiB'
iterations = 200
operation = 'read'
[[job]]
name = 'second'
after = 'first'
files = 'data'
cold = true
[job.workload]
kind = 'mpi-io-test'
ranks = 2
block = '64KiB'
iterations = 200
operation = 'read'
";

#[test]
fn a_cold_job_finds_nothing_in_memory_and_a_warm_one_all() {
    let cold = Scenario::from_toml(TWICE).unwrap();
    let mut warm = cold.clone();
    warm.jobs[1].cold = false;
    let seconds = |scenario: &Scenario| {
        let report = run(scenario, Options::default()).unwrap();
        [report.jobs[0].seconds, report.jobs[1].seconds]
    };
    let ([first, second], [_, again]) = (seconds(&cold), seconds(&warm));
    assert!((0.9..1.1).contains(&(second / first)), "{second} s after {first} s");
    assert!(again < 0.8 * first, "{again} s after {first} s");
}

#[test]
fn a_disk_without_latency_moves_bytes_at_its_peak_rate_in_any_order() {
    let mut scenario = Scenario::from_toml(RANDOM_WRITES).unwrap();
    scenario.disk.latency_free = true;
    let rate = run(&scenario, Options::default()).unwrap().mb_per_s();
    assert!((69.0..70.1).contains(&rate), "{rate} MB/s");
}
