//! What agents have of being several: looks at the register, packets between them, and the time of their loops.
//!
//! An agent's loop does one thing at a time. A packet that comes waits until the loop is free, and takes it its time;
//! what comes meanwhile is read in the same turn. What a turn has to say to another agent goes as one packet, and takes
//! the loop its time too. Requests of the agent's own ranks are no part of that: their time is
//! `agent_round_trip_ms`.

use std::sync::Arc;

use headstart_cluster::{Envelope, View, wire};
use headstart_model::nic::HEADER_BYTES;
use headstart_model::slab::Slab;
use headstart_units::Nanos;

use crate::scenario::{Cluster, Join};

/// In front of a message in a packet: its frame's head, and what kind of letter it is.
const MESSAGE_HEAD_BYTES: u64 = 5;
/// A record of TLS 1.3 has so many bytes at most, and so many of its own.
const TLS_RECORD_BYTES: u64 = 16 << 10;
const TLS_HEAD_BYTES: u64 = 22;

/// Messages and bytes that went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Packets.
    pub packets: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// What an agent said and heard, and how long its loop was at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From others.
    pub heard: Way,
    /// To others.
    pub said: Way,
    /// Time of the loop.
    pub busy: Nanos,
}

impl Way {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.messages += packet.letters.len() as u64;
        self.bytes += packet.bytes;
    }
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The sender's loop is at it.
    Written,
    /// On its way to the other card.
    Sent,
    /// In front of the receiver's loop.
    Arrived,
}

/// What a turn of one agent has to say to another.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Who said it.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The messages.
    pub letters: Vec<Envelope>,
    /// On the wire.
    pub bytes: u64,
    /// Where it is.
    pub stage: Stage,
}

/// An agent's part.
#[derive(Debug, Default)]
pub struct Membership {
    /// The number of the view that it has.
    pub view: u64,
    /// Its look at the register: when it is due, or when it began.
    pub look: Look,
    /// What was not answered is said again some time.
    pub says_again: bool,
    /// Messages of this turn.
    pub outbox: Vec<Envelope>,
    /// Packets that wait for the loop, of which the first has been paid for.
    pub inbox: Vec<u32>,
    /// What the others take of it.
    unpaid: Nanos,
    /// When the loop has done all that it was given.
    free: Nanos,
    /// Since the jobs began.
    pub traffic: Traffic,
}

/// A look at the register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// There is none.
    #[default]
    None,
    /// It begins then.
    Due(Nanos),
    /// It began then, and is not answered.
    Begun(Nanos),
}

impl Membership {
    /// The loop is at something for so long, behind what it has to do. When it is done.
    pub fn work(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.free = self.free.max(now) + cost;
        self.traffic.busy += cost;
        self.free
    }

    /// A packet waits for the loop. When it is read, unless it is with those before.
    pub fn take_in(&mut self, now: Nanos, number: u32, packet: &Packet, cost: Nanos) -> Option<Nanos> {
        self.traffic.heard.add(packet);
        self.inbox.push(number);
        if self.inbox.len() > 1 {
            self.unpaid += cost;
            return None;
        }
        Some(self.work(now, cost))
    }

    /// All packets that wait are read.
    pub fn read(&mut self, now: Nanos) -> Vec<u32> {
        let unpaid = std::mem::take(&mut self.unpaid);
        self.work(now, unpaid);
        std::mem::take(&mut self.inbox)
    }
}

/// What is between agents.
pub struct Links {
    /// What the register holds; none while there is one agent.
    pub view: Option<Arc<View>>,
    /// Agents that have its view.
    pub seen: usize,
    /// Packets under way.
    pub packets: Slab<Packet>,
    /// What agents said and heard before the jobs began.
    pub joining: Traffic,
    /// A look at the register.
    pub register: Nanos,
    /// From card to card.
    pub latency: Nanos,
    /// How agents join.
    pub join: Join,
    packet: Nanos,
    message: Nanos,
    bytes: Vec<u8>,
}

impl Links {
    /// Those of a scenario; nothing is under way.
    pub fn new(cluster: &Cluster) -> Links {
        let micros = |us: f64| Nanos::from_millis(us / 1e3);
        Links {
            view: None,
            seen: 0,
            packets: Slab::default(),
            joining: Traffic::default(),
            register: Nanos::from_millis(cluster.register_ms),
            latency: Nanos::from_millis(cluster.latency_ms),
            join: cluster.join,
            packet: micros(cluster.packet_us),
            message: micros(cluster.message_us),
            bytes: Vec::new(),
        }
    }

    /// What a packet of so many messages takes a loop.
    pub fn cost(&self, messages: usize) -> Nanos {
        self.packet + Nanos(self.message.0 * messages as u64)
    }

    /// The packet of messages to one agent.
    pub fn packet(&mut self, from: u32, to: u32, letters: Vec<Envelope>) -> Packet {
        let mut bytes = 0;
        for letter in &letters {
            self.bytes.clear();
            wire::encode_envelope(letter, &mut self.bytes);
            bytes += self.bytes.len() as u64 + MESSAGE_HEAD_BYTES;
        }
        let bytes = HEADER_BYTES + bytes + bytes.div_ceil(TLS_RECORD_BYTES) * TLS_HEAD_BYTES;
        Packet { from, to, letters, bytes, stage: Stage::Written }
    }
}

impl Traffic {
    /// Counts a packet that is sent.
    pub fn say(&mut self, packet: &Packet) {
        self.said.add(packet);
    }

    /// Both together.
    pub fn plus(self, other: &Traffic) -> Traffic {
        let way = |a: Way, b: Way| Way {
            packets: a.packets + b.packets,
            messages: a.messages + b.messages,
            bytes: a.bytes + b.bytes,
        };
        Traffic { heard: way(self.heard, other.heard), said: way(self.said, other.said), busy: self.busy + other.busy }
    }
}
