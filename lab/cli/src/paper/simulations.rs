//! The simulations that rows ask for: each distinct one once, as many at a time as there are threads.
//!
//! A simulation has no thread of its own and knows of no other, so that results do not depend on how many run
//! beside each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use headstart_sim::scenario::{Costs, Policy, Scenario};
use headstart_sim::{Access, Options, ServerAccess, TierName, calibration, run, workload};
use indicatif::ProgressBar;

use super::window::Outcome;

/// Most accesses of a server that are kept, the first ones (56 bytes each); rows have fewer than a tenth.
const ACCESSES_MAX: usize = 1 << 22;

/// Scenarios, each once, in the order in which they were first asked for.
#[derive(Default)]
pub struct Simulations {
    scenarios: Vec<Scenario>,
    numbers: BTreeMap<String, usize>,
    /// Of each, the disk server to trace.
    traced: Vec<Option<u32>>,
}

impl Simulations {
    /// Its number. What is traced of a scenario is traced for all who ask for it, of one server alone.
    pub fn add(&mut self, scenario: Scenario, traced: Option<u32>) -> usize {
        let number = *self.numbers.entry(scenario.to_toml()).or_insert(self.scenarios.len());
        if number == self.scenarios.len() {
            self.scenarios.push(scenario);
            self.traced.push(None);
        }
        self.traced[number] = self.traced[number].or(traced);
        number
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.scenarios.len()
    }

    /// Runs all of them.
    pub fn run(mut self, threads: usize, progress: &ProgressBar) -> Result<Vec<Outcome>> {
        self.price(threads, progress)?;
        let all: Vec<(&Scenario, Option<u32>)> = self.scenarios.iter().zip(self.traced.iter().copied()).collect();
        in_parallel(threads, &all, |(scenario, traced)| {
            let outcome = simulate(scenario, *traced);
            progress.inc(1);
            outcome
        })
    }

    /// Measures what tiers cost, once for all scenarios whose tiers, ranks and files are alike.
    fn price(&mut self, threads: usize, progress: &ProgressBar) -> Result<()> {
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let (mut models, mut users) = (Vec::new(), Vec::new());
        for (index, scenario) in self.scenarios.iter().enumerate() {
            if scenario.policy == Policy::Stock || scenario.costs.is_some() {
                continue;
            }
            let programs = scenario.jobs.iter().map(|job| workload::program(job, 0)).collect::<Result<Vec<_>, _>>()?;
            let ranks = programs.iter().map(|program| program.ranks()).max();
            let bytes = programs.iter().flat_map(|program| program.file_bytes()).max();
            let machines = Scenario {
                clients: scenario.clients.clone(),
                disk: scenario.disk.clone(),
                flash: scenario.flash.clone(),
                seed: scenario.seed,
                ..Scenario::default()
            };
            let key = format!("{ranks:?} {bytes:?}\n{}", machines.to_toml());
            let number = *numbers.entry(key).or_insert(models.len());
            if number == models.len() {
                models.push((scenario.clone(), programs));
            }
            users.push((index, number));
        }
        progress.inc_length(models.len() as u64);
        let costs: Vec<Costs> = in_parallel(threads, &models, |(scenario, programs)| {
            let costs = calibration::measure(scenario, programs).map_err(|error| anyhow!("{error}"));
            progress.inc(1);
            costs
        })?;
        for (index, number) in users {
            self.scenarios[index].costs = Some(costs[number].clone());
        }
        Ok(())
    }
}

fn simulate(scenario: &Scenario, traced: Option<u32>) -> Result<Outcome> {
    let mut accesses: Vec<Access> = Vec::new();
    let mut add = |done: &ServerAccess| {
        let is_meant = done.tier == TierName::Disk && Some(done.server) == traced;
        if is_meant && accesses.len() < ACCESSES_MAX {
            accesses.push(done.access);
        }
    };
    let mut options = Options::default();
    if traced.is_some() {
        options.accesses = Some(&mut add);
    }
    let report = run(scenario, options).map_err(|error| anyhow!("{error}\n{}", scenario.to_toml()))?;
    Ok(Outcome { report, accesses })
}

/// The results in the order of the items, whoever is done first.
fn in_parallel<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(work(item));
                }
            });
        }
    });
    let result = |cell: Mutex<Option<Result<R>>>| {
        cell.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every item was worked on")
    };
    results.into_iter().map(result).collect()
}
