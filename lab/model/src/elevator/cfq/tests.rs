//! Turns, patience and places.

use super::*;
use crate::request::Origin;

const MS: u64 = 1_000_000;
/// Apart enough that nothing merges.
const FAR: u64 = 1 << 30;

fn cfq(config: CfqConfig, nr_requests: usize) -> Cfq<u32> {
    Cfq::new(config, nr_requests, 1 << 19)
}

fn part(owner: u32, operation: Operation, rank: u32, address: u64) -> Part<u32> {
    let origin = Origin { job: 0, rank, file: 0 };
    Part { owner, operation, address, length: 4096, origin, is_read_ahead: false }
}

fn read(owner: u32, rank: u32, address: u64) -> Part<u32> {
    part(owner, Operation::Read, rank, address)
}

/// Takes and finishes commands at `now` until the elevator has none to give.
fn serve(cfq: &mut Cfq<u32>, now: Nanos) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(batch) = cfq.next_command(now) {
        order.push(batch.first);
        cfq.on_finished(now, batch.queue);
    }
    order
}

#[test]
fn the_drive_waits_for_the_rank_whose_turn_it_is() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    cfq.on_part(Nanos(0), read(0, 0, 0));
    cfq.on_part(Nanos(0), read(1, 1, FAR));
    assert_eq!(serve(&mut cfq, Nanos(0)), [0]);
    assert_eq!(cfq.next_timer(), Some(Nanos(8 * MS)));
    cfq.on_part(Nanos(7 * MS), read(2, 0, 4096));
    assert_eq!(serve(&mut cfq, Nanos(7 * MS)), [2], "rank 0 came back in time");
    cfq.on_timer(Nanos(14 * MS));
    assert_eq!(serve(&mut cfq, Nanos(14 * MS)), [], "not yet");
    cfq.on_timer(Nanos(15 * MS));
    assert_eq!(serve(&mut cfq, Nanos(15 * MS)), [1]);
}

#[test]
fn without_patience_ranks_take_turns_at_every_dry_queue() {
    let mut cfq = cfq(CfqConfig { idle_rank: Nanos::ZERO, ..CfqConfig::default() }, 128);
    for (owner, rank) in [(0, 0), (1, 1), (2, 0)] {
        cfq.on_part(Nanos(0), read(owner, rank, u64::from(owner) * FAR));
    }
    assert_eq!(serve(&mut cfq, Nanos(0)), [0, 2, 1]);
    assert_eq!((cfq.next_timer(), cfq.len()), (None, 0));
}

#[test]
fn a_turn_ends_with_its_slice_and_the_queue_goes_to_the_back() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    for owner in 0..4 {
        cfq.on_part(Nanos(0), read(owner, owner / 2, u64::from(owner) * FAR));
    }
    let first = cfq.next_command(Nanos(0)).expect("four wait");
    cfq.on_finished(Nanos(100 * MS), first.queue);
    assert_eq!(cfq.next_command(Nanos(100 * MS)).map(|batch| batch.first), Some(2));
}

#[test]
fn patience_ends_with_the_slice() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    cfq.on_part(Nanos(0), read(0, 0, 0));
    let first = cfq.next_command(Nanos(0)).expect("it waits");
    cfq.on_finished(Nanos(95 * MS), first.queue);
    assert!(cfq.next_command(Nanos(95 * MS)).is_none());
    assert_eq!(cfq.next_timer(), Some(Nanos(100 * MS)));
}

#[test]
fn a_turn_goes_upwards_from_where_the_last_command_ended_and_then_around() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    for owner in [5, 3, 9] {
        cfq.on_part(Nanos(0), read(owner, 0, u64::from(owner) * FAR));
    }
    assert_eq!(cfq.next_command(Nanos(0)).map(|batch| batch.first), Some(3));
    for owner in [1, 4] {
        cfq.on_part(Nanos(0), read(owner, 0, u64::from(owner) * FAR));
    }
    assert_eq!(serve(&mut cfq, Nanos(0)), [4, 5, 9, 1]);
}

#[test]
fn reading_ahead_is_one_queue_for_a_job_and_file() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    for (owner, rank) in [(0, 0), (1, 1), (2, 2)] {
        cfq.on_part(Nanos(0), Part { is_read_ahead: true, ..read(owner, rank, u64::from(owner) * FAR) });
    }
    cfq.on_part(Nanos(0), read(3, 0, 3 * FAR));
    assert_eq!(serve(&mut cfq, Nanos(0)), [0, 1, 2]);
    assert!(cfq.next_timer().is_some(), "the drive waits for more of the file");
}

#[test]
fn writes_share_a_queue_whose_turn_is_sixteen_commands() {
    let mut cfq = cfq(CfqConfig::default(), 128);
    for owner in 0..40 {
        cfq.on_part(Nanos(0), part(owner, Operation::Write, owner % 3, u64::from(owner) * FAR));
    }
    cfq.on_part(Nanos(0), read(100, 0, 0));
    let order = serve(&mut cfq, Nanos(0));
    assert_eq!(order.iter().position(|owner| *owner == 100), Some(16));
    cfq.on_timer(Nanos(8 * MS));
    assert_eq!(serve(&mut cfq, Nanos(8 * MS)).len(), 24, "after the patience with the reader");
}

#[test]
fn places_go_to_submitters_in_turn_and_one_more_to_the_awaited() {
    let mut cfq = cfq(CfqConfig::default(), 2);
    for (owner, rank) in [(0, 0), (1, 1), (10, 2), (11, 2), (20, 3)] {
        cfq.on_part(Nanos(0), read(owner, rank, u64::from(owner) * FAR));
    }
    assert!(!cfq.has_room());
    let first = cfq.next_command(Nanos(0)).expect("two have places");
    cfq.on_finished(Nanos(0), first.queue);
    assert!(cfq.next_command(Nanos(0)).is_none(), "rank 2 has the place, and the drive waits for rank 0");
    cfq.on_part(Nanos(1), read(2, 0, 2 * FAR));
    assert_eq!(serve(&mut cfq, Nanos(1)), [2], "beyond the limit");
    cfq.on_part(Nanos(2), read(3, 0, 3 * FAR));
    assert_eq!(serve(&mut cfq, Nanos(2)), [], "only once a turn");
    let mut order = Vec::new();
    while let Some(at) = cfq.next_timer() {
        cfq.on_timer(at);
        order.extend(serve(&mut cfq, at));
    }
    assert_eq!(order, [1, 10, 11, 20, 3]);
    assert_eq!((cfq.len(), cfq.taken, cfq.by_key.len()), (0, 0, 0));
}

#[test]
fn a_queue_has_no_more_than_its_quantum_in_the_drive() {
    let mut cfq = cfq(CfqConfig { quantum: 2, ..CfqConfig::default() }, 128);
    for owner in 0..3 {
        cfq.on_part(Nanos(0), read(owner, 0, u64::from(owner) * FAR));
    }
    let taken: Vec<u32> = std::iter::from_fn(|| cfq.next_command(Nanos(0))).map(|batch| batch.queue).collect();
    assert_eq!(taken.len(), 2);
    cfq.on_finished(Nanos(1), taken[0]);
    assert_eq!(cfq.next_command(Nanos(1)).map(|batch| batch.first), Some(2));
}
