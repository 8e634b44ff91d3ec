//! What a run was like. The same scenario gives the same report.

use headstart_cluster::wire;
pub use headstart_model::server::VolumeStats;
use headstart_protocol::shared::Counter;
use headstart_units::Nanos;
use headstart_units::request::Direction;
use serde::Serialize;

use crate::client::Client;
use crate::job::JobState;
use crate::latency::Latency;
use crate::overlay::{Agent, Way};
use crate::phases::Phase;
use crate::scenario::{Costs, Scenario, ServerPolicy};
use crate::simulation::Simulation;
use crate::tier::TierName;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// The policy.
    pub policy: &'static str,
    /// What lay between disk servers and their disks.
    #[serde(skip_serializing_if = "is_stock")]
    pub server_policy: ServerPolicy,
    /// The seed.
    pub seed: u64,
    /// Flash there was.
    pub capacity_bytes: u64,
    /// Time that placing took before the jobs began.
    pub placing_s: f64,
    /// From the begin of the jobs to the end of the last measured one.
    pub seconds: f64,
    /// To the moment when nothing was dirty any more, neither on flash nor in a server's cache; `seconds` if
    /// nobody asked for that.
    pub drained_s: f64,
    /// Measured jobs first, in the scenario's order.
    pub jobs: Vec<JobReport>,
    /// The disk servers.
    pub disk: Vec<ServerReport>,
    /// The flash servers; none where nothing went to flash.
    pub flash: Vec<ServerReport>,
    /// The overlay, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayReport>,
    /// Its agents, where there was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterReport>,
    /// What policies were told that the tiers cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Events of the simulation.
    pub events: u64,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// Whether it was there to disturb others.
    pub interfering: bool,
    /// Ranks.
    pub ranks: u32,
    /// When it began, from the begin of the jobs.
    pub start_s: f64,
    /// From there to its end.
    pub seconds: f64,
    /// How often it went through.
    pub rounds: u64,
    /// From mark to mark, where there were requests in between.
    pub phases: Vec<PhaseReport>,
}

/// What the ranks of a job did from one mark to the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseReport {
    /// The mark; none before the first.
    pub mark: Option<u32>,
    /// What the program calls it; none of what lies outside of its phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
    /// From the first rank's mark to the end of the last request, sync or close.
    pub seconds: f64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
    /// Bytes over `seconds`, in MB/s (10^6).
    pub mb_per_s: f64,
    /// The longest that a rank spent in requests: what programs that leave barriers out of their timing go by.
    pub rank_s_max: f64,
    /// Harmonic mean over ranks of their time in requests: bytes over this is the mean of the ranks' rates (BTIO).
    pub rank_s_harmonic: f64,
    /// Share of bytes that flash served.
    pub flash_share: f64,
    /// Share of requests that flash served whole.
    pub flash_request_share: f64,
    /// How long requests took.
    pub latency: Latency,
}

/// A server, from the begin to the end of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServerReport {
    /// Share of the time that its device was at work.
    pub busy: f64,
    /// Reads it served.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Likewise.
    pub write_bytes: u64,
    /// Commands of its device.
    pub commands: u64,
    /// Mean distance from the end of one command to the begin of the next.
    pub seek_bytes_mean: f64,
    /// Mean number of requests at the server.
    pub queue_depth_mean: f64,
    /// Mean time from a request's departure at a node to its reply's.
    pub service_ms_mean: f64,
    /// Its volume, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeStats>,
}

/// The overlay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverlayReport {
    /// Bytes on flash at the end.
    pub mapped_bytes: u64,
    /// Dirty ones of them.
    pub dirty_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Barriers.
    pub barriers: u64,
    /// Copies back to the disks, each of neighbouring extents.
    pub write_backs: u64,
    /// Bytes written back.
    pub written_back_bytes: u64,
    /// Bytes fetched.
    pub fetched_bytes: u64,
    /// Round trips of ranks to the agent.
    pub round_trips: u64,
    /// Requests that needed none.
    pub cheap_requests: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
}

