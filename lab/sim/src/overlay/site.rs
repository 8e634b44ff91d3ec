//! All agents of a simulated site, and what they share: policies, copies' numbers, the links between them.

use headstart_cluster::MemberId;
use headstart_model::slab::Slab;
use headstart_overlay::Settings;
use headstart_policy::client::chain::Chain;
use headstart_policy::client::s4d::S4d;
use headstart_protocol::shared::SLOTS_MAX;
use headstart_units::Capacity;

use super::agent::{Agent, Copy, Lot, Nodes};
use super::member::Links;
use crate::rank::{Rank, Seat};
use crate::scenario::{Scenario, ScenarioError};

/// Files that an agent among others knows at once, for each of its ranks; more leave its table as ranks close them.
/// Assumed: a rank has few open at a time.
const FILES_PER_RANK: usize = 4;

/// See the module.
pub struct Site {
    /// The agents.
    pub agents: Vec<Agent>,
    /// Copies under way, of all agents.
    pub copies: Slab<Copy>,
    /// The policies of the run.
    pub chain: Chain,
    /// S4D's cost models.
    pub s4d: S4d,
    /// What is between them.
    pub links: Links,
    /// Agents that had nothing dirty when they were last looked at.
    pub clean: usize,
}

/// The agent of a node.
fn agent_of(node: u32, scenario: &Scenario) -> u32 {
    (u64::from(node) * u64::from(scenario.cluster.agents) / u64::from(scenario.clients.nodes)) as u32
}

/// The first node of an agent.
fn first_node(agent: u32, scenario: &Scenario) -> u32 {
    (u64::from(agent) * u64::from(scenario.clients.nodes)).div_ceil(u64::from(scenario.cluster.agents)) as u32
}

impl Site {
    /// Agents for these ranks, which get their seats at them, and for so many files. Flash is shared out in equal parts.
    ///
    /// # Errors
    /// An agent has more ranks than it has slots.
    pub fn new(
        scenario: &Scenario,
        ranks: &mut [Rank<'_>],
        files: usize,
        settings: Settings,
        (chain, s4d): (Chain, S4d),
    ) -> Result<Site, ScenarioError> {
        let count = scenario.cluster.agents;
        let mut of_agent: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
        for (number, rank) in (0..).zip(ranks) {
            let agent = agent_of(rank.node, scenario);
            let mates = &mut of_agent[agent as usize];
            rank.seat = Seat { agent, slot: mates.len() as u32 };
            mates.push(number);
        }
        if let Some(most) = of_agent.iter().map(Vec::len).max().filter(|most| *most > SLOTS_MAX) {
            let problem = format!("there are {most} ranks, and an agent has room for {SLOTS_MAX}");
            return Err(ScenarioError::new("policy", problem));
        }
        let capacity = match settings.capacity {
            Capacity::Bytes(bytes) => Capacity::Bytes(bytes / u64::from(count)),
            share @ Capacity::Share(_) => share,
        };
        let agents = (0..count).zip(of_agent).map(|(index, mates)| {
            let known = if count == 1 { files } else { files.min(mates.len().max(1) * FILES_PER_RANK) };
            let lot = Lot { index, of: count, servers: scenario.flash.servers };
            let nodes = Nodes::new(first_node(index, scenario), first_node(index + 1, scenario));
            let first_data_file = lot.first_data_file();
            let member = MemberId { node: index as u16, life: 0 };
            let settings = Settings { files_max: known + 1, capacity, first_data_file, member, ..settings };
            Agent::new(settings, (lot, nodes), &mates, files)
        });
        Ok(Site {
            agents: agents.collect(),
            copies: Slab::default(),
            chain,
            s4d,
            links: Links::new(&scenario.cluster),
            clean: 0,
        })
    }

    /// Whether there is more than one.
    pub fn has_several(&self) -> bool {
        self.agents.len() > 1
    }
}
