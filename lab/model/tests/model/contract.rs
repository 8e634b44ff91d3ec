//! What holds for every server: each request completes once, runs repeat, and a late caller changes nothing.

use headstart_model::elevator::ElevatorKind;
use headstart_model::file_cache::FileReadAhead;
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::{Completion, Operation, Origin, Request};
use headstart_model::server::{Server, ServerConfig};
use headstart_units::{GIB, KIB, MIB, Nanos};

use crate::driver::{Random, drain, flush, read, write};

fn configs() -> Vec<ServerConfig> {
    let mut configs = Vec::new();
    for profile in Profile::ALL {
        for server_cache_bytes in [0, 4 * MIB] {
            for drive_write_cache in [false, true] {
                for (elevator, nic) in [
                    (ElevatorKind::Deadline, NicConfig::GIGABIT),
                    (ElevatorKind::Noop, NicConfig::NONE),
                    (ElevatorKind::Cfq, NicConfig::GIGABIT),
                ] {
                    let drive_read_ahead = drive_write_cache.then_some((16, MIB));
                    let config = ServerConfig::new(profile);
                    let config = ServerConfig {
                        nic,
                        elevator,
                        server_cache_bytes,
                        drive_write_cache,
                        drive_read_ahead,
                        nr_requests: 8,
                        request_cpu: Nanos(20_000),
                        phase_seed: 42,
                        ..config
                    };
                    configs.push(config);
                    let nic = NicConfig { jitter: Nanos(200_000), ..nic };
                    let file_read_ahead = Some(FileReadAhead { cache_bytes: 4 * MIB, ..FileReadAhead::default() });
                    configs.push(ServerConfig { nic, file_read_ahead, disk_operations_max: Some(4), ..config });
                }
            }
        }
    }
    configs
}

/// Random requests in bursts, with their times.
fn workload(random: &mut Random, count: u64) -> Vec<(Nanos, Request)> {
    let (mut now, mut base) = (Nanos::ZERO, 0);
    let mut requests = Vec::new();
    for id in 0..count {
        if random.below(8) == 0 {
            now += Nanos(random.below(80_000_000));
        }
        if random.below(4) == 0 {
            base = random.below(20) * GIB;
        }
        let length = match random.below(10) {
            0 => 0,
            1 => random.below(3 * MIB),
            _ => 4096 * (1 + random.below(16)),
        };
        let address = base + random.below(64) * 64 * KIB;
        let request = match random.below(40) {
            0 => flush(id),
            1..20 => read(id, address, length),
            _ => write(id, address, length),
        };
        let origin = Origin { job: id as u32 % 2, rank: id as u32 % 5, file: 0 };
        requests.push((now, Request { origin, ..request }));
    }
    requests
}

/// Calls `on_timer` only at multiples of `step` (at every event if zero).
fn run(config: ServerConfig, workload: &[(Nanos, Request)], step: u64) -> (Vec<Completion>, Server) {
    let (mut server, mut completions) = (Server::new(config), Vec::new());
    let mut requests = workload.iter().peekable();
    loop {
        let due = server.next_timer().map(|at| if step == 0 { at } else { Nanos(at.0.next_multiple_of(step)) });
        match (requests.peek(), due) {
            (Some(&&(at, request)), due) if due.is_none_or(|due| at < due) => {
                server.on_request(at, request);
                requests.next();
            }
            (_, Some(due)) => server.on_timer(due, &mut completions),
            (None, None) => return (completions, server),
            (Some(_), None) => unreachable!("handled above"),
        }
    }
}

#[test]
fn every_request_completes_once_and_in_order_of_time() {
    let workload = workload(&mut Random::seeded(10), 2000);
    for config in configs() {
        let (completions, server) = run(config, &workload, 0);
        let mut ids: Vec<u64> = completions.iter().map(|completion| completion.id).collect();
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(0..workload.len() as u64), "{config:?}");
        assert!(completions.is_sorted_by_key(|completion| completion.at), "{config:?}");
        for completion in &completions {
            assert!(completion.at >= workload[completion.id as usize].0, "{config:?}");
        }
        let end = completions.last().expect("some completed").at;
        let stats = server.stats(end);
        let of = |operation| workload.iter().filter(move |(_, request)| request.operation == operation);
        assert_eq!(stats.reads, of(Operation::Read).count() as u64);
        assert_eq!(stats.write_bytes, of(Operation::Write).map(|(_, request)| request.length).sum::<u64>());
        assert_eq!(stats.dirty_bytes, 0, "an idle server has nothing dirty: {config:?}");
    }
}

#[test]
fn the_same_inputs_give_the_same_outputs_and_a_late_caller_changes_nothing() {
    let workload = workload(&mut Random::seeded(11), 1000);
    for config in configs() {
        let (exact, server) = run(config, &workload, 0);
        let end = Nanos(1 << 50);
        for step in [0, 1_000, 999_983, 50_000_000] {
            let (again, coarse) = run(config, &workload, step);
            assert_eq!(exact, again, "step {step}, {config:?}");
            assert_eq!(server.stats(end), coarse.stats(end), "step {step}, {config:?}");
        }
    }
}

