//! This agent's connections to the others, who are known by their places.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use headstart_transport::{Batch, Identity, Key, Options, PeerId, Transport};

use crate::cluster::letter::Letter;
use crate::cluster::register;
use crate::cluster::roster::{Member, Place, Roster, Standing};
use crate::cluster::terms::VERSION;
use crate::error::Result;
use crate::site::{ClusterSite, Site};
use crate::status::Traffic;

/// See the module.
pub(crate) struct Links {
    transport: Transport,
    peers: BTreeMap<Place, Peer>,
    scratch: Vec<u8>,
    /// With those that are forgotten.
    past: Traffic,
}

struct Peer {
    id: PeerId,
    member: headstart_transport::Member,
    addresses: Vec<SocketAddr>,
}

/// How the transport knows a member: each of its agents is another one.
fn known_as(member: &Member) -> headstart_transport::Member {
    let incarnation = u64::from(member.place.life) << 32 | u64::from(member.incarnation);
    headstart_transport::Member { name: member.name.clone(), incarnation }
}

impl Links {
    /// Listens for the others as this member. May wait for a name service.
    pub(crate) fn start(site: &Site, cluster: &ClusterSite, own: &Member) -> Result<Links> {
        let key = Key::load_or_create(&register::key(&site.fast))?;
        let identity = Identity { version: VERSION, directory: register::id(&site.fast)?, member: known_as(own) };
        // A message that nobody answers is worth nothing once others may have acted on this member's absence.
        let silence = std::time::Duration::from_nanos(cluster.timing.hold.0 / 3);
        let options = Options { listen: cluster.listen.clone(), silence, ..Options::default() };
        let transport = Transport::start(identity, &key, options)?;
        Ok(Links { transport, peers: BTreeMap::new(), scratch: Vec::new(), past: Traffic::default() })
    }

    /// Where others reach this member.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        self.transport.addresses()
    }

    /// Readable when there is something to take.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.transport.descriptor()
    }

    /// Knows whom the roster names, and nobody else; the places whose agents of before will not be heard again.
    pub(crate) fn know(&mut self, roster: &Roster, own: Place) -> Vec<Place> {
        let is_gone = |member: &Member| matches!(member.standing, Standing::Expelled | Standing::Left);
        let is_known = |member: &&Member| !is_gone(member) && member.place != own;
        let members: BTreeMap<Place, &Member> =
            roster.members.iter().filter(is_known).map(|member| (member.place, member)).collect();
        let gone: Vec<Place> = self
            .peers
            .iter()
            .filter(|(place, peer)| members.get(place).is_none_or(|member| known_as(member) != peer.member))
            .map(|(place, _)| *place)
            .collect();
        for place in &gone {
            let peer = self.peers.remove(place).expect("it was found");
            self.past = self.with(|id| id == peer.id);
            self.transport.forget(peer.id);
        }
        for (place, member) in members {
            let is_new = self.peers.get(&place).is_none_or(|peer| peer.addresses != member.addresses);
            if is_new {
                let known = known_as(member);
                let id = self.transport.know(&known, member.addresses.clone());
                self.peers.insert(place, Peer { id, member: known, addresses: member.addresses.clone() });
            }
        }
        gone
    }

    /// What went and came since the start.
    pub(crate) fn traffic(&self) -> Traffic {
        let known: BTreeSet<PeerId> = self.peers.values().map(|peer| peer.id).collect();
        self.with(|id| known.contains(&id))
    }

    /// The same with these, and with those that are forgotten.
    fn with(&self, is_meant: impl Fn(PeerId) -> bool) -> Traffic {
        let mut all = self.past;
        for (_, _, counters) in self.transport.peers().filter(|(id, ..)| is_meant(*id)) {
            all += Traffic {
                sent_letters_total: counters.sent_messages_total,
                sent_packets_total: counters.sent_packets_total,
                sent_bytes_total: counters.sent_bytes,
                received_letters_total: counters.received_messages_total,
                received_bytes_total: counters.received_bytes,
            };
        }
        all
    }

    /// The member behind a peer's number.
    pub(crate) fn place(&self, id: PeerId) -> Option<Place> {
        self.peers.iter().find(|(_, peer)| peer.id == id).map(|(place, _)| *place)
    }

    /// Queues a letter for the member at that place; false if it is known to be lost.
    pub(crate) fn send(&mut self, to: Place, letter: &Letter<'_>) -> bool {
        let Some(peer) = self.peers.get(&to) else { return false };
        letter.encode(&mut self.scratch);
        self.transport.send(peer.id, &self.scratch)
    }

    /// Answers whoever it was that wrote.
    pub(crate) fn answer(&mut self, to: PeerId, letter: &Letter<'_>) {
        letter.encode(&mut self.scratch);
        self.transport.send(to, &self.scratch);
    }

    /// What was queued goes.
    pub(crate) fn flush(&mut self) {
        self.transport.flush();
    }

    /// Takes what came.
    pub(crate) fn turn(&mut self, batch: &mut Batch) {
        self.transport.turn(batch);
    }
}
