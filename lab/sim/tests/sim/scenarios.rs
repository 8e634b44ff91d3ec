//! The scenario files that come with the project.

use std::path::Path;

use headstart_policy::client::chain::Chain;
use headstart_sim::scenario::{Policy, Scenario};
use headstart_sim::{Options, Report, run};

fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Scenario::from_toml(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn checked(scenario: &Scenario) -> Report {
    run(scenario, Options { check: true, ..Options::default() }).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_file_is_a_scenario_that_comes_back_from_its_text() {
    for name in [
        "ior.toml",
        "carl-zipf.toml",
        "s4d-mix.toml",
        "easy-read.toml",
        "cluster/hard.toml",
        "cluster/easy.toml",
        "cluster/own-files.toml",
    ] {
        let scenario = scenario(name);
        assert_eq!(Scenario::from_toml(&scenario.to_toml()).unwrap(), scenario, "{name}");
    }
}

#[test]
fn the_stock_scenario_reads_every_block_once_and_no_flash() {
    let report = checked(&scenario("ior.toml"));
    let reads: u64 = report.jobs[0].phases.iter().map(|phase| phase.reads).sum();
    assert_eq!((reads, report.flash.len()), (32 * 3 * 64, 0));
    assert!(report.disk.iter().all(|server| server.busy > 0.5), "{:?}", report.disk);
}

#[test]
fn the_carl_scenario_gains_over_stock() {
    let carl = scenario("carl-zipf.toml");
    let stock = checked(&Scenario { policy: Policy::Stock, ..carl.clone() });
    let gain = checked(&carl).mb_per_s() / stock.mb_per_s();
    println!("{gain}");
    assert!(gain > 1.5, "{gain}");
}

#[test]
fn the_s4d_scenario_gains_over_stock_by_its_random_instances() {
    let s4d = scenario("s4d-mix.toml");
    let stock = checked(&Scenario { policy: Policy::Stock, ..s4d.clone() });
    let report = checked(&s4d);
    println!("{} after {} MB/s, {:?}", report.mb_per_s(), stock.mb_per_s(), report.overlay);
    assert!(report.mb_per_s() > 1.1 * stock.mb_per_s(), "{} after {}", report.mb_per_s(), stock.mb_per_s());
}

#[test]
fn a_first_run_of_streams_is_as_fast_as_without_flash_and_nothing_is_fetched_beside_them() {
    let easy = scenario("easy-read.toml");
    let runs = |policy: Policy| -> (f64, u64) {
        let reports = (1..=8).map(|seed| checked(&Scenario { policy, seed, ..easy.clone() }));
        reports.fold((0.0, 0), |(seconds, fetched), report| {
            (seconds + report.seconds, fetched + report.overlay.map_or(0, |overlay| overlay.fetched_bytes))
        })
    };
    let (stock_s, _) = runs(Policy::Stock);
    for chain in [Chain::S4d, Chain::Auto] {
        let (seconds, fetched_bytes) = runs(Policy::Overlay(chain));
        println!("{chain:?}: {seconds:.3} s after {stock_s:.3} s");
        assert!(seconds < stock_s / 0.97, "{chain:?}: {seconds} s after {stock_s} s");
        assert_eq!(fetched_bytes, 0, "{chain:?}");
    }
}
