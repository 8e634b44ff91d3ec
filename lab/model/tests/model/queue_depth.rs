//! The pool of requests and CFQ's turns, against an independent reference simulation of iTransformer's Fig. 1.
//!
//! The table is of a reference script of its own (`elevator_des.py`), of which this is the same experiment:
//! so many threads, each with a file of 64 MB, on one disk of profile A with a command overhead of 0.2 ms, 1
//! MiB of read-ahead and one command at a time. Records of 64 KiB, read in order through windows of 128 KiB
//! of which two are outstanding; eight outstanding requests per writer; idle 8 ms unless stated; 40 simulated
//! seconds.

use std::collections::BTreeSet;

use headstart_model::device::config::DeviceConfig;
use headstart_model::device::hdd::HddConfig;
use headstart_model::elevator::{CfqConfig, ElevatorKind};
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::{Operation, Origin, Request};
use headstart_model::server::{Server, ServerConfig};
use headstart_units::{KIB, MIB, Nanos};

use crate::driver::{Random, assert_near};

const FILE_BYTES: u64 = 64 * MIB;
const RECORD_BYTES: u64 = 64 * KIB;
const WINDOW_BYTES: u64 = 128 * KIB;
/// From a completion, or a request, to the thread's next request.
const THINK: Nanos = Nanos(200_000);
const SPAN: Nanos = Nanos(40_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    SequentialRead,
    ReverseRead,
    RandomRead,
    SequentialWrite,
    RandomWrite,
}

#[derive(Clone, Copy)]
struct Thread {
    position: u64,
    outstanding: u64,
}

/// A disk under CFQ with a queue of `nr_requests`.
fn server(pattern: Pattern, nr_requests: usize, idle: Nanos) -> Server {
    let DeviceConfig::Hdd(disk) = Profile::Wd1602.device() else { unreachable!("it is a disk") };
    Server::new(ServerConfig {
        device: DeviceConfig::Hdd(HddConfig { command_overhead: Nanos(200_000), ..disk }),
        nic: NicConfig::NONE,
        elevator: ElevatorKind::Cfq,
        cfq: CfqConfig { idle_rank: idle, ..CfqConfig::default() },
        nr_requests,
        command_bytes_max: WINDOW_BYTES,
        drive_read_ahead: Some((1, MIB)),
        drive_queue_depth: Some(if pattern == Pattern::SequentialWrite { 2 } else { 1 }),
        ..ServerConfig::new(Profile::Wd1602)
    })
}

/// MB/s of `threads` threads.
fn throughput(pattern: Pattern, threads: u64, nr_requests: usize, idle: Nanos) -> f64 {
    use Pattern::{RandomRead, RandomWrite, ReverseRead, SequentialRead, SequentialWrite};
    let is_write = matches!(pattern, SequentialWrite | RandomWrite);
    let mut server = server(pattern, nr_requests, idle);
    let outstanding_max = match pattern {
        SequentialRead => 2,
        SequentialWrite | RandomWrite => 8,
        ReverseRead | RandomRead => 1,
    };
    let is_in_order = matches!(pattern, SequentialRead | SequentialWrite);
    let length = if is_in_order { WINDOW_BYTES } else { RECORD_BYTES };
    let mut random = Random::new(1);
    let start = if pattern == ReverseRead { FILE_BYTES } else { 0 };
    let mut list = vec![Thread { position: start, outstanding: 0 }; threads as usize];
    // Threads that will try to submit, and when; times never fall but for the start.
    let mut tries: BTreeSet<(Nanos, u64, u64)> =
        (0..threads).map(|thread| (Nanos(random.below(10_000_000)), thread, thread)).collect();
    let (mut sequence, mut bytes, mut completions) = (threads, 0, Vec::new());
    loop {
        let first = tries.first().map_or(Nanos::MAX, |(at, ..)| *at);
        let timer = server.next_timer().unwrap_or(Nanos::MAX);
        if first.min(timer) >= SPAN {
            return bytes as f64 / SPAN.seconds() / 1e6;
        }
        if timer <= first {
            server.on_timer(timer, &mut completions);
            for completion in completions.drain(..) {
                bytes += length;
                list[completion.id as usize].outstanding -= 1;
                sequence += 1;
                tries.insert((completion.at + THINK, sequence, completion.id));
            }
            continue;
        }
        let (now, _, thread) = tries.pop_first().expect("somebody tries");
        let state = &mut list[thread as usize];
        if state.outstanding >= outstanding_max {
            continue;
        }
        state.outstanding += 1;
        let offset = match pattern {
            SequentialRead | SequentialWrite => state.position,
            ReverseRead => state.position - RECORD_BYTES,
            RandomRead | RandomWrite => random.below(FILE_BYTES / RECORD_BYTES) * RECORD_BYTES,
        };
        state.position = match pattern {
            ReverseRead if offset == 0 => FILE_BYTES,
            ReverseRead => offset,
            _ => (offset + length) % FILE_BYTES,
        };
        if state.outstanding < outstanding_max {
            sequence += 1;
            tries.insert((now + THINK, sequence, thread));
        }
        let operation = if is_write { Operation::Write } else { Operation::Read };
        let origin = Origin { job: 0, rank: thread as u32, file: thread as u32 };
        let address = thread * (FILE_BYTES + 4 * MIB) + offset;
        server.on_request(now, Request { id: thread, operation, address, length, origin });
    }
}

