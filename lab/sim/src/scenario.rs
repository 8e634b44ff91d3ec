//! What is simulated: machines, jobs, policy. A TOML file, or made by a program.
//!
//! ```toml
//! name = "ior"
//! policy = "stock"              # stock | carl | random | s4d | carl,s4d | auto
//! server_policy = "stock"       # stock | auto | liu | itransformer | liu,itransformer | none
//! capacity = "20%"              # of all files, or a size; see also region, drain, seed, limit_s
//!
//! [clients]                     # compute nodes and the software on them
//! nodes = 7
//!
//! [cluster]                     # agents of several nodes
//! agents = 7
//!
//! [disk]                        # and [flash]: the servers of a tier
//! servers = 6
//! profile = "wd1602"
//!
//! [volume]                      # between disk servers and their disks, with a server_policy
//! slice = "20%"
//!
//! [[job]]                       # as many as there are
//! name = "readers"
//! [job.workload]                # see `headstart_workload::Description`
//! kind = "ior"
//! ```
//!
//! Every key has a default but those of the workload; an unknown one is refused.

mod cluster;
mod costs;
mod size;
mod tier;
mod volume;

use headstart_overlay::Settings;
use headstart_policy::client::chain::Chain;
use headstart_units::Capacity;
use headstart_units::{MIB, Nanos};
use headstart_workload::Description;
use serde::{Deserialize, Serialize};

pub use cluster::{Cluster, Join};
pub use costs::{Costs, Directions};
pub use size::Size;
pub use tier::{Cfq, ReadAhead, TierConfig};
pub use volume::{ServerPolicy, Volume};

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What the report is called.
    pub name: String,
    /// All random numbers follow from it.
    pub seed: u64,
    /// What goes to flash.
    pub policy: Policy,
    /// What lies between each disk server and its disk.
    pub server_policy: ServerPolicy,
    /// How much flash may be used: a share of all files of the jobs, or a size.
    pub capacity: String,
    /// Length of CARL's regions.
    pub region: Size,
    /// Whether the run ends only when nothing is dirty any more: neither on flash nor in a server's cache.
    pub drain: bool,
    /// No rank begins anything after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<f64>,
    /// Compute nodes.
    pub clients: Clients,
    /// Their agents.
    pub cluster: Cluster,
    /// The disk servers.
    pub disk: TierConfig,
    /// The flash servers.
    pub flash: TierConfig,
    /// The volume, if there is one.
    pub volume: Volume,
    /// Where files lie on the disks.
    pub files: Files,
    /// The agent's settings; what is absent keeps its default.
    pub agent: Agent,
    /// What the tiers cost; measured on the simulated servers if absent and a policy asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The programs.
    #[serde(rename = "job")]
    pub jobs: Vec<Job>,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            name: "unnamed".into(),
            seed: 1,
            policy: Policy::default(),
            server_policy: ServerPolicy::default(),
            capacity: "20%".into(),
            region: Size(64 * MIB),
            drain: true,
            limit_s: None,
            clients: Clients::default(),
            cluster: Cluster::default(),
            disk: TierConfig::disks(),
            flash: TierConfig::flash(),
            volume: Volume::default(),
            files: Files::default(),
            agent: Agent::default(),
            costs: None,
            jobs: Vec::new(),
        }
    }
}

/// What goes to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Policy {
    /// There is no flash.
    #[default]
    Stock,
    /// CARL: the regions of a plan from a traced run with another seed lie on flash from the begin.
    Carl,
    /// RANDOM: as CARL, by regions drawn at random.
    Random,
    /// By core's overlay: what an agent and its library do under these policies. Those with CARL plan and
    /// place before the jobs begin (`agent-carl` is CARL alone, whose paper knows no agent: nothing of it is
    /// read from the disks or written back), `auto` lets regions follow the programs (D-CARL).
    Overlay(Chain),
}

