//! Files that programs on two nodes use: threads 0 and 1 are on the first, 2 and 3 on the second.

use headstart_cluster::FileId;
use headstart_protocol::shared::Shared;

use super::*;
use crate::output::Output;
use crate::overlay::Overlay;

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
        write_of(&mut w, rank, A, true);
        assert_eq!(extents(&w), [0, 0]);
        read_of(&mut w, 2 - rank, A);
    }
    assert_eq!((extents(&w), w.agents[0].overlay.files_shared()), ([0, 0], 1));
    no_violation(&w);
}

/// How many questions for flash the agents of the two have refused.
fn refused(w: &World) -> [u64; 2] {
    [0, 1].map(|at| super::left_alone::refused(w, at))
}

/// Whether threads of a node see that nothing of the first file comes to flash.
fn is_shown(w: &World, node: usize) -> bool {
    let file = w.open[node][&0].expect("it is open");
    w.agents[node].memory.files[file as usize].is_left_alone()
}

#[test]
fn writes_of_a_file_that_two_nodes_use_ask_nobody_for_flash() {
    let mut w = nodes();
    // With room in hand for more.
    write_of(&mut w, 0, Range::new(0, 100), true);
    open(&mut w, 2);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    while !w.agents[0].overlay.sharing.holds_back(w.open[0][&0].expect("it is open")) {
        ranks::step(&mut w, 2, false);
        w.deliver_to_member();
    }
    assert!(is_shown(&w, 0), "from when it begins to leave");
    w.quiesce();
    assert!(w.slot(0).slab(w.open[0][&0].unwrap(), Range::new(4096, 4096)).is_some());
    assert!(is_shown(&w, 0) && is_shown(&w, 1));
    for block in 0..8 {
        let range = Range::new(block * 4096, 4096);
        for rank in [0, 2] {
            write_of(&mut w, rank, range, true);
        }
    }
    assert_eq!((extents(&w), refused(&w)), ([0, 0], [0, 0]));
    no_violation(&w);
}

#[test]
fn a_node_that_is_told_a_file_is_anothers_shows_it_with_that() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    open(&mut w, 2);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    // Without a look at the view.
    while w.ranks[2].is_busy() {
        ranks::step(&mut w, 2, false);
        w.deliver_to_member();
        w.at = 0;
        if !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
        w.poll();
    }
    assert!(is_shown(&w, 1));
    no_violation(&w);
}

/// A file that has no owner, and a write that waits for flash for it in vain.
fn in_vain(w: &mut World) {
    read_of(w, 0, A);
    ranks::begin_write(w, 0, 0, A, true);
    while w.ranks[0].is_busy() {
        ranks::step(w, 0, false);
        w.at = 0;
        w.poll();
    }
    assert!(is_shown(w, 0));
    assert_eq!(refused(w), [1, 0]);
}

#[test]
fn while_nobody_says_whose_a_file_is_one_write_waits_for_flash_until_the_next_look_at_the_view() {
    let mut w = nodes();
    in_vain(&mut w);
    for _ in 0..3 {
        ranks::begin_write(&mut w, 0, 0, A, true);
        while w.ranks[0].is_busy() {
            ranks::step(&mut w, 0, false);
        }
    }
    assert_eq!((refused(&w), extents(&w)), ([1, 0], [0, 0]));
    w.at = 0;
    w.look();
    assert!(!is_shown(&w, 0));
    no_violation(&w);
}

#[test]
fn a_file_that_comes_to_be_alone_is_absorbed_by_threads_that_were_refused_before() {
    let mut w = nodes();
    in_vain(&mut w);
    while !w.agents[0].overlay.sharing.is_alone(w.open[0][&0].expect("it is open")) {
        w.deliver_to_member();
    }
    assert!(!is_shown(&w, 0));
    write_of(&mut w, 0, A, true);
    assert_eq!(extents(&w), [1, 0]);
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

/// Has the first node's agent do something.
fn at_first(w: &mut World, act: impl FnOnce(&mut Overlay, Shared<'_>)) {
    w.at = 0;
    let agent = &mut w.agents[0];
    act(&mut agent.overlay, agent.memory.view());
    w.carry_out();
}

#[test]
fn bytes_of_a_file_that_another_node_removed_are_written_back_for_who_has_it_open_there() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    open(&mut w, 2);
    ranks::begin_other(&mut w, 0, Kind::Close, 0, Range::default());
    w.quiesce();
    assert_eq!(extents(&w), [1, 0]);
    let inode = w.inodes[0].identity.inode;
    at_first(&mut w, |overlay, shared| overlay.unlinked_elsewhere(shared, FileId(inode), |_| false));
    w.quiesce();
    assert_eq!(extents(&w), [0, 0], "its flash is free");
    assert!(matches!(w.inodes[0].store.read(A)[..], [(_, Byte::Written { .. })]));
    read_of(&mut w, 2, A);
    no_violation(&w);
}

#[test]
fn the_next_agent_finds_a_file_where_another_node_moved_it() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    let (file, identity) = (w.open[0][&0].expect("it is open"), w.inodes[0].identity);
    let path_now = |w: &World| w.agents[0].overlay.path(file).map(<[u8]>::to_vec);
    assert_eq!(w.agents[0].overlay.named(FileId(identity.inode)), Some(file));
    for (path, moved) in [(&b"/slow/d/y"[..], false), (b"/slow/e/y", true)] {
        at_first(&mut w, |overlay, shared| match moved {
            true => overlay.renamed_elsewhere(shared, b"/slow/d", b"/slow/e", false),
            false => overlay.is_at(shared, file, path),
        });
        w.kill_agent();
        w.restart();
        assert_eq!(path_now(&w).as_deref(), Some(path), "the journal says so");
    }
    w.quiesce();
    no_violation(&w);
}

