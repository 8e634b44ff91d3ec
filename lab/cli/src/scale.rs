//! `headstart-lab scale`: the workloads of IO500 on so many nodes, each with its agent, in virtual time: what is gained,
//! and what the agents say to each other.
//!
//! The scenarios are those of `lab/scenarios/cluster`, written for four nodes. Ranks and agents grow with the nodes,
//! servers do so up to those of 32.

mod plot;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use headstart_sim::report::{AgentReport, ClusterReport, PhaseReport, SaidReport};
use headstart_sim::scenario::{Costs, Join, Policy, Scenario};
use headstart_sim::{Options, Report, run};
use headstart_workload::Description;
use serde::Serialize;

/// Of how many nodes the servers grow no more: a site has one storage system.
const NODES_OF_SERVERS_MAX: u32 = 32;
/// Of disks and of flash, for each node.
const DISK_SERVERS: u32 = 2;
const FLASH_SERVERS: u32 = 1;

#[derive(Debug, Args)]
pub struct Scale {
    /// Numbers of nodes, each with an agent
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,100")]
    nodes: Vec<u32>,

    /// Ranks of a node
    #[arg(long, value_name = "N", default_value_t = 32)]
    ranks_per_node: u32,

    /// Requests of a rank in each direction, instead of 16 records, 4 MiB and 64 pieces
    #[arg(long, value_name = "N")]
    requests: Option<u64>,

    /// Which of the workloads
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Load::Hard, Load::Easy, Load::OwnFiles])]
    workloads: Vec<Load>,

    /// Which storage: the disks alone, the disks with flash in front, flash alone
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Storage::Stock, Storage::Headstart, Storage::AllFlash])]
    storage: Vec<Storage>,

    /// What goes to flash: s4d or auto
    #[arg(long, value_name = "POLICY", default_value = "s4d")]
    policy: Policy,

    /// Agents join one after the other, instead of all at once
    #[arg(long)]
    one_by_one: bool,

    /// One agent serves all nodes
    #[arg(long, conflicts_with = "one_by_one")]
    one_agent: bool,

    /// Other random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Check as well that every byte read is the one last written; takes memory
    #[arg(long)]
    check: bool,

    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,

    /// Draw the curves over the number of nodes as well, as an SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Load {
    /// 47,008-byte records of all ranks interleaved in one new file, read by other nodes
    Hard,
    /// 1 MiB in order, a file a rank, read by other nodes
    Easy,
    /// 16 KiB at random, a file a rank, read by the rank itself
    OwnFiles,
}

impl Load {
    fn text(self) -> &'static str {
        match self {
            Load::Hard => include_str!("../../scenarios/cluster/hard.toml"),
            Load::Easy => include_str!("../../scenarios/cluster/easy.toml"),
            Load::OwnFiles => include_str!("../../scenarios/cluster/own-files.toml"),
        }
    }
}

/// What serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Storage {
    /// The disks alone
    Stock,
    /// The disks, and agents with flash
    Headstart,
    /// The flash servers alone
    AllFlash,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
struct Line {
    nodes: u32,
    workload: Load,
    storage: Storage,
    write_mb_per_s: f64,
    read_mb_per_s: f64,
    drained_s: f64,
    flash_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Agents>,
    events: u64,
    /// How long the simulation itself took.
    wall_s: f64,
}

/// What agents said and heard, from the begin of the jobs to the end of all.
#[derive(Clone, Copy, Debug, Serialize)]
struct Agents {
    joined_s: f64,
    joining: SaidReport,
    view_bytes: u64,
    mean: Rates,
    /// The one whose loop was busiest: the owner of a shared file, where there is one.
    busiest: Rates,
}

/// What an agent did a second.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rates {
    messages_per_s: f64,
    bytes_per_s: f64,
    /// Share of the time that messages took its loop.
    busy: f64,
    round_trips_per_s: f64,
}

