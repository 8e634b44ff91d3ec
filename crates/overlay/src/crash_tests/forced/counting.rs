//! What the overlay counts by reason: each reason once, and of its family no other figure moves.

use super::*;
use headstart_protocol::counters::{Counters, Wait, families};

/// Figures of these families that are not zero.
fn counted(w: &World, of: &[&families::Family]) -> Vec<(&'static str, u64)> {
    let counters = w.agents[0].overlay.counters();
    let wanted = counters.figures().filter(|(figure, value)| of.contains(&figure.family) && *value > 0);
    wanted.map(|(figure, value)| (figure.key, value)).collect()
}

fn dropped(w: &World) -> Vec<(&'static str, u64)> {
    counted(w, &[&families::DROPPED_BYTES])
}

fn absorbed() -> World {
    let mut w = world();
    write(&mut w, 0, A, true);
    assert_eq!(dropped(&w), []);
    w
}

fn clean() -> World {
    let mut w = absorbed();
    drain(&mut w);
    assert_eq!(dropped(&w), []);
    w
}

#[test]
fn bytes_that_leave_flash_are_counted_once_by_why_they_do() {
    let part = Range::new(0, 1000);
    let mut w = absorbed();
    write(&mut w, 2, part, true);
    assert_eq!(dropped(&w), [("dropped_overwritten_bytes_total", 1000)]);

    let mut w = absorbed();
    write(&mut w, 2, part, false);
    assert_eq!(dropped(&w), [("dropped_direct_write_bytes_total", 1000)]);

    let mut w = absorbed();
    other(&mut w, 2, Kind::Truncate, Range::new(1000, u64::MAX));
    assert_eq!(dropped(&w), [("dropped_truncate_bytes_total", 3096)]);

    let mut w = clean();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    barrier(&mut w);
    assert_eq!(dropped(&w), [("dropped_eviction_bytes_total", 4096)]);
    assert_eq!(w.agents[0].overlay.counters().evicted_extents_total, 1);

    let mut w = absorbed();
    remove_name(&mut w);
    close_both(&mut w);
    assert_eq!(dropped(&w), [("dropped_unlink_bytes_total", 4096)]);

    let mut w = clean();
    other(&mut w, 0, Kind::Bypass(true), Range::default());
    w.quiesce();
    assert_eq!(dropped(&w), [("dropped_bypass_bytes_total", 4096)]);

    let mut w = absorbed();
    close_both(&mut w);
    assert_eq!(w.agents[0].overlay.discard(w.agents[0].memory.view(), 0), Some(4096));
    w.carry_out();
    assert_eq!(dropped(&w), [("dropped_discard_bytes_total", 4096)]);

    let mut w = clean();
    assert_eq!(w.agents[0].overlay.flash_failed(0, part), Answer::Done);
    assert_eq!(dropped(&w), [("dropped_flash_failed_bytes_total", 4096)], "all of the extent");
}

#[test]
fn clean_bytes_of_a_file_that_a_stranger_changed_are_counted_as_dropped_for_that() {
    let mut w = clean();
    close_both(&mut w);
    w.agents[0].overlay.set_fingerprint(0, crate::Fingerprint { size: 4096, modified_ns: 0 });
    w.inodes[0].store.truncate(5000);
    w.inodes[0].size = Some(5000);
    other(&mut w, 0, Kind::Open(true), A);
    assert_eq!(dropped(&w), [("dropped_foreign_change_bytes_total", 4096)]);
}

#[test]
fn committed_bytes_for_which_the_file_cannot_be_made_longer_are_counted_as_dropped_for_that() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, true);
    while !w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. })) {
        ranks::step(&mut w, 0, false);
    }
    w.agents[0].tasks.retain(|task| !matches!(task, Task::Extend { .. }));
    w.agents[0].overlay.on_extended(w.agents[0].memory.view(), 0, Err(28));
    w.carry_out();
    assert_eq!(dropped(&w), [("dropped_not_extended_bytes_total", 4096)]);
}

