//! Agents of several nodes, and what lies between them.

use serde::{Deserialize, Serialize};

use super::{Policy, ScenarioError};
use headstart_policy::client::chain::Chain;

/// A data file's number has ten bits for its agent's.
const AGENTS_MAX: u32 = 1024;

/// Who the agents are, and what their messages take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Agents. Each has its share of the nodes, one beside the other; a single one serves all nodes and knows no other.
    pub agents: u32,
    /// How they become members of one cluster.
    pub join: Join,
    /// A look at the register that holds their view, or a change of it.
    pub register_ms: f64,
    /// From a card to another, one way.
    pub latency_ms: f64,
    /// What a packet of messages takes an agent's loop, at each end.
    pub packet_us: f64,
    /// What a message in it does.
    pub message_us: f64,
}

/// How agents become members, before the jobs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Join {
    /// The first view has all of them.
    Together,
    /// Each joins when the one before has settled.
    OneByOne,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            agents: 1,
            join: Join::Together,
            // Some operations on a shared file system.
            register_ms: 5.0,
            latency_ms: 0.1,
            // Together a quarter of the 10 us that `headstart-transport` takes for a message and its answer over
            // loopback: two packets, each with two ends. A message among many takes it 0.3 us and more.
            packet_us: 2.0,
            message_us: 0.5,
        }
    }
}

impl Cluster {
    pub(super) fn check(&self, nodes: u32, policy: Policy) -> Result<(), ScenarioError> {
        let error = |key: &str, problem: String| Err(ScenarioError::new(format!("[cluster] {key}"), problem));
        if !(1..=nodes).contains(&self.agents) {
            return error("agents", format!("{} is not from 1 to the {nodes} [clients] nodes", self.agents));
        }
        if self.agents > AGENTS_MAX {
            return error("agents", format!("there can be {AGENTS_MAX} at most"));
        }
        let places = matches!(policy, Policy::Overlay(Chain::Carl | Chain::CarlS4d));
        if self.agents > 1 && places {
            return error("agents", "regions are placed by one agent alone: use s4d or auto".into());
        }
        for (name, value) in [
            ("register_ms", self.register_ms),
            ("latency_ms", self.latency_ms),
            ("packet_us", self.packet_us),
            ("message_us", self.message_us),
        ] {
            if !(0.0..1e6).contains(&value) {
                return error(name, format!("{value} is no time from 0 on"));
            }
        }
        Ok(())
    }
}