fn of_agent(agent: &AgentReport, seconds: f64) -> Rates {
    let per_s = |count: u64| count as f64 / seconds.max(1e-9);
    Rates {
        messages_per_s: per_s(agent.heard.messages + agent.said.messages),
        bytes_per_s: per_s(agent.heard.bytes + agent.said.bytes),
        busy: agent.busy_s / seconds.max(1e-9),
        round_trips_per_s: per_s(agent.round_trips),
    }
}

fn of_agents(cluster: &ClusterReport, joined_s: f64, seconds: f64) -> Agents {
    let loads: Vec<Rates> = cluster.agents.iter().map(|agent| of_agent(agent, seconds)).collect();
    let mean = |figure: &dyn Fn(&Rates) -> f64| loads.iter().map(figure).sum::<f64>() / loads.len() as f64;
    Agents {
        joined_s,
        joining: cluster.joining,
        view_bytes: cluster.view_bytes,
        mean: Rates {
            messages_per_s: mean(&|load| load.messages_per_s),
            bytes_per_s: mean(&|load| load.bytes_per_s),
            busy: mean(&|load| load.busy),
            round_trips_per_s: mean(&|load| load.round_trips_per_s),
        },
        busiest: loads.iter().copied().max_by(|a, b| a.busy.total_cmp(&b.busy)).expect("there are several"),
    }
}

