//! The same scenario gives the same bytes.

use headstart_policy::client::chain::Chain;
use headstart_sim::scenario::Policy;
use headstart_units::KIB;
use headstart_units::request::Direction;

use crate::programs::{Blocks, Order, REGION, costs, run, scenario};

fn report(policy: Policy, seed: u64) -> String {
    let mut scenario = scenario(policy);
    (scenario.seed, scenario.region, scenario.costs) = (seed, REGION, Some(costs()));
    scenario.disk.jitter_ms = 0.1;
    let program = |_: usize, seed: u64| {
        let blocks = Blocks::zipf(16 * KIB, Direction::Read, seed);
        let directions = vec![Direction::Write, Direction::Read];
        Box::new(Blocks { requests: 60, order: Order::Uniform, directions, ..blocks }) as _
    };
    serde_json::to_string(&run(&scenario, &program)).unwrap()
}

#[test]
fn a_scenario_run_twice_gives_identical_bytes_under_every_policy() {
    for policy in Policy::ALL {
        let name = policy.name();
        assert_eq!(report(policy, 1), report(policy, 1), "{name}");
    }
    assert_ne!(report(Policy::Stock, 1), report(Policy::Stock, 2));
    assert_ne!(report(Policy::Overlay(Chain::S4d), 1), report(Policy::Overlay(Chain::S4d), 2));
}