/// Agents of several nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterReport {
    /// What the register holds: bytes of the view.
    pub view_bytes: u64,
    /// What all of them said to each other until the jobs began: packets, messages and bytes.
    pub joining: SaidReport,
    /// Each of them, from the begin of the jobs to the end of all.
    pub agents: Vec<AgentReport>,
}

/// Messages between agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SaidReport {
    /// Packets.
    pub packets: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// An agent among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AgentReport {
    /// From others.
    pub heard: SaidReport,
    /// To others.
    pub said: SaidReport,
    /// Seconds that messages took its loop.
    pub busy_s: f64,
    /// Questions of its own ranks, whose time is not in `busy_s`.
    pub round_trips: u64,
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub(crate) fn report(
    scenario: &Scenario,
    simulation: &Simulation<'_>,
    capacity_bytes: u64,
    costs: Option<Costs>,
) -> Report {
    let origin = simulation.measured.origin;
    let closed = simulation.measured.closed.unwrap_or(simulation.now);
    let drained = if scenario.drain { simulation.now } else { closed };
    let mut jobs: Vec<JobReport> =
        (scenario.jobs.iter().zip(&simulation.jobs)).map(|(job, state)| job_report(&job.name, state, origin)).collect();
    jobs.sort_by_key(|job| job.interfering);
    let is_stock = matches!(simulation.client, Client::Stock);
    Report {
        name: scenario.name.clone(),
        policy: scenario.policy.name(),
        server_policy: scenario.server_policy,
        seed: scenario.seed,
        capacity_bytes: if is_stock { 0 } else { capacity_bytes },
        placing_s: origin.seconds(),
        seconds: closed.since(origin).seconds(),
        drained_s: drained.since(origin).seconds(),
        jobs,
        disk: servers(simulation, TierName::Disk),
        flash: if is_stock { Vec::new() } else { servers(simulation, TierName::Flash) },
        overlay: overlay(simulation),
        cluster: cluster(simulation),
        costs,
        events: simulation.measured.events,
    }
}

fn job_report(name: &str, state: &JobState<'_>, origin: Nanos) -> JobReport {
    let begun = state.rounds.begun().unwrap_or(origin);
    let phases = state.phases.all.iter().filter(|phase| phase.requests != [0; 2]);
    let names = state.program.phases();
    let called =
        |mark: u32| if mark.is_multiple_of(2) { names.get(mark as usize / 2).map(|phase| phase.name) } else { None };
    JobReport {
        name: name.into(),
        interfering: state.rules.interfering,
        ranks: state.ranks,
        start_s: begun.since(origin).seconds(),
        seconds: state.rounds.ended().unwrap_or(begun).since(begun).seconds(),
        rounds: state.rounds.so_far(),
        phases: phases.map(|phase| phase_report(phase, phase.mark.and_then(called))).collect(),
    }
}

fn phase_report(phase: &Phase, name: Option<&'static str>) -> PhaseReport {
    let [reads, writes] = phase.requests;
    let [read_bytes, write_bytes] = phase.bytes;
    let bytes = (read_bytes + write_bytes) as f64;
    let seconds = phase.start.map_or(0.0, |start| phase.end.since(start).seconds());
    let busy = phase.rank_ns.iter().filter(|ns| **ns > 0);
    let inverse: f64 = busy.clone().map(|ns| 1e9 / *ns as f64).sum();
    PhaseReport {
        mark: phase.mark,
        name,
        seconds,
        reads,
        writes,
        read_bytes,
        write_bytes,
        mb_per_s: ratio(bytes * 1e-6, seconds),
        rank_s_max: phase.rank_ns.iter().max().map_or(0.0, |ns| *ns as f64 * 1e-9),
        rank_s_harmonic: ratio(busy.count() as f64, inverse),
        flash_share: ratio(phase.flash_bytes as f64, bytes),
        flash_request_share: ratio(phase.flash_requests as f64, (reads + writes) as f64),
        latency: phase.latency.latency(),
    }
}

