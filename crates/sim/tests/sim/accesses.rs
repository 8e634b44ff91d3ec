//! What servers and devices do, one by one.

use headstart_model::server::{Actor, Operation};
use headstart_sim::scenario::{Scenario, ServerPolicy};
use headstart_sim::{Options, Report, ServerAccess, TierName, run};

const RANDOM_WRITES: &str = include_str!("../../../../scenarios/itransformer/random-write.toml");

fn traced(scenario: &Scenario) -> (Report, Vec<ServerAccess>) {
    let mut all = Vec::new();
    let mut add = |done: &ServerAccess| all.push(*done);
    let report = run(scenario, Options { accesses: Some(&mut add), ..Options::default() }).unwrap();
    (report, all)
}

#[test]
fn accesses_are_those_that_the_report_counts_in_order_of_time() {
    let stock = Scenario::from_toml(RANDOM_WRITES).unwrap();
    for scenario in [stock.clone(), Scenario { server_policy: ServerPolicy::ITransformer, ..stock }] {
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
