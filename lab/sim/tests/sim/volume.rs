//! iTransformer beneath a data server, against the same disk alone.

use headstart_sim::scenario::{Scenario, ServerPolicy, Size};
use headstart_sim::{Options, Report, run};
use headstart_units::MIB;

/// The benchmarks of the suite: 48 ranks on one data server.
const SUITE: [&str; 8] = [
    include_str!("../../../scenarios/itransformer/ior-write.toml"),
    include_str!("../../../scenarios/itransformer/ior-read.toml"),
    include_str!("../../../scenarios/itransformer/test-write.toml"),
    include_str!("../../../scenarios/itransformer/test-read.toml"),
    include_str!("../../../scenarios/itransformer/tile-write.toml"),
    include_str!("../../../scenarios/itransformer/tile-read.toml"),
    include_str!("../../../scenarios/itransformer/iozone-reverse-read.toml"),
    include_str!("../../../scenarios/itransformer/random-mix.toml"),
];

fn name(text: &str) -> String {
    Scenario::from_toml(text).unwrap().name
}

fn report(text: &str, server_policy: ServerPolicy) -> Report {
    let scenario = Scenario { server_policy, ..Scenario::from_toml(text).unwrap() };
    run(&scenario, Options::default()).unwrap()
}

#[test]
fn the_suite_gains_a_third_on_average_and_loses_nowhere() {
    let mut ratios = Vec::new();
    for text in SUITE {
        let [stock, with] = [ServerPolicy::Stock, ServerPolicy::ITRANSFORMER].map(|policy| report(text, policy));
        let volume = with.disk[0].volume.unwrap();
        let (held, longest) = (volume.held_ms_p99, volume.held_ms_max);
        let ratio = with.drained_mb_per_s() / stock.drained_mb_per_s();
        println!("{:20} {ratio:.3}, held for {held:.1} ms (p99), {longest:.1} ms (longest)", stock.name);
        assert!(held <= 50.0, "{}: p99 of what was added is {held} ms", stock.name);
        ratios.push(ratio);
    }
    let mean = ratios.iter().product::<f64>().powf(1.0 / ratios.len() as f64);
    let (least, best) = (ratios.iter().fold(f64::MAX, |a, b| a.min(*b)), ratios.iter().fold(0.0f64, |a, b| a.max(*b)));
    println!("geometric mean {mean:.3}, best {best:.3}, least {least:.3}");
    assert!(mean > 1.35 && best > 3.0 && least >= 0.98, "{ratios:?}");
}

#[test]
fn auto_is_as_good_as_the_best_single_setting_within_a_twentieth() {
    let mut least = f64::MAX;
    for text in SUITE {
        let rate = |name: &str| report(text, name.parse().unwrap()).drained_mb_per_s();
        let settings = ["stock", "none", "itransformer", "liu", "liu,itransformer"].map(rate);
        let (auto, best) = (rate("auto"), settings.into_iter().fold(0.0, f64::max));
        let ratio = auto / best;
        println!("{:20} {settings:.1?}, auto {auto:.1} MB/s: {ratio:.3}", name(text));
        least = least.min(ratio);
    }
    assert!(least >= 0.95, "{least}");
}

/// Each rank writes every 48th block: ranks that flash lets run ahead of others would leave gaps.
#[test]
fn strided_writes_that_the_disk_takes_in_order_are_no_slower_by_way_of_flash() {
    let strided = include_str!("../../../scenarios/itransformer/strided-write.toml");
    let [stock, with] = [ServerPolicy::Stock, ServerPolicy::ITRANSFORMER].map(|policy| report(strided, policy));
    let ratio = with.drained_mb_per_s() / stock.drained_mb_per_s();
    println!("{ratio:.3}");
    assert!(ratio >= 0.98, "{ratio}");
}

#[test]
fn a_volume_makes_no_run_differ_from_the_one_before() {
    let json = || serde_json::to_string(&report(SUITE[7], ServerPolicy::ITRANSFORMER)).unwrap();
    assert_eq!(json(), json());
}

/// All of them are on the disk when the time ends that counts.
#[test]
fn writes_that_liu_answers_early_reach_the_disk_in_longer_runs_and_reads_beside_them_are_right() {
    for (text, gain_min) in [(SUITE[0], 1.05), (SUITE[7], 0.98)] {
        let held = |bytes| {
            let mut scenario = Scenario::from_toml(text).unwrap();
            (scenario.server_policy, scenario.volume.hold) = ("liu".parse().unwrap(), Size(bytes));
            run(&scenario, Options { check: true, ..Options::default() }).unwrap_or_else(|error| panic!("{error}"))
        };
        let [none, some] = [0, 64 * MIB].map(held);
        let volumes = [&none, &some].map(|report| report.disk[0].volume.unwrap());
        assert_eq!((volumes[0].early_bytes_total, volumes[1].held_bytes), (0, 0));
        assert!(volumes[1].early_bytes_total > 64 * MIB);
        let gain = some.drained_mb_per_s() / none.drained_mb_per_s();
        println!("{:20} {gain:.3}, {} MiB were answered early", none.name, volumes[1].early_bytes_total / MIB);
        assert!(gain >= gain_min, "{gain}");
    }
}

#[test]
fn writes_are_answered_early_by_liu_alone() {
    let holds = |policy: &str| format!("server_policy = '{policy}'\n[volume]\nhold = '1MiB'\n{WRITERS}");
    for (policy, is_refused) in [("liu", false), ("auto", true), ("liu,itransformer", true), ("itransformer", true)] {
        let refused = Scenario::from_toml(&holds(policy)).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), is_refused, "{refused:?}");
        assert!(refused.is_none_or(|error| error.contains("[volume] hold") && error.contains(policy)));
    }
}

const WRITERS: &str = "
[[job]]
name = 'writers'
[job.workload]
kind = 'ior'
ranks = 1
transfer = '4KiB'
block = '1MiB'
operation = 'write'
";
