//! Reads of bytes that lie on both sides, where the disks answer sooner.

use super::*;

/// Clean bytes on flash, of which the disks are measured to be sooner; nobody waits for anything.
fn clean_and_sooner() -> World {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 3 * 4096), true);
    drain(&mut w);
    write(&mut w, 0, Range::new(2 * 4096, 4096), true); // dirty behind them
    w.measure(0, 1000);
    w
}

/// The answer to a read of thread 2, which is left where it has it.
fn asked(w: &mut World, range: Range) -> Answer {
    ranks::begin_other(w, 2, Kind::Read, 0, range);
    for _ in 0..100 {
        if let Some(answer) = &w.ranks[2].answer {
            return answer.clone();
        }
        ranks::step(w, 2, false);
    }
    panic!("no answer: {:?}", w.ranks[2]);
}

#[test]
fn clean_bytes_are_read_from_the_disks_up_to_dirty_ones_and_stay_on_flash() {
    let mut w = clean_and_sooner();
    assert_eq!(asked(&mut w, Range::new(4096, 2 * 4096)), Answer::Sooner { length: 4096 });
    run(&mut w, 2);
    assert_eq!(asked(&mut w, Range::new(2 * 4096, 4096)), Answer::Flash { length: 4096 });
    run(&mut w, 2);
    assert!(w.agents[0].overlay.files[&0].map.touches(A));
    w.measure(0, 1_000_000);
    assert_eq!(asked(&mut w, A), Answer::Flash { length: 4096 });
    run(&mut w, 2);
    no_violation(&w);
}

#[test]
fn a_direct_write_under_a_read_of_the_disks_makes_it_read_again() {
    // Stopped before its bytes are read, and before it looks whether they count.
    for steps in [1, 2] {
        let mut w = clean_and_sooner();
        assert_eq!(asked(&mut w, A), Answer::Sooner { length: 4096 });
        (0..steps).for_each(|_| ranks::step(&mut w, 2, false));
        let before = w.inodes[0].store.read(A);
        ranks::begin_write(&mut w, 0, 0, A, false);
        while w.inodes[0].store.read(A) == before {
            ranks::step(&mut w, 0, false);
        }
        assert!(w.agents[0].overlay.files[&0].map.touches(A), "what is written is seen once it has ended");
        run(&mut w, 2);
        other(&mut w, 3, Kind::Read, A);
        run(&mut w, 0);
        no_violation(&w);
    }
}

#[test]
fn a_read_that_asks_for_a_lease_gets_clean_bytes_from_flash() {
    let mut w = clean_and_sooner();
    let read = |leased| Request::Read { file: 0, offset: A.offset, length: A.length, leased, in_order: false };
    for (leased, expected) in [(false, Answer::Sooner { length: 4096 }), (true, Answer::Flash { length: 4096 })] {
        w.request(2, &read(leased));
        assert_eq!(w.ranks[2].answer.take(), Some(expected), "nothing would tell it of a write beneath them");
    }
    w.slot(2).release_read();
    no_violation(&w);
}

#[test]
fn nobody_reads_the_disks_where_a_direct_write_is_under_way() {
    let mut w = clean_and_sooner();
    ranks::begin_write(&mut w, 0, 0, A, false);
    while w.agents[0].overlay.leases.all_direct().next().is_none() {
        ranks::step(&mut w, 0, false);
    }
    assert_eq!(asked(&mut w, A), Answer::Flash { length: 4096 });
    run(&mut w, 2);
    run(&mut w, 0);
    no_violation(&w);
}

#[test]
fn nobody_reads_the_disks_where_the_write_of_a_dead_thread_may_land() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, false);
    while !w.agents[0].memory.view().slots[w.ranks[0].slot].cheap_touches(0, 0) {
        ranks::step(&mut w, 0, false);
    }
    // Its process lives on, so that the write is waited for.
    w.agents[0].overlay.on_hang_up(w.agents[0].memory.view(), 0, None);
    w.carry_out();
    write(&mut w, 2, A, true);
    w.agents[0].overlay.drain(true);
    while w.agents[0].overlay.dirty_bytes() > 0 {
        w.poll();
        if !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    assert!(w.agents[0].overlay.leases.quarantines(0, A) && w.agents[0].overlay.files[&0].map.touches(A));
    w.measure(0, 1000);
    assert_eq!(asked(&mut w, A), Answer::Flash { length: 4096 }, "the disk may hold what the dead thread wrote by now");
    run(&mut w, 2);
    w.kill(0);
    w.land_all_late();
    w.quiesce();
    assert!(
        w.agents[0].overlay.leases.quarantined() == 0 && !w.agents[0].overlay.files[&0].map.touches(A),
        "else flash would differ from the disk"
    );
    other(&mut w, 2, Kind::Read, A);
    no_violation(&w);
}

#[test]
fn nothing_is_fetched_of_a_file_that_the_disks_answer_sooner() {
    let mut w = clean_and_sooner();
    let missed = Range::new(40_960, 4096);
    write(&mut w, 0, missed, false);
    w.agents[0].memory.view().hint(2, 0, missed, 1 << 30, FetchTurn::Soon);
    w.poll();
    assert!(w.agents[0].tasks.is_empty());
    w.measure(0, 1_000_000);
    w.agents[0].memory.view().hint(2, 0, missed, 1 << 30, FetchTurn::Soon);
    w.poll();
    assert!(!w.agents[0].tasks.is_empty());
    w.quiesce();
    no_violation(&w);
}
