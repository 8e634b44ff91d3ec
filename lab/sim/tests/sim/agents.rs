//! Several nodes, each with its agent.

use headstart_policy::client::chain::Chain;
use headstart_sim::Report;
use headstart_sim::report::{AgentReport, SaidReport};
use headstart_sim::scenario::{Join, Policy, Scenario};
use headstart_units::chance::splitmix64;
use headstart_units::request::{Direction, Range};
use headstart_units::{KIB, MIB};
use headstart_workload::{Program, Step};

use crate::programs::{REGION, costs, run, scenario};

const RANKS: u32 = 8;
const REQUESTS: u64 = 40;
const BYTES: u64 = 8 * MIB;

/// Each rank writes small pieces of a file at random, then reads what a rank on another node wrote, or what it wrote
/// itself. The file is its own, or that of all.
#[derive(Clone, Copy)]
struct Pieces {
    shares: bool,
    reads_of: u32,
    seed: u64,
}

impl Program for Pieces {
    fn ranks(&self) -> u32 {
        RANKS
    }

    fn file_bytes(&self) -> Vec<u64> {
        vec![BYTES; if self.shares { 1 } else { RANKS as usize }]
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let phases = [(Direction::Write, rank), (Direction::Read, (rank + self.reads_of) % RANKS)];
        Box::new((0..).zip(phases).flat_map(move |(mark, (direction, of))| {
            let mut random = self.seed ^ u64::from(of);
            let file = if self.shares { 0 } else { of };
            let requests = (0..REQUESTS).map(move |_| {
                let piece = splitmix64(&mut random) % (BYTES / (16 * KIB));
                Step::Request { file, direction, range: Range::new(piece * 16 * KIB, 16 * KIB) }
            });
            let begin = [Step::Barrier, Step::Mark(mark), Step::Open { file, writable: direction == Direction::Write }];
            begin.into_iter().chain(requests).chain([Step::Close { file }])
        }))
    }
}

fn site(agents: u32, join: Join) -> Scenario {
    let mut scenario = scenario(Policy::Overlay(Chain::S4d));
    (scenario.region, scenario.costs, scenario.capacity) = (REGION, Some(costs()), "100%".into());
    (scenario.clients.nodes, scenario.cluster.agents, scenario.cluster.join) = (4, agents, join);
    scenario
}

fn pieces(scenario: &Scenario, shares: bool, reads_of: u32) -> Report {
    run(scenario, &|_, seed| Box::new(Pieces { shares, reads_of, seed }) as _)
}

fn agents(report: &Report) -> &[AgentReport] {
    &report.cluster.as_ref().expect("there are several").agents
}

/// The share of a phase that flash served.
fn on_flash(report: &Report, phase: usize) -> f64 {
    report.jobs[0].phases[phase].flash_share
}

#[test]
fn a_scenario_of_several_agents_run_twice_gives_identical_bytes() {
    for agents in [2, 4] {
        for join in [Join::Together, Join::OneByOne] {
            for shares in [false, true] {
                let text = |seed: u64| {
                    let scenario = Scenario { seed, ..site(agents, join) };
                    serde_json::to_string(&pieces(&scenario, shares, 2)).unwrap()
                };
                let first = text(1);
                assert_eq!(first, text(1), "{agents} agents, {join:?}");
                assert_ne!(first, text(2), "{agents} agents, {join:?}");
            }
        }
    }
}

#[test]
fn one_agent_of_a_site_says_nothing_to_anybody() {
    let report = pieces(&site(1, Join::Together), true, 2);
    assert!(report.cluster.is_none() && on_flash(&report, 0) > 0.9, "{report:?}");
}

#[test]
fn a_file_that_one_node_uses_is_on_its_flash_and_one_that_two_use_is_on_the_disks() {
    for join in [Join::Together, Join::OneByOne] {
        let own = pieces(&site(4, join), false, 0);
        assert!(on_flash(&own, 0) > 0.8 && on_flash(&own, 1) > 0.8, "{:?}", own.jobs[0].phases);
        let shared = pieces(&site(4, join), true, 2);
        assert!(on_flash(&shared, 0) < 0.1 && on_flash(&shared, 1) == 0.0, "{:?}", shared.jobs[0].phases);
        assert!(agents(&shared).iter().all(|agent| agent.heard.messages > 0), "{:?}", agents(&shared));
    }
}

#[test]
fn a_file_leaves_flash_for_a_reader_on_another_node() {
    let report = pieces(&site(4, Join::Together), false, 2);
    assert!(on_flash(&report, 0) > 0.8 && on_flash(&report, 1) < 0.1, "{:?}", report.jobs[0].phases);
    let overlay = report.overlay.expect("there is one");
    assert!(overlay.written_back_bytes > 0 && overlay.mapped_bytes == 0, "{overlay:?}");
}

#[test]
fn what_one_agent_says_another_one_hears_and_both_take_their_time() {
    let report = pieces(&site(4, Join::Together), true, 2);
    let sum = |said: &dyn Fn(&AgentReport) -> SaidReport| {
        agents(&report)
            .iter()
            .map(said)
            .fold((0, 0, 0), |sum, said| (sum.0 + said.packets, sum.1 + said.messages, sum.2 + said.bytes))
    };
    let (said, heard) = (sum(&|agent| agent.said), sum(&|agent| agent.heard));
    assert!(said == heard && said.1 >= said.0 && said.0 > 0, "{said:?} and {heard:?}");
    let busy_s: f64 = agents(&report).iter().map(|agent| agent.busy_s).sum();
    let (packets, messages) = (said.0 + heard.0, said.1 + heard.1);
    let expected_s = (packets as f64 * 2.0 + messages as f64 * 0.5) * 1e-6;
    assert!((busy_s - expected_s).abs() < 1e-9, "{busy_s} and {expected_s}");
}

#[test]
fn a_loop_that_is_slow_makes_opens_wait() {
    let mut slow = site(4, Join::Together);
    slow.cluster.message_us = 1_000.0;
    let quick = pieces(&site(4, Join::Together), true, 2);
    let slow = pieces(&slow, true, 2);
    assert!(slow.seconds > quick.seconds + 0.01, "{} and {} s", slow.seconds, quick.seconds);
}