fn servers(simulation: &Simulation<'_>, tier: TierName) -> Vec<ServerReport> {
    let elapsed_ns = simulation.now.0 as f64;
    let report = |stats: headstart_model::server::ServerStats| ServerReport {
        busy: ratio(stats.device_busy_ns as f64, elapsed_ns),
        reads: stats.reads,
        writes: stats.writes,
        read_bytes: stats.read_bytes,
        write_bytes: stats.write_bytes,
        commands: stats.device_commands,
        seek_bytes_mean: stats.seek_distance_bytes_mean,
        queue_depth_mean: stats.queue_depth_mean,
        service_ms_mean: stats.service_ns_mean * 1e-6,
        volume: stats.volume,
    };
    simulation.fabric.stats(tier, simulation.now).map(report).collect()
}

/// What all ranks of an agent counted.
fn of_ranks(agent: &Agent, counter: Counter) -> u64 {
    let cells = agent.memory.slots.iter().map(|slot| &slot.counters[counter as usize]);
    cells.map(|cell| cell.load(std::sync::atomic::Ordering::Relaxed)).sum()
}

fn cluster(simulation: &Simulation<'_>) -> Option<ClusterReport> {
    let Client::Overlay(site) = &simulation.client else { return None };
    let view = site.links.view.as_ref()?;
    let way = |way: Way| SaidReport { packets: way.packets, messages: way.messages, bytes: way.bytes };
    let agent = |agent: &Agent| {
        let traffic = &agent.membership.traffic;
        AgentReport {
            heard: way(traffic.heard),
            said: way(traffic.said),
            busy_s: traffic.busy.seconds(),
            round_trips: of_ranks(agent, Counter::RoundTrips),
        }
    };
    let mut view_bytes = Vec::new();
    wire::encode_view(view, &mut view_bytes);
    Some(ClusterReport {
        view_bytes: view_bytes.len() as u64,
        joining: way(site.links.joining.said),
        agents: site.agents.iter().map(agent).collect(),
    })
}

fn overlay(simulation: &Simulation<'_>) -> Option<OverlayReport> {
    let Client::Overlay(site) = &simulation.client else { return None };
    let of_agents = |figure: &dyn Fn(&Agent) -> u64| site.agents.iter().map(figure).sum();
    Some(OverlayReport {
        mapped_bytes: of_agents(&|agent| agent.overlay.mapped_bytes()),
        dirty_bytes: of_agents(&|agent| agent.overlay.dirty_bytes()),
        extents: of_agents(&|agent| agent.overlay.extents() as u64),
        barriers: of_agents(&|agent| agent.overlay.counters().barriers_total),
        write_backs: of_agents(&|agent| agent.overlay.counters().write_backs_total),
        written_back_bytes: of_agents(&|agent| agent.overlay.counters().written_back_bytes_total),
        fetched_bytes: of_agents(&|agent| agent.overlay.counters().fetched_bytes_total),
        round_trips: of_agents(&|agent| of_ranks(agent, Counter::RoundTrips)),
        cheap_requests: of_agents(&|agent| of_ranks(agent, Counter::CheapRequests)),
        journal_bytes: of_agents(&|agent| agent.journal.bytes()),
    })
}

fn is_stock(policy: &ServerPolicy) -> bool {
    *policy == ServerPolicy::Stock
}

impl Report {
    /// Bytes of the measured jobs over the time to their end, in MB/s.
    pub fn mb_per_s(&self) -> f64 {
        let phases = self.jobs.iter().filter(|job| !job.interfering).flat_map(|job| &job.phases);
        let bytes: u64 = phases.map(|phase| phase.read_bytes + phase.write_bytes).sum();
        ratio(bytes as f64 * 1e-6, self.seconds)
    }

    /// The same over the time until nothing was dirty.
    pub fn drained_mb_per_s(&self) -> f64 {
        ratio(self.mb_per_s() * self.seconds, self.drained_s)
    }

    /// Requests of all jobs, lists as one.
    pub fn requests(&self) -> u64 {
        self.jobs.iter().flat_map(|job| &job.phases).map(|phase| phase.reads + phase.writes).sum()
    }
}

/// The index of a direction in counts by direction.
const _: () = assert!(Direction::Read as usize == 0 && Direction::Write as usize == 1);
