//! Files that are made longer for what was absorbed.

use super::*;

#[test]
fn an_extension_that_a_truncation_made_needless_ends() {
    let mut w = world();
    write(&mut w, 0, A, false);
    let file = w.open[0][&0].unwrap();
    // A truncation to 3 pages is under way while bytes of the second page are committed.
    let size = 3 * 4096;
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(size, u64::MAX));
    for _ in 0..2 {
        ranks::step(&mut w, 2, false);
    }
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    run(&mut w, 2);
    run(&mut w, 0);
    w.quiesce();
    assert_eq!(w.agents[0].memory.view().files[file as usize].size_bit.load(Ordering::Relaxed), 0);
    drain(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn the_file_is_made_long_enough_although_the_committing_thread_died() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    let extends = w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(
        w.ranks[0].is_busy() && w.agents[0].overlay.dirty_bytes() > 0 && extends,
        "mapped, and not long enough yet"
    );
    w.kill(0);
    w.poll();
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), 8192);
    drain(&mut w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    no_violation(&w);
}

#[test]
fn a_write_that_extends_since_the_file_shrank_is_waited_for_though_its_slot_does_not_say_so() {
    let mut w = world();
    let far = Range::new(GRANULE_BYTES, 4096); // another granule, so that the commit need not wait for that
    write(&mut w, 0, far, false);
    other(&mut w, 0, Kind::Truncate, Range::new(far.end(), u64::MAX)); // now the agent knows the size
    let file = w.open[0][&0].unwrap();
    other(&mut w, 2, Kind::Truncate, Range::new(0, u64::MAX));
    // It looked at the size before.
    w.agents[0].memory.view().slots[3].publish_cheap(KIND_WRITE, file, far);
    ranks::begin_write(&mut w, 0, 0, Range::new(0, 10), true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
        w.poll();
    }
    let extends = |w: &World| w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(!extends(&w) && w.ranks[0].is_busy(), "an extension now could cut off what that write appends");
    w.agents[0].memory.view().slots[3].free();
    run(&mut w, 0);
    no_violation(&w);
}

#[test]
fn absorbed_bytes_beyond_the_end_found_at_a_start_extend_the_file() {
    let mut w = world();
    write(&mut w, 0, A, true);
    w.inodes[0].store.truncate(0); // as if the power had failed before the new size was stable
    w.crash(false);
    w.quiesce();
    assert_eq!(w.inodes[0].store.size(), 4096);
}

#[test]
fn write_back_goes_on_below_the_size_while_the_file_is_being_extended() {
    let mut w = world();
    write(&mut w, 0, A, true);
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    while !w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. })) {
        ranks::step(&mut w, 0, false);
    }
    w.agents[0].overlay.drain(true);
    w.poll();
    let copied = w.agents[0].tasks.iter().find_map(|task| match task {
        Task::Copy { order, .. } => Some(order.range),
        _ => None,
    });
    assert_eq!(copied, Some(A));
}

#[test]
fn an_extension_waits_for_a_write_back_beyond_the_known_size() {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    // A thread dies after its truncation and before it could say so, and the slow file cannot be looked at:
    // the dirty bytes lie beyond the end.
    w.whims.blind = true;
    ranks::begin_other(&mut w, 2, Kind::Truncate, 0, Range::new(0, u64::MAX));
    while w.inodes[0].store.size() > 0 {
        ranks::step(&mut w, 2, false);
    }
    w.kill(1);
    w.agents[0].overlay.drain(true);
    w.poll();
    let copies = |w: &World| w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { .. }));
    assert!(copies(&w));
    ranks::begin_write(&mut w, 0, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 0, false);
    }
    let extends = w.agents[0].tasks.iter().any(|task| matches!(task, Task::Extend { .. }));
    assert!(copies(&w) && !extends, "the extension might cut off what the write-back adds");
    run(&mut w, 0);
    w.quiesce();
    w.check_clean();
    no_violation(&w);
}

#[test]
fn a_size_seen_by_an_open_during_an_extension_is_not_believed() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, true);
    let extends = |w: &World| w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. }));
    while extends(&w).is_none() {
        ranks::step(&mut w, 0, false);
    }
    let at = extends(&w).unwrap();
    w.step_task(at); // it has seen an empty file
    w.kill(0);
    w.kill(1);
    w.inodes[0].store.write(vec![(Range::new(8192, 10), Byte::Zero)]); // a dead thread's write lands
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    run(&mut w, 0);
    w.quiesce();
    assert!(w.agents[0].overlay.files[&0].length.size() <= w.inodes[0].store.size());
    no_violation(&w);
}
