//! All there is: nodes, network, membership service, slow file, data files, and which values may be read.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use headstart_units::Nanos;
use headstart_units::request::Range;

use super::node::{Mover, NOW, Node, blocks};
use super::rank::{Op, Rank};
use super::register::{FOREIGN, Register, Values};
use super::row::{Budget, Kind, Row, Slip};
use super::shared::Shared;
use crate::log::Log;
use crate::message::{Answer, Ask, Envelope};
use crate::names::{MemberId, RequestId, Seat};
use crate::output::Output;
use crate::{Fate, Member, Timing, View};

/// A block of the slow file: what its servers have, and what a node's cache has that the servers have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slow {
    server: u8,
    cache: Option<(u8, u8)>,
}

/// The state.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) row: &'static Row,
    pub(super) left: Budget,
    pub(super) nodes: Vec<Shared<Node>>,
    /// Sorted by hash.
    pub(super) net: Vec<Shared<Envelope>>,
    pub(super) view: Arc<View>,
    pub(super) slow: Vec<Slow>,
    /// Values in data files that survive their nodes, and those that did not.
    pub(super) flushed: Values,
    pub(super) garbage: Values,
    pub(super) register: Register,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, &self.nodes, &self.net, &self.view, &self.slow).hash(state);
        (self.flushed, self.garbage, &self.register).hash(state);
    }
}

impl World {
    pub(super) fn new(row: &'static Row) -> World {
        let member = |node| MemberId { node: u16::from(node), life: 0 };
        let seats: Vec<Seat> = (0..row.members).map(|node| Seat { member: member(node), incarnation: 0 }).collect();
        let view = Arc::new(View::first(seats.clone(), row.files as usize));
        let timing = Timing { hold: Nanos(1), margin: Nanos::ZERO };
        let agent = |seat: &Seat| {
            let mut agent = Member::new(*seat, timing, Log::default(), Vec::new());
            agent.settle_at(view.clone());
            agent.on_view(NOW, NOW, view.clone());
            agent.take_outputs();
            agent
        };
        let nodes = seats.iter().map(|seat| Shared::new(Node::new(agent(seat), row.files)));
        let blocks = row.files * row.blocks;
        World {
            row,
            left: row.budget,
            nodes: nodes.collect(),
            net: Vec::new(),
            slow: (0..blocks).map(|block| Slow { server: block, cache: None }).collect(),
            view: view.clone(),
            flushed: 0,
            garbage: 0,
            register: Register::new(blocks),
        }
    }

    pub(super) fn slips(&self, slip: Slip) -> bool {
        self.row.slip == Some(slip)
    }

    pub(super) fn node(&self, node: u8) -> &Node {
        self.nodes[node as usize].get()
    }

    pub(super) fn change<R>(&mut self, node: u8, change: impl FnOnce(&mut Node) -> R) -> R {
        self.nodes[node as usize].change(change)
    }

    /// Number of a block among those of all files.
    pub(super) fn block(&self, op: &Op) -> u8 {
        op.file * self.row.blocks + op.block
    }

    /// An agent hears something, and what follows is done.
    pub(super) fn agent(&mut self, node: u8, hear: impl FnOnce(&mut Member)) {
        let outputs = self.change(node, |node| match node.agent.as_mut() {
            Some(agent) => {
                hear(agent);
                agent.take_outputs()
            }
            None => Vec::new(),
        });
        for output in outputs {
            self.carry_out(node, output);
        }
    }

    fn carry_out(&mut self, node: u8, output: Output) {
        match output {
            Output::Send(envelope) => self.send(envelope),
            Output::Append(_) => {}
            Output::Answer(id, answer) => self.answer(node, id, answer),
            Output::Clear(file, range) => self.change(node, |node| node.clear[file.0 as usize] |= blocks(range)),
            Output::Fence { file, epoch, call, range } => {
                let writers = self.change(node, |node| {
                    node.clear[file.0 as usize] &= !blocks(range);
                    if let Rank::Disk { op, disturbed, .. } = &mut node.rank {
                        *disturbed |= op.file() == file && op.range().overlaps(range);
                    }
                    let writers = node.writers(file);
                    node.named |= !writers.is_empty();
                    writers
                });
                self.agent(node, |agent| agent.on_fenced(file, epoch, call, range, writers));
            }
            Output::Barrier => self.barrier(node),
            Output::StartCopy(intent, _, place) => {
                let value = if self.garbage & (1 << place) != 0 { FOREIGN } else { place as u8 };
                self.change(node, |node| {
                    let agent = node.seat.incarnation;
                    node.movers.push(Mover { intent, value, landed: false, agent });
                });
            }
            Output::ReadLog(member) => {
                let cut = self.view.gone().find(|(gone, _)| *gone == member).and_then(|(_, cut)| cut);
                let log = self.node(member.node as u8).log();
                let upto = if self.slips(Slip::NoCut) { log.durable() } else { cut.expect("it is out") };
                let log = log.cut(upto);
                self.agent(node, |agent| agent.on_log_read(member, log));
            }
            Output::Deadline(until) => {
                if self.row.timed {
                    self.change(node, |node| node.deadline = until);
                }
            }
            Output::Expelled => self.change(node, |node| {
                node.expelled = true;
                // A kernel call that is under way ends when it ends.
                if !matches!(node.rank, Rank::Cheap { landed: false, .. } | Rank::Direct { landed: false, .. }) {
                    node.rank = Rank::Failed;
                }
            }),
        }
    }

