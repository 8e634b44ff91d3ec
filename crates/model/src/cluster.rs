//! Several servers and files striped over them.
//!
//! Stripe k = offset / stripe lies on server (first + k) mod N at local offset (k / N) · stripe + offset mod stripe, as in
//! PVFS2's simple stripe. The stripes of one request that lie on one server are adjacent there and go out as one server
//! request, so a long request pays one startup per server. A request completes when its last part does.

use headstart_core::units::Nanos;
use serde::Serialize;

use crate::server::{Completion, Operation, Origin, Request, Server, ServerConfig, ServerStats};

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
    /// The servers.
    pub servers: Vec<Server>,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
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
        Cluster { servers, stripe_bytes, open: Vec::new(), free: Vec::new(), parts: Vec::new() }
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
        let count = self.servers.len() as u64;
        let send_to = |server: &mut Server, address, length| {
            let FileRequest { operation, origin, .. } = request;
            server.on_request(now, Request { id: slot as u64, operation, address, length, origin });
        };
        if request.operation == Operation::Flush {
            self.open[slot].parts_left = self.servers.len();
            self.servers.iter_mut().for_each(|server| send_to(server, 0, 0));
            return;
        }
        let placement = request.placement;
        assert_eq!(placement.bases.len(), self.servers.len(), "a placement has one base per server");
        let mut part_count = 0;
        for column in 0..count {
            let range = local_range(count, self.stripe_bytes, column, request.offset, request.length);
            let Some((local, length)) = range else { continue };
            let index = ((placement.first_server as u64 + column) % count) as usize;
            send_to(&mut self.servers[index], placement.bases[index] + local, length);
            part_count += 1;
        }
        if part_count == 0 {
            // An empty request still asks one server.
            send_to(&mut self.servers[placement.first_server % count as usize], 0, 0);
            part_count = 1;
        }
        self.open[slot].parts_left = part_count;
    }

    /// The time `on_timer` should be called next; `None` while all servers are idle.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.servers.iter().filter_map(Server::next_timer).min()
    }

    /// Processes every event due at or before `now`; appends the requests that completed, in order of time. Calls with
    /// nothing due do nothing. Call `next_timer` again afterwards.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let first = completions.len();
        for server in &mut self.servers {
            if server.next_timer().is_none_or(|at| at > now) {
                continue;
            }
            server.on_timer(now, &mut self.parts);
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

    /// What the servers have done up to `now`.
    pub fn stats(&self, now: Nanos) -> ClusterStats {
        ClusterStats { servers: self.servers.iter().map(|server| server.stats(now)).collect() }
    }
}
