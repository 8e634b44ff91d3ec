//! The elevators against small cases.

use super::*;
use crate::request::{Operation, Origin};

fn part(owner: u32, operation: Operation, address: u64, length: u64) -> Part<u32> {
    Part { owner, operation, address, length, origin: Origin::default(), is_read_ahead: false }
}

fn read(owner: u32, address: u64) -> Part<u32> {
    part(owner, Operation::Read, address, 4096)
}

fn write(owner: u32, address: u64) -> Part<u32> {
    part(owner, Operation::Write, address, 4096)
}

fn elevator(kind: ElevatorKind, nr_requests: usize) -> Elevator<u32> {
    let cfq = CfqConfig::default();
    Elevator::new(ElevatorConfig { kind, cfq, nr_requests, command_bytes_max: COMMAND_BYTES_MAX })
}

fn order(elevator: &mut Elevator<u32>, now: Nanos) -> Vec<u32> {
    std::iter::from_fn(|| elevator.next_command(now).map(|batch| batch.first)).collect()
}

#[test]
fn noop_serves_in_order_of_arrival() {
    let mut elevator = elevator(ElevatorKind::Noop, 128);
    for part in [read(0, 900_000), write(1, 100_000), read(2, 500_000), write(3, 0)] {
        elevator.on_part(Nanos::ZERO, part);
    }
    assert_eq!(order(&mut elevator, Nanos::ZERO), [0, 1, 2, 3]);
}

#[test]
fn deadline_serves_in_order_of_address_and_reads_first() {
    let mut elevator = elevator(ElevatorKind::Deadline, 128);
    for part in [write(0, 10_000), read(1, 900_000), read(2, 100_000), write(3, 0), read(4, 500_000)] {
        elevator.on_part(Nanos::ZERO, part);
    }
    assert_eq!(order(&mut elevator, Nanos::ZERO), [2, 4, 1, 3, 0]);
}

#[test]
fn deadline_gives_writes_a_batch_after_two_of_reads() {
    let mut elevator = elevator(ElevatorKind::Deadline, 1000);
    for index in 0..100 {
        elevator.on_part(Nanos::ZERO, read(index, u64::from(index) * 10_000));
        elevator.on_part(Nanos::ZERO, write(1000 + index, u64::from(index) * 10_000));
    }
    let order = order(&mut elevator, Nanos::ZERO);
    let runs: Vec<usize> = order.chunk_by(|a, b| (*a < 1000) == (*b < 1000)).map(<[u32]>::len).collect();
    assert_eq!(&runs[..5], [32, 16, 32, 16, 32]);
}

#[test]
fn an_expired_read_starts_the_next_batch() {
    let mut elevator = elevator(ElevatorKind::Deadline, 1000);
    elevator.on_part(Nanos::ZERO, read(0, 1 << 30));
    assert_eq!(elevator.next_command(Nanos::ZERO).map(|batch| batch.first), Some(0));
    elevator.on_part(Nanos(1), read(1, 0));
    for index in 2..50 {
        elevator.on_part(Nanos(2), read(index, (1 << 30) + u64::from(index) * 10_000));
    }
    let before = Nanos(400_000_000);
    let batch: Vec<u32> = (0..15).filter_map(|_| elevator.next_command(before).map(|batch| batch.first)).collect();
    assert!(!batch.contains(&1), "the sweep goes on upwards");
    assert_eq!(elevator.next_command(Nanos(500_000_001)).map(|batch| batch.first), Some(1));
}

#[test]
fn neighbours_merge_in_front_and_behind_up_to_the_largest_command() {
    for kind in [ElevatorKind::Noop, ElevatorKind::Deadline] {
        let mut elevator = elevator(kind, 128);
        for part in [read(0, 8192), read(1, 12288), read(2, 4096), write(3, 16384), read(4, 20480)] {
            elevator.on_part(Nanos::ZERO, part);
        }
        let batch = elevator.next_command(Nanos::ZERO).expect("three reads wait");
        assert_eq!((batch.address, batch.end, batch.first), (4096, 16384, 0));
        assert_eq!(batch.merged, [1, 2]);
        assert_eq!(elevator.len(), 2, "other directions and gaps do not merge");
    }
    let mut elevator = elevator(ElevatorKind::Noop, 128);
    for index in 0..256 {
        elevator.on_part(Nanos::ZERO, read(index, u64::from(index) * 4096));
    }
    assert_eq!(elevator.len(), 2);
    assert_eq!(elevator.next_command(Nanos::ZERO).map(|batch| batch.end), Some(COMMAND_BYTES_MAX));
}

#[test]
fn requests_beyond_the_limit_wait_outside_the_order() {
    let mut elevator = elevator(ElevatorKind::Deadline, 2);
    for part in [read(0, 900_000), read(1, 800_000), read(2, 100_000), read(3, 700_000)] {
        elevator.on_part(Nanos::ZERO, part);
    }
    assert!(!elevator.has_room());
    assert_eq!(elevator.next_command(Nanos::ZERO).map(|batch| batch.first), Some(1), "2 is outside");
    assert_eq!(order(&mut elevator, Nanos::ZERO), [0, 2, 3]);
}
