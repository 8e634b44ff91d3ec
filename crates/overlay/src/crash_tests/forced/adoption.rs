//! Interleavings with the death of the agent under living threads, each for a rule of adoption.

use super::*;
use headstart_protocol::counters::{Counter, RequestCounters};

/// Lets a thread run until it has reached a point, the runtime standing still.
fn step_until(w: &mut World, rank: usize, reached: impl Fn(&World) -> bool) {
    for _ in 0..100 {
        if reached(w) {
            return;
        }
        ranks::step(w, rank, false);
    }
    panic!("rank {rank} does not get there: {:?}", w.ranks[rank]);
}

fn answered(w: &World, rank: usize, answer: fn(&Answer) -> bool) -> bool {
    w.ranks[rank].answer.as_ref().is_some_and(answer)
}

/// The agent dies, and the next one starts while what the dead one was copying has not landed.
fn restart(w: &mut World) {
    w.kill_agent();
    w.restart();
}

fn try_for_a_while(w: &mut World, rank: usize) {
    for _ in 0..10 {
        ranks::step(w, rank, false);
        w.poll();
    }
}

#[test]
fn a_direct_write_under_a_lease_of_before_drops_what_it_covers() {
    let mut w = world();
    write(&mut w, 2, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Go));
    restart(&mut w);
    w.agents[0].overlay.drain(true);
    w.poll();
    assert!(
        !w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. })),
        "nothing is written back under the lease"
    );
    run(&mut w, 0);
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
    drain(&mut w);
    w.finish();
    no_violation(&w);
}

/// A thread has a lease on `range` and has written under it or not when the agent dies; it gives its request up.
fn given_up(range: Range, kind: Kind, written: bool, says: bool) -> World {
    let mut w = world();
    write(&mut w, 2, A, true);
    match kind {
        Kind::Truncate => ranks::begin_other(&mut w, 0, kind, 0, Range::new(range.offset, u64::MAX)),
        _ => ranks::begin_write(&mut w, 0, 0, range, false),
    }
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Go));
    ranks::step(&mut w, 0, false);
    if written {
        ranks::step(&mut w, 0, false);
    }
    w.kill_agent();
    ranks::give_up(&mut w, 0, says);
    w.restart();
    w
}

#[test]
fn a_direct_write_that_was_given_up_while_no_agent_ran_holds_nobody_up() {
    for (kind, written) in [(Kind::Write, true), (Kind::Write, false), (Kind::Truncate, true), (Kind::Truncate, false)]
    {
        let mut w = given_up(Range::new(100, 5000), kind, written, true);
        write(&mut w, 2, Range::new(200, 10), true); // overlaps it
        write(&mut w, 2, Range::new(8192, 4096), true); // makes the file longer
        other(&mut w, 2, Kind::Read, Range::new(8192, 4096));
        drain(&mut w);
        assert_eq!(w.agents[0].overlay.dirty_bytes(), 0, "{kind:?}, {written}: everything is written back");
        w.finish();
        if kind == Kind::Write {
            no_violation(&w);
        }
    }
}

#[test]
fn clean_bytes_under_a_direct_write_that_was_given_up_are_read_from_disk() {
    let mut w = given_up(Range::new(100, 50), Kind::Write, true, true);
    w.quiesce();
    drain(&mut w);
    assert!(w.agents[0].overlay.mapped_bytes() > 0, "clean bytes stay");
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Go));
    ranks::step(&mut w, 0, false);
    ranks::step(&mut w, 0, false);
    w.kill_agent();
    ranks::give_up(&mut w, 0, true);
    w.restart();
    w.poll();
    assert_eq!(w.agents[0].overlay.mapped_bytes(), 0, "the disk has something else");
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_thread_that_asks_for_something_else_has_ended_its_direct_write() {
    let mut w = given_up(Range::new(100, 50), Kind::Write, true, false);
    assert!(w.agents[0].overlay.leases.direct_overlaps(0, A), "nobody said that it is over");
    other(&mut w, 0, Kind::WriteBack, A);
    assert!(!w.agents[0].overlay.leases.direct_overlaps(0, A));
    write(&mut w, 2, Range::new(100, 8192), true);
    w.finish();
    no_violation(&w);
}

