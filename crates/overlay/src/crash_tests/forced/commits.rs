//! What a commit waits for, and what it leaves to its thread and to others.

use super::*;

#[test]
fn a_cheap_write_seen_before_the_bit_is_waited_for_by_a_commit() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, false);
    ranks::step(&mut w, 0, false);
    ranks::step(&mut w, 0, false); // it has seen the bit clear
    ranks::begin_write(&mut w, 2, 0, A, true);
    for _ in 0..20 {
        ranks::step(&mut w, 2, false);
        w.poll();
    }
    assert!(w.ranks[2].is_busy(), "the commit waits");
    run(&mut w, 0);
    run(&mut w, 2);
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn the_first_commit_in_a_new_shared_file_is_not_taken_for_one_of_before() {
    let mut w = world();
    write(&mut w, 0, A, true);
    let seq = w.agents[0].overlay.threads.last_commit(0).unwrap();
    barrier(&mut w);
    w.crash(true);
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    run(&mut w, 0);
    w.slot(0).seq.store(seq - 2, Ordering::Relaxed); // slab, commit
    write(&mut w, 0, A, true);
    assert_eq!(w.ranks[0].seq, seq);
    other(&mut w, 0, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn a_commit_does_not_take_away_slabs_that_the_thread_is_about_to_commit() {
    let mut w = world();
    let file = w.open[0][&0].unwrap();
    // Every entry of the table is in use: one slab of three pages, seven of one.
    for length in [3, 1, 1, 1, 1, 1, 1, 1] {
        w.request(0, &Request::Slab { file, offset: 0, length: length * 4096 });
    }
    let place = |w: &World, k: usize| {
        let slab = &w.agents[0].memory.view().slots[0].slabs[k];
        (slab.data_file.load(Ordering::Relaxed), slab.place.load(Ordering::Relaxed), slab.read().length)
    };
    let held: Vec<_> = (0..8).map(|k| place(&w, k)).filter(|slab| slab.2 > 0).collect();
    assert_eq!(held.len(), 8);
    // The thread has written to the first and the last and commits them one after the other. The rest of the
    // first is too short for another such write.
    for (offset, length, (data_file, place, _)) in [(0, 8192, held[0]), (8192, 4096, held[7])] {
        w.request(0, &Request::Commit { file, data_file, offset, length, place });
        w.quiesce();
        assert_eq!(w.ranks[0].answer.take(), Some(Answer::Done));
    }
}

#[test]
fn places_a_reader_holds_become_free_when_it_ends_without_another_barrier() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    while !matches!(w.ranks[2].answer, Some(Answer::Flash { .. })) {
        ranks::step(&mut w, 2, false);
    }
    write(&mut w, 0, A, true);
    barrier(&mut w);
    let barriers = w.agents[0].overlay.counters().barriers_total;
    assert_eq!(w.agents[0].overlay.space.removed_bytes(), 4096, "the reader holds it");
    w.agents[0].overlay.set_capacity(Capacity::Bytes(3 * 4096)); // space is short
    for _ in 0..50 {
        w.poll();
        while !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    assert_eq!(w.agents[0].overlay.counters().barriers_total, barriers, "no barrier can help");
    run(&mut w, 2);
    w.poll();
    assert_eq!(w.agents[0].overlay.space.removed_bytes(), 0);
    no_violation(&w);
}

#[test]
fn a_commit_waits_for_a_slow_read_under_a_lease() {
    let mut w = world();
    write(&mut w, 0, Range::new(8192, 4096), true); // the bit is set: reads ask
    starve(&mut w, 2, A);
    ranks::begin_write(&mut w, 0, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    assert!(w.ranks[0].is_busy(), "else the read could return bytes older than another read has seen");
    run(&mut w, 2);
    run(&mut w, 0);
    no_violation(&w);
}
