//! What is between agents of several nodes: messages that come in any order or not at all, and the view.

use std::sync::Arc;

use std::collections::BTreeSet;

use headstart_cluster::{Envelope, FileId, Log, MemberId, Seat, Timing, View};
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::{Agent, RANKS, World};
use crate::Policy;
use crate::crash_tests::storage::{Store, moved};
use crate::journal::HEADER_BYTES;
use crate::member_log::{durable_bytes, log_of, maps_of, position_told};

/// Nobody is expelled: whoever does not answer is waited for.
const TIMING: Timing = Timing { hold: Nanos(u64::MAX / 4), margin: Nanos::ZERO };

/// See the module.
pub struct Between {
    pub messages: Vec<Envelope>,
    pub view: Arc<View>,
    /// One message in so many is lost; zero: none.
    pub losses: u64,
    /// How many there were.
    pub sent: u64,
    /// What was noted durably of files of nodes that are dead: their bytes are in the slow files.
    pub salvaged: BTreeSet<(MemberId, FileId)>,
    /// Files whose bytes were copied for that.
    pub copied: u64,
}

/// The member of a node.
fn member(node: usize) -> MemberId {
    MemberId { node: node as u16, life: 0 }
}

impl World {
    /// The agent that serves a thread: two processes are of two nodes, if there are.
    pub fn agent_of(&self, rank: usize) -> usize {
        if self.cluster.is_some() { rank / 2 % self.agents.len() } else { 0 }
    }

    /// The threads of the agent whose turn it is.
    pub fn ranks_here(&self) -> impl Iterator<Item = usize> + use<> {
        let here: Vec<usize> = (0..RANKS).filter(|rank| self.agent_of(*rank) == self.at).collect();
        here.into_iter()
    }

    /// All agents are members of one cluster from now on. No thread has begun anything.
    pub fn cluster(&mut self, losses: u64) {
        let seat = |node: usize| Seat { member: member(node), incarnation: 0 };
        let view = Arc::new(View::first((0..self.agents.len()).map(seat).collect(), 64));
        self.cluster =
            Some(Between { messages: Vec::new(), view, losses, sent: 0, salvaged: BTreeSet::new(), copied: 0 });
        for rank in &mut self.ranks {
            rank.slot = super::NO_SLOT;
        }
        for at in 0..self.agents.len() {
            self.at = at;
            // Slots that were given away before belong to nobody.
            let agent = &mut self.agents[at];
            *agent = Agent::new(agent.settings.clone(), at);
            agent.overlay.join(agent.memory.view(), seat(at), TIMING, false, self.whims.policy);
            self.join();
            self.look();
        }
    }

    /// The agent looks at the membership service.
    pub fn look(&mut self) {
        let Some(between) = &self.cluster else { return };
        let (view, now) = (between.view.clone(), Nanos(self.clock));
        let agent = &mut self.agents[self.at];
        agent.overlay.on_view(agent.memory.view(), now, now, view);
        self.carry_out();
    }

    /// An agent that was started anew joins with its next incarnation.
    pub fn rejoin(&mut self) {
        let Some(between) = &mut self.cluster else { return };
        let view = between.view.restarted(member(self.at)).expect("it has a seat");
        let seat = view.seat(member(self.at)).expect("it has one");
        between.view = Arc::new(view);
        let agent = &mut self.agents[self.at];
        agent.overlay.join(agent.memory.view(), seat, TIMING, false, self.whims.policy);
        self.look();
    }

    /// The node dies for good, with its threads, which have nothing under way. The others go on without it: what it had
    /// synced counts.
    pub fn lose_node(&mut self, node: usize) {
        self.at = node;
        self.kill_agent();
        let agent = &mut self.agents[node];
        agent.is_lost = true;
        agent.ghosts.clear();
        agent.data.values_mut().for_each(|store| store.lose_power(&mut self.random));
        agent.journal.lose_power(&mut self.random);
        let (cut, between) = (position_told(self.durable_log(node)), self.cluster.as_mut().expect("there are others"));
        let gone = member(node);
        let view = between.view.without(gone).and_then(|view| view.with_cut(gone, cut)?.quieted(gone));
        between.view = Arc::new(view.expect("it has a seat"));
        for at in (0..self.agents.len()).filter(|at| *at != node) {
            self.at = at;
            self.look();
        }
    }

    /// What a barrier covered of a node's journal.
    fn durable_log(&self, node: usize) -> &[u8] {
        let body = &self.agents[node].journal.bytes[HEADER_BYTES..];
        &body[..durable_bytes(body)]
    }

    /// What a member that is gone had recorded, but for what was noted to be in the slow files.
    pub fn read_log(&mut self, of: MemberId) {
        let mut log: Log = log_of(self.durable_log(of.node as usize));
        let between = self.cluster.as_ref().expect("there are others");
        let salvaged = between.salvaged.iter().filter(|(member, _)| *member == of);
        salvaged.for_each(|(_, file)| log.forget_file(*file));
        let agent = &mut self.agents[self.at];
        agent.overlay.on_log_read(agent.memory.view(), of, log);
    }

