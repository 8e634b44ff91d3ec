//! The agent's side: who is known, what is to be sent, what came.

mod accepting;
mod dialling;
mod ending;
mod greeting;
mod receiving;
mod sending;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::sys::epoll::EpollEvent;
use rustc_hash::FxHashMap;

use crate::batch::{Batch, Event, PeerId};
use crate::connection::{Connection, State};
use crate::counters::{Counters, PeerCounters};
use crate::error::{Error, Result};
use crate::identity::{Identity, Member};
use crate::key::Key;
use crate::listen::Listen;
use crate::peer::Peers;
use crate::poller::Poller;
use crate::timers::{Due, Timers};
use crate::tls::Tls;

const TIMER: u64 = 0;
/// Listeners are numbered from here.
const FIRST_LISTENER: u64 = 1;
/// Connections are numbered from here.
const FIRST_CONNECTION: u64 = 1 << 32;
/// Events of a turn. Assumed: what they bring, 64 KiB each at most, is what the agent handles before its programs' next
/// packets.
const EVENTS: usize = 64;
/// What one read takes. Assumed: a thousand messages of 64 bytes.
const READ_BYTES: usize = 64 << 10;

/// How to listen, and how patient to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: Listen,
    /// Bytes of messages that wait for one peer. What does not fit is dropped.
    pub queue_bytes_max: usize,
    /// A peer that owes an answer for so long is given up.
    pub silence: Duration,
    /// So long a connection may take to be established.
    pub greeting: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: Listen::default(),
            // assumed: 60,000 messages of 64 bytes, a tenth of a second of the most that one owner serves
            queue_bytes_max: 4 << 20,
            // assumed: a third of the time after which a silent member is expelled
            silence: Duration::from_secs(10),
            // assumed: a handshake takes a millisecond; a thousand at once wait for each other
            greeting: Duration::from_secs(10),
        }
    }
}

/// Connections to the other agents of a managed directory.
pub struct Transport {
    identity: Identity,
    tls: Tls,
    options: Options,
    listeners: Vec<TcpListener>,
    told: Vec<SocketAddr>,
    poller: Poller,
    connections: FxHashMap<u64, Connection>,
    next_connection: u64,
    peers: Peers,
    dirty: Vec<Dirty>,
    timers: Timers,
    /// Of which the agent does not know yet.
    events: Vec<Event>,
    counters: Counters,
    scratch: Box<[u8]>,
}

/// What `flush` looks at.
#[derive(Clone, Copy)]
enum Dirty {
    Peer(PeerId),
    Connection(u64),
}

impl Transport {
    /// Listens. The only call that may wait: for a name service.
    ///
    /// # Errors
    /// It can listen nowhere, or no certificate can be made of the key.
    pub fn start(identity: Identity, key: &Key, options: Options) -> Result<Transport> {
        identity.check_names()?;
        let tls = Tls::new(key)?;
        let bound = options.listen.bind()?;
        let poller = Poller::new(TIMER)?;
        for (token, listener) in (FIRST_LISTENER..).zip(&bound.listeners) {
            poller.watch(listener, token).map_err(|error| Error::system("watch the other agents' door", error))?;
        }
        Ok(Transport {
            identity,
            tls,
            options,
            listeners: bound.listeners,
            told: bound.told,
            poller,
            connections: FxHashMap::default(),
            next_connection: FIRST_CONNECTION,
            peers: Peers::default(),
            dirty: Vec::new(),
            timers: Timers::default(),
            events: Vec::new(),
            counters: Counters::default(),
            scratch: vec![0; READ_BYTES].into(),
        })
    }

    /// Where the others reach this member.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.told
    }

    /// Readable when `turn` is to be called.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.poller.descriptor()
    }

    /// Knows a member and where it listens; no connection is made before there is a message for it.
    pub fn know(&mut self, member: &Member, addresses: Vec<SocketAddr>) -> PeerId {
        let id = self.peers.find_or_add(member);
        let peer = self.peers.get_mut(id).expect("it has just been found");
        peer.is_known = true;
        peer.dialling.set_addresses(addresses);
        id
    }

    /// Hangs up and forgets the member; its number means nothing from now on.
    pub fn forget(&mut self, id: PeerId) {
        let Some(peer) = self.peers.remove(id) else { return };
        for token in peer.ways.into_iter().chain(peer.dialling.under_way) {
            self.drop_connection(token);
        }
    }

    /// Who it is.
    pub fn member(&self, id: PeerId) -> Option<&Member> {
        self.peers.get(id).map(|peer| &peer.member)
    }

    /// Messages get through to it, as far as is known.
    pub fn is_connected(&self, id: PeerId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.way().is_some())
    }

    /// Of all connections.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Of each peer, in the order of names.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &Member, PeerCounters)> {
        self.peers.iter().map(|(id, peer)| (id, &peer.member, peer.counted()))
    }

    /// Takes what came and does what is due; waits for nothing. Call it when the descriptor is readable, and `flush`
    /// after what it brought is handled; called without reason it brings nothing.
    pub fn turn(&mut self, batch: &mut Batch) {
        batch.clear();
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = self.poller.events(&mut events);
        let now = Instant::now();
        let mut handshakes = 0;
        for event in &events[..count] {
            match event.data() {
                TIMER => self.poller.timer_went_off(),
                token if token < FIRST_CONNECTION => self.accept((token - FIRST_LISTENER) as usize, now),
                token => self.on_connection(token, event.events(), now, &mut handshakes, batch),
            }
        }
        self.on_time(now);
        self.events.drain(..).for_each(|event| batch.tell(event));
        self.poller.set_timer(self.timers.first());
    }

    fn on_time(&mut self, now: Instant) {
        while let Some(due) = self.timers.take(now) {
            match due {
                Due::Dial(peer) => self.mark(peer),
                Due::Greeting(token) => self.greeting_is_due(token),
                Due::Silence(token) => self.answer_is_due(token, now),
                Due::Listen => self.listen_again(now),
            }
        }
    }

    fn is_established(&self, token: u64) -> bool {
        self.connections.get(&token).is_some_and(|one| matches!(one.state, State::Established(_)))
    }
}
