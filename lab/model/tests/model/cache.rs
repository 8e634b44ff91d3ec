//! The server's write-back cache and the flush.

use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::Completion;
use headstart_model::server::{Actor, Server, ServerConfig};
use headstart_units::{GIB, KIB, MIB, Nanos};

use crate::driver::{Random, closed_loop, drain, flush, read, write};

fn config(server_cache_bytes: u64) -> ServerConfig {
    ServerConfig { nic: NicConfig::NONE, server_cache_bytes, ..ServerConfig::new(Profile::Wd1602) }
}

fn at(completions: &[Completion], id: u64) -> Nanos {
    completions.iter().find(|completion| completion.id == id).expect("it completed").at
}

#[test]
fn a_write_is_acknowledged_when_it_is_in_the_cache() {
    let mut server = Server::new(config(MIB));
    for id in 0..16 {
        server.on_request(Nanos(id), write(id, id * GIB, 64 * KIB));
    }
    server.on_request(Nanos(100), write(16, 50 * GIB, 64 * KIB));
    let completions = drain(&mut server);
    for id in 0..16 {
        assert_eq!(at(&completions, id), Nanos(id));
    }
    assert!(at(&completions, 16).0 > 1_000_000, "the seventeenth waits for room");
}

#[test]
fn a_write_larger_than_the_cache_passes_through_it() {
    let mut server = Server::new(config(MIB));
    server.on_request(Nanos::ZERO, write(0, 0, 70 * MIB));
    let seconds = at(&drain(&mut server), 0).seconds();
    assert!((0.9..1.3).contains(&seconds), "70 MB/s less the part still in the cache: {seconds:.2} s");
}

#[test]
fn a_flush_waits_for_the_medium_and_not_for_later_writes() {
    for drive_write_cache in [false, true] {
        let mut server = Server::new(ServerConfig { drive_write_cache, ..config(64 * MIB) });
        for id in 0..100 {
            server.on_request(Nanos(id), write(id, id * GIB, 4096));
        }
        server.on_request(Nanos(1000), flush(100));
        // Later writes between the earlier ones and upon them.
        for id in 101..1000 {
            server.on_request(Nanos(1000 + id), write(id, (id - 101) * 100 * MIB, 4096));
        }
        server.on_request(Nanos(5000), flush(1000));
        let completions = drain(&mut server);
        let (first, second) = (at(&completions, 100), at(&completions, 1000));
        println!("drive cache {drive_write_cache}: {:.3} s and {:.3} s", first.seconds(), second.seconds());
        assert!(first.seconds() > 100.0 * 0.002, "a hundred scattered writes take the arm their time");
        if !drive_write_cache {
            assert!(first < second);
        }
        let stats = server.stats(second);
        assert_eq!(stats.dirty_bytes, 0);
        assert!(stats.device_commands >= 900, "overlapping writes aside, all reached the medium");
    }
}

#[test]
fn a_flush_of_a_clean_server_returns_at_once() {
    for drive_write_cache in [false, true] {
        let mut server = Server::new(ServerConfig { drive_write_cache, ..config(MIB) });
        server.on_request(Nanos(5), flush(0));
        assert_eq!(at(&drain(&mut server), 0), Nanos(5));
    }
}

#[test]
fn dirty_bytes_are_read_from_the_cache_and_clean_ones_from_the_disk() {
    let mut server = Server::new(config(64 * MIB));
    server.on_request(Nanos::ZERO, write(0, 0, MIB));
    server.on_request(Nanos(1), read(1, 64 * KIB, 64 * KIB));
    server.on_request(Nanos(2), read(2, MIB - 4096, 8192));
    let completions = drain(&mut server);
    assert_eq!(at(&completions, 1), Nanos(1));
    assert!(at(&completions, 2).0 > 100_000, "half of it is not in the cache");
    let now = Nanos(10_000_000_000);
    server.on_request(now, read(3, GIB, 4096));
    assert!(at(&drain(&mut server), 3) > now, "clean bytes are not kept");
}

#[test]
fn small_neighbours_are_written_back_together() {
    let mut server = Server::new(config(64 * MIB));
    let end = closed_loop(&mut server, 16, 4096, |id| write(id, (id * 2609 % 4096) * 8 * KIB, 8 * KIB));
    server.on_request(end, flush(9999));
    let flushed = at(&drain(&mut server), 9999);
    let stats = server.stats(flushed);
    assert!(stats.device_commands < 200, "{} commands for 4096 writes", stats.device_commands);
    let rate = 4096.0 * 8192.0 / flushed.seconds() / 1e6;
    assert!(rate > 40.0, "{rate:.1} MB/s");
}

#[test]
fn background_write_back_yields_to_reads() {
    let mean = |dirty: bool| {
        let (mut server, mut random) = (Server::new(config(64 * MIB)), Random::new(8));
        if dirty {
            for id in 0..1000 {
                server.on_request(Nanos::ZERO, write(1 << 32 | id, random.below(100 * GIB), 4096));
            }
        }
        let end = closed_loop(&mut server, 4, 1000 + if dirty { 1000 } else { 0 }, |id| {
            read(id, random.below(100 * GIB), 4096)
        });
        end.seconds()
    };
    let (without, with) = (mean(false), mean(true));
    assert!(with < without * 1.1, "{with:.2} s beside dirty bytes, {without:.2} s alone");
}

#[test]
fn what_a_server_and_its_device_do_is_noted_from_when_somebody_asks() {
    let mut server = Server::new(config(MIB));
    let mut accesses = Vec::new();
    server.on_request(Nanos::ZERO, write(0, 0, 64 * KIB));
    drain(&mut server);
    server.take_accesses(&mut accesses);
    assert_eq!(accesses, []);
    server.note_accesses();
    server.on_request(Nanos::from_seconds(1.0), write(1, GIB, 64 * KIB));
    server.on_request(Nanos::from_seconds(1.0), read(2, 5 * GIB, 4 * KIB));
    let completions = drain(&mut server);
    server.take_accesses(&mut accesses);
    let by = |wanted: fn(&Actor) -> bool| -> Vec<(u64, u64)> {
        accesses.iter().filter(|done| wanted(&done.actor)).map(|done| (done.address, done.length)).collect()
    };
    assert_eq!(by(|actor| *actor == Actor::Device), [(GIB, 64 * KIB), (5 * GIB, 4 * KIB)]);
    let answered = |actor: &Actor| matches!(actor, Actor::Server { .. });
    assert_eq!(by(answered), [(GIB, 64 * KIB), (5 * GIB, 4 * KIB)]);
    let last = accesses.iter().rfind(|done| answered(&done.actor)).unwrap();
    assert_eq!(last.actor, Actor::Server { latency: at(&completions, 2).since(Nanos::from_seconds(1.0)) });
    assert!(accesses.is_sorted_by_key(|done| done.at));
}
