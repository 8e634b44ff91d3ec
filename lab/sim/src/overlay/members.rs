//! Agents as members of one cluster, in the loop of the simulation: they join, look at the register, and talk.
//!
//! ```text
//! join --> look --register_ms--> on_view --> Output::Send ... end of the turn: one packet a peer
//!   loop (packet_us, message_us a message) --> card --latency_ms--> card --> loop --> on_peer
//! ```
//!
//! The register is a delay: nobody's bytes are in each other's way there. No message is lost, and no member is. Jobs
//! begin once all have joined and nobody waits for anybody.

use std::sync::Arc;

use headstart_cluster::{Envelope, MemberId, Seat, Timing, View};
use headstart_overlay::Policy;
use headstart_units::Nanos;

use super::agent::Agent;
use super::member::{Look, Packet, Stage, Traffic};
use crate::client::Client;
use crate::queue::Event;
use crate::scenario::Join;
use crate::simulation::Simulation;

/// What the site file says if it says nothing (`agent/src/site/cluster.rs`).
const TIMING: Timing = Timing { hold: Nanos(30_000_000_000), margin: Nanos(5_000_000_000) };
/// A member looks at the register so often, and says again what was not answered (`agent/src/event_loop/cluster.rs`).
const LOOK_PERIOD: Nanos = Nanos(3_000_000_000);
const AGAIN_PERIOD: Nanos = Nanos(100_000_000);
/// Homes that files are shared out to (`agent/src/cluster/views.rs`).
const SLOTS: usize = 4096;

fn member(agent: u32) -> MemberId {
    MemberId { node: agent as u16, life: 0 }
}

fn seat(agent: u32) -> Seat {
    Seat { member: member(agent), incarnation: 0 }
}