impl Scale {
    pub fn execute(&self) -> Result<ExitCode> {
        if self.ranks_per_node == 0 || self.nodes.contains(&0) {
            bail!("a node and a rank are the least there can be");
        }
        let (mut lines, mut costs) = (Vec::new(), BTreeMap::new());
        for &nodes in &self.nodes {
            for &workload in &self.workloads {
                for &storage in &self.storage {
                    let line = self.run(nodes, workload, storage, &mut costs)?;
                    self.print(&line)?;
                    lines.push(line);
                }
            }
        }
        if !self.json {
            self.print_ratios(&lines);
        }
        if let Some(path) = &self.plot {
            let drawn = plot::draw(&lines, path).map_err(|error| anyhow!("{error}"));
            drawn.with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn scenario(&self, nodes: u32, workload: Load, storage: Storage) -> Result<Scenario> {
        let mut scenario = Scenario::from_toml(workload.text())?;
        let of_servers = nodes.min(NODES_OF_SERVERS_MAX);
        (scenario.seed, scenario.clients.nodes) = (self.seed, nodes);
        (scenario.disk.servers, scenario.flash.servers) = (of_servers * DISK_SERVERS, of_servers * FLASH_SERVERS);
        scenario.cluster.agents = if self.one_agent { 1 } else { nodes };
        scenario.cluster.join = if self.one_by_one { Join::OneByOne } else { Join::Together };
        for job in &mut scenario.jobs {
            let Some(Description::Ior(ior)) = &mut job.workload else { bail!("a workload is of another kind") };
            ior.common.ranks = nodes.checked_mul(self.ranks_per_node).context("there are too many ranks")?;
            match self.requests {
                Some(requests) if workload == Load::Hard => ior.pattern.segments = requests,
                Some(requests) => ior.pattern.block = ior.pattern.transfer.saturating_mul(requests),
                None => {}
            }
            if ior.pattern.reorder_tasks > 0 {
                ior.pattern.reorder_tasks = self.ranks_per_node.into();
            }
        }
        match storage {
            Storage::Stock => scenario.policy = Policy::Stock,
            Storage::Headstart => scenario.policy = self.policy,
            Storage::AllFlash => {
                scenario.policy = Policy::Stock;
                scenario.disk = scenario.flash.clone();
            }
        }
        Ok(scenario)
    }

    /// Runs one; what servers cost is measured once for as many of them.
    fn run(&self, nodes: u32, workload: Load, storage: Storage, costs: &mut BTreeMap<u32, Costs>) -> Result<Line> {
        let mut scenario = self.scenario(nodes, workload, storage)?;
        scenario.costs = costs.get(&scenario.disk.servers).cloned();
        let began = Instant::now();
        let options = Options { check: self.check, ..Options::default() };
        let report = run(&scenario, options).with_context(|| format!("{}, {nodes} nodes", scenario.name))?;
        if let (Storage::Headstart, Some(measured)) = (storage, &report.costs) {
            costs.insert(scenario.disk.servers, measured.clone());
        }
        let phases = || report.jobs.iter().flat_map(|job| &job.phases);
        let bytes = |phase: &PhaseReport| (phase.read_bytes + phase.write_bytes) as f64;
        let on_flash: f64 = phases().map(|phase| phase.flash_share * bytes(phase)).sum();
        Ok(Line {
            nodes,
            workload,
            storage,
            write_mb_per_s: rate(&report, false),
            read_mb_per_s: rate(&report, true),
            drained_s: report.drained_s,
            flash_share: on_flash / phases().map(bytes).sum::<f64>().max(1.0),
            agents: report.cluster.as_ref().map(|cluster| of_agents(cluster, report.placing_s, report.drained_s)),
            events: report.events,
            wall_s: began.elapsed().as_secs_f64(),
        })
    }

    fn print(&self, line: &Line) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(line)?);
            return Ok(());
        }
        let Line { nodes, workload, storage, write_mb_per_s, read_mb_per_s, drained_s, flash_share, .. } = line;
        println!(
            "{nodes:>5} nodes  {:<9}  {:<9}  write {write_mb_per_s:>9.1} MB/s  read {read_mb_per_s:>9.1} MB/s  \
             clean {drained_s:>8.2} s  on flash {:>5.1} %  simulated in {:.1} s",
            name(workload),
            name(storage),
            flash_share * 100.0,
            line.wall_s
        );
        if let Some(agents) = &line.agents {
            let load = |what: &str, load: &Rates| {
                println!(
                    "             {what:<14} {:>9.1} messages/s  {:>9.1} KB/s  loop {:>6.3} %  {:>9.1} questions/s of its ranks",
                    load.messages_per_s,
                    load.bytes_per_s / 1e3,
                    load.busy * 100.0,
                    load.round_trips_per_s
                );
            };
            load("mean agent", &agents.mean);
            load("busiest agent", &agents.busiest);
            println!(
                "             joined in {:.3} s by {} messages in {} packets, {:.1} MB; the view has {} bytes",
                agents.joined_s,
                agents.joining.messages,
                agents.joining.packets,
                agents.joining.bytes as f64 / 1e6,
                agents.view_bytes
            );
        }
        Ok(())
    }

    fn print_ratios(&self, lines: &[Line]) {
        for &nodes in &self.nodes {
            for &storage in &self.storage {
                let find = |workload| {
                    let mut of = lines.iter().filter(|line| line.nodes == nodes && line.storage == storage);
                    of.find(|line| line.workload == workload)
                };
                if let (Some(hard), Some(easy)) = (find(Load::Hard), find(Load::Easy)) {
                    println!(
                        "{nodes:>5} nodes  {:<9}  hard over easy: write {:.3}, read {:.3}",
                        name(&storage),
                        hard.write_mb_per_s / easy.write_mb_per_s,
                        hard.read_mb_per_s / easy.read_mb_per_s
                    );
                }
            }
        }
    }
}

/// Bytes of the phases in one direction over their time.
fn rate(report: &Report, is_read: bool) -> f64 {
    let phases = report.jobs.iter().flat_map(|job| &job.phases);
    let (bytes, seconds) =
        phases.filter(|phase| (phase.reads > 0) == is_read).fold((0, 0.0), |(bytes, seconds), phase| {
            (bytes + phase.read_bytes + phase.write_bytes, seconds + phase.seconds)
        });
    bytes as f64 * 1e-6 / f64::max(seconds, 1e-9)
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}
