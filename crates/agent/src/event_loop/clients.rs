//! Connections of threads and of the command line, and the processes that had slots before this agent began.
//!
//! An answer that a socket does not take at once is kept until it does; a connection that leaves too many is cut off.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;

use headstart_overlay::Process;
use headstart_protocol::message::{Envelope, Reply};

use crate::error::{Error, Result};
use crate::process::ProcessHandle;
use crate::socket::{self, PACKET_MAX};

use super::poller::Poller;

/// Answers kept for a connection that does not read them; one that leaves more is cut off.
const UNSENT_MAX: usize = 1024;

/// A connection of a thread, or of the command line.
struct Connection {
    socket: OwnedFd,
    slot: Option<u32>,
    /// Answers the socket did not take yet.
    unsent: VecDeque<Vec<u8>>,
}

impl Connection {
    /// Sends what can be sent. Of an error the next receive tells.
    fn send_unsent(&mut self) -> std::io::Result<()> {
        while let Some(packet) = self.unsent.front() {
            if !socket::send_packet(&self.socket, packet)? {
                return Ok(());
            }
            self.unsent.pop_front();
        }
        Ok(())
    }
}

/// See the module.
pub(super) struct Clients {
    /// None: nobody is let in any more.
    listener: Option<OwnedFd>,
    /// Given up to refuse a connection when descriptors have run out.
    spare: Option<File>,
    connections: BTreeMap<u64, Connection>,
    by_slot: BTreeMap<u32, u64>,
    next: u64,
    /// Processes that had slots when this agent started.
    survivors: Vec<(Process, ProcessHandle)>,
    packet: Vec<u8>,
}

/// The numbers of events.
pub(super) struct Tokens {
    pub(super) listener: u64,
    pub(super) first_connection: u64,
    pub(super) first_survivor: u64,
}

impl Clients {
    pub(super) fn new(
        poller: &Poller,
        tokens: &Tokens,
        listener: OwnedFd,
        survivors: Vec<(Process, ProcessHandle)>,
    ) -> Result<Clients> {
        let failed = |error| Error::system("watch who takes part", std::io::Error::from(error));
        poller.watch(&listener, tokens.listener).map_err(failed)?;
        for (token, (_, process)) in (tokens.first_survivor..).zip(&survivors) {
            poller.watch(process, token).map_err(failed)?;
        }
        Ok(Clients {
            listener: Some(listener),
            spare: File::open("/dev/null").ok(),
            connections: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            next: tokens.first_connection,
            survivors,
            packet: Vec::with_capacity(PACKET_MAX),
        })
    }

