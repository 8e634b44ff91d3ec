//! Files that programs on two nodes use: threads 0 and 1 are on the first, 2 and 3 on the second.

use super::*;

/// Two agents, and the first file open on the first node alone.
fn nodes() -> World {
    let mut w = World::of_agents(1, quiet(4096), 2);
    w.cluster(0);
    open(&mut w, 0);
    w
}

fn open(w: &mut World, rank: usize) {
    ranks::begin_other(w, rank, Kind::Open(true), 0, Range::default());
    w.quiesce();
}

fn write_of(w: &mut World, rank: usize, range: Range, absorbed: bool) {
    ranks::begin_write(w, rank, 0, range, absorbed);
    w.quiesce();
}

fn read_of(w: &mut World, rank: usize, range: Range) {
    ranks::begin_other(w, rank, Kind::Read, 0, range);
    w.quiesce();
}

/// How many extents each of the two has.
fn extents(w: &World) -> [usize; 2] {
    [0, 1].map(|at| w.agents[at].overlay.extents())
}

#[test]
fn a_file_that_one_node_uses_is_absorbed_there_and_leaves_flash_before_another_reads_it() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    assert_eq!(extents(&w), [1, 0]);
    open(&mut w, 2);
    assert_eq!(extents(&w), [1, 0], "who has only opened it asks for nothing");
    read_of(&mut w, 2, A);
    assert_eq!(extents(&w), [0, 0]);
    assert!(matches!(w.inodes[0].store.read(A)[..], [(_, Byte::Written { .. })]));
    // From then on it is on the disks, whoever writes it.
    for rank in [0, 2] {
        let before = w.agents[rank / 2].overlay.counters().refused_bypassed_total;
        write_of(&mut w, rank, A, true);
        assert!(w.agents[rank / 2].overlay.counters().refused_bypassed_total > before);
        read_of(&mut w, 2 - rank, A);
    }
    assert_eq!((extents(&w), w.agents[0].overlay.files_shared()), ([0, 0], 1));
    no_violation(&w);
}

#[test]
fn a_file_that_is_alone_costs_no_message() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    let sent = w.sent_between();
    assert!(sent > 0, "its home was asked");
    for block in 0..8 {
        let range = Range::new(block * 4096, 4096);
        write_of(&mut w, 0, range, true);
        write_of(&mut w, 1, range, block % 2 == 0);
        read_of(&mut w, 1, range);
    }
    assert_eq!(w.sent_between(), sent);
    assert!(w.pushes > 0, "nor a question to the agent");
    no_violation(&w);
}

#[test]
fn what_touches_a_file_that_leaves_flash_waits_until_it_has() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    open(&mut w, 2);
    let file = w.open[0][&0].expect("it is open");
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    while !w.agents[0].overlay.sharing.holds_back(file) {
        ranks::step(&mut w, 2, false);
        w.deliver_to_member();
    }
    assert_eq!(extents(&w), [1, 0]);
    ranks::begin_write(&mut w, 0, 0, A, false);
    ranks::begin_other(&mut w, 1, Kind::Read, 0, A);
    for _ in 0..20 {
        ranks::step(&mut w, 0, false);
        ranks::step(&mut w, 1, false);
    }
    assert!(w.ranks.iter().take(3).all(Rank::is_busy), "all wait");
    assert!(w.agents[0].memory.view().slots.iter().take(2).all(|slot| slot.cheap_write().is_none()));
    w.quiesce();
    assert_eq!(extents(&w), [0, 0]);
    no_violation(&w);
}

#[test]
fn the_next_agent_of_a_node_gives_up_what_the_one_before_had_before_another_reads_it() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    open(&mut w, 2);
    w.at = 0;
    w.kill_agent();
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    for _ in 0..200 {
        ranks::step(&mut w, 2, false);
        w.deliver_to_member();
    }
    assert!(w.ranks[2].is_busy(), "nobody else can say what the file holds");
    // Its threads go on meanwhile as far as they need no agent.
    ranks::begin_write(&mut w, 0, 0, Range::new(GRANULE_BYTES, 4096), false);
    (0..20).for_each(|_| ranks::step(&mut w, 0, false));
    assert!(!w.ranks[0].is_busy());
    w.at = 0;
    w.restart();
    w.quiesce();
    assert_eq!(extents(&w), [0, 0]);
    no_violation(&w);
}
