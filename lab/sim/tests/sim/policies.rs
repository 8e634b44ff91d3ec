//! What policies gain, on small versions of their papers' programs.

use headstart_model::elevator::ElevatorKind;
use headstart_policy::client::chain::Chain;
use headstart_policy::order::Distance;
use headstart_sim::Report;
use headstart_sim::scenario::{Policy, Scenario};
use headstart_units::request::Direction;
use headstart_units::{KIB, MIB};
use headstart_workload::Step;

use crate::programs::{Blocks, Fixed, Order, REGION, costs, run, scenario, write};

const S4D: Policy = Policy::Overlay(Chain::S4d);

fn small(policy: Policy) -> Scenario {
    let mut scenario = scenario(policy);
    (scenario.region, scenario.costs) = (REGION, Some(costs()));
    scenario
}

fn zipf(policy: Policy, transfer: u64, direction: Direction) -> Report {
    run(&small(policy), &|_, seed| Box::new(Blocks::zipf(transfer, direction, seed)))
}

#[test]
fn plans_do_not_know_jobs_that_are_not_traced() {
    let text = |name: &str, after: &str| {
        format!(
            "[[job]]\nname = '{name}'\n{after}\n[job.workload]\nkind = 'ior'\nranks = 2\ntransfer = '16KiB'\nblock = '4MiB'\norder = 'perm_own_block'\n"
        )
    };
    let text =
        format!("policy = 'carl'\ncapacity = '100%'\n{}{}", text("first", ""), text("second", "after = 'first'"));
    for traced in [true, false] {
        let mut scenario = Scenario { region: REGION, costs: Some(costs()), ..Scenario::from_toml(&text).unwrap() };
        scenario.jobs[1].traced = traced;
        let report = headstart_sim::run(&scenario, headstart_sim::Options::default()).unwrap();
        let shares: Vec<f64> = report.jobs.iter().map(|job| job.phases[0].flash_share).collect();
        assert_eq!(shares, [1.0, if traced { 1.0 } else { 0.0 }]);
    }
}

#[test]
fn carl_gains_most_of_small_requests_and_random_little() {
    let mut before = f64::INFINITY;
    for kib in [8, 32, 256] {
        let run = |policy| zipf(policy, kib * KIB, Direction::Read);
        let (stock, carl, random) = (run(Policy::Stock), run(Policy::Carl), run(Policy::Random));
        let gain = |report: &Report| report.mb_per_s() / stock.mb_per_s() - 1.0;
        let (carl_gain, random_gain) = (gain(&carl), gain(&random));
        println!("{kib} KiB: stock {:.1} MB/s, carl {carl_gain:+.2}, random {random_gain:+.2}", stock.mb_per_s());
        assert!(carl_gain > random_gain + 0.2 && carl_gain < before, "{kib} KiB: {carl_gain} and {random_gain}");
        assert!(random_gain > 0.0, "{random_gain}");
        before = carl_gain;
        assert!(carl.jobs[0].phases[0].flash_share > 0.6, "{:?}", carl.jobs[0].phases);
    }
}

#[test]
fn s4d_absorbs_small_random_writes_and_leaves_large_ones() {
    let blocks = |transfer, order| {
        move |_: usize, seed: u64| {
            let directions = vec![Direction::Write];
            let requests = 64 * 64 * KIB / transfer * 4;
            Box::new(Blocks { ranks: 16, block: 64 * MIB, transfer, requests, order, directions, seed }) as _
        }
    };
    let random = blocks(16 * KIB, Order::Uniform);
    let stock = run(&small(Policy::Stock), &random);
    let s4d = run(&small(S4D), &random);
    let gain = s4d.mb_per_s() / stock.mb_per_s();
    println!(
        "16 KiB random writes: {:.1} to {:.1} MB/s, drained after {:.2} s",
        stock.mb_per_s(),
        s4d.mb_per_s(),
        s4d.drained_s
    );
    assert!(gain > 1.3, "{gain}");
    assert!(s4d.jobs[0].phases[0].flash_share > 0.8, "{:?}", s4d.jobs[0].phases);
    let overlay = s4d.overlay.unwrap();
    assert!(overlay.dirty_bytes == 0 && overlay.written_back_bytes > 0, "{overlay:?}");
    let large = run(&small(S4D), &blocks(4 * MIB, Order::Sequential));
    assert_eq!(large.jobs[0].phases[0].flash_share, 0.0);
}

#[test]
fn short_pieces_with_gaps_are_on_the_disks_in_half_the_time_where_write_back_leaps() {
    const PIECE: u64 = 8 * KIB;
    let program = |_: usize, _: u64| {
        let steps = |rank: u64| {
            let pieces = (0..300).map(|k| write((k * 16 + rank) * 3 * PIECE / 2, PIECE));
            [Step::Open { file: 0, writable: true }].into_iter().chain(pieces).collect()
        };
        Box::new(Fixed { files: vec![300 * 16 * 3 * PIECE / 2], ranks: (0..16).map(steps).collect() }) as _
    };
    let drained_s = |leap_bytes| {
        let mut scenario = small(S4D);
        let mut costs = costs();
        costs.s4d.write.write_back_leap_bytes = leap_bytes;
        (scenario.costs, scenario.capacity) = (Some(costs), "100%".into());
        // A disk chooses from four commands.
        scenario.disk.elevator = ElevatorKind::Cfq;
        let report = run(&scenario, &program);
        assert!(report.overlay.unwrap().written_back_bytes > 250 * 16 * PIECE, "{report:?}");
        report.drained_s
    };
    let (in_order_s, with_leaps_s) = (drained_s(0), drained_s(64 << 10));
    println!("in order {in_order_s:.2} s, with leaps {with_leaps_s:.2} s");
    assert!(with_leaps_s < in_order_s / 2.0, "{with_leaps_s} and {in_order_s} s");
}