    /// The next who wants to be let in.
    pub(super) fn accept(&mut self) -> Option<OwnedFd> {
        match socket::accept(self.listener.as_ref()?) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                    // It would wait, and be announced, for ever: it is refused by accepting and closing it.
                    self.spare = None;
                    let _ = self.listener.as_ref().map(socket::accept);
                    self.spare = File::open("/dev/null").ok();
                }
                None
            }
        }
    }

    /// A new connection.
    pub(super) fn add(&mut self, poller: &Poller, socket: OwnedFd) {
        let token = self.next;
        self.next += 1;
        match poller.watch(&socket, token) {
            Ok(()) => {
                self.connections.insert(token, Connection { socket, slot: None, unsent: VecDeque::new() });
            }
            Err(error) => tracing::error!(%error, "a connection could not be watched"),
        }
    }

    /// Its socket.
    pub(super) fn socket(&self, token: u64) -> Option<&OwnedFd> {
        self.connections.get(&token).map(|connection| &connection.socket)
    }

    /// The slot of the thread behind it.
    pub(super) fn slot(&self, token: u64) -> Option<u32> {
        self.connections.get(&token).and_then(|connection| connection.slot)
    }

    /// The connection of the thread that has the slot.
    pub(super) fn of_slot(&self, slot: u32) -> Option<u64> {
        self.by_slot.get(&slot).copied()
    }

    /// Whether nobody is connected.
    pub(super) fn are_none(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether no thread is connected.
    pub(super) fn have_no_threads(&self) -> bool {
        self.by_slot.is_empty()
    }

    /// The thread behind a connection has this slot.
    pub(super) fn joined(&mut self, token: u64, slot: u32) {
        self.by_slot.insert(slot, token);
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.slot = Some(slot);
        }
    }

    /// Ends a connection; the slot of the thread behind it. None if there is no such connection.
    pub(super) fn remove(&mut self, poller: &Poller, token: u64) -> Option<Option<u32>> {
        let connection = self.connections.remove(&token)?;
        poller.leave(&connection.socket);
        if let Some(slot) = connection.slot {
            self.by_slot.remove(&slot);
        }
        Some(connection.slot)
    }

    /// A process of before has ended.
    pub(super) fn survivor_ended(&self, poller: &Poller, number: usize) -> Option<Process> {
        let (process, handle) = self.survivors.get(number)?;
        poller.leave(handle);
        Some(*process)
    }

    /// Nobody is let in or heard any more. What is in flight is left as it is.
    pub(super) fn leave(&mut self, poller: &Poller) {
        self.listener.take().iter().for_each(|listener| poller.leave(listener));
        self.connections.values().for_each(|connection| poller.leave(&connection.socket));
    }

    /// Sends an answer, or keeps it until the socket takes it; false if the connection is to be cut off.
    #[must_use]
    pub(super) fn send(&mut self, poller: &Poller, token: u64, envelope: Envelope, reply: &Reply<'_>) -> bool {
        reply.encode(envelope, &mut self.packet);
        let Some(connection) = self.connections.get_mut(&token) else { return true };
        if connection.unsent.is_empty() {
            match socket::send_packet(&connection.socket, &self.packet) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(%error, "an answer found nobody");
                    return true;
                }
            }
        }
        connection.unsent.push_back(self.packet.clone());
        poller.watch_writable(&connection.socket, token, true);
        let is_read = connection.unsent.len() <= UNSENT_MAX;
        if !is_read {
            tracing::warn!("a connection that does not read its answers is closed");
        }
        is_read
    }

    /// The socket takes bytes again.
    pub(super) fn send_unsent(&mut self, poller: &Poller, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if let Err(error) = connection.send_unsent() {
            tracing::debug!(%error, "an answer found nobody");
            connection.unsent.clear();
        }
        poller.watch_writable(&connection.socket, token, !connection.unsent.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::SockType;

    use super::*;

    const TOKENS: Tokens = Tokens { listener: 0, first_connection: 16, first_survivor: 1 << 63 };

    #[test]
    fn answers_that_are_not_read_are_kept_up_to_a_limit_and_sent_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = socket::listen_at(&path, SockType::SeqPacket).unwrap();
        let poller = Poller::new(2, 3).unwrap();
        let mut clients = Clients::new(&poller, &TOKENS, listener, Vec::new()).unwrap();
        assert!(clients.accept().is_none() && clients.are_none());
        let other = socket::connect_to(&path).unwrap();
        let accepted = clients.accept().expect("somebody connected");
        clients.add(&poller, accepted);
        clients.joined(16, 5);
        assert_eq!((clients.slot(16), clients.of_slot(5), clients.have_no_threads()), (Some(5), Some(16), false));
        let text = vec![b'x'; 32 << 10];
        let send = |clients: &mut Clients, seq| {
            clients.send(&poller, 16, Envelope { slot: 5, seq }, &Reply::Control { text: &text })
        };
        let mut count = 0;
        while send(&mut clients, count) {
            count += 1;
        }
        assert!(count >= UNSENT_MAX as u64, "{count}");
        let mut buffer = vec![0; PACKET_MAX];
        for seq in 0..=count {
            clients.send_unsent(&poller, 16);
            let length = socket::receive(&other, &mut buffer).unwrap().expect("it was sent");
            let (envelope, _) = Reply::decode(&buffer[..length]).unwrap();
            assert_eq!(envelope.seq, seq);
        }
        assert_eq!(clients.remove(&poller, 16), Some(Some(5)));
        assert!(clients.are_none() && clients.have_no_threads() && clients.remove(&poller, 16).is_none());
    }
}
