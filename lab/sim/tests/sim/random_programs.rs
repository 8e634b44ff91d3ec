//! Programs at random, under every policy, with all checks.

use headstart_policy::client::chain::Chain;
use headstart_sim::scenario::{Job, Join, Policy, Scenario, Size};
use headstart_units::chance::splitmix64;
use headstart_units::request::{Direction, Range};
use headstart_units::{KIB, MIB};
use headstart_workload::{Program, Step};

use crate::programs::{Fixed, costs, run, scenario, think};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        splitmix64(&mut self.0) % bound
    }
}

/// Ranks that read, write, sync, close and wait at a few places of two small files.
fn program(seed: u64) -> Fixed {
    let mut random = Random(seed);
    let ranks = 1 + random.below(5);
    let steps = 5 + random.below(40);
    let barriers = random.below(3) as usize;
    let rank = |random: &mut Random| {
        let mut all: Vec<Step> = (0..steps).map(|_| step(random)).collect();
        all.extend(vec![Step::Barrier; barriers]);
        all
    };
    let ranks = (0..ranks).map(|_| rank(&mut random)).collect();
    Fixed { files: vec![3 * MIB + 77, 5 * MIB], ranks }
}

fn range(random: &mut Random) -> Range {
    let offset = match random.below(3) {
        0 => random.below(3 * MIB - 300_000),
        1 => random.below(20) * 4096,
        _ => MIB - 8192 + random.below(9000),
    };
    let length = match random.below(4) {
        0 => 1 + random.below(5000),
        1 => 4096,
        2 => 64 * KIB,
        _ => random.below(300_000),
    };
    Range::new(offset, length)
}

fn step(random: &mut Random) -> Step {
    let file = random.below(2) as u32;
    let direction = if random.below(2) == 0 { Direction::Read } else { Direction::Write };
    match random.below(20) {
        0 => Step::Sync { file },
        1 => Step::Close { file },
        2 => Step::Open { file, writable: random.below(2) == 0 },
        3 => think(random.below(100) as f64 * 1e-3),
        4 => Step::Mark(random.below(3) as u32),
        5 => {
            let base = random.below(MIB);
            let ranges = (0..1 + random.below(100)).map(|k| Range::new(base + k * 9000, 1 + random.below(9000)));
            Step::List { file, direction, ranges: ranges.collect() }
        }
        _ => Step::Request { file, direction, range: range(random) },
    }
}

fn scenario_of(random: &mut Random, policy: Policy) -> Scenario {
    let mut scenario = scenario(policy);
    scenario.seed = random.below(1 << 60);
    scenario.costs = Some(costs());
    scenario.region = Size(256 * KIB);
    scenario.capacity = ["5%", "40%", "200KiB", "1GiB"][random.below(4) as usize].into();
    scenario.disk.servers = 1 + random.below(5) as u32;
    scenario.disk.cache = Size([0, MIB][random.below(2) as usize]);
    scenario.disk.drive_write_cache = random.below(2) == 0;
    scenario.clients.nodes = 1 + random.below(3) as u32;
    scenario.clients.list_io = random.below(2) == 0;
    scenario.clients.request_ms = [0.0, 0.3][random.below(2) as usize];
    scenario.clients.agent_round_trip_ms = [0.0, 0.1, 3.0][random.below(3) as usize];
    scenario.agent.dirty_high = Some([0.0, 0.3][random.below(2) as usize]);
    scenario.agent.dirty_low = Some(0.0);
    scenario.agent.copies_max = Some([1, 3, 256][random.below(3) as usize]);
    let jobs = [Job { name: "job".into(), prepared: random.below(2) == 0, ..Job::default() }];
    scenario.jobs = jobs.into();
    if random.below(2) == 0 {
        let files = Some("shared".to_string());
        scenario.jobs[0].files = files.clone();
        scenario.jobs.push(Job { name: "noise".into(), interfering: true, files, start_s: 0.02, ..Job::default() });
    }
    scenario
}

#[test]
fn every_byte_is_right_and_nothing_is_lost_whatever_programs_do() {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..=60, |seed| seed..=seed);
    for seed in seeds {
        println!("SEED={seed}");
        for policy in Policy::ALL {
            println!("  {}", policy.name());
            let scenario = scenario_of(&mut Random(seed), policy);
            run(&scenario, &|job, _| Box::new(program(seed * 2 + job as u64)) as Box<dyn Program>);
        }
    }
}

#[test]
fn every_byte_is_right_whatever_programs_do_on_nodes_with_an_agent_each() {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or(1..=60, |seed| seed..=seed);
    for seed in seeds {
        println!("SEED={seed}");
        for chain in [Chain::S4d, Chain::Auto] {
            let mut random = Random(seed);
            let mut scenario = scenario_of(&mut random, Policy::Overlay(chain));
            scenario.clients.nodes = 2 + random.below(4) as u32;
            scenario.cluster.agents = 2 + random.below(u64::from(scenario.clients.nodes) - 1) as u32;
            scenario.cluster.join = [Join::Together, Join::OneByOne][random.below(2) as usize];
            scenario.cluster.latency_ms = [0.0, 0.1, 5.0][random.below(3) as usize];
            scenario.cluster.message_us = [0.0, 0.5, 500.0][random.below(3) as usize];
            run(&scenario, &|job, _| Box::new(program(seed * 2 + job as u64)) as Box<dyn Program>);
        }
    }
}
