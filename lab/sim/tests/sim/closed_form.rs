//! Isolated requests against sums worked by hand.

use headstart_sim::Report;
use headstart_sim::scenario::{Policy, Scenario};
use headstart_units::KIB;
use headstart_units::request::{Direction, Range};
use headstart_workload::Step;

use crate::programs::{Fixed, read, run, scenario, think, write};

/// Seconds of 64 KiB on the wire of gigabit Ethernet.
const WIRE_S: f64 = 65536.0 / 117e6;
/// Seconds of a message without payload.
const HEADER_S: f64 = 128.0 / 117e6;
const LATENCY_S: f64 = 1e-4;

fn flash_as_disks() -> Scenario {
    let mut scenario = scenario(Policy::Stock);
    scenario.disk = headstart_sim::scenario::TierConfig { servers: 4, ..headstart_sim::scenario::TierConfig::flash() };
    scenario
}

fn program(ranks: Vec<Vec<Step>>) -> Fixed {
    Fixed { files: vec![1 << 24], ranks }
}

fn single(scenario: &Scenario, steps: Vec<Step>) -> Report {
    run(scenario, &|_, _| Box::new(program(vec![steps.clone()])))
}

#[track_caller]
fn assert_seconds(report: &Report, expected: f64) {
    assert!((report.seconds - expected).abs() < 1e-7, "{} s instead of {expected}", report.seconds);
}

#[test]
fn a_read_takes_both_cards_the_latency_and_the_device() {
    // Request: node's card, server's card, latency; device: 0.5 ms and 220 MB/s; reply: server's card,
    // latency, node's card.
    let expected = 2.0 * HEADER_S + LATENCY_S + 0.0005 + 65536.0 / 220e6 + WIRE_S + LATENCY_S + WIRE_S;
    assert_seconds(&single(&flash_as_disks(), vec![read(0, 64 * KIB)]), expected);
}

#[test]
fn a_write_carries_its_bytes_on_the_way_there() {
    let expected = 2.0 * WIRE_S + LATENCY_S + 0.00025 + 65536.0 / 190e6 + 2.0 * HEADER_S + LATENCY_S;
    assert_seconds(&single(&flash_as_disks(), vec![write(0, 64 * KIB)]), expected);
}

#[test]
fn parts_of_a_request_share_the_nodes_card_alone() {
    // Four stripes on four servers: the replies come in one after another at the node.
    let one = 2.0 * HEADER_S + LATENCY_S + 0.0005 + 65536.0 / 220e6 + WIRE_S + LATENCY_S + WIRE_S;
    let report = single(&flash_as_disks(), vec![read(0, 256 * KIB)]);
    assert_seconds(&report, one + 3.0 * WIRE_S);
}

#[test]
fn software_on_the_node_and_think_time_come_on_top() {
    let mut scenario = flash_as_disks();
    let bare = single(&scenario, vec![read(0, 4096)]).seconds;
    scenario.clients.request_ms = 2.0;
    assert_seconds(&single(&scenario, vec![read(0, 4096), think(0.5), read(0, 4096)]), 2.0 * bare + 0.004 + 0.5);
}

#[test]
fn a_barrier_takes_its_rounds_after_the_last_rank_has_come() {
    let ranks = (0..14).map(|rank| vec![think(f64::from(rank)), Step::Barrier, read(0, 0)]).collect();
    let program = program(ranks);
    let mut scenario = flash_as_disks();
    scenario.drain = false;
    let report = run(&scenario, &|_, _| Box::new(program.clone()));
    assert_seconds(&report, 13.0 + 4.0 * 75e-6);
}

#[test]
fn ranks_of_one_node_share_its_card() {
    let two = program(vec![vec![read(0, 64 * KIB)], vec![read(64 * KIB, 64 * KIB)]]);
    let mut scenario = flash_as_disks();
    let apart = run(&scenario, &|_, _| Box::new(two.clone()));
    scenario.clients.nodes = 1;
    let together = run(&scenario, &|_, _| Box::new(two.clone()));
    assert!((together.seconds - apart.seconds - WIRE_S).abs() < 1e-7, "{} and {}", together.seconds, apart.seconds);
}

#[test]
fn ranks_of_one_node_share_its_processors() {
    let three = program((0..3).map(|rank| vec![read(rank * 64 * KIB, 4096)]).collect());
    let mut scenario = flash_as_disks();
    (scenario.clients.nodes, scenario.clients.bytes_per_s) = (1, 0.0);
    let bare = run(&scenario, &|_, _| Box::new(three.clone())).seconds;
    (scenario.clients.processors, scenario.clients.request_cpu_ms) = (2, 3.0);
    // Two at once, then the third.
    assert_seconds(&run(&scenario, &|_, _| Box::new(three.clone())), bare + 0.006);
}

#[test]
fn a_list_is_cut_into_messages_of_64_pairs_that_follow_each_other() {
    let list = |count: u64| {
        let ranges = (0..count).map(|k| Range::new(k * 1024, 512)).collect();
        vec![Step::List { file: 0, direction: Direction::Read, ranges }]
    };
    let mut scenario = flash_as_disks();
    scenario.disk.servers = 1;
    let [one, two] = [64, 65].map(|count| single(&scenario, list(count)).seconds);
    // Another message waits for the first one's replies, and pays latency and device anew.
    let again = 2.0 * HEADER_S + 2.0 * LATENCY_S + 0.0005 + 512.0 / 220e6 + 2.0 * 512.0 / 117e6;
    assert!((two - one - again).abs() < 2e-6, "{one} and {two}: {} instead of {again}", two - one);
}
