//! Who is let in: whoever has the key, speaks this version, serves this directory, and is the newest incarnation of
//! its name that is known.
//!
//! A pair of members has two connections at most, the last one that each of them dialled; both are used in both
//! directions, and messages go by the one that was established last. So no side needs to know which of two the other
//! keeps, and a member that has lost its connection can call while the other still believes in it.

use crate::batch::{Event, PeerId};
use crate::connection::{Ending, Side, State};
use crate::identity::Member;

use super::Transport;

impl Transport {
    /// A peer said who it is; true if it is let in.
    pub(super) fn greet(&mut self, token: u64, hello: &[u8]) -> bool {
        let Some(connection) = self.connections.get(&token) else { return false };
        let (side, address) = (connection.side, connection.address);
        let expected = match side {
            Side::Dialled(peer) => self.peers.get(peer).map(|peer| &peer.member),
            Side::Accepted => None,
        };
        let found = self.identity.check(hello, expected, address).and_then(|member| self.is_newest(member));
        match found {
            Ok(member) => {
                self.establish(token, &member, side);
                true
            }
            Err(text) => {
                self.refuse(token, Some(&text), &text);
                false
            }
        }
    }

    fn is_newest(&self, member: Member) -> Result<Member, String> {
        let newest = self.peers.incarnations(&member.name).next_back().map_or(0, |(newest, _)| newest);
        if newest > member.incarnation {
            return Err(format!(
                "incarnation {} of {} is over: {} knows incarnation {newest}",
                member.incarnation, member.name, self.identity.member.name
            ));
        }
        Ok(member)
    }

    fn establish(&mut self, token: u64, member: &Member, side: Side) {
        self.end_older(member);
        let id = self.peers.find_or_add(member);
        self.end_same_side(id, side);
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.state = State::Established(id);
        }
        let Some(peer) = self.peers.get_mut(id) else { return };
        if side != Side::Accepted {
            peer.dialling.under_way = None;
        }
        let is_first = peer.ways.is_empty();
        peer.ways.push(token);
        peer.counters.connections_total += 1;
        if is_first {
            self.events.push(Event::Connected(id, member.clone()));
        }
        self.mark(id);
    }

    /// Hangs up on the incarnations before.
    fn end_older(&mut self, member: &Member) {
        let older: Vec<PeerId> = self
            .peers
            .incarnations(&member.name)
            .filter(|(incarnation, _)| *incarnation < member.incarnation)
            .map(|(_, id)| id)
            .collect();
        for id in older {
            let ways = self.peers.get(id).map(|peer| peer.ways.clone()).unwrap_or_default();
            ways.into_iter().for_each(|token| self.end(token, &Ending::Replaced));
        }
    }

    /// Hangs up on the connection that the same side made before.
    fn end_same_side(&mut self, id: PeerId, side: Side) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let is_same = |token: &u64| self.connections.get(token).is_none_or(|one| one.side == side);
        let (same, other): (Vec<u64>, Vec<u64>) = peer.ways.iter().partition(|token| is_same(token));
        peer.ways = other;
        same.into_iter().for_each(|token| drop(self.drop_connection(token)));
    }
}
