//! Connections that this member makes: when there is a message for a peer and no way to it.
//!
//! One attempt tries each of the peer's addresses in turn. A message waits for one attempt at most: it would be told
//! again by then, and a queue for a peer that is gone would fill with copies of it.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use crate::batch::{Event, PeerId};
use crate::connection::{Connection, Side};
use crate::socket;
use crate::timers::Due;

use super::Transport;

impl Transport {
    /// Dials, if a message waits and nothing is on its way; or later, if that is too soon. True if it did.
    pub(super) fn reach(&mut self, id: PeerId, now: Instant) -> bool {
        let Some(peer) = self.peers.get(id) else { return false };
        if peer.way().is_some() || peer.dialling.under_way.is_some() || peer.queue.is_empty() {
            return false;
        }
        if peer.dialling.not_before > now {
            self.timers.set(peer.dialling.not_before, Due::Dial(id));
            return false;
        }
        self.dial(id, now);
        true
    }

    /// Tries the peer's next address, and those behind it as long as one fails at once.
    fn dial(&mut self, id: PeerId, now: Instant) {
        while let Some(address) = self.peers.get(id).and_then(|peer| peer.dialling.address()) {
            match self.connect(id, address, now) {
                Ok(token) => {
                    if let Some(peer) = self.peers.get_mut(id) {
                        peer.dialling.under_way = Some(token);
                    }
                    return;
                }
                Err(error) => {
                    if !self.has_another_address(id, address, &error.to_string()) {
                        return;
                    }
                }
            }
        }
    }

    fn connect(&mut self, id: PeerId, address: SocketAddr, now: Instant) -> io::Result<u64> {
        self.counters.dials_total += 1;
        let socket = socket::dial(address, self.options.silence)?;
        let mut connection = Connection::new(socket, address, Side::Dialled(id), self.tls.dialling()?);
        self.poller.watch(&connection.socket, self.next_connection)?;
        self.poller.watch_writable(&connection.socket, self.next_connection, true);
        connection.awaits_room = true;
        Ok(self.add(connection, now))
    }

    /// A dialled connection came to nothing.
    pub(super) fn dial_failed(&mut self, id: PeerId, address: SocketAddr, problem: &str) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.dialling.under_way = None;
        }
        if self.has_another_address(id, address, problem) {
            self.dial(id, Instant::now());
        }
    }

    /// Counts a failure. False: no other address is left, and what waited is gone; or the peer has called meanwhile.
    fn has_another_address(&mut self, id: PeerId, address: SocketAddr, problem: &str) -> bool {
        self.counters.failed_dials_total += 1;
        let Some(peer) = self.peers.get_mut(id) else { return false };
        if peer.way().is_some() {
            return false;
        }
        if peer.dialling.try_next() {
            return true;
        }
        peer.drop_queue();
        let text = format!("{} cannot be reached at {address}: {problem}", peer.member.name);
        self.events.push(Event::Unreachable(id, text));
        false
    }
}