impl Simulation<'_> {
    /// The agents become members before the jobs begin; false if there is one alone.
    pub(crate) fn join_agents(&mut self) -> bool {
        let Client::Overlay(site) = &mut self.client else { return false };
        if !site.has_several() {
            return false;
        }
        let first = match site.links.join {
            Join::Together => site.agents.len() as u32,
            Join::OneByOne => 1,
        };
        site.links.view = Some(Arc::new(View::first((0..first).map(seat).collect(), SLOTS)));
        (0..first).for_each(|agent| self.join(agent));
        true
    }

    /// The view names the agent from now on.
    fn join(&mut self, agent: u32) {
        let own = self.agent(agent);
        // The first has had the directory to itself.
        own.overlay.join(own.memory.view(), seat(agent), TIMING, agent == 0, Policy::Leaves);
        self.look_at(agent, self.now);
    }

    /// Once nothing is under way and nobody waits: the next one joins, or the jobs begin.
    pub(super) fn settle_members(&mut self) {
        let Client::Overlay(site) = &mut self.client else { return };
        let Some(view) = &site.links.view else { return };
        let joined = view.seats().len();
        if site.links.seen < joined || !site.links.packets.is_empty() {
            return;
        }
        if !site.agents[..joined].iter().all(|agent| agent.overlay.waits_for_members().is_empty()) {
            return;
        }
        if joined == site.agents.len() {
            let sum = site.agents.iter_mut().map(|agent| std::mem::take(&mut agent.membership.traffic));
            site.links.joining = sum.fold(Traffic::default(), |sum, traffic| sum.plus(&traffic));
            return self.start_jobs();
        }
        let view = view.joined(member(joined as u32)).expect("it has not been there");
        site.links.view = Some(Arc::new(view));
        site.links.seen = 0;
        self.join(joined as u32);
    }

    /// The agent looks at the register at that time, if not sooner.
    fn look_at(&mut self, agent: u32, due: Nanos) {
        let look = &mut self.agent(agent).membership.look;
        let is_sooner = match *look {
            Look::None => true,
            Look::Due(earlier) => due < earlier,
            Look::Begun(_) => false,
        };
        if is_sooner {
            *look = Look::Due(due);
            self.queue.push(due, Event::Look(agent));
        }
    }

    /// [`Event::Look`]: it begins, or is answered.
    pub(crate) fn on_look(&mut self, agent: u32) {
        let now = self.now;
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay has agents") };
        let own = &mut site.agents[agent as usize];
        match own.membership.look {
            Look::Due(due) if due == now => {
                own.membership.look = Look::Begun(now);
                self.queue.push(now + site.links.register, Event::Look(agent));
            }
            Look::Begun(began) if now == began + site.links.register => {
                own.membership.look = Look::None;
                let view = site.links.view.clone().expect("agents look once there is a view");
                site.links.seen += usize::from(own.membership.view < view.number());
                own.membership.view = view.number();
                self.verb(agent, |own, now| own.overlay.on_view(own.memory.view(), began, now, view));
                self.look_at(agent, began + LOOK_PERIOD);
            }
            // It was brought forward.
            Look::None | Look::Due(_) | Look::Begun(_) => {}
        }
    }

    /// The overlay says something to another member.
    pub(super) fn post(&mut self, agent: u32, envelope: Envelope) {
        let at = self.now + AGAIN_PERIOD;
        let own = &mut self.agent(agent).membership;
        own.outbox.push(envelope);
        if !own.says_again {
            own.says_again = true;
            self.queue.push(at, Event::Again(agent));
        }
    }

    /// [`Event::Again`].
    pub(crate) fn on_again(&mut self, agent: u32) {
        let at = self.now + AGAIN_PERIOD;
        let own = self.agent(agent);
        own.membership.says_again = !own.overlay.waits_for_members().is_empty();
        if own.membership.says_again {
            self.queue.push(at, Event::Again(agent));
            self.verb(agent, |own, _| own.overlay.say_again(own.memory.view()));
        }
    }

    /// The end of a turn: what it has said goes, one packet a peer.
    pub(super) fn end_turn(&mut self, agent: u32) {
        let mut letters = std::mem::take(&mut self.agent(agent).membership.outbox);
        if letters.is_empty() {
            return;
        }
        letters.sort_by_key(|letter| letter.to.member);
        let mut left = letters.into_iter().peekable();
        while let Some(first) = left.next() {
            let to = first.to.member;
            let mut of_peer = vec![first];
            while let Some(next) = left.next_if(|letter| letter.to.member == to) {
                of_peer.push(next);
            }
            self.send_packet(agent, to.node.into(), of_peer);
        }
    }

    fn send_packet(&mut self, from: u32, to: u32, letters: Vec<Envelope>) {
        let now = self.now;
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay has agents") };
        let cost = site.links.cost(letters.len());
        let packet = site.links.packet(from, to, letters);
        let own = &mut site.agents[from as usize].membership;
        own.traffic.say(&packet);
        let at = own.work(now, cost);
        let number = site.links.packets.insert(packet);
        self.queue.push(at, Event::Packet(number));
    }

    /// [`Event::Packet`].
    pub(crate) fn on_packet(&mut self, number: u32) {
        let now = self.now;
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay has agents") };
        let Packet { from, to, stage, bytes, .. } = site.links.packets[number];
        let node = |agent: u32| site.agents[agent as usize].nodes.first;
        let (at, next) = match stage {
            Stage::Written => (self.fabric.leave(now, node(from), bytes) + site.links.latency, Stage::Sent),
            Stage::Sent => (self.fabric.enter(now, node(to), bytes), Stage::Arrived),
            Stage::Arrived => {
                let packet = &site.links.packets[number];
                let cost = site.links.cost(packet.letters.len());
                let own = &mut site.agents[to as usize].membership;
                if let Some(at) = own.take_in(now, number, packet, cost) {
                    self.queue.push(at, Event::Turn(to));
                }
                return;
            }
        };
        site.links.packets[number].stage = next;
        self.queue.push(at, Event::Packet(number));
    }

    /// [`Event::Turn`]: the agent reads all packets that wait.
    pub(crate) fn on_turn(&mut self, agent: u32) {
        let now = self.now;
        let own = self.agent(agent);
        own.overlay.set_time(now.0);
        let mut counts = true;
        for number in own.membership.read(now) {
            for letter in self.open_packet(number) {
                let Agent { overlay, memory, .. } = self.agent(agent);
                counts &= overlay.on_peer(memory.view(), letter);
                self.carry_out(agent);
            }
        }
        if !counts {
            self.look_at(agent, now);
        }
        self.verb(agent, |_, _| {});
    }

    fn open_packet(&mut self, number: u32) -> Vec<Envelope> {
        let Client::Overlay(site) = &mut self.client else { unreachable!("only the overlay has agents") };
        let letters = std::mem::take(&mut site.links.packets[number].letters);
        site.links.packets.remove(number);
        letters
    }
}