#[test]
fn spurious_timers_do_nothing() {
    let mut server = Server::new(ServerConfig::new(Profile::Wd1602));
    let mut completions = Vec::new();
    server.on_timer(Nanos(5), &mut completions);
    server.on_request(Nanos(10), read(1, GIB, 4096));
    let due = server.next_timer().expect("it is under way");
    server.on_timer(Nanos(due.0 - 1), &mut completions);
    assert_eq!((server.next_timer(), completions.len()), (Some(due), 0));
}

#[test]
fn a_request_from_the_past_counts_from_the_last_event() {
    let mut server = Server::new(ServerConfig { nic: NicConfig::NONE, ..ServerConfig::new(Profile::Null) });
    server.on_request(Nanos(1000), read(1, 0, 4096));
    drain(&mut server);
    server.on_request(Nanos(10), read(2, 0, 4096));
    assert_eq!(drain(&mut server), [Completion { id: 2, at: Nanos(1000) }]);
}

#[test]
fn a_withdrawn_request_never_completes_and_a_started_one_does() {
    let config = ServerConfig { nic: NicConfig::NONE, ..ServerConfig::new(Profile::Onyx) };
    let mut server = Server::new(config);
    for id in 0..3 {
        server.on_request(Nanos(id), read(id, id * MIB, 2 * MIB));
    }
    let mut completions = Vec::new();
    server.on_timer(Nanos(10), &mut completions);
    assert!(server.cancel(2), "it waits in the elevator");
    assert!(!server.cancel(2), "it is withdrawn already");
    assert!(!server.cancel(0), "the device has it");
    assert!(!server.cancel(9), "nobody knows it");
    server.on_request(Nanos(20), read(3, 0, 4096));
    assert!(server.cancel(3), "it is on its way");
    completions.extend(drain(&mut server));
    let ids: Vec<u64> = completions.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [0, 1]);
    assert_eq!(server.stats(Nanos(1 << 40)).queue_depth_max, 3);
}

#[test]
fn request_cpu_is_serial() {
    let config = ServerConfig { nic: NicConfig::NONE, request_cpu: Nanos(650_000), ..ServerConfig::new(Profile::Null) };
    let mut server = Server::new(config);
    for id in 0..10 {
        server.on_request(Nanos::ZERO, read(id, 0, 64 * KIB));
    }
    assert_eq!(drain(&mut server)[9].at, Nanos(6_500_000));
}

#[test]
fn a_request_waits_for_one_of_the_disk_operations() {
    let config =
        ServerConfig { nic: NicConfig::NONE, disk_operations_max: Some(2), ..ServerConfig::new(Profile::Pm9a3) };
    let mut server = Server::new(config);
    for id in 0..5 {
        server.on_request(Nanos(id), read(id, id * 16 * KIB, 4096));
    }
    let mut completions = Vec::new();
    server.on_timer(Nanos(5), &mut completions);
    assert!(server.cancel(3), "it waits for an operation");
    assert!(!server.cancel(1), "it has one");
    completions.extend(drain(&mut server));
    let ids: Vec<u64> = completions.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [0, 1, 2, 4]);
    let served = completions[1].at.0;
    assert!(completions[2].at.0 > served + served / 2, "two at a time: {completions:?}");
}

#[test]
fn operations_of_withdrawn_requests_go_to_those_who_wait() {
    let nic = NicConfig::NONE;
    let config = ServerConfig { nic, disk_operations_max: Some(2), ..ServerConfig::new(Profile::Onyx) };
    let mut server = Server::new(config);
    // One is in the device, which takes one command at a time; one waits in the elevator, the rest for operations.
    for id in 0..4 {
        server.on_request(Nanos(id), read(id, id * MIB, 4096));
    }
    let mut completions = Vec::new();
    server.on_timer(Nanos(4), &mut completions);
    assert!(server.cancel(1));
    completions.extend(drain(&mut server));
    let ids: Vec<u64> = completions.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [0, 2, 3]);
}

#[test]
fn jitter_lengthens_the_way_by_no_more_than_it_may_and_is_the_same_every_time() {
    let nic = NicConfig { latency: Nanos(100), jitter: Nanos(50), ..NicConfig::NONE };
    let run = |phase_seed| {
        let mut server = Server::new(ServerConfig { nic, phase_seed, ..ServerConfig::new(Profile::Null) });
        (0..1000).for_each(|id| server.on_request(Nanos::ZERO, read(id, 0, 4096)));
        drain(&mut server)
    };
    let completions = run(1);
    let (first, last) = (completions[0].at, completions[999].at);
    assert!(first >= Nanos(200) && first < Nanos(210) && last > Nanos(290) && last <= Nanos(300), "{first:?} {last:?}");
    assert!(!completions.is_sorted_by_key(|completion| completion.id), "messages overtake each other");
    assert_eq!(completions, run(1));
    assert_ne!(completions, run(2), "servers have jitter of their own");
}
