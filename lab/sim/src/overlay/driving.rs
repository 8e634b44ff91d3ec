//! Agents in the loop of the simulation: what happens to an overlay, and what it wants done.

use std::sync::atomic::Ordering;

use headstart_model::request::{Operation, Origin};
use headstart_overlay::{Fingerprint, Opening, Output};
use headstart_policy::client::carl::Regions;
use headstart_policy::cost::region::Costs;
use headstart_protocol::message::{Envelope, Request as Message};
use headstart_units::Nanos;

use super::agent::{Agent, Copy, Syncing};
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::queue::Event;
use crate::rank::Seat;
use crate::simulation::{Simulation, Stage};
use crate::tier::TierName;

/// Agents' own requests, as elevators see them: each copy is a thread of its own.
const AGENT_JOB: u32 = u32::MAX;
/// The path of every file: agents only tell it to people.
pub(super) const PATH: &[u8] = b"/simulated";

/// A transfer of an agent's own, through the card of a node.
pub(super) fn own_order(owner: Owner, node: u32, rank: u32) -> Order {
    let origin = Origin { job: AGENT_JOB, rank, file: 0 };
    Order { owner, tier: TierName::Disk, operation: Operation::Flush, node, origin }
}

impl Simulation<'_> {
    /// An agent.
    pub(super) fn agent(&mut self, agent: u32) -> &mut Agent {
        match &mut self.client {
            Client::Overlay(site) => &mut site.agents[agent as usize],
            Client::Stock | Client::Placed(_) => unreachable!("only the overlay has agents"),
        }
    }

    fn agents(&self) -> u32 {
        match &self.client {
            Client::Overlay(site) => site.agents.len() as u32,
            Client::Stock | Client::Placed(_) => 0,
        }
    }

    /// Something happens to an overlay; then what it wants done is done.
    pub(super) fn verb(&mut self, agent: u32, what: impl FnOnce(&mut Agent, Nanos)) {
        let now = self.now;
        let own = self.agent(agent);
        own.overlay.set_time(now.0);
        what(own, now);
        self.carry_out(agent);
        self.end_turn(agent);
        let own = self.agent(agent);
        own.limit_journal();
        let due = now + own.poll_period();
        let joins = self.stage == Stage::Placing && self.agents() > 1;
        if !joins {
            self.poll_at(agent, due);
        }
        let places = self.stage == Stage::Placing && !joins && self.agent(agent).overlay.is_placing();
        match self.stage {
            Stage::Placing if joins => self.settle_members(),
            Stage::Placing if !places => self.start_jobs(),
            Stage::Draining => self.look_for_dirt(agent),
            _ => {}
        }
    }

    /// The run is drained once nothing is dirty at any agent.
    fn look_for_dirt(&mut self, agent: u32) {
        let Client::Overlay(site) = &mut self.client else { return };
        let own = &mut site.agents[agent as usize];
        let was_clean = std::mem::replace(&mut own.was_clean, false);
        own.was_clean = own.is_clean();
        site.clean = site.clean + usize::from(own.was_clean) - usize::from(was_clean);
        if site.clean == site.agents.len() {
            self.finish_draining();
        }
    }

    /// The agent looks round at that time, if not sooner.
    pub(super) fn poll_at(&mut self, agent: u32, due: Nanos) {
        let own = self.agent(agent);
        if own.poll_due.is_none_or(|earlier| earlier > due) {
            own.poll_due = Some(due);
            self.queue.push(due, Event::Poll(agent));
        }
    }

    /// Regions are to be on flash before the jobs begin; they begin at once where there are none. One agent places them.
    pub(crate) fn place_regions(&mut self, regions: Vec<Regions>) {
        let sizes: Vec<u64> = self.files.iter().map(|file| file.size).collect();
        self.verb(0, |agent, _| {
            let shared = agent.memory.view();
            for (file, regions) in (0u32..).zip(regions) {
                let observed = Fingerprint { size: sizes[file as usize], modified_ns: 0 };
                let number = agent.overlay.know(shared, Agent::identity(file), PATH, observed);
                let number = number.expect("the table has room for every file, and nobody changes one unseen");
                agent.overlay.set_regions(shared, number, regions);
                agent.numbers[file as usize] = number;
                agent.by_number.insert(number, file);
            }
            agent.overlay.place(shared, true);
        });
    }

    /// Regions follow the programs.
    pub(crate) fn follow(&mut self, costs: Costs) {
        for agent in 0..self.agents() {
            let costs = costs.clone();
            self.verb(agent, |own, _| own.overlay.follow(own.memory.view(), Some(costs)));
        }
    }

    /// Everything dirty is to go back; false if there is no agent.
    pub(crate) fn begin_drain(&mut self) -> bool {
        if !matches!(self.client, Client::Overlay(_)) {
            return false;
        }
        for agent in 0..self.agents() {
            self.verb(agent, |own, _| {
                own.draining = true;
                // Who wanted regions to follow, or to be placed, is gone.
                own.overlay.follow(own.memory.view(), None);
                own.overlay.place(own.memory.view(), false);
                own.overlay.drain(true);
                own.overlay.poll(own.memory.view());
            });
        }
        true
    }

    /// [`Event::Poll`].
    pub(crate) fn on_poll(&mut self, agent: u32) {
        let now = self.now;
        let own = self.agent(agent);
        if own.poll_due != Some(now) {
            return;
        }
        own.poll_due = None;
        self.verb(agent, |own, _| own.overlay.poll(own.memory.view()));
    }

    /// [`Event::Ask`].
    pub(crate) fn on_ask(&mut self, rank: u32) {
        let Seat { agent, slot } = self.ranks[rank as usize].seat;
        self.verb(agent, |agent, now| {
            let message = agent.askers[slot as usize].asked.take().expect("a message is on its way");
            let seq = agent.memory.slots[slot as usize].seq.load(Ordering::Acquire);
            let envelope = Envelope { slot, seq };
            let shared = agent.memory.view();
            let Message::Open { inode, size, writable, .. } = message else {
                return agent.overlay.on_request(shared, now.0, envelope, &message);
            };
            let file = inode as u32 - 1;
            let identity = Agent::identity(file);
            let observed = Fingerprint { size, modified_ns: 0 };
            agent.overlay.on_open(shared, envelope, Opening { identity, observed, writable, path: PATH });
            if let Some(number) = agent.overlay.find(identity) {
                agent.enter(file, number);
            }
        });
    }

    pub(super) fn carry_out(&mut self, agent: u32) {
        loop {
            let outputs = self.agent(agent).store_records();
            for output in outputs {
                self.carry_out_one(agent, output);
            }
            if self.agent(agent).overlay.is_settled() {
                return;
            }
        }
    }

    fn carry_out_one(&mut self, number: u32, output: Output) {
        let (now, way_back) = (self.now, self.software.way_back());
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay has agents") };
        let agent = &mut site.agents[number as usize];
        match output {
            Output::Reply(envelope, answer) => {
                let asker = &mut agent.askers[envelope.slot as usize];
                asker.answer = Some(answer);
                let at = now + way_back;
                self.queue.push(at, Event::Answer(asker.rank));
            }
            Output::Copy(order) => {
                let node = agent.nodes.take();
                agent.copies += 1;
                let copy = site.copies.insert(Copy::new(order, number, node));
                match self.software.copy(now, node) {
                    at if at == now => self.begin_copy(copy),
                    at => self.queue.push(at, Event::Copy(copy)),
                }
            }
            Output::Extend { file, size, .. } => {
                let slow = &mut self.files[agent.file_of(file) as usize];
                slow.size = slow.size.max(size);
                agent.overlay.on_extended(agent.memory.view(), file, Ok(slow.size));
            }
            Output::Barrier { data_files, slow_files, .. } => {
                let slow_follows = !slow_files.is_empty();
                agent.syncing = Some(Syncing::Data { slow_follows });
                if data_files.is_empty() {
                    self.continue_barrier(number);
                } else {
                    self.flush(number, TierName::Flash);
                }
            }
            Output::SyncJournal => {
                // What was appended since is made durable as well.
                agent.journal.append(agent.overlay.take_journal().len() as u64);
                agent.overlay.on_appended(agent.memory.view());
                agent.syncing = Some(Syncing::JournalWrite);
                let (place, range) = agent.journal.write();
                let order = Order {
                    tier: TierName::Flash,
                    operation: Operation::Write,
                    ..own_order(Owner::Barrier(number), agent.nodes.first, 0)
                };
                self.fabric.start(now, &mut self.queue, order, place, range);
            }
            Output::Forget(file) => agent.forget(file),
            Output::Show { slot, at, page } => agent.overlay.show_slab(agent.memory.view(), slot, at, page),
            Output::List(index) => agent.overlay.list(agent.memory.view(), index),
            Output::Grow { .. } | Output::Unsynced(_) | Output::Punch(_) | Output::RemoveDataFile(_) => {}
            Output::Send(envelope) => self.post(number, envelope),
            // Looks at the register never fail.
            Output::Deadline(_) => {}
            Output::ReadLog(_) | Output::Salvage { .. } | Output::Expelled => {
                unreachable!("no agent of a simulated site is given up")
            }
        }
    }

    fn flush(&mut self, agent: u32, tier: TierName) {
        let node = self.agent(agent).nodes.first;
        let order = Order { tier, ..own_order(Owner::Barrier(agent), node, 0) };
        self.fabric.flush(self.now, &mut self.queue, order);
    }

    /// A transfer of the barrier under way is done.
    pub(crate) fn on_synced(&mut self, agent: u32) {
        let now_ns = self.now.0;
        self.agent(agent).overlay.set_time(now_ns);
        self.continue_barrier(agent);
        self.verb(agent, |_, _| {});
    }

    fn continue_barrier(&mut self, number: u32) {
        let agent = self.agent(number);
        match agent.syncing.take() {
            Some(Syncing::Data { slow_follows: true }) => {
                agent.syncing = Some(Syncing::Slow);
                self.flush(number, TierName::Disk);
            }
            Some(Syncing::Data { slow_follows: false } | Syncing::Slow) => {
                agent.overlay.on_barrier_synced(agent.memory.view(), Ok(()));
            }
            Some(Syncing::JournalWrite) => {
                agent.syncing = Some(Syncing::Journal);
                self.flush(number, TierName::Flash);
            }
            Some(Syncing::Journal) => agent.overlay.on_journal_durable(agent.memory.view(), Ok(())),
            None => unreachable!("a barrier is under way"),
        }
    }
}
