//! Writes that a dead process may still have under way.

use super::*;

#[test]
fn a_barrier_that_failed_still_covers_what_it_took_next_time() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    other(&mut w, 0, Kind::Fsync, A);
    w.crash(true);
    no_violation(&w);
}

/// A process was killed while a write of it to the disk was under way, over bytes that are clean on flash.
fn world_with_a_dead_writer() -> World {
    let mut w = world();
    write(&mut w, 2, A, true);
    drain(&mut w);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), false);
    for _ in 0..4 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0);
    w
}

#[test]
fn a_quarantine_whose_barrier_failed_is_lifted_by_the_next_one_that_nobody_else_asks_for() {
    let mut w = world_with_a_dead_writer();
    w.poll();
    assert!(w.agents[0].overlay.leases.quarantined() == 1 && w.agents[0].overlay.is_barrier_running());
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    w.quiesce();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 0);
    no_violation(&w);
}

#[test]
fn a_dead_writers_range_is_fetched_again_once_its_slow_file_was_synced() {
    let mut w = world_with_a_dead_writer();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 1);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.leases.quarantined(), 0);
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 0, "clean bytes under a write that landed late are dropped");
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
    let closed = |bytes: &[u8]| records(bytes).any(|(record, _)| matches!(record, Record::Closed { .. }));
    assert!(!closed(&w.agents[0].journal.bytes[HEADER_BYTES..]), "the other process writes it still");
    assert!(!w.ranks.iter().any(Rank::is_busy));
    assert_eq!(w.inodes[0].store.read(Range::new(4095, 1))[0].1, Byte::Written { version: 1, shift: 0 });
}

#[test]
fn a_write_back_that_a_dead_thread_may_have_overwritten_does_not_count() {
    let mut w = world();
    write(&mut w, 2, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), false);
    for _ in 0..4 {
        ranks::step(&mut w, 0, false);
    }
    w.kill(0); // under its direct-write lease
    w.agents[0].tasks.retain(|task| matches!(task, Task::Barrier { .. }));
    w.agents[0].overlay.drain(true);
    w.poll();
    let find =
        |w: &World| w.agents[0].tasks.iter().position(|task| matches!(task, Task::Copy { .. })).expect("a write-back");
    for _ in 0..2 {
        let at = find(&w);
        w.step_task(at); // read, written, not reported yet
    }
    w.land_all_late();
    while let Some(at) = w.agents[0].tasks.iter().position(|task| !matches!(task, Task::Copy { .. })) {
        w.step_task(at); // the barrier lifts the quarantine
    }
    assert!(w.agents[0].overlay.leases.quarantined() == 0);
    w.quiesce();
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    w.check_clean();
    no_violation(&w);
}
