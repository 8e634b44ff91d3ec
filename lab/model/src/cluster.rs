//! Several servers and files striped over them.
//!
//! Stripe k = offset / stripe lies on server (first + k) mod N at local offset (k / N) · stripe + offset mod
//! stripe, as in PVFS2's simple stripe. The stripes of one request that lie on one server are adjacent there
//! and go out as one server request, so a long request pays one startup per server. A request completes when
//! its last part does.
//!
//! A request touches the servers that it has bytes on and no others, and finding who is next takes time
//! logarithmic in the number of servers. Of servers with events of the same time the lowest number goes
//! first.

use headstart_units::Nanos;
use serde::Serialize;

use crate::request::{Completion, Operation, Origin, Request};
use crate::server::{Server, ServerConfig, ServerStats};

mod timers;

use timers::Timers;

/// Where a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The server of stripe 0.
    pub first_server: usize,
    /// Address of the file's first local byte on each server.
    pub bases: Vec<u64>,
}

/// One request to a striped file.
#[derive(Clone, Copy, Debug)]
pub struct FileRequest<'a> {
    /// Chosen by the caller; comes back in the completion.
    pub id: u64,
    /// What is asked; a flush goes to every server.
    pub operation: Operation,
    /// Where the file lies; not looked at for a flush.
    pub placement: &'a Placement,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes; zero for a flush.
    pub length: u64,
    /// Whose it is.
    pub origin: Origin,
}

/// What the servers have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClusterStats {
    /// One entry per server.
    pub servers: Vec<ServerStats>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    id: u64,
    parts_left: usize,
    at: Nanos,
}

/// The contiguous local range `offset..offset + length` has on server number `server` (counted from the file's first),
/// as (local offset, length); `None` if it has no byte there.
pub fn local_range(server_count: u64, stripe_bytes: u64, server: u64, offset: u64, length: u64) -> Option<(u64, u64)> {
    // Local bytes of the server below a file offset.
    let below = |offset: u64| {
        let (stripe, rest) = (offset / stripe_bytes, offset % stripe_bytes);
        let (row, column) = (stripe / server_count, stripe % server_count);
        row * stripe_bytes
            + match column.cmp(&server) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => rest,
                std::cmp::Ordering::Greater => stripe_bytes,
            }
    };
    let (start, end) = (below(offset), below(offset + length));
    (end > start).then_some((start, end - start))
}

/// Servers and the requests spread over them.
pub struct Cluster {
    servers: Vec<Server>,
    timers: Timers,
    stripe_bytes: u64,
    open: Vec<Open>,
    free: Vec<usize>,
    parts: Vec<Completion>,
}

impl Cluster {
    /// A cluster of idle servers; each gets a spindle phase of its own.
    pub fn new(configs: impl IntoIterator<Item = ServerConfig>, stripe_bytes: u64) -> Cluster {
        let seeded = configs.into_iter().enumerate().map(|(index, config)| {
            let phase_seed = config.phase_seed.wrapping_add(index as u64 + 1);
            Server::new(ServerConfig { phase_seed, ..config })
        });
        let servers: Vec<Server> = seeded.collect();
        assert!(!servers.is_empty() && stripe_bytes > 0, "a cluster has servers and stripes");
        let timers = Timers::new(servers.len());
        Cluster { servers, timers, stripe_bytes, open: Vec::new(), free: Vec::new(), parts: Vec::new() }
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Bytes of a stripe.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// A request leaves the client at `now`. Call `next_timer` again afterwards.
    pub fn on_request(&mut self, now: Nanos, request: FileRequest<'_>) {
        let open = Open { id: request.id, parts_left: 0, at: now };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.open[slot] = open;
                slot
            }
            None => {
                self.open.push(open);
                self.open.len() - 1
            }
        };
        self.open[slot].parts_left = self.send(now, slot as u64, &request);
    }

    /// Sends the parts of a request to their servers; returns how many there are.
    fn send(&mut self, now: Nanos, id: u64, request: &FileRequest<'_>) -> usize {
        let count = self.servers.len();
        let FileRequest { operation, placement, offset, length, origin, .. } = *request;
        let part = |address, length| Request { id, operation, address, length, origin };
        if operation == Operation::Flush {
            (0..count).for_each(|server| self.send_to(now, server, part(0, 0)));
            return count;
        }
        assert_eq!(placement.bases.len(), count, "a placement has one base per server");
        if length == 0 {
            // An empty request still asks one server.
            self.send_to(now, placement.first_server % count, part(0, 0));
            return 1;
        }
        let (first, last) = (offset / self.stripe_bytes, (offset + length - 1) / self.stripe_bytes);
        let part_count = (last - first + 1).min(count as u64);
        for stripe in first..first + part_count {
            let column = stripe % count as u64;
            let range = local_range(count as u64, self.stripe_bytes, column, offset, length);
            let (local, length) = range.expect("a server whose stripe is asked for has bytes of it");
            let server = (placement.first_server + column as usize) % count;
            self.send_to(now, server, part(placement.bases[server] + local, length));
        }
        part_count as usize
    }

    fn send_to(&mut self, now: Nanos, server: usize, request: Request) {
        self.servers[server].on_request(now, request);
        self.timers.set(server, self.servers[server].next_timer());
    }

    /// The time `on_timer` should be called next; `None` while all servers are idle.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.first()
    }

    /// Processes every event due at or before `now`; appends the requests that completed, in order of time. Calls with
    /// nothing due do nothing. Call `next_timer` again afterwards.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let first = completions.len();
        let mut from = 0;
        while self.timers.first().is_some_and(|at| at <= now)
            && let Some(index) = self.timers.due_from(from, now)
        {
            from = index + 1;
            let server = &mut self.servers[index];
            server.on_timer(now, &mut self.parts);
            self.timers.set(index, server.next_timer());
            for part in self.parts.drain(..) {
                let open = &mut self.open[part.id as usize];
                open.at = open.at.max(part.at);
                open.parts_left -= 1;
                if open.parts_left == 0 {
                    completions.push(Completion { id: open.id, at: open.at });
                    self.free.push(part.id as usize);
                }
            }
        }
        completions[first..].sort_by_key(|completion| completion.at);
    }

    /// From now on what volumes hold is written back ([`Server::drain`]).
    pub fn drain(&mut self, now: Nanos) {
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.drain(now);
            self.timers.set(index, server.next_timer());
        }
    }

    /// Servers forget what they hold in memory of what their disks or flash have ([`Server::empty_buffers`]).
    pub fn empty_buffers(&mut self, now: Nanos) {
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.empty_buffers(now);
            self.timers.set(index, server.next_timer());
        }
    }

    /// Bytes that servers hold and their disks do not.
    pub fn dirty_bytes(&self) -> u64 {
        self.servers.iter().map(Server::dirty_bytes).sum()
    }

    /// What the servers have done up to `now`.
    pub fn stats(&self, now: Nanos) -> ClusterStats {
        ClusterStats { servers: self.servers.iter().map(|server| server.stats(now)).collect() }
    }
}