#[test]
fn waits_are_counted_once_by_what_they_are_for() {
    // The first commit waits for the file to be made longer.
    let already = absorbed().agents[0].overlay.counters();
    let waits = |w: &World, before: &Counters| {
        let mut counters = w.agents[0].overlay.counters();
        counters.combine(before, |value, earlier| *value -= earlier.min(*value));
        let waits = counters.figures().filter(|(figure, value)| *figure.family == families::WAITS && *value > 0);
        waits.map(|(figure, value)| (figure.key, value)).collect::<Vec<_>>()
    };
    let mut w = absorbed();
    other(&mut w, 0, Kind::Fsync, A);
    assert_eq!(waits(&w, &already), [("barrier_waits_total", 1)]);

    let mut w = absorbed();
    other(&mut w, 0, Kind::WriteBack, A);
    assert_eq!(waits(&w, &already), [("write_back_waits_total", 1)]);

    // A write-back is under way where a thread wants to write to disk.
    let mut w = absorbed();
    w.agents[0].overlay.drain(true);
    w.poll();
    write(&mut w, 2, A, false);
    assert_eq!(waits(&w, &already), [("copy_waits_total", 1)]);

    // A cheap write is under way where another one is committed.
    let mut w = world();
    let before = w.agents[0].overlay.counters();
    ranks::begin_write(&mut w, 0, 0, A, false);
    (0..2).for_each(|_| ranks::step(&mut w, 0, false));
    ranks::begin_write(&mut w, 2, 0, A, true);
    (0..5).for_each(|_| ranks::step(&mut w, 2, false));
    run(&mut w, 0);
    run(&mut w, 2);
    assert_eq!(waits(&w, &before), [("slot_waits_total", 1)]);

    // A barrier is about to free the place of bytes that were overwritten.
    let mut w = absorbed();
    write(&mut w, 2, A, true);
    let before = w.agents[0].overlay.counters();
    let taken = w.agents[0].overlay.space.capacity_bytes() - w.agents[0].overlay.space.available_bytes();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(taken));
    w.request(0, &Request::Slab { file: 0, offset: 16384, length: 8192 });
    w.quiesce();
    assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    assert_eq!(waits(&w, &before), [("space_waits_total", 1)]);
}

#[test]
fn what_a_wait_took_is_in_the_sum_and_the_longest_of_its_cause() {
    let mut counters = Counters::default();
    let causes = [Wait::Requests, Wait::Space, Wait::Copies, Wait::WriteBacks, Wait::Barriers];
    for (k, cause) in (1..).zip(causes) {
        counters.waited(cause, 10 * k);
        counters.waited(cause, k);
    }
    let of = |family| -> Vec<u64> {
        counters.figures().filter(|(figure, _)| *figure.family == family).map(|(_, value)| value).collect()
    };
    assert_eq!(of(families::WAITS), [2; 5]);
    assert_eq!(of(families::WAIT_SECONDS), [11, 22, 33, 44, 55]);
    assert_eq!(of(families::WAIT_SECONDS_MAX), [10, 20, 30, 40, 50]);
}

#[test]
fn questions_for_space_that_are_answered_no_are_counted_by_why() {
    let refusals = |w: &World| counted(w, &[&families::REFUSALS]);
    let mut w = world();
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    write(&mut w, 0, A, true);
    assert_eq!(refusals(&w), [("no_space_total", 1)]);
    let mut w = world();
    other(&mut w, 2, Kind::Bypass(true), Range::default());
    // As if the thread had looked before.
    w.agents[0].memory.files[0].leave_alone(false);
    write(&mut w, 0, A, true);
    assert_eq!(refusals(&w), [("refused_bypassed_total", 1)]);
}

#[test]
fn a_hint_taken_in_a_batch_written_back_and_failures_are_counted_once() {
    let mut w = world();
    half_done_fetch(&mut w);
    w.quiesce();
    let counters = w.agents[0].overlay.counters();
    assert_eq!((counters.critical_reads_total, counters.fetches_total, counters.fetched_bytes_total), (1, 1, 4096));

    // Two neighbours and one far away: two batches, one seek less than extents.
    let mut w = world();
    for (rank, offset) in [(0, 0), (2, 4096), (0, 1 << 20)] {
        write(&mut w, rank, Range::new(offset, 4096), true);
    }
    drain(&mut w);
    let counters = w.agents[0].overlay.counters();
    assert_eq!((counters.write_backs_total, counters.write_back_errors_total), (2, 0));
    assert_eq!((counters.written_back_bytes_total, counters.written_back_extents_total), (3 * 4096, 3));
    assert_eq!(counters.seeks_avoided_total, 1);

    let mut w = absorbed();
    w.agents[0].overlay.drain(true);
    w.poll();
    let task = w.agents[0].tasks.pop().expect("a write-back has begun");
    let Task::Copy { order, .. } = task else { panic!("it is a copy") };
    w.agents[0].overlay.on_copy_done(w.agents[0].memory.view(), order.id, Err(5));
    w.carry_out();
    let counters = w.agents[0].overlay.counters();
    assert_eq!((counters.write_backs_total, counters.write_back_errors_total), (0, 1));

    let mut w = absorbed();
    let before = w.agents[0].overlay.counters();
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(NotSynced::default()));
    w.carry_out();
    let after = w.agents[0].overlay.counters();
    assert_eq!(after.barrier_errors_total, before.barrier_errors_total + 1);
    assert_eq!(after.barriers_total, before.barriers_total);
}
