//! From a scenario to a report.

use headstart_policy::client::carl::Regions;
use headstart_policy::client::chain::Chain;
use headstart_units::Capacity;
use headstart_units::Nanos;
use headstart_workload::Program;

use crate::calibration;
use crate::check::{Checker, Space, Spot, Sum};
use crate::client::Client;
use crate::options::{Options, SimulationError};
use crate::overlay::Site;
use crate::placed::Placed;
use crate::plan;
use crate::report::{self, Report};
use crate::scenario::{Costs, FirstServer, Policy, Scenario, ScenarioError};
use crate::seeds::{Purpose, seed_of};
use crate::simulation::{Simulation, layout};
use crate::tier::TierName;

/// Makes the program of a job from a seed.
pub type Programs<'a> = &'a dyn Fn(usize, u64) -> Result<Box<dyn Program>, ScenarioError>;

/// Events between two signs of life.
const PROGRESS_EVENTS: u64 = 1 << 16;

/// Simulates a scenario, whose jobs say what they do.
///
/// # Errors
/// A scenario that makes no sense, tiers that cannot be priced, checks that failed.
pub fn run(scenario: &Scenario, options: Options<'_>) -> Result<Report, SimulationError> {
    run_programs(scenario, &|job, seed| crate::workload::program(&scenario.jobs[job], seed), options)
}

/// Simulates a scenario with programs from elsewhere.
///
/// # Errors
/// As [`run`].
pub fn run_programs(
    scenario: &Scenario,
    programs: Programs<'_>,
    mut options: Options<'_>,
) -> Result<Report, SimulationError> {
    scenario.check()?;
    let make = |seed: u64| -> Result<Vec<Box<dyn Program>>, ScenarioError> {
        (0..scenario.jobs.len()).map(|job| programs(job, seed)).collect()
    };
    let own = make(seed_of(scenario.seed, Purpose::Programs))?;
    check_programs(scenario, &own)?;
    let costs = match (&scenario.costs, scenario.policy) {
        (Some(costs), _) => Some(costs.clone()),
        (None, Policy::Stock) => None,
        (None, _) => {
            if let Some(progress) = &mut options.progress {
                progress("measuring what the tiers cost", 0, Nanos::ZERO);
            }
            Some(calibration::measure(scenario, &own)?)
        }
    };
    let layout = layout(scenario, &own);
    let total_bytes: u64 = layout.files.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add);
    let capacity_bytes = match scenario.capacity()? {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Share(share) => (total_bytes as f64 * share) as u64,
    };
    let regions = match &costs {
        Some(costs) if scenario.policy.plans() => {
            let seed = seed_of(scenario.seed, Purpose::Traced);
            let traced = make(seed_of(seed, Purpose::Programs))?;
            plan::regions(scenario, &traced, seed, costs, capacity_bytes, &mut options)?
        }
        _ => vec![Regions::default(); layout.files.len()],
    };
    let mut simulation = build(scenario, &own, costs.as_ref(), capacity_bytes, &regions)?;
    if options.check {
        simulation.checker = Some(Box::new(checker(&simulation)));
    }
    if options.accesses.is_some() {
        simulation.fabric.note_accesses();
    }
    begin(&mut simulation, scenario, costs.as_ref(), regions);
    drive(&mut simulation, "simulating", &mut options);
    let checked = simulation.checker.take().map(|checker| finish_checks(&simulation, *checker));
    if let Some(failed) = checked.filter(|failed| !failed.is_empty()) {
        return Err(SimulationError::Check(failed));
    }
    Ok(report::report(scenario, &simulation, capacity_bytes, costs))
}

/// Goes on to the end, with signs of life.
fn drive(simulation: &mut Simulation<'_>, what: &'static str, options: &mut Options<'_>) {
    let mut goes_on = true;
    while goes_on {
        for _ in 0..PROGRESS_EVENTS {
            goes_on = simulation.step();
            if !goes_on {
                break;
            }
        }
        if let Some(accesses) = &mut options.accesses {
            simulation.fabric.take_accesses().iter().for_each(accesses);
        }
        if let Some(progress) = options.progress.as_mut().filter(|_| goes_on) {
            progress(what, simulation.requests_done(), simulation.now);
        }
    }
}

fn check_programs(scenario: &Scenario, programs: &[Box<dyn Program>]) -> Result<(), ScenarioError> {
    match scenario.jobs.iter().zip(programs).find(|(_, program)| program.ranks() == 0) {
        Some((job, _)) => Err(ScenarioError::new(format!("job '{}'", job.name), "it has no rank")),
        None => Ok(()),
    }
}

