//! Closed loops in virtual time: each rank issues its next request when the last has completed.

use headstart_model::request::Operation;
use headstart_units::Nanos;

use super::{FILE_BYTES, Pattern, RANKS};
use crate::config::TestbedConfig;
use crate::placement::Allocator;
use crate::servers::{Ask, Servers};

/// Requests measured after the warm-up.
const MEASURED_REQUESTS: u64 = 1600;

/// Requests of the warm-up at least: the queues fill and the ranks leave their common start behind.
const WARM_UP_REQUESTS_MIN: u64 = 160;

/// Between the ranks' first requests.
const START_GAP_NS: u64 = 50_000;

/// What each rank does next.
struct Workload {
    pattern: Pattern,
    size_bytes: u64,
    rank_bytes: u64,
    positions: Vec<u64>,
    random: u64,
}

impl Workload {
    fn of(pattern: Pattern, size_bytes: u64, stripe_bytes: u64) -> Workload {
        // An odd number of stripes per rank, at least one request.
        let stripes = (FILE_BYTES / u64::from(RANKS) / stripe_bytes).max(2) - 1;
        let rank_bytes = ((stripes | 1) * stripe_bytes).max(size_bytes);
        Workload { pattern, size_bytes, rank_bytes, positions: vec![0; RANKS as usize], random: 1 }
    }

    fn next_offset(&mut self, rank: usize) -> u64 {
        match self.pattern {
            Pattern::Random => {
                // Xorshift; the seed is fixed so that a site file can be reproduced.
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                self.random % (FILE_BYTES / self.size_bytes) * self.size_bytes
            }
            Pattern::Sequential => {
                let position = self.positions[rank];
                let next = position + self.size_bytes;
                self.positions[rank] = if next + self.size_bytes > self.rank_bytes { 0 } else { next };
                rank as u64 * self.rank_bytes + position
            }
        }
    }
}

/// Mean latency in seconds of a steady closed loop.
///
/// Writes warm up until the server caches are twice full, so that the figure is that of the devices behind them.
pub(super) fn mean_latency_s(
    mut servers: Servers,
    config: &TestbedConfig,
    operation: Operation,
    pattern: Pattern,
    size_bytes: u64,
) -> f64 {
    let cached_bytes = if operation == Operation::Write { 2 * config.server_cache_bytes } else { 0 };
    let warm_up = (cached_bytes * u64::from(servers.count()) / size_bytes).max(WARM_UP_REQUESTS_MIN);
    let mut allocator = Allocator::for_servers(servers.count(), config.stripe_bytes, servers.capacity_bytes());
    let place = allocator.region(0, FILE_BYTES);
    let mut workload = Workload::of(pattern, size_bytes, config.stripe_bytes);
    // Ranks start apart, as processes do.
    let mut issued: Vec<Nanos> = (0..u64::from(RANKS)).map(|rank| Nanos(rank * START_GAP_NS)).collect();
    for (rank, at) in issued.iter().enumerate() {
        servers.on_request(
            *at,
            rank as u64,
            Ask { operation, place, offset: workload.next_offset(rank), length: size_bytes },
        );
    }
    let (mut count, mut sum_ns) = (0, 0u64);
    let mut completions = Vec::new();
    while count < warm_up + MEASURED_REQUESTS {
        let at = servers.next_timer().expect("requests are under way");
        servers.on_timer(at, &mut completions);
        for done in completions.drain(..) {
            let rank = done.id as usize;
            if count >= warm_up {
                sum_ns += done.at.since(issued[rank]).0;
            }
            count += 1;
            issued[rank] = done.at;
            servers.on_request(
                done.at,
                done.id,
                Ask { operation, place, offset: workload.next_offset(rank), length: size_bytes },
            );
        }
    }
    sum_ns as f64 * 1e-9 / (count - warm_up) as f64
}
