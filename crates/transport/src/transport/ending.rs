//! The ends of connections, and what the agent is told of them.

use std::time::Instant;

use crate::batch::{Event, PeerId};
use crate::connection::{Connection, Ending, Side, State};
use crate::timers::Due;

use super::Transport;

impl Transport {
    /// A connection is over.
    pub(super) fn end(&mut self, token: u64, ending: &Ending) {
        match ending {
            Ending::Bad(_) => self.counters.bad_frames_total += 1,
            Ending::Silent => self.counters.silent_total += 1,
            // The peer is told by an alert, and hangs up.
            Ending::Tls(_) => return self.refuse(token, None, &ending.to_string()),
            _ => {}
        }
        let Some(connection) = self.drop_connection(token) else { return };
        match connection.state {
            State::Established(peer) => self.lost(peer, token, &connection, ending),
            State::Refusing => {}
            _ => self.failed(&connection, &ending.to_string()),
        }
    }

    /// Does not let the peer in; `text` tells it why, an alert of TLS does if there is none.
    pub(super) fn refuse(&mut self, token: u64, text: Option<&str>, problem: &str) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let was = std::mem::replace(&mut connection.state, State::Refusing);
        connection.refuse(text);
        let (address, side) = (connection.address, connection.side);
        match was {
            State::Established(peer) => {
                if let Some(connection) = self.drop_connection(token) {
                    self.lost(peer, token, &connection, &Ending::Refused(problem.into()));
                }
            }
            State::Refusing => {}
            _ => self.told_failed(side, address, problem),
        }
    }

    fn failed(&mut self, connection: &Connection, problem: &str) {
        self.told_failed(connection.side, connection.address, problem);
    }

    fn told_failed(&mut self, side: Side, address: std::net::SocketAddr, problem: &str) {
        match side {
            Side::Dialled(peer) => self.dial_failed(peer, address, problem),
            Side::Accepted => {
                self.counters.refused_total += 1;
                self.events.push(Event::Refused(format!("the caller from {address} is not let in: {problem}")));
            }
        }
    }

    fn lost(&mut self, id: PeerId, token: u64, connection: &Connection, ending: &Ending) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.ways.retain(|way| *way != token);
        if connection.side != Side::Accepted {
            peer.dialling.pause();
        }
        if peer.way().is_some() {
            return;
        }
        peer.drop_queue();
        let text = format!("the connection to {} at {} is lost: {ending}", peer.member.name, connection.address);
        let is_known = peer.is_known;
        self.events.push(Event::Lost(id, text));
        if !is_known {
            self.peers.remove(id);
        }
    }

    /// Takes a connection out of everything but its peer.
    pub(super) fn drop_connection(&mut self, token: u64) -> Option<Connection> {
        let connection = self.connections.remove(&token)?;
        self.poller.leave(&connection.socket);
        Some(connection)
    }

    /// So long a connection had to be established.
    pub(super) fn greeting_is_due(&mut self, token: u64) {
        if !self.is_established(token) {
            self.end(token, &Ending::TimedOut);
        }
    }

    /// So long ago a peer was asked for a sign of life.
    pub(super) fn answer_is_due(&mut self, token: u64, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        connection.pulse.is_watched = false;
        let Some(since) = connection.pulse.silent_since() else { return };
        let mut due = since + self.options.silence;
        if due <= now {
            // After a pause of this process the others only seem to be silent.
            if !connection.has_unread() {
                return self.end(token, &Ending::Silent);
            }
            due = now + self.options.silence;
        }
        connection.pulse.is_watched = true;
        self.timers.set(due, Due::Silence(token));
    }
}
