//! Nodes, servers and the messages between them.
//!
//! ```text
//! start --> node's card out --Depart--> server (card in, CPU, cache, elevator, device, card out) --> node's card in --Arrive--> done
//! ```
//!
//! A *transfer* is a range of a file of one tier (or a flush of its servers), cut into one message for each
//! server. It is done when the last reply has arrived whole. Messages of a node leave in the order in which
//! they were started.

use headstart_model::nic::HEADER_BYTES;
use headstart_model::request::{Completion, Operation, Origin, Request};
use headstart_model::server::{Access, ServerStats};
use headstart_model::slab::Slab;
use headstart_units::Nanos;
use headstart_units::request::Range;

use crate::node::Card;
use crate::queue::{Event, EventQueue};
use crate::scenario::{Scenario, ServerPolicy};
use crate::tier::{Part, Place, Tier, TierName};

/// Who waits for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A rank.
    Rank(u32),
    /// A rank's list request: the server's column.
    List(u32, u32),
    /// A copy of an agent's, by its place in the table.
    Copy(u32),
    /// An agent's barrier.
    Barrier(u32),
    /// The flush at the end of the run.
    End,
}

/// A transfer to start.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Who waits for it.
    pub owner: Owner,
    /// Where.
    pub tier: TierName,
    /// What.
    pub operation: Operation,
    /// The node whose card it goes through.
    pub node: u32,
    /// Whose it is.
    pub origin: Origin,
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    owner: Owner,
    messages_left: u32,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    transfer: u32,
    /// Over both tiers.
    server: u32,
    node: u32,
    request: Request,
}

impl Order {
    /// One of its messages, and the tier that the message's server is one of.
    fn part(&self, transfer: u32, part: Part) -> (TierName, Message) {
        let Order { tier, operation, node, origin, .. } = *self;
        let request = Request { id: 0, operation, address: part.address, length: part.length, origin };
        (tier, Message { transfer, server: part.server, node, request })
    }
}

/// Something that a server or one of its devices did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAccess {
    /// The server's tier.
    pub tier: TierName,
    /// Its number there.
    pub server: u32,
    /// What; times count from the begin of the simulation.
    pub access: Access,
}

/// Messages and bytes handed to servers, and those that came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent.
    pub sent: u64,
    /// Replies arrived.
    pub answered: u64,
    /// Bytes of both tiers' reads and writes, by [`Operation`].
    pub bytes: [[u64; 3]; 2],
}

/// See the module.
pub struct Fabric {
    tiers: [Tier; 2],
    disk_servers: u32,
    cards: Vec<Card>,
    ns_per_byte: f64,
    transfers: Slab<Transfer>,
    messages: Slab<Message>,
    completions: Vec<Completion>,
    /// What went back and forth.
    pub traffic: Traffic,
}

fn payload(request: &Request, operation: Operation) -> u64 {
    if request.operation == operation { request.length.max(HEADER_BYTES) } else { HEADER_BYTES }
}

