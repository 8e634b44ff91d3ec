//! What comes: connections that are ready, frames, messages.

use std::time::Instant;

use nix::sys::epoll::EpollFlags;

use crate::batch::Batch;
use crate::connection::{Ending, State};
use crate::frame::{BadFrame, Frame};

use super::{Dirty, Transport};

/// Steps of handshakes in a turn. Assumed: 4 of the two or three that take 0.35 ms together are less than a program's
/// request to the disks.
const HANDSHAKES_MAX: usize = 4;

/// What a frame before the peer is let in comes to.
enum Greeting {
    Nothing,
    Hello(Vec<u8>),
    End(Ending),
}

impl Transport {
    /// A connection is ready.
    pub(super) fn on_connection(
        &mut self,
        token: u64,
        flags: EpollFlags,
        now: Instant,
        handshakes: &mut usize,
        batch: &mut Batch,
    ) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        match connection.state {
            State::Connecting => {
                return match connection.connected() {
                    Ok(()) => self.write_out(token),
                    Err(error) => self.end(token, &Ending::Broken(error)),
                };
            }
            State::Shaking if *handshakes == HANDSHAKES_MAX => return,
            State::Shaking => *handshakes += 1,
            _ => {}
        }
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.write_out(token);
        }
        if flags != EpollFlags::EPOLLOUT {
            self.receive(token, now, batch);
        }
    }

    fn receive(&mut self, token: u64, now: Instant, batch: &mut Batch) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let came = connection.receive(&mut self.scratch, now);
        let is_shaking = connection.state == State::Shaking;
        if is_shaking && came.is_ok() && connection.is_secure() {
            connection.state = State::Greeting;
            connection.say(Frame::Hello(&self.identity.encode()));
        }
        match came {
            Ok(false) => return,
            Ok(true) if is_shaking => self.write_out(token),
            Ok(true) => {}
            Err(ending) => {
                // What came before the end counts: a refusal says more than a closed socket.
                self.take(token, now, batch);
                return self.end(token, &ending);
            }
        }
        self.take(token, now, batch);
    }

    /// Hands over what came.
    fn take(&mut self, token: u64, now: Instant, batch: &mut Batch) {
        loop {
            let Some(connection) = self.connections.get_mut(&token) else { return };
            match connection.state {
                State::Established(_) => return self.take_messages(token, now, batch),
                State::Greeting => {}
                _ => return,
            }
            let greeting = match connection.frame() {
                Ok(None) => Greeting::Nothing,
                Ok(Some(Frame::Hello(bytes))) => Greeting::Hello(bytes.to_vec()),
                Ok(Some(Frame::Refused(text))) => {
                    Greeting::End(Ending::Refused(String::from_utf8_lossy(text).into_owned()))
                }
                Ok(Some(_)) => Greeting::End(BadFrame::OutOfTurn.into()),
                Err(ending) => Greeting::End(ending),
            };
            match greeting {
                Greeting::Nothing => return,
                Greeting::Hello(hello) => {
                    if !self.greet(token, &hello) {
                        return;
                    }
                }
                Greeting::End(ending) => return self.end(token, &ending),
            }
        }
    }

    fn take_messages(&mut self, token: u64, now: Instant, batch: &mut Batch) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let State::Established(id) = connection.state else { return };
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.counters.received_packets_total += 1;
        let before = peer.counters.received_messages_total;
        match connection.take_messages(id, &mut peer.counters, batch, now) {
            Ok(is_asked) => {
                // It has let this member in.
                if is_asked || peer.counters.received_messages_total > before {
                    peer.dialling.backoff.reset();
                }
                if is_asked && !std::mem::replace(&mut connection.is_dirty, true) {
                    self.dirty.push(Dirty::Connection(token));
                }
            }
            Err(ending) => self.end(token, &ending),
        }
    }
}
