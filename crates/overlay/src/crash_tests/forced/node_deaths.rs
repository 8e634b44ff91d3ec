//! Nodes that die for good, with bytes that only their flash has: threads 0 and 1 are on the first, 2 and 3 on the second.

use super::*;
use crate::Policy;

/// The first node has synced bytes of a file that only its flash has, and dies.
fn one_is_dead() -> World {
    one_is_dead_under(Policy::Leaves)
}

fn one_is_dead_under(policy: Policy) -> World {
    one_is_dead_with(1, A, policy)
}

fn one_is_dead_with(seed: u64, bytes: Range, policy: Policy) -> World {
    let mut w = World::of_agents(seed, quiet(4096), 2);
    w.whims.policy = policy;
    w.cluster(0);
    for (kind, range) in [(Kind::Open(true), Range::default()), (Kind::Write, bytes), (Kind::Fsync, bytes)] {
        match kind {
            Kind::Write => ranks::begin_write(&mut w, 0, 0, range, true),
            kind => ranks::begin_other(&mut w, 0, kind, 0, range),
        }
        w.quiesce();
    }
    assert_eq!(w.agents[0].overlay.dirty_bytes(), bytes.length);
    assert!(!is_written(&w));
    w.lose_node(0);
    w
}

/// Whether the slow file has the bytes.
fn is_written(w: &World) -> bool {
    matches!(w.inodes[0].store.read(A)[..], [(_, Byte::Written { .. })])
}

/// Time passes: what is written back is, and others hear of it.
fn settle(w: &mut World) {
    for _ in 0..20 {
        w.at = 1;
        w.poll();
        w.say_again();
        w.quiesce();
    }
}

fn read(w: &mut World) {
    ranks::begin_other(w, 2, Kind::Read, 0, A);
    w.quiesce();
}

#[test]
fn another_node_reads_what_one_that_died_had_synced_and_then_uses_the_disks() {
    let mut w = one_is_dead();
    ranks::begin_other(&mut w, 2, Kind::Open(true), 0, Range::default());
    w.quiesce();
    read(&mut w);
    assert!(is_written(&w));
    for absorbed in [false, true] {
        ranks::begin_write(&mut w, 2, 0, A, absorbed);
        w.quiesce();
        read(&mut w);
    }
    assert_eq!((w.copied_from_the_dead(), w.agents[1].overlay.members_emptied().len()), (1, 1));
    no_violation(&w);
}

#[test]
fn a_file_is_not_absent_because_nothing_of_its_first_bytes_is_on_flash_of_one_that_died() {
    let bytes = Range::new(8192, 4096);
    for seed in 1..=20 {
        let mut w = one_is_dead_with(seed, bytes, Policy::Leaves);
        // Before anybody has brought them back.
        ranks::begin_other(&mut w, 2, Kind::Open(true), 0, Range::default());
        while w.ranks[2].is_busy() {
            w.step(false);
        }
        ranks::begin_other(&mut w, 2, Kind::Read, 0, bytes);
        w.quiesce();
        ranks::begin_write(&mut w, 2, 0, bytes, false);
        w.quiesce();
        ranks::begin_other(&mut w, 2, Kind::Read, 0, bytes);
        w.quiesce();
        no_violation(&w);
        assert_eq!(w.copied_from_the_dead(), 1);
    }
}

#[test]
fn what_nobody_asks_for_goes_to_the_disks_as_well() {
    let mut w = one_is_dead();
    w.quiesce();
    assert!(is_written(&w));
    assert_eq!(w.agents[1].overlay.members_emptied().len(), 1, "its log is needed by nobody");
    no_violation(&w);
}

#[test]
fn what_was_salvaged_is_not_again_over_newer_bytes_by_the_next_agent() {
    let mut w = one_is_dead();
    w.quiesce();
    ranks::begin_other(&mut w, 2, Kind::Open(true), 0, Range::default());
    w.quiesce();
    ranks::begin_write(&mut w, 2, 0, A, false);
    w.quiesce();
    w.at = 1;
    w.kill_agent();
    w.restart();
    w.quiesce();
    read(&mut w);
    assert_eq!(w.copied_from_the_dead(), 1);
    no_violation(&w);
}

#[test]
fn what_was_not_synced_is_lost_and_the_file_goes_on_with_what_was() {
    let mut w = World::of_agents(1, quiet(4096), 2);
    w.cluster(0);
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, Range::default());
    w.quiesce();
    ranks::begin_write(&mut w, 0, 0, A, true);
    while w.agents[0].overlay.dirty_bytes() == 0 || w.ranks[0].is_busy() {
        w.step(false);
    }
    w.agents[0].tasks.clear();
    w.lose_node(0);
    ranks::begin_other(&mut w, 2, Kind::Open(true), 0, Range::default());
    w.quiesce();
    assert_eq!(w.copied_from_the_dead(), 0, "no barrier had covered it");
    assert!(!is_written(&w) && w.agents[1].overlay.waits_for_members().is_empty());
}

#[test]
fn where_files_stay_on_flash_an_owner_writes_back_what_a_node_that_died_had_synced() {
    let mut w = one_is_dead_under(Policy::Commits);
    settle(&mut w);
    assert!(is_written(&w));
    assert_eq!(w.agents[1].overlay.members_emptied().len(), 1, "its log is needed by nobody");
    no_violation(&w);
}

#[test]
fn where_files_stay_on_flash_a_dead_nodes_bytes_are_read_and_written_over_before_they_are_back() {
    let mut w = one_is_dead_under(Policy::Commits);
    ranks::begin_other(&mut w, 2, Kind::Open(true), 0, Range::default());
    w.quiesce();
    read(&mut w);
    for absorbed in [true, false, true] {
        ranks::begin_write(&mut w, 2, 0, A, absorbed);
        w.quiesce();
        read(&mut w);
        settle(&mut w);
        read(&mut w);
    }
    assert_eq!(w.agents[1].overlay.members_emptied().len(), 1, "its log is needed by nobody");
    no_violation(&w);
}

/// Both nodes have committed to a file, the first one last, and all is synced; then the first one dies.
#[test]
fn where_files_stay_on_flash_a_dead_nodes_older_bytes_do_not_come_back_over_newer_ones() {
    for (last, others) in [(0, 2), (2, 0)] {
        let mut w = World::of_agents(1, quiet(4096), 2);
        w.whims.policy = Policy::Commits;
        w.cluster(0);
        for rank in [0, 2] {
            ranks::begin_other(&mut w, rank, Kind::Open(true), 0, Range::default());
            w.quiesce();
        }
        for rank in [last, others, last] {
            ranks::begin_write(&mut w, rank, 0, A, true);
            w.quiesce();
            ranks::begin_other(&mut w, rank, Kind::Fsync, 0, A);
            w.quiesce();
            read(&mut w);
        }
        w.lose_node(0);
        read(&mut w);
        settle(&mut w);
        read(&mut w);
        let written = w.inodes[0].store.read(A);
        assert!(written.iter().all(|(_, byte)| matches!(byte, Byte::Written { .. })), "{last} wrote last: {written:?}");
        no_violation(&w);
    }
}
