//! iTransformer beneath a data server, against the same disk alone.

use headstart_sim::scenario::{Scenario, ServerPolicy};
use headstart_sim::{Options, Report, run};

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