#[test]
fn a_file_opened_again_before_the_end_of_a_direct_write_is_repeated_ends_no_lease() {
    let mut w = world();
    write(&mut w, 2, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Go));
    restart(&mut w);
    let file = w.open[0][&0].unwrap();
    w.send(0, 0, &Request::Bypass { file, writes: false });
    assert!(w.agents[0].overlay.leases.direct_overlaps(file, A), "its thread may be in the kernel");
}

#[test]
fn a_commit_waits_for_a_slow_read_under_a_lease_of_before() {
    let mut w = world();
    write(&mut w, 0, Range::new(8192, 4096), true); // the bit is set: reads ask
    starve(&mut w, 2, A);
    restart(&mut w);
    ranks::begin_write(&mut w, 0, 0, A, true);
    try_for_a_while(&mut w, 0);
    assert!(w.ranks[0].is_busy(), "else the read could return bytes older than another read has seen");
    run(&mut w, 2);
    run(&mut w, 0);
    no_violation(&w);
}

#[test]
fn places_under_a_read_lease_of_before_stay_until_it_ends() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    step_until(&mut w, 2, |w| answered(w, 2, |answer| matches!(answer, Answer::Flash { .. })));
    let data_file = *w.agents[0].data.keys().next().unwrap();
    write(&mut w, 0, A, true); // nothing but the lease names what is being read
    restart(&mut w);
    for _ in 0..8 {
        write(&mut w, 0, A, true); // first to what is left of its slabs, then elsewhere
    }
    for _ in 0..3 {
        w.agents[0].overlay.request_barrier();
        w.poll();
        while !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    assert!(w.ranks[2].is_busy() && w.agents[0].data.contains_key(&data_file), "the reader may open it yet");
    run(&mut w, 2);
    barrier(&mut w);
    assert!(!w.agents[0].data.contains_key(&data_file));
    no_violation(&w);
}

#[test]
fn a_commit_to_a_slab_of_before_is_accepted_and_new_slabs_lie_in_new_data_files() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, true);
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Done)); // it has a slab
    let data_file = *w.agents[0].data.keys().next().unwrap();
    restart(&mut w);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(4096));
    ranks::begin_write(&mut w, 2, 0, A, true);
    run(&mut w, 2);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0, "the only page is the slab of the other");
    w.agents[0].overlay.set_capacity(Capacity::Bytes(32 * 4096));
    run(&mut w, 0);
    let mapped: Vec<u32> = w.agents[0].overlay.files[&0].map.iter().map(|mapped| mapped.data_file).collect();
    assert_eq!(mapped, [data_file]);
    write(&mut w, 2, Range::new(4096, 4096), true);
    let mapped: Vec<u32> = w.agents[0].overlay.files[&0].map.iter().map(|mapped| mapped.data_file).collect();
    assert_eq!(mapped, [data_file, data_file + 1]);
    other(&mut w, 2, Kind::Read, Range::new(0, 8192));
    no_violation(&w);
}

