//! What each step does to the state.

use std::sync::Arc;

use headstart_units::Nanos;

use super::node::{NOW, Node};
use super::rank::{Op, Rank};
use super::register::FOREIGN;
use super::row::{Alone, Kind, Slip};
use super::shared::Shared;
use super::world::World;
use crate::log::Log;
use crate::message::Ask;
use crate::names::{FileId, MemberId, RequestId, Seat};
use crate::rules::{Rule, kept};
use crate::{Member, Timing, View};

impl World {
    pub(super) fn deliver(&mut self, at: usize, again: bool) {
        let envelope = self.net[at].get().clone();
        if !again {
            self.net.remove(at);
        }
        self.agent(envelope.to.member.node as u8, |agent| {
            agent.on_message(envelope);
        });
    }

    /// Messages that count for nothing any more are not there.
    pub(super) fn purge(&mut self) {
        let nodes = &self.nodes;
        let view = self.view.number();
        self.net.retain(|envelope| {
            let envelope = envelope.get();
            let to = nodes[envelope.to.member.node as usize].get();
            let seat = |seat: &Seat| nodes[seat.member.node as usize].get().seat == *seat;
            let old =
                to.agent.as_ref().is_some_and(|agent| agent.view().number() > envelope.view) || envelope.view > view;
            !to.is_off() && !to.expelled && ((!old && seat(&envelope.to)) || !kept(Rule::OldView))
        });
    }

    /// What an agent looks at now and then is all that is at work.
    pub(super) fn in_step(&self) -> Result<(), String> {
        let agents = self.nodes.iter().filter_map(|node| node.get().agent.as_ref());
        match agents.into_iter().all(Member::is_in_step) {
            true => Ok(()),
            false => Err("an index is not what a walk finds".into()),
        }
    }

    pub(super) fn one_owner(&self) -> Result<(), String> {
        for file in (0..self.row.files).map(|file| FileId(u64::from(file))) {
            let owns = |node: &Node| {
                let agent = node.agent.as_ref().filter(|_| !node.is_off() && (!self.row.timed || node.is_valid()));
                agent.is_some_and(|agent| agent.owns(file) || agent.is_alone(file))
            };
            if self.nodes.iter().filter(|node| owns(node.get())).count() > 1 {
                return Err(format!("{file:?} has two owners"));
            }
        }
        Ok(())
    }