/// Measures with the pool of 128 and of 8192 places and compares with a row of the table.
#[track_caller]
fn assert_row(pattern: Pattern, threads: u64, idle_ms: u64, expected: [f64; 2], percent: [f64; 2]) {
    for (index, nr_requests) in [128, 8192].into_iter().enumerate() {
        let value = throughput(pattern, threads, nr_requests, Nanos(idle_ms * 1_000_000));
        let what = format!("{pattern:?}, {threads} threads, idle {idle_ms} ms, pool {nr_requests}, MB/s");
        assert_near(&what, value, expected[index], percent[index], 0.1);
    }
}

/// With a place for everybody the figures are the table's. Where places are short, each is of one seed and
/// depends on who gets one first: the reference gives a place beyond the limit to the awaited thread only
/// when its think time is over, this elevator at once, which makes 4 to 8 % of throughput.
#[test]
fn sequential_reads_collapse_when_places_are_short() {
    assert_row(Pattern::SequentialRead, 128, 8, [16.8, 63.6], [10.0, 2.0]);
    assert_row(Pattern::SequentialRead, 256, 8, [15.3, 63.3], [10.0, 2.0]);
    // "+453 % with idle 0".
    let few = throughput(Pattern::SequentialRead, 256, 128, Nanos::ZERO);
    let many = throughput(Pattern::SequentialRead, 256, 8192, Nanos::ZERO);
    assert_near("gain in % without idling", (many / few - 1.0) * 100.0, 453.0, 5.0, 1.0);
}

#[test]
fn one_read_at_a_time_a_thread_gains_only_where_threads_outnumber_places() {
    assert_row(Pattern::ReverseRead, 128, 8, [8.6, 8.6], [2.0, 2.0]);
    assert_row(Pattern::ReverseRead, 256, 8, [5.0, 8.6], [2.0, 2.0]);
    assert_row(Pattern::RandomRead, 128, 8, [8.3, 8.3], [2.0, 2.0]);
    assert_row(Pattern::RandomRead, 256, 8, [5.0, 8.2], [2.0, 2.0]);
    assert_row(Pattern::RandomRead, 256, 2, [6.4, 8.2], [2.0, 2.0]);
    assert_row(Pattern::RandomRead, 256, 0, [6.2, 6.2], [2.0, 2.0]);
}

/// Two commands at a time in the drive: the reference's disk streams a write that begins where the last one
/// ended even though a command overhead lies between them, this one only if the command was queued by then,
/// and then without the overhead. 0.2 of 2.07 ms make the 10 % by which it is faster.
#[test]
fn sequential_writes_are_one_sweep_over_all_that_have_a_place() {
    assert_row(Pattern::SequentialWrite, 128, 8, [23.9, 62.8], [5.0, 11.0]);
    assert_row(Pattern::SequentialWrite, 256, 8, [13.5, 62.8], [10.0, 11.0]);
}

#[test]
fn random_writes_gain_little_from_places() {
    assert_row(Pattern::RandomWrite, 128, 8, [7.6, 8.1], [2.0, 2.0]);
    assert_row(Pattern::RandomWrite, 256, 8, [7.4, 8.1], [2.0, 2.0]);
}