impl Fabric {
    /// Idle machines; `seed` moves the spindles. Files will have so many bytes.
    pub fn new(scenario: &Scenario, seed: u64, file_bytes: u64) -> Fabric {
        let volume = match scenario.server_policy {
            ServerPolicy::Stock => None,
            ServerPolicy::Volume(names) => {
                let bytes = file_bytes / u64::from(scenario.disk.servers);
                Some(scenario.volume.config(names, &scenario.disk.server(0), bytes))
            }
        };
        let tiers =
            [Tier::new(&scenario.disk, seed, volume), Tier::new(&scenario.flash, seed ^ 0x5555_5555_5555_5555, None)];
        let rate = scenario.clients.bytes_per_s;
        Fabric {
            disk_servers: tiers[0].servers.len() as u32,
            tiers,
            cards: vec![Card::default(); scenario.clients.nodes as usize],
            ns_per_byte: if rate > 0.0 { 1e9 / rate } else { 0.0 },
            transfers: Slab::default(),
            messages: Slab::default(),
            completions: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    /// A tier.
    pub fn tier(&self, name: TierName) -> &Tier {
        &self.tiers[name as usize]
    }

    /// A tier, to place files.
    pub fn tier_mut(&mut self, name: TierName) -> &mut Tier {
        &mut self.tiers[name as usize]
    }

    /// Compute nodes.
    pub fn nodes(&self) -> u32 {
        self.cards.len() as u32
    }

    /// A packet to another node leaves; when its last byte is through.
    pub fn leave(&mut self, now: Nanos, node: u32, bytes: u64) -> Nanos {
        self.cards[node as usize].out.send(now, bytes, self.ns_per_byte)
    }

    /// One from another node comes in; when its last byte is through.
    pub fn enter(&mut self, now: Nanos, node: u32, bytes: u64) -> Nanos {
        self.cards[node as usize].into.send(now, bytes, self.ns_per_byte)
    }

    /// Transfers and messages under way.
    pub fn under_way(&self) -> usize {
        self.transfers.len() + self.messages.len()
    }

    /// What the servers of a tier did.
    pub fn stats(&self, name: TierName, now: Nanos) -> impl Iterator<Item = ServerStats> + '_ {
        self.tier(name).servers.iter().map(move |server| server.stats(now))
    }

    /// Starts a transfer of a range of a file that lies at `place`.
    pub fn start(&mut self, now: Nanos, queue: &mut EventQueue, order: Order, place: Place, range: Range) {
        let parts = self.tier(order.tier).parts(place, range.offset, range.length);
        let transfer = self.transfers.insert(Transfer { owner: order.owner, messages_left: 0 });
        let mut count = 0;
        for part in parts {
            self.send(now, queue, order.part(transfer, part), None);
            count += 1;
        }
        if count == 0 {
            // An empty request still asks one server.
            let part = Part { server: place.first_server, address: place.base, length: 0 };
            self.send(now, queue, order.part(transfer, part), None);
            count = 1;
        }
        self.transfers[transfer].messages_left = count;
    }

    /// Starts a transfer of many parts on one server that travel as one message; each is a request there.
    pub fn start_parts(&mut self, now: Nanos, queue: &mut EventQueue, order: Order, parts: &[Part]) {
        let transfer = self.transfers.insert(Transfer { owner: order.owner, messages_left: parts.len() as u32 });
        let bytes: u64 = parts.iter().map(|part| part.length).sum();
        let sent = if order.operation == Operation::Write { bytes.max(HEADER_BYTES) } else { HEADER_BYTES };
        let departed = self.cards[order.node as usize].out.send(now, sent, self.ns_per_byte);
        for part in parts {
            self.send(now, queue, order.part(transfer, *part), Some(departed));
        }
    }

    /// From now on what servers do is noted.
    pub fn note_accesses(&mut self) {
        self.tiers.iter_mut().flat_map(|tier| &mut tier.servers).for_each(|server| server.note_accesses());
    }

    /// What servers did since the last time, in the order of time, then of servers.
    pub fn take_accesses(&mut self) -> Vec<ServerAccess> {
        let (mut all, mut accesses) = (Vec::new(), Vec::new());
        for tier in [TierName::Disk, TierName::Flash] {
            for (number, server) in (0..).zip(&mut self.tiers[tier as usize].servers) {
                server.take_accesses(&mut accesses);
                all.extend(accesses.drain(..).map(|access| ServerAccess { tier, server: number, access }));
            }
        }
        all.sort_by_key(|done| done.access.at);
        all
    }

    /// From now on the servers of a tier bring to their disks what lies in front of them.
    pub fn drain(&mut self, now: Nanos, queue: &mut EventQueue, name: TierName) {
        for index in 0..self.tier(name).servers.len() as u32 {
            self.tiers[name as usize].servers[index as usize].drain(now);
            self.schedule(queue, index + if name == TierName::Flash { self.disk_servers } else { 0 });
        }
    }

    /// Forgets what the disk servers hold in memory.
    pub fn empty_buffers(&mut self, now: Nanos, queue: &mut EventQueue) {
        for index in 0..self.disk_servers {
            self.tiers[0].servers[index as usize].empty_buffers(now);
            self.schedule(queue, index);
        }
    }

    /// Asks every server of a tier that all acknowledged is on the medium.
    pub fn flush(&mut self, now: Nanos, queue: &mut EventQueue, order: Order) {
        let servers = self.tier(order.tier).servers.len() as u32;
        let transfer = self.transfers.insert(Transfer { owner: order.owner, messages_left: servers });
        let order = Order { operation: Operation::Flush, ..order };
        for server in 0..servers {
            self.send(now, queue, order.part(transfer, Part { server, address: 0, length: 0 }), None);
        }
    }

    /// Sends a message whose server is one of its tier; the card takes it now unless it has `departed` already.
    fn send(
        &mut self,
        now: Nanos,
        queue: &mut EventQueue,
        (tier, mut message): (TierName, Message),
        departed: Option<Nanos>,
    ) {
        message.server += if tier == TierName::Flash { self.disk_servers } else { 0 };
        let Message { node, request, .. } = message;
        let number = self.messages.insert(message);
        self.messages[number].request.id = number.into();
        self.traffic.sent += 1;
        self.traffic.bytes[tier as usize][request.operation as usize] += request.length;
        let card = &mut self.cards[node as usize];
        let at = departed.unwrap_or_else(|| card.out.send(now, payload(&request, Operation::Write), self.ns_per_byte));
        if at == now {
            self.on_depart(now, queue, number);
        } else {
            queue.push(at, Event::Depart(number));
        }
    }

    /// [`Event::Depart`].
    pub fn on_depart(&mut self, now: Nanos, queue: &mut EventQueue, number: u32) {
        let Message { server, request, .. } = self.messages[number];
        let (tier, index) = self.find(server);
        self.tiers[tier].servers[index].on_request(now, request);
        self.schedule(queue, server);
    }

    fn find(&self, server: u32) -> (usize, usize) {
        match server.checked_sub(self.disk_servers) {
            None => (0, server as usize),
            Some(index) => (1, index as usize),
        }
    }

    fn schedule(&mut self, queue: &mut EventQueue, server: u32) {
        let (tier, index) = self.find(server);
        let tier = &mut self.tiers[tier];
        if let Some(due) = tier.servers[index].next_timer()
            && due < tier.scheduled[index]
        {
            tier.scheduled[index] = due;
            queue.push(due, Event::Server(server));
        }
    }

    /// [`Event::Server`]. Appends the owners of transfers that are done.
    pub fn on_server(&mut self, now: Nanos, queue: &mut EventQueue, server: u32, done: &mut Vec<Owner>) {
        let (tier, index) = self.find(server);
        if self.tiers[tier].scheduled[index] != now {
            // An earlier one was announced since, and did what was due.
            return;
        }
        self.tiers[tier].scheduled[index] = Nanos::MAX;
        let mut completions = std::mem::take(&mut self.completions);
        self.tiers[tier].servers[index].on_timer(now, &mut completions);
        for completion in completions.drain(..) {
            let number = completion.id as u32;
            let Message { node, request, .. } = self.messages[number];
            let bytes = payload(&request, Operation::Read);
            let at = self.cards[node as usize].into.send(completion.at, bytes, self.ns_per_byte);
            if at <= now {
                self.on_arrive(number, done);
            } else {
                queue.push(at, Event::Arrive(number));
            }
        }
        self.completions = completions;
        self.schedule(queue, server);
    }

    /// [`Event::Arrive`]. Appends the owner of the transfer if it is done.
    pub fn on_arrive(&mut self, number: u32, done: &mut Vec<Owner>) {
        let transfer = self.messages[number].transfer;
        self.messages.remove(number);
        self.traffic.answered += 1;
        let state = &mut self.transfers[transfer];
        state.messages_left -= 1;
        if state.messages_left == 0 {
            done.push(state.owner);
            self.transfers.remove(transfer);
        }
    }
}