impl Policy {
    /// All there are.
    pub const ALL: [Policy; 7] = [
        Policy::Stock,
        Policy::Carl,
        Policy::Random,
        Policy::Overlay(Chain::S4d),
        Policy::Overlay(Chain::Carl),
        Policy::Overlay(Chain::CarlS4d),
        Policy::Overlay(Chain::Auto),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Stock => "stock",
            Policy::Carl => "carl",
            Policy::Random => "random",
            Policy::Overlay(Chain::Carl) => "agent-carl",
            Policy::Overlay(chain) => chain.name(),
        }
    }

    /// Whether regions are planned from a traced run.
    pub fn plans(self) -> bool {
        matches!(self, Policy::Carl | Policy::Random | Policy::Overlay(Chain::Carl | Chain::CarlS4d))
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        Policy::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
            format!("there is no policy '{text}' to simulate; there are {}", Policy::ALL.map(Policy::name).join(" | "))
        })
    }
}

impl TryFrom<String> for Policy {
    type Error = String;

    fn try_from(text: String) -> Result<Policy, String> {
        text.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.name().into()
    }
}

/// Compute nodes, and what software on them takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// How many.
    pub nodes: u32,
    /// Rate of a node's card, each way; 0 is none: bytes take time at the servers' cards alone.
    pub bytes_per_s: f64,
    /// What a request takes on its node before anything of it is sent (library, client of the file system, metadata).
    pub request_ms: f64,
    /// Processors of a node, which share `request_cpu_ms` and `copy_cpu_ms`.
    pub processors: u32,
    /// What a request takes one of them, before `request_ms` and after the work of the node that came first.
    pub request_cpu_ms: f64,
    /// What a copy of the agent's takes one of them, before its first byte moves and after the work of the
    /// node that came first.
    pub copy_cpu_ms: f64,
    /// From a message to the agent to its answer, the agent's own time included.
    pub agent_round_trip_ms: f64,
    /// Calls for many ranges are PVFS2's list I/O without flash; else their ranges go one after another, as
    /// POSIX calls do. With flash they do so anyway.
    pub list_io: bool,
    /// One of the ceil(log2(ranks)) rounds of a barrier.
    pub barrier_round_ms: f64,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients {
            nodes: 8,
            bytes_per_s: 117e6,
            request_ms: 0.0,
            processors: 4,
            request_cpu_ms: 0.0,
            copy_cpu_ms: 0.0,
            agent_round_trip_ms: 0.025,
            list_io: true,
            // 0.3 ms for 14 ranks, which are four rounds (LiU ran 14).
            barrier_round_ms: 0.075,
        }
    }
}

/// Where files lie on the disks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Files {
    /// From the begin of one file to that of the next on each server; without it they follow each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Size>,
    /// The server of a file's first stripe.
    pub first_server: FirstServer,
}

impl Default for Files {
    fn default() -> Files {
        Files { gap: None, first_server: FirstServer::Zero }
    }
}

/// The server of a file's first stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstServer {
    /// The first, for every file.
    Zero,
    /// The next one for each file.
    Rotate,
    /// Any.
    Random,
}

/// What may be set of the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
    /// See [`Settings::dirty_high`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_high: Option<f64>,
    /// See [`Settings::dirty_low`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_low: Option<f64>,
    /// See [`Settings::dirty_full`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_full: Option<f64>,
    /// See [`Settings::write_back_share_min`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back_share_min: Option<f64>,
    /// See [`Settings::copies_max`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_max: Option<usize>,
}

impl Agent {
    /// The settings of an overlay of `capacity_bytes`.
    pub fn settings(&self, capacity_bytes: u64) -> Settings {
        let defaults = Settings::default();
        Settings {
            capacity: Capacity::Bytes(capacity_bytes),
            dirty_high: self.dirty_high.unwrap_or(defaults.dirty_high),
            dirty_low: self.dirty_low.unwrap_or(defaults.dirty_low),
            dirty_full: self.dirty_full.unwrap_or(defaults.dirty_full),
            write_back_share_min: self.write_back_share_min.unwrap_or(defaults.write_back_share_min),
            copies_max: self.copies_max.unwrap_or(defaults.copies_max),
            ..defaults
        }
    }
}

