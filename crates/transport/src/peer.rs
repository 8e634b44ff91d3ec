//! A member as the transport knows it: what waits for it, the ways to it, and when to look for one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::backoff::Backoff;
use crate::batch::PeerId;
use crate::counters::PeerCounters;
use crate::frame::{Frame, KEPT_BYTES, framed_bytes};
use crate::identity::Member;

/// Messages that wait, framed and joined.
#[derive(Default)]
pub(crate) struct Queue {
    bytes: Vec<u8>,
    messages: u64,
}

impl Queue {
    /// Whether the message had room.
    pub(crate) fn push(&mut self, message: &[u8], bytes_max: usize) -> bool {
        let has_room = self.bytes.len() + framed_bytes(message.len()) <= bytes_max;
        if has_room {
            Frame::Message(message).encode(&mut self.bytes);
            self.messages += 1;
        }
        has_room
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gives all to a connection, whose buffer is empty, and takes that.
    pub(crate) fn give_to(&mut self, out: &mut Vec<u8>) {
        debug_assert!(out.is_empty(), "what went before goes first");
        std::mem::swap(&mut self.bytes, out);
        self.messages = 0;
    }

    /// Drops all; how many.
    pub(crate) fn clear(&mut self) -> u64 {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        std::mem::take(&mut self.messages)
    }
}

/// When and where to dial.
pub(crate) struct Dialling {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Of these, the one that is tried next.
    next: usize,
    /// The connection that is not established yet.
    pub(crate) under_way: Option<u64>,
    pub(crate) not_before: Instant,
    pub(crate) backoff: Backoff,
}

impl Dialling {
    /// Where the peer listens from now on.
    pub(crate) fn set_addresses(&mut self, addresses: Vec<SocketAddr>) {
        if self.addresses != addresses {
            self.addresses = addresses;
            self.next = 0;
        }
    }

    /// The address to try.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.addresses.get(self.next).copied()
    }

    /// The address failed. False: it was the last one, and the next attempt begins anew after a pause.
    pub(crate) fn try_next(&mut self) -> bool {
        self.next += 1;
        if self.next < self.addresses.len() {
            return true;
        }
        self.next = 0;
        self.pause();
        false
    }

    /// Nobody dials for a while.
    pub(crate) fn pause(&mut self) {
        self.not_before = Instant::now() + self.backoff.pause();
    }
}

/// See the module.
pub(crate) struct Peer {
    pub(crate) member: Member,
    /// `know` said so; otherwise it has called, and is forgotten when it hangs up.
    pub(crate) is_known: bool,
    /// It is among those that `flush` looks at.
    pub(crate) is_dirty: bool,
    /// Established connections, the latest last; messages go by that one.
    pub(crate) ways: Vec<u64>,
    pub(crate) queue: Queue,
    pub(crate) dialling: Dialling,
    pub(crate) counters: PeerCounters,
}

impl Peer {
    fn new(member: Member) -> Peer {
        let dialling = Dialling {
            addresses: Vec::new(),
            next: 0,
            under_way: None,
            not_before: Instant::now(),
            backoff: Backoff::new(),
        };
        Peer {
            member,
            is_known: false,
            is_dirty: false,
            ways: Vec::new(),
            queue: Queue::default(),
            dialling,
            counters: PeerCounters::default(),
        }
    }

    /// The connection that messages go by.
    pub(crate) fn way(&self) -> Option<u64> {
        self.ways.last().copied()
    }

    /// Drops what waits.
    pub(crate) fn drop_queue(&mut self) {
        self.counters.dropped_messages_total += self.queue.clear();
    }

    /// What is known of it.
    pub(crate) fn counted(&self) -> PeerCounters {
        PeerCounters { queued_bytes: self.queue.bytes() as u64, ..self.counters }
    }
}

/// All peers. A number is never given twice.
#[derive(Default)]
pub(crate) struct Peers {
    peers: FxHashMap<u64, Peer>,
    by_member: BTreeMap<Member, PeerId>,
    next: u64,
}

impl Peers {
    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id.0)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id.0)
    }

    /// The member's number; a new one if it has none.
    pub(crate) fn find_or_add(&mut self, member: &Member) -> PeerId {
        if let Some(id) = self.by_member.get(member) {
            return *id;
        }
        let id = PeerId(self.next);
        self.next += 1;
        self.peers.insert(id.0, Peer::new(member.clone()));
        self.by_member.insert(member.clone(), id);
        id
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id.0)?;
        self.by_member.remove(&peer.member);
        Some(peer)
    }

    /// The incarnations of this name, the oldest first.
    pub(crate) fn incarnations(&self, name: &str) -> impl DoubleEndedIterator<Item = (u64, PeerId)> {
        let first = Member { name: name.into(), incarnation: 0 };
        let last = Member { name: name.into(), incarnation: u64::MAX };
        self.by_member.range(first..=last).map(|(member, id)| (member.incarnation, *id))
    }

    /// In the order of names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.by_member.values().filter_map(|id| self.get(*id).map(|peer| (*id, peer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_no_more_than_its_bound_and_is_whole_again_once_given() {
        let mut queue = Queue::default();
        let message = [0; 60];
        assert!((0..10).all(|_| queue.push(&message, 640)));
        assert!(!queue.push(&[], 640), "not even a head");
        let mut out = Vec::new();
        queue.give_to(&mut out);
        assert_eq!((out.len(), queue.bytes()), (640, 0));
        assert!(queue.push(&message, 640));
        assert_eq!(queue.clear(), 1);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_incarnations_of_a_name_are_those_of_no_other() {
        let mut peers = Peers::default();
        for (name, incarnation) in [("b", 2), ("a", 7), ("b", 1), ("c", 3)] {
            peers.find_or_add(&Member { name: name.into(), incarnation });
        }
        let found: Vec<u64> = peers.incarnations("b").map(|(incarnation, _)| incarnation).collect();
        assert_eq!(found, [1, 2]);
    }
}
