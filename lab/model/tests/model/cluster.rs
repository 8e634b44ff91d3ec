//! Striping.

use headstart_model::cluster::{Cluster, FileRequest, Placement, local_range};
use headstart_model::profile::Profile;
use headstart_model::request::{Completion, Operation, Origin};
use headstart_model::server::ServerConfig;
use headstart_units::{GIB, KIB, MIB, Nanos};

use crate::driver::{Random, assert_near};

const STRIPE: u64 = 64 * KIB;

fn cluster(profile: Profile, count: usize) -> Cluster {
    Cluster::new(std::iter::repeat_n(ServerConfig::new(profile), count), STRIPE)
}

fn run(cluster: &mut Cluster) -> Vec<Completion> {
    let mut completions = Vec::new();
    while let Some(at) = cluster.next_timer() {
        cluster.on_timer(at, &mut completions);
    }
    completions
}

#[test]
fn ranges_are_those_of_the_stripes_taken_one_by_one() {
    let mut random = Random::seeded(9);
    for _ in 0..20_000 {
        let (count, stripe) = (1 + random.below(12), 1 + random.below(50));
        let (offset, length) = (random.below(2000), random.below(1500));
        let mut expected = vec![None::<(u64, u64)>; count as usize];
        for byte in offset..offset + length {
            let (k, rest) = (byte / stripe, byte % stripe);
            let local = (k / count) * stripe + rest;
            let range = expected[(k % count) as usize].get_or_insert((local, 0));
            assert_eq!(range.0 + range.1, local, "stripes of one server are adjacent");
            range.1 += 1;
        }
        for (server, expected) in expected.into_iter().enumerate() {
            assert_eq!(local_range(count, stripe, server as u64, offset, length), expected);
        }
    }
}

#[test]
fn a_long_request_pays_one_startup_per_server() {
    let mut cluster = cluster(Profile::Seagate250, 8);
    let placement = Placement { first_server: 3, bases: vec![GIB; 8] };
    let request = FileRequest {
        id: 7,
        operation: Operation::Read,
        placement: &placement,
        offset: 0,
        length: 4 * MIB,
        origin: Origin::default(),
    };
    cluster.on_request(Nanos::ZERO, request);
    let completions = run(&mut cluster);
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].id, 7);
    let stats = cluster.stats(completions[0].at);
    assert!(stats.servers.iter().all(|server| server.reads == 1 && server.device_commands == 1));
    assert!(stats.servers.iter().all(|server| server.read_bytes == 512 * KIB));
}

#[test]
fn a_file_starts_at_its_first_server_and_base() {
    let mut cluster = cluster(Profile::Null, 4);
    let placement = Placement { first_server: 2, bases: vec![1000, 2000, 3000, 4000] };
    for (id, offset) in [(0, 0), (1, STRIPE), (2, 2 * STRIPE), (3, 5 * STRIPE)] {
        let request = FileRequest {
            id,
            operation: Operation::Write,
            placement: &placement,
            offset,
            length: 10,
            origin: Origin::default(),
        };
        cluster.on_request(Nanos::ZERO, request);
    }
    let stats = {
        run(&mut cluster);
        cluster.stats(Nanos(1_000_000))
    };
    let writes: Vec<u64> = stats.servers.iter().map(|server| server.writes).collect();
    assert_eq!(writes, [1, 0, 1, 2]);
}

#[test]
fn a_flush_asks_every_server_and_an_empty_request_completes() {
    let mut cluster = cluster(Profile::Null, 4);
    let placement = Placement { first_server: 0, bases: vec![0; 4] };
    for (id, operation) in [(0, Operation::Flush), (1, Operation::Read)] {
        cluster.on_request(
            Nanos::ZERO,
            FileRequest { id, operation, placement: &placement, offset: 5, length: 0, origin: Origin::default() },
        );
    }
    let completions = run(&mut cluster);
    assert_eq!(completions.len(), 2);
    let stats = cluster.stats(completions[1].at);
    assert!(stats.servers.iter().all(|server| server.flushes == 1));
}

#[test]
fn eight_null_servers_stream_at_eight_times_the_wire() {
    let mut cluster = cluster(Profile::Null, 8);
    let placement = Placement { first_server: 0, bases: vec![0; 8] };
    for id in 0..1000 {
        let request = FileRequest {
            id,
            operation: Operation::Read,
            placement: &placement,
            offset: id * MIB,
            length: MIB,
            origin: Origin::default(),
        };
        cluster.on_request(Nanos::ZERO, request);
    }
    let end = run(&mut cluster).last().expect("they completed").at;
    assert_near("MB/s", 1000.0 * 1.048576 / end.seconds(), 8.0 * 117.0, 1.0, 0.0);
}