/// A parallel program and when it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// What the report calls it.
    pub name: String,
    /// When it begins; with `after`, how long after that job's end.
    pub start_s: f64,
    /// The job before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Disk servers hold nothing in memory when it begins: neither pages of files nor, with LiU, segments.
    pub cold: bool,
    /// It is not measured: it begins again whenever it ends, until the measured jobs have ended.
    pub interfering: bool,
    /// Traces of the run, of which plans are made, have its requests.
    pub traced: bool,
    /// The first rank that ends ends the others (IOzone).
    pub stonewall: bool,
    /// Its files are those of all jobs with this name; its own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Whether its files exist in full length when it begins.
    pub prepared: bool,
    /// The node of its first rank.
    pub first_node: u32,
    /// Ranks on a node before the next one; as few as the nodes allow if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks_per_node: Option<u32>,
    /// What it does; programs made elsewhere need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Description>,
}

impl Default for Job {
    fn default() -> Job {
        Job {
            name: String::new(),
            start_s: 0.0,
            after: None,
            cold: false,
            interfering: false,
            traced: true,
            stonewall: false,
            files: None,
            prepared: true,
            first_node: 0,
            ranks_per_node: None,
            workload: None,
        }
    }
}

/// A scenario that makes no sense; the key says where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ScenarioError {
    /// As in the file, `[disk] servers`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl ScenarioError {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> ScenarioError {
        ScenarioError { key: key.into(), problem: problem.into() }
    }
}

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Text that is no TOML, keys that are not known, values that make no sense.
    pub fn from_toml(text: &str) -> Result<Scenario, ScenarioError> {
        let malformed = |error: toml::de::Error| ScenarioError::new("not a scenario", error.to_string().trim_end());
        let scenario: Scenario = toml::from_str(text).map_err(malformed)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The scenario's text.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a scenario has a TOML form")
    }

    /// The capacity.
    ///
    /// # Errors
    /// Neither a share nor a size.
    pub fn capacity(&self) -> Result<Capacity, ScenarioError> {
        self.capacity.parse().map_err(|problem: String| ScenarioError::new("capacity", problem))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let error = |key: &str, problem: String| Err(ScenarioError::new(key, problem));
        self.capacity()?;
        let page = headstart_units::PAGE_BYTES;
        if self.region.0 < page {
            return error("region", format!("{} is less than {page} bytes, the page of flash", self.region.0));
        }
        if self.limit_s.is_some_and(|limit| !(0.0..1e9).contains(&limit)) {
            return error("limit_s", "it is seconds".into());
        }
        let clients = &self.clients;
        if clients.nodes == 0 {
            return error("[clients] nodes", "it must be at least 1".into());
        }
        if !(1..=4096).contains(&clients.processors) {
            return error("[clients] processors", format!("{} is not from 1 to 4096", clients.processors));
        }
        if !(0.0..1e15).contains(&clients.bytes_per_s) {
            return error("[clients] bytes_per_s", format!("{} is no rate; 0 is no card", clients.bytes_per_s));
        }
        for (name, value) in [
            ("request_ms", clients.request_ms),
            ("request_cpu_ms", clients.request_cpu_ms),
            ("copy_cpu_ms", clients.copy_cpu_ms),
            ("agent_round_trip_ms", clients.agent_round_trip_ms),
            ("barrier_round_ms", clients.barrier_round_ms),
        ] {
            if !(0.0..1e6).contains(&value) {
                return error(&format!("[clients] {name}"), format!("{value} is not milliseconds from 0 on"));
            }
        }
        self.cluster.check(clients.nodes, self.policy)?;
        self.disk.check("disk")?;
        self.flash.check("flash")?;
        self.volume.check()?;
        self.check_agent()?;
        if let Some(costs) = &self.costs {
            costs.check()?;
        }
        self.check_jobs()
    }

    fn check_agent(&self) -> Result<(), ScenarioError> {
        let Agent { dirty_high, dirty_low, dirty_full, write_back_share_min, copies_max } = &self.agent;
        for (name, value) in [
            ("dirty_high", dirty_high),
            ("dirty_low", dirty_low),
            ("dirty_full", dirty_full),
            ("write_back_share_min", write_back_share_min),
        ] {
            if value.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return Err(ScenarioError::new(format!("[agent] {name}"), "it is a share, 0 to 1"));
            }
        }
        if copies_max.is_some_and(|copies| !(1..=1024).contains(&copies)) {
            return Err(ScenarioError::new("[agent] copies_max", "it is a number from 1 to 1024"));
        }
        Ok(())
    }

    fn check_jobs(&self) -> Result<(), ScenarioError> {
        for (index, job) in self.jobs.iter().enumerate() {
            let error =
                |key: &str, problem: String| Err(ScenarioError::new(format!("job '{}': {key}", job.name), problem));
            if !(0.0..1e9).contains(&job.start_s) {
                return error("start_s", format!("{} is not seconds from 0 on", job.start_s));
            }
            if job.ranks_per_node == Some(0) {
                return error("ranks_per_node", "it must be at least 1".into());
            }
            if self.jobs[..index].iter().any(|other| other.name == job.name) {
                return error("name", "there are two of it".into());
            }
            if let Some(after) = &job.after {
                match self.jobs[..index].iter().find(|other| other.name == *after) {
                    None => return error("after", format!("no job before it is called '{after}'")),
                    Some(other) if other.interfering => {
                        return error("after", format!("'{after}' interferes: it ends with the measured jobs"));
                    }
                    Some(_) => {}
                }
            }
        }
        if !self.jobs.is_empty() && self.jobs.iter().all(|job| job.interfering) {
            return Err(ScenarioError::new("interfering", "no job is measured: one of them must not interfere"));
        }
        Ok(())
    }

    pub(crate) fn barrier_round(&self) -> Nanos {
        Nanos::from_millis(self.clients.barrier_round_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_comes_back_from_its_own_text() {
        let mut scenario = Scenario { policy: Policy::Overlay(Chain::CarlS4d), ..Scenario::default() };
        scenario.jobs.push(Job { name: "a".into(), after: None, ..Job::default() });
        assert_eq!(Scenario::from_toml(&scenario.to_toml()).unwrap(), scenario);
        assert_eq!(Scenario::from_toml("").unwrap(), Scenario::default());
    }

    #[test]
    fn errors_name_the_key_and_what_would_be_right() {
        for (text, words) in [
            ("policy = 'fast'", &["policy", "carl,s4d"][..]),
            ("capacity = 'all'", &["capacity", "all"]),
            ("region = 1000", &["region", "4096"]),
            ("[disk]\nservers = 0", &["[disk] servers"]),
            ("[disk]\nprofile = 'floppy'", &["[disk] profile", "seagate-250"]),
            ("[flash]\nstripe = '3 apples'", &["stripe", "3 apples"]),
            ("[flash]\nserver = 3", &["server"]),
            ("[clients]\nrequest_ms = -1", &["[clients] request_ms"]),
            ("[clients]\nprocessors = 0", &["[clients] processors"]),
            ("[cluster]\nagents = 9", &["[cluster] agents", "8"]),
            ("policy = 'carl,s4d'\n[cluster]\nagents = 2", &["[cluster] agents", "s4d"]),
            ("[cluster]\npacket_us = -1", &["[cluster] packet_us"]),
            ("[agent]\ndirty_low = 7", &["[agent] dirty_low"]),
            ("[[job]]\nname = 'a'\n[[job]]\nname = 'a'", &["job 'a': name"]),
            ("[[job]]\nname = 'a'\nafter = 'b'", &["job 'a': after", "'b'"]),
            ("[[job]]\nname = 'a'\ninterfering = true", &["interfering"]),
        ] {
            let error = Scenario::from_toml(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