    /// What a log maps is no thread's to write, and nothing else's; and the log has it in its order.
    pub(super) fn one_record_a_place(&self) -> Result<(), String> {
        for node in self.nodes.iter().map(Shared::get).filter(|node| !node.is_off()) {
            if !node.log().is_in_order() {
                return Err(format!("the log of {:?} is not in order", node.member()));
            }
            let mut mapped = 0u64;
            for place in node.log().places() {
                if mapped & (1 << place) != 0 || !node.flash[place as usize].used {
                    return Err(format!("place {place} of {:?} is used again", node.member()));
                }
                mapped |= 1 << place;
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, number: u8, kind: Kind, file: u8, block: u8) {
        let left = match kind {
            Kind::Absorb => &mut self.left.absorbs,
            Kind::Direct => &mut self.left.directs,
            Kind::Read => &mut self.left.reads,
            Kind::Sync => &mut self.left.syncs,
        };
        *left -= 1;
        let all = self.row.blocks;
        let at = file * all + block;
        let mut op = Op { kind, file, block, value: 0, known: 0 };
        match kind {
            Kind::Read => op.known = self.register.known(at),
            Kind::Sync => op.known = self.register.to_sync(number, |block| block / all == file),
            Kind::Absorb | Kind::Direct => op.value = self.register.begin(number, at),
        }
        self.change(number, |node| node.seq += 1);
        self.go(number, op);
    }

    /// The thread has looked at the deadline.
    fn go(&mut self, number: u8, op: Op) {
        let clear = self.node(number).clear[op.file as usize] & (1 << op.block) != 0;
        let op =
            if op.kind == Kind::Absorb && self.refuses(number, &op) { Op { kind: Kind::Direct, ..op } } else { op };
        match op.kind {
            Kind::Absorb if self.is_alone(number, &op) => self.absorb_alone(number, op),
            Kind::Direct if !clear && self.is_alone(number, &op) => self.set(number, self.direct_alone(op)),
            Kind::Read if !clear && self.is_alone(number, &op) => self.read_alone(number, op),
            Kind::Sync => self.set(number, Rank::Syncs(op)),
            Kind::Absorb => {
                let place = self.write_flash(number, op.value);
                self.ask(number, op, Ask::Commit { range: op.range(), place });
            }
            Kind::Direct if clear => self.set(number, Rank::Cheap { op, landed: false }),
            Kind::Direct => self.ask(number, op, Ask::Write { range: op.range() }),
            Kind::Read if clear => self.set(number, Rank::Disk { op, disturbed: false, of: None }),
            Kind::Read => self.ask(number, op, Ask::Read { range: op.range() }),
        }
    }

    pub(super) fn step(&mut self, number: u8) -> Result<(), String> {
        let node = self.node(number);
        let valid = !self.row.timed || node.is_valid() || self.slips(Slip::NoDeadline);
        match node.rank {
            Rank::Idle | Rank::Failed | Rank::Asks { .. } | Rank::Pings { .. } => {}
            Rank::Look(op) => self.go(number, op),
            Rank::Cheap { op, landed: false } => {
                let after = if node.expelled { Rank::Failed } else { Rank::Cheap { op, landed: true } };
                self.write_slow(number, self.block(&op), op.value);
                self.set(number, after);
            }
            Rank::Cheap { op, landed: true } => {
                self.end(number, op, op.value);
                self.say_ended(number, &op);
            }
            Rank::Disk { op, disturbed, of } => {
                let value = self.read_slow(self.block(&op));
                if (disturbed && !self.slips(Slip::NoGeneration)) || !valid {
                    self.set(number, Rank::Look(op));
                } else {
                    match of.filter(|of| self.is_other(number, *of) && !self.slips(Slip::NoAliveDisk)) {
                        Some(of) => self.ping(number, op, of, value),
                        None => self.complete(number, op, value)?,
                    }
                }
            }
            Rank::Direct { op, landed: false, by_owner } => {
                let after = if node.expelled { Rank::Failed } else { Rank::Direct { op, landed: true, by_owner } };
                self.write_slow(number, self.block(&op), op.value);
                self.set(number, after);
            }
            Rank::Direct { op, landed: true, by_owner } if !by_owner || self.is_alone(number, &op) => {
                self.end_direct_alone(number, op);
            }
            Rank::Direct { op, landed: true, .. } => self.ask(number, op, Ask::WriteDone { range: op.range() }),
            Rank::Flash { op, disturbed: true, .. } if !self.slips(Slip::NoGenerationFlash) => {
                self.set(number, Rank::Look(op))
            }
            Rank::Flash { op, of, place, durable, .. } => {
                let value = self.read_flash((of.node as u8, place));
                if durable || !self.is_other(number, of) || self.slips(Slip::NoAlive) {
                    self.end(number, op, value);
                } else {
                    self.ping(number, op, of, value);
                }
            }
            Rank::Syncs(op) => {
                self.barrier(number);
                self.end(number, op, 0);
            }
            Rank::Ends { op, value, .. } => self.complete(number, op, value)?,
        }
        Ok(())
    }

    fn is_other(&self, number: u8, member: MemberId) -> bool {
        self.node(number).member() != member
    }

    fn ping(&mut self, number: u8, op: Op, of: MemberId, value: u8) {
        let id = self.change(number, |node| {
            let id = RequestId { slot: 1, seq: node.seq };
            node.rank = Rank::Pings { op, id, of, value };
            id
        });
        self.agent(number, |agent| agent.ping(id, of));
    }

    fn complete(&mut self, number: u8, op: Op, value: u8) -> Result<(), String> {
        match op.kind {
            Kind::Read => self.register.read(self.block(&op), op.known, value)?,
            Kind::Absorb | Kind::Direct => self.register.wrote(op.value),
            Kind::Sync => self.register.synced(op.known),
        }
        self.set(number, Rank::Idle);
        Ok(())
    }

    pub(super) fn look(&mut self, number: u8, started: Nanos, view: Arc<View>) {
        self.agent(number, |agent| agent.on_view(started, NOW, view));
    }

    pub(super) fn tick(&mut self) {
        for number in 0..self.row.members {
            self.change(number, |node| {
                node.deadline = node.deadline.since(Nanos(1)).max(NOW);
                if let Some((started, _)) = &mut node.looking {
                    *started = started.since(Nanos(1)).max(Nanos(NOW.0 - 3));
                }
                if let Some(agent) = &mut node.agent {
                    agent.age(Nanos(1), NOW);
                }
            });
        }
    }

    pub(super) fn accuse(&mut self, silent: u8) {
        if self.node(silent).agent.is_some() {
            self.left.expels -= 1;
        }
        let view = self.view.without(self.node(silent).member());
        self.set_view(view.expect("it has a seat, and the accuser has another"));
    }

    pub(super) fn cut(&mut self, gone: u8) {
        let durable = self.node(gone).durable;
        if let Some(view) = self.view.with_cut(self.node(gone).member(), durable) {
            self.set_view(view);
        }
    }

    pub(super) fn kill_agent(&mut self, number: u8) {
        self.left.agents -= 1;
        self.change(number, |node| {
            node.left = node.agent.take().map(|agent| agent.log().clone());
            node.looking = None;
            node.leaving = None;
        });
    }

    pub(super) fn restart(&mut self, number: u8) {
        let member = self.node(number).member();
        let Some(view) = self.view.restarted(member).or_else(|| self.view.joined(member)) else {
            // It was expelled meanwhile: the new agent finds that out, and so do the threads.
            self.change(number, |node| {
                node.expelled = true;
                if !matches!(node.rank, Rank::Cheap { landed: false, .. } | Rank::Direct { landed: false, .. }) {
                    node.rank = Rank::Failed;
                }
                let timing = Timing { hold: Nanos(1), margin: Nanos::ZERO };
                let log = node.left.take().expect("it was killed");
                node.agent = Some(Member::new(node.seat, timing, log, Vec::new()));
            });
            return;
        };
        self.begin_in(number, view);
    }

    /// A node's agent begins, with a view that has it.
    fn begin_in(&mut self, number: u8, view: View) {
        self.set_view(view);
        let view = self.view.clone();
        let (row, seat) = (self.row, view.seat(self.node(number).member()).expect("it has one"));
        let rank = self.change(number, |node| {
            let timing = Timing { hold: Nanos(1), margin: Nanos::ZERO };
            let log = node.left.take().expect("it was killed");
            node.seat = seat;
            if row.alone == Alone::Leaves {
                node.set_bits();
            }
            node.agent = Some(World::member(row, seat, timing, log, node.found()));
            node.rank
        });
        self.agent(number, |agent| agent.on_view(NOW, NOW, view));
        self.adopt_copies(number);
        match rank {
            Rank::Asks { op, id, ask } => self.agent(number, |agent| agent.ask(op.file(), id, ask)),
            Rank::Pings { id, of, .. } => self.agent(number, |agent| agent.ping(id, of)),
            _ => {}
        }
    }

    /// Whether a node comes later, and was no member yet.
    pub(super) fn is_newcomer(&self, number: u8) -> bool {
        let is_meant = number >= self.row.members - self.row.newcomers && self.node(number).agent.is_none();
        is_meant && !self.view.names(self.node(number).member())
    }

    /// Nodes that have seats.
    pub(super) fn seated(&self) -> impl Iterator<Item = u8> + '_ {
        self.view.seats().iter().map(|seat| seat.member.node as u8)
    }

    /// A node goes on in the place of the members that it has found, if the view is still that one.
    pub(super) fn take_over(&mut self, number: u8) {
        let Some((_, found)) = self.change(number, |node| node.looking.take()) else { return };
        if found.number() != self.view.number() && !self.slips(Slip::NotSwapped) {
            return;
        }
        let member = self.node(number).member();
        let living = self.seated().filter(|node| self.node(*node).agent.is_some()).count();
        self.left.expels = self.left.expels.saturating_sub(living as u8);
        let without = |view: View, seat: &Seat| view.without(seat.member).expect("it has a seat, and another one too");
        let joined = found.joined(member).expect("it is new");
        self.begin_in(number, found.seats().iter().fold(joined, without));
    }

    /// A new agent finds intents: what no kernel call is under way for has ended.
    fn adopt_copies(&mut self, number: u8) {
        let node = self.node(number);
        let moving =
            |intent| node.movers.iter().any(|mover| mover.intent == intent) && !self.slips(Slip::CopiesForgotten);
        let ended: Vec<_> = node.log().under_way().into_iter().filter(|intent| !moving(*intent)).collect();
        for intent in ended {
            self.agent(number, |agent| agent.on_copied(intent, false));
        }
    }

    /// A node's copy lands; what it has read may be what the place has by now.
    pub(super) fn land(&mut self, number: u8, late: bool) {
        let mut mover = self.node(number).movers[0];
        if late {
            mover.value = self.read_flash(mover.from);
        }
        if !mover.landed {
            let block = mover.intent.file.0 as u8 * self.row.blocks + mover.intent.range.offset as u8;
            self.write_slow(number, block, mover.value);
            self.change(number, |node| node.movers[0].landed = true);
            return;
        }
        self.change(number, |node| node.movers.remove(0));
        let node = self.node(number);
        // Who begins when a copy is under way hears that it has ended; of one without an agent the next one asks.
        if node.agent.is_some() && !node.expelled {
            let copied = node.seat.incarnation == mover.agent;
            self.agent(number, |agent| agent.on_copied(mover.intent, copied));
        }
    }

    /// A slow file is looked at, then its last byte is written if it was too short. Here a block that nobody has written
    /// lies beyond the end.
    pub(super) fn lengthen(&mut self, number: u8) {
        let (record, looked) = self.node(number).lengthening[0];
        let block = record.file.0 as u8 * self.row.blocks + record.range.offset as u8;
        let Some(short) = looked else {
            let short = self.read_slow(block) == block;
            return self.change(number, |node| node.lengthening[0].1 = Some(short));
        };
        if short {
            self.write_slow(number, block, block);
        }
        self.change(number, |node| node.lengthening.remove(0));
        self.agent(number, |agent| agent.on_lengthened(record));
    }

    pub(super) fn kill_node(&mut self, number: u8) {
        self.left.nodes -= 1;
        self.change(number, |node| {
            node.left = Some(node.log().cut(node.durable));
            node.agent = None;
            node.dead = true;
            node.rank = Rank::Failed;
            node.movers.clear();
            node.lengthening.clear();
            node.looking = None;
        });
        self.lose_cache(number);
        self.register.lose(number);
    }

    /// A member whose thread does nothing goes: it syncs, and says itself how much of its log counts.
    pub(super) fn depart(&mut self, number: u8) {
        self.left.departures -= 1;
        self.barrier(number);
        let (member, end) = (self.node(number).member(), self.node(number).durable);
        self.set_view(self.view.left(member, end).expect("it has a seat"));
        let view = self.view.clone();
        self.agent(number, |agent| agent.on_view(NOW, NOW, view));
    }

    /// The log of a member that is out is removed, and its data file.
    pub(super) fn dismiss(&mut self, gone: u8) {
        self.left.dismissals -= 1;
        let member = self.node(gone).member();
        self.set_view(self.view.dismissed(member).expect("its log was cut"));
        self.change(gone, |node| {
            node.left = Some(Log::default());
            node.flash.iter_mut().for_each(|place| place.value = FOREIGN);
        });
    }
}
