//! How fast the models run: `cargo run --release -p headstart-model --example event_rate [REQUESTS [NAME [SERVERS]]]`.
//!
//! Closed loops of 64 KiB requests, ten ranks for every server. An event is an arrival at a server, a device
//! command or a reply. Prints events per second by number of servers and configuration.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use headstart_model::cluster::{Cluster, FileRequest, Placement};
use headstart_model::elevator::ElevatorKind;
use headstart_model::file_cache::FileReadAhead;
use headstart_model::profile::Profile;
use headstart_model::request::{Operation, Origin};
use headstart_model::server::ServerConfig;
use headstart_units::{KIB, Nanos};

const STRIPE: u64 = 64 * KIB;
const RANKS_PER_SERVER: u64 = 10;

/// Where a rank goes next.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Its own region in order.
    Sequential,
    /// All ranks together read the file in order.
    Interleaved,
    /// Anywhere.
    Random,
}

struct Rank {
    position: u64,
    random: u64,
}

impl Rank {
    fn next(&mut self, pattern: Pattern, file_stripes: u64, rank_count: u64) -> u64 {
        match pattern {
            Pattern::Sequential => self.position += 1,
            Pattern::Interleaved => self.position += rank_count,
            Pattern::Random => {
                self.random =
                    self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                self.position = self.random >> 20;
            }
        }
        self.position % file_stripes * STRIPE
    }
}

/// Events per second of `requests` requests.
fn rate(config: ServerConfig, servers: usize, pattern: Pattern, operation: Operation, requests: u64) -> f64 {
    let mut cluster = Cluster::new(std::iter::repeat_n(config, servers), STRIPE);
    let placement = Placement { first_server: 0, bases: vec![0; servers] };
    let file_stripes = servers as u64 * 100_000;
    let rank_count = servers as u64 * RANKS_PER_SERVER;
    let apart = if matches!(pattern, Pattern::Interleaved) { 1 } else { file_stripes / rank_count };
    let rank = |index| Rank { position: index * apart, random: index };
    let mut ranks: Vec<Rank> = (0..rank_count).map(rank).collect();
    let mut waiting: BinaryHeap<_> = (0..rank_count).map(|rank| Reverse((Nanos(rank * 1000), rank))).collect();
    let (mut completed, mut completions) = (0, Vec::new());
    let begin = Instant::now();
    while completed < requests {
        let issue = waiting.peek().map(|Reverse(first)| *first);
        let timer = cluster.next_timer();
        match issue {
            Some((at, rank)) if timer.is_none_or(|timer| at <= timer) => {
                waiting.pop();
                let offset = ranks[rank as usize].next(pattern, file_stripes, rank_count);
                let origin = Origin { job: 0, rank: rank as u32, file: 0 };
                let request =
                    FileRequest { id: rank, operation, placement: &placement, offset, length: STRIPE, origin };
                cluster.on_request(at, request);
            }
            _ => {
                let at = timer.expect("requests are under way");
                cluster.on_timer(at, &mut completions);
                for completion in completions.drain(..) {
                    completed += 1;
                    waiting.push(Reverse((completion.at + Nanos(100_000), completion.id)));
                }
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats = cluster.stats(Nanos::MAX).servers;
    let events: u64 = stats.iter().map(|server| server.device_commands + 2 * (server.reads + server.writes)).sum();
    events as f64 / seconds
}

fn main() {
    let requests = std::env::args().nth(1).map_or(400_000, |text| text.parse().expect("REQUESTS is a number"));
    let only = std::env::args().nth(2).unwrap_or_default();
    let only_servers: Option<usize> = std::env::args().nth(3).map(|text| text.parse().expect("SERVERS is a number"));
    let disk = ServerConfig::new(Profile::Seagate250);
    let cached = ServerConfig { server_cache_bytes: 8 << 20, ..disk };
    let cfq = ServerConfig { elevator: ElevatorKind::Cfq, drive_queue_depth: Some(1), ..disk };
    let file_read_ahead = Some(FileReadAhead { cache_bytes: 4 << 20, ..FileReadAhead::default() });
    let ahead = ServerConfig { file_read_ahead, command_bytes_max: 1 << 20, ..cfq };
    let cases = [
        ("disk, random reads", disk, Pattern::Random, Operation::Read),
        ("disk, sequential reads", disk, Pattern::Sequential, Operation::Read),
        ("disk, random writes", disk, Pattern::Random, Operation::Write),
        ("server cache, sequential writes", cached, Pattern::Sequential, Operation::Write),
        ("CFQ, random reads", cfq, Pattern::Random, Operation::Read),
        ("CFQ, sequential reads by rank", cfq, Pattern::Sequential, Operation::Read),
        ("CFQ, reads ahead of ranks", ahead, Pattern::Interleaved, Operation::Read),
        ("flash, random reads", ServerConfig::new(Profile::RevodriveX2), Pattern::Random, Operation::Read),
    ];
    for (name, config, pattern, operation) in cases.into_iter().filter(|case| case.0.contains(&only)) {
        for servers in [10, 100, 1000].into_iter().filter(|servers| only_servers.is_none_or(|only| only == *servers)) {
            let rate = rate(config, servers, pattern, operation, requests);
            println!("{name:32} {servers:4} servers: {:5.2} million events/s", rate / 1e6);
        }
    }
}