#[test]
fn nothing_comes_to_flash_before_an_agent_that_begins_knows_what_lives_on_other_nodes() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    at_first(&mut w, |overlay, shared| overlay.await_others(shared, true));
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    (0..40).for_each(|_| ranks::step(&mut w, 0, false));
    assert_eq!(extents(&w), [1, 0]);
    at_first(&mut w, |overlay, shared| overlay.await_others(shared, false));
    w.quiesce();
    write_of(&mut w, 0, Range::new(8192, 4096), true);
    assert!(extents(&w)[0] > 1 || w.agents[0].overlay.mapped_bytes() > 4096, "it comes again");
    no_violation(&w);
}

#[test]
fn what_cannot_leave_flash_fails_those_who_ask_for_it_until_it_can() {
    let mut w = nodes();
    write_of(&mut w, 0, A, true);
    open(&mut w, 2);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    let order = loop {
        ranks::step(&mut w, 2, false);
        w.deliver_to_member();
        w.at = 0;
        w.poll();
        match w.agents[0].tasks.pop() {
            Some(Task::Copy { order, .. }) => break order,
            Some(other) => w.agents[0].tasks.push(other),
            None => {}
        }
    };
    let file = FileId(w.inodes[0].identity.inode);
    assert_eq!(w.agents[0].overlay.take_stuck(), [], "it is tried");
    let stale = 116;
    at_first(&mut w, |overlay, shared| overlay.on_copy_done(shared, order.id, Err(stale)));
    (0..5000).for_each(|_| w.step(false));
    assert!(w.ranks[2].is_busy(), "nobody has told the other node");
    assert_eq!(w.agents[0].overlay.take_stuck(), [(file, Some(stale))]);
    assert_eq!(w.agents[0].overlay.take_stuck(), [], "it is told once");
    assert_eq!(w.agents[0].overlay.stuck_files(), [(file, stale)], "and a new member hears of it");
    let seat = w.agents[1].overlay.view().unwrap().seats()[0];
    let second = &mut w.agents[1];
    second.overlay.stuck_elsewhere(second.memory.view(), seat, file, Some(stale));
    let outputs = second.overlay.take_outputs();
    let [Output::Reply(_, Answer::Error { errno, .. })] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(*errno, stale, "its thread waits no more");
    second.overlay.stuck_elsewhere(second.memory.view(), seat, file, None);
    at_first(&mut w, |overlay, _| overlay.drain(true));
    (0..5000).for_each(|_| w.step(false));
    assert_eq!((extents(&w), w.agents[0].overlay.take_stuck()), ([0, 0], vec![(file, None)]));
    assert_eq!(w.agents[0].overlay.stuck_files(), []);
    no_violation(&w);
}

#[test]
fn a_node_whose_numbers_for_data_files_are_used_up_writes_to_the_disk_and_takes_none_of_another_node() {
    let mut w = World::with(1, Settings { data_files_end: 2, ..quiet(4096) });
    ranks::begin_other(&mut w, 0, Kind::Open(true), 0, Range::default());
    w.quiesce();
    ranks::begin_other(&mut w, 0, Kind::Open(true), 1, Range::default());
    w.quiesce();
    ranks::begin_write(&mut w, 0, 0, A, true);
    w.quiesce();
    assert!(w.agents[0].overlay.has_no_data_file_left() && w.agents[0].data.contains_key(&1));
    ranks::begin_write(&mut w, 0, 1, A, true);
    w.quiesce();
    assert!(!w.agents[0].data.contains_key(&2), "it is the next node's");
    ranks::begin_write(&mut w, 0, 0, Range::new(4096, 4096), true);
    w.quiesce();
    assert!(w.agents[0].overlay.mapped_bytes() > 4096, "who has one goes on");
    for inode in [0, 1] {
        ranks::begin_other(&mut w, 0, Kind::Read, inode, A);
        w.quiesce();
    }
    no_violation(&w);
}
