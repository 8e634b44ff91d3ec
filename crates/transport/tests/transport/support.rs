//! Members in one process, each with sockets of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use headstart_transport::{Batch, Event, Identity, Key, Member, Options, PeerCounters, PeerId, Transport};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A wait that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(300);

pub struct Node {
    pub transport: Transport,
    batch: Batch,
    pub received: Vec<(PeerId, Vec<u8>)>,
    pub events: Vec<Event>,
}

pub fn identity(name: &str, incarnation: u64) -> Identity {
    Identity { version: 1, directory: "directory-1".into(), member: Member { name: name.into(), incarnation } }
}

pub fn options() -> Options {
    Options { listen: "127.0.0.1".parse().unwrap(), ..Options::default() }
}

impl Node {
    pub fn start(key: &Path, identity: Identity, options: Options) -> Node {
        let key = Key::load_or_create(key).unwrap();
        Node {
            transport: Transport::start(identity, &key, options).unwrap(),
            batch: Batch::new(),
            received: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn named(key: &Path, name: &str) -> Node {
        Node::start(key, identity(name, 1), options())
    }

    pub fn address(&self) -> SocketAddr {
        self.transport.addresses()[0]
    }

    pub fn know(&mut self, name: &str, incarnation: u64, address: SocketAddr) -> PeerId {
        self.transport.know(&Member { name: name.into(), incarnation }, vec![address])
    }

    /// A turn of an agent's loop.
    pub fn turn(&mut self) {
        self.transport.turn(&mut self.batch);
        self.received.extend(self.batch.messages().map(|(peer, message)| (peer, message.to_vec())));
        self.events.extend(self.batch.events().iter().cloned());
        self.transport.flush();
    }

    pub fn send(&mut self, peer: PeerId, message: &[u8]) -> bool {
        let is_queued = self.transport.send(peer, message);
        self.transport.flush();
        is_queued
    }

    pub fn counters(&self, peer: PeerId) -> PeerCounters {
        self.transport.peers().find(|(id, ..)| *id == peer).map(|(.., counters)| counters).unwrap()
    }

    pub fn is_told(&self, words: &str) -> bool {
        self.events.iter().any(|event| format!("{event:?}").contains(words))
    }
}

/// Turns of all until it holds.
pub fn until(nodes: &mut [&mut Node], what: &str, mut holds: impl FnMut(&mut [&mut Node]) -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds(nodes) {
        if Instant::now() > end {
            let events: Vec<_> = nodes.iter().map(|node| &node.events).collect();
            panic!("{what}: {events:#?}");
        }
        let mut waits: Vec<PollFd> =
            nodes.iter().map(|node| PollFd::new(node.transport.descriptor(), PollFlags::POLLIN)).collect();
        poll(&mut waits, PollTimeout::from(10u8)).unwrap();
        nodes.iter_mut().for_each(|node| node.turn());
    }
}