    /// Copies what a node that is gone has of a file to the slow file, unless that was done before.
    pub fn salvage(&mut self, file: FileId, of: MemberId) {
        if self.whims.policy == Policy::Commits {
            return self.know_inherited(file, of);
        }
        let between = self.cluster.as_mut().expect("there are others");
        if between.salvaged.insert((of, file)) {
            between.copied += 1;
            let maps = maps_of(self.durable_log(of.node as usize));
            let known = maps.files.values().filter(|known| known.identity.inode == file.0);
            let dirty: Vec<_> = known.flat_map(|known| known.map.iter()).filter(|mapped| mapped.dirty).collect();
            let at = |inode: &&mut super::Inode| inode.identity.inode == file.0 && inode.linked;
            let slow = &mut self.inodes.iter_mut().find(at).expect("it has a name").store;
            for mapped in dirty {
                let data: &Store = &self.agents[of.node as usize].data[&mapped.data_file];
                let there = Range::new(mapped.place, mapped.range.length);
                slow.write(moved(&data.read(there), mapped.place, mapped.range.offset));
            }
            slow.sync();
        }
        let agent = &mut self.agents[self.at];
        agent.overlay.on_salvaged(agent.memory.view(), file, of, true);
    }

    /// Where files stay on flash, whoever owns one is to know it, and writes it back.
    fn know_inherited(&mut self, file: FileId, of: MemberId) {
        let at = |inode: &super::Inode| inode.identity.inode == file.0 && inode.linked;
        let inode = self.inodes.iter().position(at).expect("it has a name");
        let (identity, size) = (self.inodes[inode].identity, self.inodes[inode].store.size());
        let observed = crate::Fingerprint { size, modified_ns: 0 };
        let agent = &mut self.agents[self.at];
        let number = agent.overlay.know(agent.memory.view(), identity, b"/slow/x", observed).expect("there is room");
        agent.numbers.insert(number, inode);
        agent.overlay.on_salvaged(agent.memory.view(), file, of, false);
        self.cluster.as_mut().expect("there are others").copied += 1;
    }

    /// How many files were copied from nodes that are gone.
    pub fn copied_from_the_dead(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |between| between.copied)
    }

    /// Whether messages are under way, or awaited, or a view has not been seen.
    pub fn is_between(&self) -> bool {
        let Some(between) = &self.cluster else { return false };
        let waits = |agent: &Agent| {
            agent.overlay.view().map(View::number) != Some(between.view.number())
                || !agent.overlay.waits_for_members().is_empty()
                || (agent.overlay.has_logs_of_others() && agent.overlay.members_emptied().is_empty())
        };
        !between.messages.is_empty() || self.agents.iter().any(|agent| !agent.is_dead && waits(agent))
    }

    pub fn send_to_member(&mut self, envelope: Envelope) {
        let Some(between) = &mut self.cluster else { unreachable!("nobody else is there") };
        between.sent += 1;
        if between.losses == 0 || self.random.below(between.losses) > 0 {
            between.messages.push(envelope);
        }
    }

    /// How many messages there were.
    pub fn sent_between(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |between| between.sent)
    }

    /// A step between agents, or whose turn it is; true if that was all.
    pub fn step_between(&mut self) -> bool {
        self.at = self.random.below(self.agents.len() as u64) as usize;
        match self.random.below(100) {
            0..25 => self.deliver_to_member(),
            25..28 if !self.agents[self.at].is_dead => self.say_again(),
            28..32 if !self.agents[self.at].is_dead => self.look(),
            _ => return false,
        }
        true
    }

    /// One message comes, whichever.
    pub fn deliver_to_member(&mut self) {
        let Some(between) = &mut self.cluster else { return };
        if between.messages.is_empty() {
            return;
        }
        let at = self.random.below(between.messages.len() as u64) as usize;
        let envelope = between.messages.swap_remove(at);
        self.at = envelope.to.member.node as usize;
        if self.agents[self.at].is_dead {
            return;
        }
        let agent = &mut self.agents[self.at];
        let counts = agent.overlay.on_peer(agent.memory.view(), envelope);
        self.carry_out();
        if !counts && !self.agents[self.at].is_dead {
            self.look();
        }
    }

    pub fn say_again(&mut self) {
        let agent = &mut self.agents[self.at];
        agent.overlay.say_again(agent.memory.view());
        self.carry_out();
    }

    /// A file lies on the flash of one node at most, of dead agents too.
    pub fn check_one_has_it(&mut self) {
        if self.cluster.is_none() || self.whims.policy == Policy::Commits {
            return;
        }
        for inode in 0..self.inodes.len() {
            let identity = self.inodes[inode].identity;
            let has =
                |agent: &&Agent| agent.overlay.find(identity).is_some_and(|number| agent.overlay.has_extents(number));
            if self.agents.iter().filter(has).count() > 1 {
                self.violations.push(format!("inode {inode} is on flash of two nodes"));
            }
        }
    }
}
