//! `headstart-lab sim`: a scenario, or the replay of a trace, in virtual time.

mod addresses;
mod replay;
mod summary;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use headstart_agent::site::Site;
use headstart_agent::text_file;
use headstart_sim::scenario::{Costs, Directions, Job, Policy, Scenario, ServerPolicy, Size};
use headstart_sim::{Options, Report, ServerAccess, run, run_programs};
use headstart_units::Nanos;
use indicatif::ProgressBar;
use serde::Serialize;

use addresses::Addresses;

use headstart_cli::trace::{LayerName, is_recorded};

const SCENARIO_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Simulate {
    /// A scenario file, whose name ends with .toml, or any trace that `headstart plan` reads, which is replayed
    #[arg(value_name = "SCENARIO|TRACE")]
    what: PathBuf,

    /// What goes to flash, in place of what the scenario says: stock, carl, random, s4d, agent-carl, carl,s4d or auto
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,

    /// What lies between disk servers and their disks, in place of what the scenario says: stock, or a volume
    /// with these policies (auto, liu, itransformer, liu,itransformer, none)
    #[arg(long, value_name = "POLICY")]
    server_policy: Option<ServerPolicy>,

    /// Other random numbers than the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Flash there is, in place of what the scenario says
    #[arg(long, value_name = "20%|SIZE", allow_hyphen_values = true)]
    capacity: Option<String>,

    /// Check as well that every byte read is the one last written and that nothing is lost; takes memory
    #[arg(long)]
    check: bool,

    /// Write there what servers and their devices do, one by one, as CSV: commands of disks and flash, and
    /// requests as they are answered, with the milliseconds since they arrived
    #[arg(long, value_name = "FILE")]
    trace_addresses: Option<PathBuf>,

    /// Which requests of Darshan's traces: those that reached the file system, or those of MPI-IO above
    #[arg(long, value_enum, default_value = "posix")]
    layer: LayerName,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Say how long the simulation itself took; runs are not alike then
    #[arg(long)]
    timing: bool,
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a Report,
    mb_per_s: f64,
    drained_mb_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

#[derive(Clone, Copy, Serialize)]
struct Timing {
    wall_s: f64,
    events_per_s: f64,
}

impl Simulate {
    pub fn execute(&self, site: Option<&Path>) -> Result<ExitCode> {
        let is_scenario =
            self.what.extension().is_some_and(|extension| extension == "toml") && !is_recorded(&self.what);
        let mut scenario = if is_scenario { load(&self.what)? } else { of_trace(&self.what) };
        if let Some(site) = site {
            apply(&mut scenario, &Site::read(site)?);
        }
        scenario.policy = self.policy.unwrap_or(scenario.policy);
        scenario.server_policy = self.server_policy.unwrap_or(scenario.server_policy);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        if let Some(capacity) = &self.capacity {
            scenario.capacity.clone_from(capacity);
        }
        if !is_scenario && scenario.policy.plans() {
            eprintln!(
                "headstart-lab: regions are planned from the very requests that are simulated: a run for other bytes of them gains less"
            );
        }
        let bar = ProgressBar::new_spinner();
        let mut tell = |what: &'static str, requests: u64, now: Nanos| {
            bar.set_message(match requests {
                0 => what.to_string(),
                _ => format!("{what}: {requests} requests, {:.1} s simulated", now.seconds()),
            });
            bar.tick();
        };
        let mut addresses = self.trace_addresses.as_deref().map(Addresses::create).transpose()?;
        let mut add = addresses.as_mut().map(|addresses| |access: &ServerAccess| addresses.add(access));
        let accesses = add.as_mut().map(|add| add as &mut dyn FnMut(&ServerAccess));
        let options = Options { check: self.check, progress: Some(&mut tell), accesses };
        let began = Instant::now();
        let result = if is_scenario {
            run(&scenario, options)
        } else {
            let surveyed = replay::Surveyed::of(&self.what, self.layer.into())?;
            run_programs(&scenario, &|_, _| Ok(surveyed.program()), options)
        };
        let wall_s = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let report = result.with_context(|| self.what.display().to_string())?;
        addresses.map(Addresses::finish).transpose()?;
        let timing = self.timing.then(|| Timing { wall_s, events_per_s: report.events as f64 / wall_s.max(1e-9) });
        if self.json {
            let output = Output {
                report: &report,
                mb_per_s: report.mb_per_s(),
                drained_mb_per_s: report.drained_mb_per_s(),
                timing,
            };
            println!("{}", serde_json::to_string(&output)?);
        } else {
            summary::print(&report);
            if let Some(Timing { wall_s, events_per_s }) = timing {
                println!("took {wall_s:.2} s, {events_per_s:.0} events a second");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn load(path: &Path) -> Result<Scenario> {
    let shown = path.display();
    let text =
        text_file::read(path, SCENARIO_BYTES_MAX).with_context(|| format!("cannot read the scenario {shown}"))?;
    let scenario = Scenario::from_toml(&text).with_context(|| format!("{shown}"))?;
    if scenario.jobs.is_empty() {
        bail!("{shown}: there is no [[job]], so nothing happens; name at least one");
    }
    Ok(scenario)
}

/// The replay of a trace on the machines that scenarios have when they name none.
fn of_trace(path: &Path) -> Scenario {
    let job = Job { name: "replay".into(), ..Job::default() };
    Scenario { name: path.display().to_string(), jobs: vec![job], ..Scenario::default() }
}

/// What a site says of the machines.
fn apply(scenario: &mut Scenario, site: &Site) {
    let (slow, fast) = (&site.s4d.read, &site.s4d.write);
    (scenario.disk.servers, scenario.disk.stripe) = (slow.hdd_servers, Size(slow.stripe_bytes));
    (scenario.flash.servers, scenario.flash.stripe) = (fast.ssd_servers, Size(fast.stripe_bytes));
    if let Some(capacity) = &site.capacity {
        scenario.capacity.clone_from(capacity);
    }
    if let Some(software) = site.software {
        let clients = &mut scenario.clients;
        // A site has those of all nodes together, and each node has one.
        clients.nodes = clients.nodes.min(software.processors.max(1));
        clients.processors = (software.processors / clients.nodes).max(1);
        (clients.request_cpu_ms, clients.copy_cpu_ms) = (software.request_cpu_ms, software.copy_cpu_ms);
    }
    let s4d = Directions { read: site.s4d.read.clone(), write: site.s4d.write.clone() };
    scenario.costs = Some(Costs { s4d, carl: site.carl.clone() });
}
