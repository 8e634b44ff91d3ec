//! What a hard disk's own queue and caches do.

use headstart_model::device::hdd::{Hdd, HddConfig};
use headstart_model::profile::Profile;
use headstart_model::request::Operation;
use headstart_model::server::{Server, ServerConfig};
use headstart_units::{KIB, MIB, Nanos};

use crate::driver::{Random, assert_near, closed_loop, read, serve, write};
use crate::hdd::{GB, bare_server, config, iops, without_caches};

#[test]
fn sequential_writes_one_at_a_time_miss_a_turn_and_queued_ones_stream() {
    let expected_turn = 8_333_333;
    let mut disk = without_caches(Profile::Wd1602);
    let mut now = serve(&mut disk, Nanos::ZERO, Operation::Write, 0, 4096);
    for index in 1..10 {
        let done = serve(&mut disk, now, Operation::Write, index * 4096, 4096);
        assert!(done.since(now).0.abs_diff(expected_turn) < 100_000, "{} ns", done.since(now).0);
        now = done;
    }
    let mut server = Server::new(bare_server(Profile::Wd1602));
    let end = closed_loop(&mut server, 8, 200, |id| write(id, id * 512 * KIB, 512 * KIB));
    assert_near("queued sequential writes, MB/s", 200.0 * 0.524288 / end.seconds(), 70.0, 3.0, 0.0);
}

#[test]
fn a_read_behind_the_frontier_waits_only_for_the_bus() {
    let mut disk = Hdd::new(config(Profile::Wd1602), 0);
    let first = serve(&mut disk, Nanos::ZERO, Operation::Read, 0, 64 * KIB);
    // Half a second later the segment has long been filled.
    let later = first + Nanos(500_000_000);
    let second = serve(&mut disk, later, Operation::Read, 64 * KIB, 64 * KIB);
    assert_eq!(second.since(later).0, 500_000 + 262_144);
    let beyond = serve(&mut disk, second, Operation::Read, 100 * MIB, 4096);
    let third = serve(&mut disk, beyond, Operation::Read, 512 * KIB, 64 * KIB);
    assert_eq!(third.since(beyond).0, 500_000 + 262_144, "the segment keeps what it holds");
    let rewritten = serve(&mut disk, third, Operation::Write, 512 * KIB, 4096);
    let fourth = serve(&mut disk, rewritten, Operation::Read, 512 * KIB, 64 * KIB);
    assert!(fourth.since(rewritten).0 > 1_000_000, "a write makes the segment stale");
}

#[test]
fn as_many_slow_streams_as_segments_keep_their_read_ahead() {
    let mean_ms = |segment_count| {
        let mut disk = Hdd::new(HddConfig { read_ahead: Some((segment_count, MIB)), ..config(Profile::Wd1602) }, 0);
        let (mut now, mut total) = (Nanos::ZERO, Nanos::ZERO);
        for index in 0..1600 {
            now += Nanos(20_000_000);
            let done = serve(&mut disk, now, Operation::Read, index % 4 * GB + index / 4 * 64 * KIB, 64 * KIB);
            total += done.since(now);
            now = done;
        }
        total.millis() / 1600.0
    };
    let (enough, too_few) = (mean_ms(4), mean_ms(3));
    assert!(enough < 2.0 && too_few > 8.0, "{enough:.2} ms with a segment each, {too_few:.2} ms with one less");
}

#[test]
fn a_drive_write_cache_acknowledges_at_once_and_a_flush_drains_it() {
    let mut disk = Hdd::new(config(Profile::Wd1602), 0);
    let (mut random, mut now) = (Random::new(6), Nanos::ZERO);
    for _ in 0..100 {
        let done = serve(&mut disk, now, Operation::Write, random.below(100 * GB), 4096);
        assert!(done.since(now).0 < 600_000, "overhead and bus only");
        now = done;
    }
    let flushed = serve(&mut disk, now, Operation::Flush, 0, 0);
    // At least a settle and a track's worth each, at most a full random access each.
    let each = flushed.since(now).millis() / 100.0;
    assert!((2.0..14.0).contains(&each), "{each:.2} ms per write");
    let again = serve(&mut disk, flushed, Operation::Flush, 0, 0);
    assert_eq!(again, flushed, "nothing is dirty any more");
}

#[test]
fn a_full_drive_write_cache_makes_writes_wait() {
    let mut config = bare_server(Profile::Wd1602);
    config.drive_write_cache = true;
    let value = iops(config, 16, Operation::Write);
    let without = iops(bare_server(Profile::Wd1602), 16, Operation::Write);
    assert!(value > without && value < 10.0 * without, "{value:.0} against {without:.0} without the cache");
}

#[test]
fn a_stream_of_reads_does_not_starve_a_full_write_cache() {
    let config = ServerConfig { drive_write_cache: true, ..bare_server(Profile::Wd1602) };
    let (mut server, writes) = (Server::new(config), 20);
    let stream = |id| read(id, id * 64 * KIB, 64 * KIB);
    for id in 0..4 {
        server.on_request(Nanos::ZERO, stream(id));
    }
    let (mut completions, mut written, mut next) = (Vec::new(), 0, 4);
    while written < writes {
        let at = server.next_timer().expect("requests are under way");
        assert!(at.seconds() < 60.0, "{written} of {writes} writes after a minute of reads");
        server.on_timer(at, &mut completions);
        for completion in completions.drain(..) {
            if completion.id >= 1 << 32 {
                written += 1;
                continue;
            }
            server.on_request(completion.at, stream(next));
            next += 1;
            if next == 100 {
                // More than the drive's cache holds, while the arm is streaming.
                for id in 0..writes {
                    server.on_request(completion.at, write(1 << 32 | id, (50 + id) * GB, 512 * KIB));
                }
            }
        }
    }
}

#[test]
fn addresses_beyond_the_end_wrap() {
    let latency = |address| {
        let mut disk = without_caches(Profile::Wd1602);
        serve(&mut disk, Nanos::ZERO, Operation::Read, address, 64 * KIB)
    };
    let capacity = without_caches(Profile::Wd1602).geometry().capacity_bytes();
    assert_eq!(latency(capacity + 5 * GB), latency(5 * GB));
    assert!(latency(capacity - 4096).seconds() < 0.1);
}