fn build<'a>(
    scenario: &Scenario,
    programs: &'a [Box<dyn Program>],
    costs: Option<&Costs>,
    capacity_bytes: u64,
    regions: &[Regions],
) -> Result<Simulation<'a>, ScenarioError> {
    let mut simulation = Simulation::new(scenario, programs, scenario.seed, Client::Stock);
    match (scenario.policy, costs) {
        (Policy::Stock, _) | (_, None) => {}
        (Policy::Carl | Policy::Random, _) => {
            let tier = simulation.fabric.tier_mut(TierName::Flash);
            let files = simulation.files.iter();
            let places = files.map(|file| tier.place(file.bytes, None, FirstServer::Zero, 0)).collect();
            simulation.client = Client::Placed(Placed { regions: regions.to_vec(), places });
        }
        (Policy::Overlay(chain), Some(costs)) => {
            let mut settings = scenario.agent.settings(capacity_bytes);
            let (stripe, servers) = (scenario.flash.stripe.0, scenario.flash.servers.into());
            settings.slab_bytes_max = headstart_units::stripe::rotating_bytes(settings.slab_bytes_max, stripe, servers);
            settings.write_back_leap_bytes = costs.s4d.write.write_back_leap_bytes.into();
            let (ranks, files) = (&mut simulation.ranks, simulation.files.len());
            let site = Site::new(scenario, ranks, files, settings, (chain, costs.policy()))?;
            simulation.client = Client::Overlay(Box::new(site));
        }
    }
    Ok(simulation)
}

fn begin(simulation: &mut Simulation<'_>, scenario: &Scenario, costs: Option<&Costs>, regions: Vec<Regions>) {
    match (scenario.policy, costs) {
        (Policy::Overlay(Chain::Carl | Chain::CarlS4d), _) => simulation.place_regions(regions),
        (Policy::Overlay(chain), Some(costs)) => {
            if !simulation.join_agents() {
                simulation.start_jobs();
            }
            if chain == Chain::Auto {
                simulation.follow(costs.regions());
            }
        }
        _ => simulation.start_jobs(),
    }
}

fn checker(simulation: &Simulation<'_>) -> Checker {
    let mut checker = Checker::new();
    if matches!(simulation.client, Client::Placed(_)) {
        (0..simulation.files.len() as u32).for_each(|file| checker.holds(Space::Flash(file), file));
    }
    checker
}

/// What is wrong once all is over.
fn finish_checks(simulation: &Simulation<'_>, checker: Checker) -> Vec<String> {
    let traffic = simulation.fabric.traffic;
    let mut sums = vec![
        Sum { name: "messages sent, answered", told: traffic.sent, found: traffic.answered },
        Sum { name: "messages and transfers under way, none", told: simulation.fabric.under_way() as u64, found: 0 },
    ];
    for tier in [TierName::Disk, TierName::Flash] {
        let found = simulation
            .fabric
            .stats(tier, simulation.now)
            .fold((0, 0), |sum, server| (sum.0 + server.read_bytes, sum.1 + server.write_bytes));
        let [read, written, _] = traffic.bytes[tier as usize];
        let (names_read, names_written) = match tier {
            TierName::Disk => ("bytes of disk reads sent, served", "bytes of disk writes sent, served"),
            TierName::Flash => ("bytes of flash reads sent, served", "bytes of flash writes sent, served"),
        };
        sums.push(Sum { name: names_read, told: read, found: found.0 });
        sums.push(Sum { name: names_written, told: written, found: found.1 });
    }
    let drains = simulation.drains();
    let site = match &simulation.client {
        Client::Overlay(site) => Some(site),
        Client::Stock | Client::Placed(_) => None,
    };
    if let Some(site) = site.filter(|_| drains) {
        let dirty_bytes = site.agents.iter().map(|agent| agent.overlay.dirty_bytes()).sum();
        sums.push(Sum { name: "dirty bytes on flash, none", told: dirty_bytes, found: 0 });
        sums.push(Sum { name: "copies under way, none", told: site.copies.len() as u64, found: 0 });
    }
    if !drains {
        sums.retain(|sum| !sum.name.contains("under way") && !sum.name.contains("sent"));
    }
    let lies = |file: u32, range| match &simulation.client {
        Client::Placed(placed) => {
            let parts = placed.spaces(file, range).into_iter();
            parts.map(|(part, space)| (part, Spot { space, offset: part.offset })).collect()
        }
        Client::Stock | Client::Overlay(_) => vec![(range, Spot { space: Space::Disk(file), offset: range.offset })],
    };
    let final_places = drains || site.is_none();
    checker.finish(final_places.then_some(&lies), &sums)
}
