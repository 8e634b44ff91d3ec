//! Connections that others make.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Side, State};
use crate::socket;
use crate::timers::Due;

use super::{FIRST_LISTENER, Transport};

/// Connections accepted in a turn. Assumed: what comes then waits for the next turn, not the agent's programs for it.
const ACCEPTS_MAX: usize = 16;
/// Connections that are not established yet. Assumed: a thousand members come in some turns. Anybody can make so many
/// who reaches the port; at 9 KiB each, which is measured, they take 2 MiB.
const GREETINGS_MAX: usize = 256;
/// So long nobody is accepted when that is reached, or descriptors run out: a listener that cannot accept stays
/// readable. Assumed.
const REST: Duration = Duration::from_millis(100);

impl Transport {
    /// Somebody calls.
    pub(super) fn accept(&mut self, listener: usize, now: Instant) {
        let accepted = |one: &&Connection| one.side == Side::Accepted && !matches!(one.state, State::Established(_));
        let mut greetings = self.connections.values().filter(accepted).count();
        for _ in 0..ACCEPTS_MAX {
            if greetings >= GREETINGS_MAX {
                return self.rest(now);
            }
            match self.listeners[listener].accept() {
                Ok((socket, address)) => greetings += usize::from(self.welcome(socket, address, now).is_ok()),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return self.rest(now),
                },
            }
        }
    }

    fn welcome(&mut self, socket: TcpStream, address: SocketAddr, now: Instant) -> io::Result<()> {
        self.counters.accepted_total += 1;
        socket::prepare(&socket, self.options.silence)?;
        let connection = Connection::new(socket, address, Side::Accepted, self.tls.accepting()?);
        self.poller.watch(&connection.socket, self.next_connection)?;
        self.add(connection, now);
        Ok(())
    }

    /// Keeps a connection that is watched as the next one; it has so long to be established.
    pub(super) fn add(&mut self, connection: Connection, now: Instant) -> u64 {
        let token = self.next_connection;
        self.next_connection += 1;
        self.connections.insert(token, connection);
        self.timers.set(now + self.options.greeting, Due::Greeting(token));
        token
    }

    fn rest(&mut self, now: Instant) {
        self.listeners.iter().for_each(|listener| self.poller.leave(listener));
        self.timers.set(now + REST, Due::Listen);
    }

    /// The rest is over.
    pub(super) fn listen_again(&mut self, now: Instant) {
        for (token, listener) in (FIRST_LISTENER..).zip(&self.listeners) {
            if !matches!(self.poller.watch(listener, token), Ok(()) | Err(nix::errno::Errno::EEXIST)) {
                return self.rest(now);
            }
        }
    }
}