    pub(super) fn send(&mut self, envelope: Envelope) {
        let new = Shared::new(envelope);
        if let Err(at) = self.net.binary_search_by_key(&new.key(), Shared::key) {
            self.net.insert(at, new);
        }
    }

    /// Makes durable what a node has: slow file and data files, then its log.
    pub(super) fn barrier(&mut self, number: u8) {
        if !self.slips(Slip::NoSlowSync) {
            for slow in &mut self.slow {
                if let Some((_, value)) = slow.cache.take_if(|(node, _)| *node == number) {
                    slow.server = value;
                }
            }
        }
        if !self.slips(Slip::NoDataSync) {
            self.flushed |= self.register.written_by(number);
        }
        if let Some(end) = self.node(number).agent.as_ref().map(|agent| agent.log().end()) {
            self.agent(number, |agent| agent.on_synced(NOW, end));
        }
    }

    pub(super) fn write_slow(&mut self, node: u8, block: u8, value: u8) {
        let slow = &mut self.slow[block as usize];
        if let Some((other, cached)) = slow.cache
            && other != node
        {
            slow.server = cached;
        }
        slow.cache = Some((node, value));
    }

    pub(super) fn read_slow(&self, block: u8) -> u8 {
        let slow = self.slow[block as usize];
        slow.cache.map_or(slow.server, |(_, value)| value)
    }

    pub(super) fn lose_cache(&mut self, number: u8) {
        for slow in &mut self.slow {
            slow.cache.take_if(|(node, _)| *node == number);
        }
        self.garbage |= self.register.written_by(number) & !self.flushed;
    }

    /// A thread asks its agent, or will when there is one.
    pub(super) fn ask(&mut self, number: u8, op: Op, ask: Ask) {
        let id = self.change(number, |node| {
            // A read that is tried again has its number again, so that states do not differ by how often.
            if op.kind != Kind::Read {
                node.seq += 1;
            }
            let id = RequestId { slot: 0, seq: node.seq };
            node.rank = Rank::Asks { op, id, ask };
            id
        });
        self.agent(number, |agent| agent.ask(op.file(), id, ask));
    }

    fn answer(&mut self, number: u8, id: RequestId, answer: Answer) {
        let node = self.node(number);
        match node.rank {
            Rank::Asks { op, id: asked, ask } if asked == id => match answer {
                Answer::Done => self.set(number, Rank::Ends { op, value: op.value, asked: Some((id, ask)) }),
                _ => self.answered(number, op, answer),
            },
            Rank::Pings { op, id: asked, value, .. } if asked == id => match answer {
                Answer::Done => self.end(number, op, value),
                _ => self.set(number, Rank::Look(op)),
            },
            _ => {}
        }
    }

    pub(super) fn set(&mut self, number: u8, rank: Rank) {
        self.change(number, |node| node.rank = rank);
    }

    fn answered(&mut self, number: u8, op: Op, answer: Answer) {
        match answer {
            Answer::Done => self.end(number, op, op.value),
            Answer::Refused => self.ask(number, Op { kind: Kind::Direct, ..op }, Ask::Write { range: op.range() }),
            Answer::Absorb => {
                let place = u64::from(op.value);
                self.ask(number, Op { kind: Kind::Absorb, ..op }, Ask::Commit { range: op.range(), place });
            }
            Answer::Go => self.set(number, Rank::Direct { op, landed: false }),
            Answer::Absent | Answer::Again => self.set(number, Rank::Look(op)),
            Answer::Disk { of } => self.set(number, Rank::Disk { op, disturbed: false, of: Some(of) }),
            Answer::Flash { of, place, durable } => {
                self.set(number, Rank::Flash { op, of, place: place as u8, durable })
            }
        }
    }

    /// A request is done but for the look at the deadline.
    pub(super) fn end(&mut self, number: u8, op: Op, value: u8) {
        self.set(number, Rank::Ends { op, value, asked: None });
    }

    /// Whether a member's log counts by its cut alone.
    pub(super) fn is_out(&self, node: u8) -> bool {
        self.view.fate(self.node(node).member()) == Fate::Out
    }

    /// Somebody has changed the view.
    pub(super) fn set_view(&mut self, view: View) {
        self.view = Arc::new(view);
        for node in 0..self.row.members {
            if self.is_out(node) {
                self.register.lose(node);
            }
        }
    }

    /// The whole of a range of one block.
    pub(super) fn range(block: u8) -> Range {
        Range::new(u64::from(block), 1)
    }
}