#[test]
fn what_a_dead_agent_fetches_late_hits_no_place_in_use() {
    let mut w = world();
    half_done_fetch(&mut w);
    restart(&mut w);
    assert!(!w.late.is_empty(), "the copier may still write to flash");
    write(&mut w, 0, A, true);
    w.land_all_late();
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_direct_write_waits_for_a_write_back_of_the_dead_agent_and_a_commit_does_not() {
    let mut w = world();
    write(&mut w, 2, A, true);
    w.agents[0].overlay.drain(true);
    w.poll();
    let copy =
        w.agents[0].tasks.iter().position(|task| matches!(task, Task::Copy { .. })).expect("a write-back has begun");
    w.step_task(copy); // it has read flash
    restart(&mut w);
    assert!(!w.agents[0].ghosts.is_empty(), "and may still write the slow file");
    write(&mut w, 2, Range::new(0, 10), true);
    ranks::begin_write(&mut w, 0, 0, Range::new(100, 50), false);
    try_for_a_while(&mut w, 0);
    w.land_ghosts();
    run(&mut w, 0);
    other(&mut w, 2, Kind::Read, A);
    w.finish();
    no_violation(&w);
}

#[test]
fn a_commit_that_was_appended_but_not_answered_is_not_applied_again() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, true);
    step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Done));
    let before = w.agents[0].journal.bytes.len();
    let mapped = |bytes: &[u8]| records(bytes).any(|(record, _)| matches!(record, Record::Map { .. }));
    // It dies when the record is appended and nobody has been told.
    for _ in 0..10 {
        w.agents[0].dying = Some(1);
        ranks::step(&mut w, 0, false);
        if mapped(&w.agents[0].journal.bytes[HEADER_BYTES..]) {
            break;
        }
        w.agents[0].dying = None;
    }
    assert!(w.agents[0].is_dead && w.agents[0].journal.bytes.len() > before && w.ranks[0].answer.is_none());
    w.restart();
    other(&mut w, 2, Kind::Read, A); // it is seen
    write(&mut w, 2, A, true); // and overwritten
    run(&mut w, 0);
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn what_a_dead_thread_may_still_write_is_quarantined_by_the_next_agent_too() {
    for dies_first in [true, false] {
        let mut w = world();
        write(&mut w, 2, A, false);
        ranks::begin_write(&mut w, 0, 0, A, false);
        for _ in 0..2 {
            ranks::step(&mut w, 0, false); // it has seen the bit clear
        }
        if dies_first {
            w.kill(0);
            w.agents[0].tasks.clear(); // the barrier that would lift the quarantine does not end
            restart(&mut w);
        } else {
            w.kill_agent();
            w.kill(0);
            w.restart();
        }
        restart(&mut w);
        w.agents[0].memory.view().hint(w.ranks[2].slot as u32, 0, A, 1 << 30, FetchTurn::Soon);
        w.poll();
        let fetch = |w: &World| {
            let is_fetch = |task: &Task| matches!(task, Task::Copy { order, .. } if order.kind == CopyKind::Fetch);
            w.agents[0].tasks.iter().position(is_fetch)
        };
        if let Some(at) = fetch(&w) {
            w.step_task(at); // it has read the slow file
        }
        w.land_all_late();
        ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
        while w.ranks[2].is_busy() {
            ranks::step(&mut w, 2, false);
            w.poll();
        }
        while let Some(at) = fetch(&w) {
            w.step_task(at);
        }
        w.poll();
        other(&mut w, 2, Kind::Read, A);
        no_violation(&w);
        w.quiesce();
        assert!(w.agents[0].overlay.leases.quarantined() == 0, "a barrier lifts it in the end");
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn while_no_agent_runs_a_read_waits_where_a_bit_is_set_and_goes_on_elsewhere() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.kill_agent();
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    ranks::begin_write(&mut w, 0, 0, Range::new(GRANULE_BYTES, 10), false);
    for rank in [0, 2] {
        try_for_a_while(&mut w, rank);
    }
    assert_eq!((w.ranks[0].is_busy(), w.ranks[2].is_busy()), (false, true));
    w.restart();
    run(&mut w, 2);
    no_violation(&w);
}

#[test]
fn a_truncation_under_way_is_finished_by_the_next_agent() {
    for already_cut in [false, true] {
        let mut w = world();
        write(&mut w, 0, Range::new(0, 8192), true);
        ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(4096, u64::MAX));
        step_until(&mut w, 2, |w| answered(w, 2, |answer| *answer == Answer::Go));
        if already_cut {
            step_until(&mut w, 2, |w| w.inodes[0].store.size() == 4096);
        }
        restart(&mut w);
        try_for_a_while(&mut w, 0);
        while w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. })) {
            w.step_task(0);
        }
        run(&mut w, 2);
        w.quiesce();
        assert_eq!(w.inodes[0].store.size(), 4096);
        assert_eq!(w.agents[0].overlay.files[&0].map.end(), 4096);
        other(&mut w, 0, Kind::Read, Range::new(0, 8192));
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_direct_write_and_the_commit_that_waits_for_it_survive_a_death_at_any_step_of_its_end() {
    for step in 0..12 {
        let mut w = world();
        write(&mut w, 2, A, true);
        ranks::begin_write(&mut w, 0, 0, A, false);
        step_until(&mut w, 0, |w| answered(w, 0, |answer| *answer == Answer::Go));
        let half = Range::new(2048, 4096);
        ranks::begin_write(&mut w, 2, 0, half, true);
        try_for_a_while(&mut w, 2);
        assert!(w.ranks[2].is_busy(), "the commit waits");
        w.agents[0].dying = Some(step);
        run(&mut w, 0);
        run(&mut w, 2);
        w.agents[0].dying = None;
        let dirty = w.agents[0].overlay.dirty_bytes();
        assert_eq!(dirty, half.length, "death at step {step}: the commit was answered last, and is in the map");
        other(&mut w, 0, Kind::Read, Range::new(0, 6144));
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn what_threads_counted_outlasts_them_and_the_agent() {
    let mut w = world();
    let count = |w: &World, rank: usize, amount| {
        w.agents[0].memory.slots[w.ranks[rank].slot].count(Counter::CheapRequests, amount)
    };
    let counted = |w: &World| {
        let mut sum = RequestCounters::default();
        sum.add(w.agents[0].memory.view().ended);
        w.agents[0].overlay.slots().for_each(|slot| sum.add(&w.agents[0].memory.slots[slot as usize].counters));
        sum.cheap_requests_total
    };
    count(&w, 0, 1);
    count(&w, 2, 10);
    w.kill(0);
    assert_eq!(counted(&w), 11);
    restart(&mut w);
    assert_eq!(counted(&w), 11, "one ended under the agent before, one lives");
    w.kill_agent();
    w.kill(1);
    w.restart();
    restart(&mut w);
    assert_eq!(counted(&w), 11, "the other ended while there was none");
}

#[test]
fn a_process_goes_on_having_files_open_and_used_unseen_without_saying_so_again() {
    let mut w = world();
    other(&mut w, 0, Kind::Bypass(false), Range::default());
    w.inodes[0].linked = false;
    restart(&mut w);
    for _ in 0..3 {
        barrier(&mut w);
    }
    assert!(w.agents[0].overlay.files.contains_key(&0) && w.agents[0].overlay.is_open_for_writing(0));
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.extents(), 0, "the process that reads it unseen looks at the disk");
    w.inodes[0].linked = true;
    w.kill(0);
    w.quiesce();
    write(&mut w, 2, A, true);
    assert_eq!(w.agents[0].overlay.extents(), 1);
    no_violation(&w);
}

#[test]
fn writes_that_found_no_space_under_the_agent_before_are_not_taken_for_writes_of_now() {
    let mut w = world();
    w.agents[0].memory.header.refused_bytes.store(1 << 20, Ordering::Relaxed);
    restart(&mut w);
    w.poll();
    assert!(
        !w.agents[0].overlay.pacing.reserve().is_starving(w.agents[0].overlay.measured_ns),
        "nobody asked for space"
    );
    w.agents[0].memory.header.refused_bytes.fetch_add(4096, Ordering::Relaxed);
    w.poll();
    assert!(w.agents[0].overlay.pacing.reserve().is_starving(w.agents[0].overlay.measured_ns));
}
