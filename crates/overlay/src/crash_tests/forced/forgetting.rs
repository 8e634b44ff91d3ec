//! When a file may be forgotten, and what a file that got its identity is taken for.

use super::*;

#[test]
fn a_file_is_forgotten_only_when_a_barrier_has_made_the_removal_of_its_dirty_bytes_durable() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    write(&mut w, 0, A, false); // drops them, not durable yet
    w.agents[0].overlay.barrier.forget_wish();
    for rank in [0, 2] {
        ranks::begin_other(&mut w, rank, Kind::Close, 0, A);
        while w.ranks[rank].is_busy() {
            ranks::step(&mut w, rank, false);
        }
    }
    w.agents[0].tasks.clear(); // no barrier ends
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, A);
    ranks::step(&mut w, 0, false);
    let shared = w.agents[0].memory.view();
    assert!(!shared.all_clear(0, A), "an fsync of the file opened again must ask the agent");
}

#[test]
fn slow_bytes_written_back_are_synced_before_the_file_may_be_forgotten() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    drain(&mut w);
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    w.poll();
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    for _ in 0..3 {
        barrier(&mut w);
    }
    assert!(w.agents[0].overlay.find(w.inodes[0].identity).is_none(), "it is forgotten");
    w.crash(true);
    no_violation(&w);
}

#[test]
fn the_open_of_a_file_with_a_durable_intent_waits_for_no_barrier() {
    let mut w = world();
    write(&mut w, 0, A, true);
    barrier(&mut w);
    ranks::begin_other(&mut w, 1, Kind::Open(true), 0, A);
    ranks::step(&mut w, 1, false);
    assert!(w.ranks[1].answer.is_some());
    assert!(w.agents[0].tasks.is_empty(), "nor does it start one");
}

#[test]
fn a_new_file_with_an_inode_number_used_before_outlives_the_news_that_the_old_one_is_gone() {
    let mut w = world();
    let old = w.open[0][&0].unwrap();
    w.inodes[0].linked = false;
    w.create(0);
    let new = w.paths[0];
    // The file system gave the number away at once, and knows when a file was born.
    w.inodes[new].identity = Identity { birth_ns: 7, ..w.inodes[0].identity };
    other_file(&mut w, 2, Kind::Open(true), new, A);
    ranks::begin_write(&mut w, 2, new, A, true);
    run(&mut w, 2);
    let number = w.open[1][&new].unwrap();
    let Identity { inode, .. } = w.inodes[0].identity;
    let envelope = Envelope { slot: w.ranks[0].slot as u32, seq: w.ranks[0].seq + 1 };
    w.ranks[0].seq += 1;
    w.agents[0].overlay.on_unlinked(w.agents[0].memory.view(), envelope, inode, |file| file == number);
    w.carry_out();
    assert!(
        w.agents[0].overlay.files[&old].names.is_unlinked() && !w.agents[0].overlay.files[&number].names.is_unlinked()
    );
    other_file(&mut w, 2, Kind::Close, new, A);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), A.length, "what was written is kept for the new file");
    no_violation(&w);
}

#[test]
fn a_new_file_under_an_identity_used_before_gets_nothing_of_the_old_one_after_power_loss() {
    let mut w = world();
    write(&mut w, 0, A, true);
    other(&mut w, 0, Kind::Fsync, A);
    for rank in [0, 2] {
        other(&mut w, rank, Kind::Close, A);
    }
    let identity = w.inodes[0].identity;
    w.inodes[0].linked = false;
    w.create(0);
    let new = w.paths[0];
    w.inodes[new].identity = identity;
    let request = Request::Unlinked { inode: identity.inode };
    w.request(0, &request);
    // The barrier that would make the removal durable has not ended: the open of the new file waits.
    ranks::begin_other(&mut w, 0, Kind::Open(true), new, A);
    ranks::step(&mut w, 0, false);
    assert!(w.ranks[0].answer.is_none());
    w.quiesce();
    no_violation(&w);
    w.crash(true);
    no_violation(&w);
}

#[test]
fn bytes_written_back_after_the_last_close_count_as_clean_only_once_the_slow_file_was_synced() {
    for seed in 0..8 {
        let mut w = world();
        write(&mut w, 0, A, true);
        for rank in [0, 2] {
            other(&mut w, rank, Kind::Close, A);
        }
        barrier(&mut w);
        drain(&mut w);
        w.agents[0].overlay.barrier.want(); // as when space runs short
        w.poll();
        w.quiesce();
        w.random.0 = seed; // some of these lose what was not synced
        w.crash(true);
        w.check_clean();
        no_violation(&w);
    }
}
