//! All there is: nodes, network, membership service, slow file, data files, and which values may be read.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use headstart_units::Nanos;
use headstart_units::request::Range;

use super::node::{Mover, NOW, Node, Place, blocks};
use super::rank::{Op, Rank};
use super::register::{FOREIGN, Register};
use super::row::{Alone, Budget, Kind, Row, Slip};
use super::shared::Shared;
use crate::log::Log;
use crate::message::{Answer, Ask, Envelope};
use crate::names::{FileId, MemberId, RequestId, Seat};
use crate::output::Output;
use crate::record::What;
use crate::{Fate, Found, Member, Timing, View};

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
    pub(super) register: Register,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, &self.nodes, &self.net, &self.view, &self.slow).hash(state);
        self.register.hash(state);
    }
}

impl World {
    pub(super) fn new(row: &'static Row) -> World {
        let member = |node| MemberId { node: u16::from(node), life: 0 };
        let seats: Vec<Seat> = (0..row.members).map(|node| Seat { member: member(node), incarnation: 0 }).collect();
        let first = seats.iter().take(seats.len() - usize::from(row.outside())).copied().collect();
        let view = Arc::new(View::first(first, row.files as usize));
        let timing = Timing { hold: Nanos(1), margin: Nanos::ZERO };
        let agent = |seat: &Seat| {
            let mut agent = World::member(row, *seat, timing, Log::default(), Vec::new());
            if row.outside() > 0 && row.alone != Alone::Never {
                // The first of the site has had all files to itself, and has not looked at any view.
                (0..row.files).for_each(|file| agent.begin_alone(FileId(u64::from(file))));
            } else {
                agent.settle_at(view.clone());
                agent.on_view(NOW, NOW, view.clone());
            }
            agent.take_outputs();
            agent
        };
        let nodes = seats.iter().map(|seat| match view.seat(seat.member) {
            None => Shared::new(Node::outside(*seat, row.files, row.places)),
            Some(_) if row.unarmed => Shared::new(Node::unarmed(agent(seat), row.files, row.places)),
            Some(_) => Shared::new(Node::new(agent(seat), row.files, row.places)),
        });
        let blocks = row.files * row.blocks;
        World {
            row,
            left: row.budget,
            nodes: nodes.collect(),
            net: Vec::new(),
            slow: (0..blocks).map(|block| Slow { server: block, cache: None }).collect(),
            view: view.clone(),
            register: Register::new(blocks),
        }
    }

    /// An agent as the row has them.
    pub(super) fn member(row: &Row, seat: Seat, timing: Timing, log: Log, found: Vec<(FileId, Vec<Range>)>) -> Member {
        let member = Member::new(seat, timing, log, found);
        let member = if row.lengthens { member.lengthening() } else { member };
        if row.alone == Alone::Never { member } else { member.keeping_claims_back() }
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
        let agent = self.node(node).agent.as_ref().filter(|_| self.row.prompt && !self.node(node).expelled);
        if agent.is_some_and(|agent| agent.log().end() > self.node(node).durable) {
            self.barrier(node);
        }
    }

    fn carry_out(&mut self, node: u8, output: Output) {
        match output {
            Output::Send(envelope) => self.send(envelope),
            // A thread that waits hears that it is to look again.
            Output::Append(_) | Output::Alone(_) | Output::Owner(_) => {}
            Output::Answer(id, _, answer) => self.answer(node, id, answer),
            Output::Lengthen(record) => {
                self.change(node, |node| node.lengthening.push((record, None)));
            }
            Output::Clear(file, range) => self.change(node, |node| node.clear[file.0 as usize] |= blocks(range)),
            Output::Fence { file, epoch, call, range } => {
                self.change(node, |node| {
                    node.clear[file.0 as usize] &= !blocks(range);
                    if let Rank::Disk { op, disturbed, .. } | Rank::Flash { op, disturbed, .. } = &mut node.rank {
                        *disturbed |= op.file() == file && op.range().overlaps(range);
                    }
                });
                if call.is_none() && self.row.alone == Alone::Leaves {
                    return self.change(node, |node| node.leaving = Some((file, epoch)));
                }
                let found = Found { threads: self.named_writers(node, file), uses: false };
                self.agent(node, |agent| agent.on_fenced(file, epoch, call, range, found));
            }
            Output::Barrier => self.barrier(node),
            Output::StartCopy(intent, of, place) => {
                let from = (of.node as u8, place as u8);
                let value = self.read_flash(from);
                self.change(node, |node| {
                    let agent = node.seat.incarnation;
                    node.movers.push(Mover { intent, value, from, landed: false, agent });
                });
            }
            Output::Free(_, record) => {
                if let What::Map { place } = record.what {
                    self.change(node, |node| node.flash[place as usize].used = false);
                }
            }
            Output::ReadLog(member) => {
                let cut = self.view.gone().find(|(gone, _)| *gone == member).and_then(|(_, cut)| cut);
                let gone = self.node(member.node as u8);
                let log = gone.log();
                let upto = if self.slips(Slip::NoCut) { gone.durable } else { cut.expect("it is out") };
                let log = log.cut(upto);
                self.agent(node, |agent| agent.on_log_read(member, log));
            }
            Output::Deadline(until) => {
                if self.row.timed {
                    self.change(node, |node| (node.deadline, node.unarmed) = (until, false));
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
            self.change(number, |node| node.flash.iter_mut().for_each(|place| place.durable = true));
        }
        if let Some(end) = self.node(number).agent.as_ref().map(|agent| agent.log().end()) {
            self.change(number, |node| node.durable = end);
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
        self.change(number, |node| {
            let lost = node.flash.iter_mut().filter(|place| !place.durable);
            lost.for_each(|place| place.value = FOREIGN);
        });
    }

    /// What a place of a node has.
    pub(super) fn read_flash(&self, (node, place): (u8, u8)) -> u8 {
        self.node(node).flash[place as usize].value
    }

    /// A thread writes what it has to a place of its node that is free.
    pub(super) fn write_flash(&mut self, number: u8, value: u8) -> u64 {
        let place = self.node(number).free_place().expect("a write that is absorbed begins where there is a place");
        self.change(number, |node| node.flash[place as usize] = Place { value, durable: false, used: true });
        u64::from(place)
    }

    fn free(&mut self, number: u8, place: u64) {
        self.change(number, |node| node.flash[place as usize].used = false);
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
                Answer::Refused => {
                    if let Ask::Commit { place, .. } = ask {
                        self.free(number, place);
                    }
                    self.ask(number, Op { kind: Kind::Direct, ..op }, Ask::Write { range: op.range() });
                }
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
            Answer::Done | Answer::Refused => self.end(number, op, op.value),
            Answer::Absorb => {
                let place = self.write_flash(number, op.value);
                self.ask(number, Op { kind: Kind::Absorb, ..op }, Ask::Commit { range: op.range(), place });
            }
            Answer::Go => self.set(number, Rank::Direct { op, landed: false, by_owner: true }),
            Answer::Absent | Answer::Again => self.set(number, Rank::Look(op)),
            Answer::Disk { of } => self.set(number, Rank::Disk { op, disturbed: false, of: Some(of) }),
            Answer::Flash { of, place, durable } => {
                self.set(number, Rank::Flash { op, of, place: place as u8, durable, disturbed: false })
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
