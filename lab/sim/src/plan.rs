//! Regions for flash from a traced run: the scenario without flash and with other random numbers, planned by core.
//!
//! Planning goes twice over the requests. They are simulated twice instead of kept, so that memory does not
//! grow with them.

use std::collections::VecDeque;

use headstart_insight::Software;
use headstart_insight::plan::{Choice, Options as PlanOptions, TracedFile, plan};
use headstart_policy::client::carl::Regions;
use headstart_units::Capacity;
use headstart_units::request::Access;
use headstart_workload::Program;

use crate::client::Client;
use crate::options::{Options, SimulationError};
use crate::scenario::{Costs, Policy, Scenario};
use crate::seeds::{Purpose, seed_of};
use crate::simulation::Simulation;

/// Of each file, the regions that belong on flash.
pub(crate) fn regions(
    scenario: &Scenario,
    programs: &[Box<dyn Program>],
    seed: u64,
    costs: &Costs,
    capacity_bytes: u64,
    options: &mut Options<'_>,
) -> Result<Vec<Regions>, SimulationError> {
    // Interfering jobs run beside it and are no part of what is planned for, and nothing is dirty.
    let stock = Scenario { policy: Policy::Stock, drain: false, ..scenario.clone() };
    let begun = || {
        let mut simulation = Simulation::new(&stock, programs, seed, Client::Stock);
        simulation.accesses = Some(VecDeque::new());
        simulation.start_jobs();
        Traced { simulation }
    };
    let files: Vec<TracedFile> = (0u32..)
        .zip(&begun().simulation.files)
        .map(|(number, file)| TracedFile {
            path: format!("file {number}"),
            inode: None,
            size_bytes: Some(file.bytes),
            region_bytes: scenario.region.0,
        })
        .collect();
    let choice = match scenario.policy {
        Policy::Random => Choice::Random(seed_of(scenario.seed, Purpose::Regions)),
        Policy::Overlay(_) => Choice::BesideS4d,
        _ => Choice::Gain,
    };
    let plan_options = PlanOptions { capacity: Capacity::Bytes(capacity_bytes), choice, software: Software::default() };
    if let Some(progress) = &mut options.progress {
        progress("planning from a traced run", 0, headstart_units::Nanos::ZERO);
    }
    let planned = plan(begun, |number| files.get(number as usize).cloned(), &costs.regions(), plan_options);
    let planned = planned.map_err(|error| SimulationError::Plan(error.to_string()))?;
    let mut regions: Vec<Regions> = planned.files.iter().map(|file| file.wanted()).collect();
    regions.resize(files.len(), Regions::default());
    Ok(regions)
}

/// The requests of a run, as they end.
struct Traced<'a> {
    simulation: Simulation<'a>,
}

impl Iterator for Traced<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        loop {
            if let Some(access) = self.simulation.accesses.as_mut().and_then(VecDeque::pop_front) {
                return Some(access);
            }
            if !self.simulation.step() {
                return None;
            }
        }
    }
}