#[test]
fn interleaved_writes_stay_on_the_disks_where_these_join_them() {
    const PIECE: u64 = 8 * KIB;
    let program = |stride: u64| {
        move |_: usize, _: u64| {
            let steps = |rank: u64| {
                let pieces = (0..600).map(|k| write((k * 16 + rank) * stride, PIECE));
                [Step::Open { file: 0, writable: true }].into_iter().chain(pieces).collect()
            };
            Box::new(Fixed { files: vec![600 * 16 * stride], ranks: (0..16).map(steps).collect() }) as _
        }
    };
    let flash_share = |interleaved_stays, stride| {
        let (mut scenario, mut costs) = (small(S4D), costs());
        costs.s4d.write.interleaved_stays = interleaved_stays;
        (scenario.costs, scenario.capacity) = (Some(costs), "100%".into());
        run(&scenario, &program(stride)).jobs[0].phases[0].flash_share
    };
    assert!(flash_share(false, PIECE) > 0.99 && flash_share(true, PIECE + KIB) > 0.99);
    let share = flash_share(true, PIECE);
    assert!(share > 0.0 && share < 0.05, "{share}: until it is known that they join");
}

#[test]
fn copies_of_the_agent_take_a_node_its_processors() {
    let program = |_: usize, seed: u64| {
        let blocks = Blocks::zipf(16 * KIB, Direction::Write, seed);
        Box::new(Blocks { requests: 60, ..blocks }) as _
    };
    let mut scenario = small(S4D);
    (scenario.clients.nodes, scenario.clients.processors, scenario.clients.copy_cpu_ms) = (1, 2, 20.0);
    let report = run(&scenario, &program);
    let write_backs = report.overlay.unwrap().write_backs;
    let work_s = write_backs as f64 * 0.02 / 2.0;
    assert!(write_backs > 100 && report.drained_s >= work_s, "{write_backs} in {} s", report.drained_s);
    scenario.clients.copy_cpu_ms = 0.0;
    let bare = run(&scenario, &program);
    assert!(bare.drained_s < work_s / 2.0, "{} s", bare.drained_s);
}

#[test]
fn s4d_serves_the_second_reading_from_flash() {
    let program = |_: usize, seed: u64| {
        let directions = vec![Direction::Read; 2];
        let order = Order::Zipf(1.0);
        Box::new(Blocks { ranks: 8, block: 8 * MIB, transfer: 16 * KIB, requests: 300, order, directions, seed }) as _
    };
    let report = run(&Scenario { capacity: "64MiB".into(), ..small(S4D) }, &program);
    let [first, second] = &report.jobs[0].phases[..] else { panic!("two phases") };
    println!("{:.1} then {:.1} MB/s, {:.2} on flash", first.mb_per_s, second.mb_per_s, second.flash_share);
    assert!(second.flash_share > first.flash_share, "{} and {}", first.flash_share, second.flash_share);
}

#[test]
fn regions_that_an_agent_placed_serve_what_the_plan_promised() {
    let report = zipf(Policy::Overlay(Chain::CarlS4d), 16 * KIB, Direction::Read);
    assert!(report.placing_s > 0.1, "placing took {} s", report.placing_s);
    assert!(report.jobs[0].phases[0].flash_share > 0.6, "{:?}", report.jobs[0].phases);
}

#[test]
fn regions_follow_a_program_that_was_never_traced() {
    let program = |_: usize, seed: u64| {
        let blocks = Blocks::zipf(16 * KIB, Direction::Read, seed);
        Box::new(Blocks { requests: 3000, ..blocks }) as _
    };
    let report = run(&small(Policy::Overlay(Chain::Auto)), &program);
    assert!(report.jobs[0].phases[0].flash_share > 0.3, "{:?}", report.jobs[0].phases);
}

#[test]
fn tiers_are_measured_where_nobody_gives_their_costs() {
    let scenario = Scenario { costs: None, ..small(S4D) };
    let program = |_: usize, seed: u64| {
        let blocks = Blocks::zipf(16 * KIB, Direction::Write, seed);
        Box::new(Blocks { requests: 20, ..blocks }) as _
    };
    let costs = run(&scenario, &program).costs.unwrap();
    println!("{costs:?}");
    let carl = costs.carl.as_ref().unwrap();
    assert!((0.0005..0.004).contains(&carl.read.hdd_startup_s_min), "{carl:?}");
    assert!((0.006..0.015).contains(&carl.read.hdd_startup_s_max), "{carl:?}");
    let request = |length| headstart_policy::client::Request {
        direction: Direction::Write,
        range: headstart_units::request::Range::new(0, length),
        distance: Distance::far(1 << 30),
    };
    assert!(costs.s4d.write.benefit_s(&request(16 * KIB)) > 0.0, "small random writes are critical");
    assert!(costs.s4d.write.benefit_s(&request(16 * MIB)) < 0.0, "large ones are not");
}
