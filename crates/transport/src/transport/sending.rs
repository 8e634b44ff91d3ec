//! What goes: messages are queued as they come; what waits for a peer when the agent's turn ends goes as one packet.

use std::time::Instant;

use crate::batch::PeerId;
use crate::connection::{Ending, State};
use crate::frame::MESSAGE_BYTES_MAX;
use crate::timers::Due;

use super::{Dirty, Transport};

/// Peers dialled at the end of a turn; the others are dialled at the end of the next. Assumed: each takes less than a
/// tenth of a millisecond, and a member that has lost its owner asks all others at once.
const DIALS_MAX: usize = 16;

impl Transport {
    /// Queues a message; no call of the kernel. False if it is dropped: nobody is there, it is too long, or too much
    /// waits. What is queued may be lost all the same.
    pub fn send(&mut self, id: PeerId, message: &[u8]) -> bool {
        let Some(peer) = self.peers.get_mut(id) else { return false };
        let has_way = peer.way().is_some() || !peer.dialling.addresses.is_empty();
        if !has_way || message.len() > MESSAGE_BYTES_MAX || !peer.queue.push(message, self.options.queue_bytes_max) {
            peer.counters.dropped_messages_total += 1;
            return false;
        }
        peer.counters.sent_messages_total += 1;
        self.mark(id);
        true
    }

    /// Sends what waits; call it at the end of each turn of the agent's loop.
    pub fn flush(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut dials = 0;
        for one in dirty.drain(..) {
            match one {
                Dirty::Connection(token) => {
                    if let Some(connection) = self.connections.get_mut(&token) {
                        connection.is_dirty = false;
                        self.write_out(token);
                    }
                }
                Dirty::Peer(id) => {
                    let Some(peer) = self.peers.get_mut(id) else { continue };
                    let way = peer.way();
                    peer.is_dirty = way.is_none() && dials == DIALS_MAX;
                    if peer.is_dirty {
                        self.dirty.push(one);
                    } else if let Some(token) = way {
                        self.write_out(token);
                    } else {
                        dials += usize::from(self.reach(id, Instant::now()));
                    }
                }
            }
        }
        // The memory is used again; what was put off waits for the next call.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        let soon = (!self.events.is_empty() || !self.dirty.is_empty()).then(Instant::now);
        self.poller.set_timer(soon.or(self.timers.first()));
    }

    /// Has `flush` look at the peer.
    pub(super) fn mark(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(id)
            && !std::mem::replace(&mut peer.is_dirty, true)
        {
            self.dirty.push(Dirty::Peer(id));
        }
    }

    /// Writes what the socket takes: the connection's own frames, then what waits for its peer.
    pub(super) fn write_out(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let mut peer = match connection.state {
            State::Established(id) => self.peers.get_mut(id),
            _ => None,
        };
        let is_all = loop {
            if connection.has_nothing_to_say()
                && let Some(peer) = peer.as_mut().filter(|peer| peer.way() == Some(token) && !peer.queue.is_empty())
            {
                peer.queue.give_to(connection.out());
                let now = Instant::now();
                if connection.ask(now) {
                    self.timers.set(now + self.options.silence, Due::Silence(token));
                }
            }
            let pushed = match connection.push() {
                Ok(pushed) => pushed,
                Err(error) => return self.end(token, &Ending::Broken(error)),
            };
            if let Some(peer) = peer.as_mut() {
                peer.counters.sent_bytes += pushed.bytes;
                peer.counters.sent_packets_total += pushed.packets;
            }
            let waits = peer.as_ref().is_some_and(|peer| peer.way() == Some(token) && !peer.queue.is_empty());
            if !pushed.is_all || !waits {
                break pushed.is_all;
            }
        };
        if connection.awaits_room == is_all {
            connection.awaits_room = !is_all;
            self.poller.watch_writable(&connection.socket, token, !is_all);
        }
    }
}
