//! Commits without an answer, each test for a rule of what is pushed, and when.
//!
//! A kill between a thread's ticket and its entry cannot be forced here, as a push is one step; it leaves no entry,
//! and the protocol's own tests tear a push at any store.

use std::sync::atomic::Ordering::SeqCst;

use super::*;
use headstart_protocol::ring::{CLOSING, ENTRIES_MAX};
use headstart_protocol::shared::word_of;
use headstart_units::MIB;

/// How far an agent that is about to die carries out what a verb left.
const BEFORE_APPEND: u64 = 0;
const BEFORE_TAILS: u64 = 1;
const BEFORE_OUTPUTS: u64 = 2;

fn block(number: u64) -> Range {
    Range::new(number * 4096, 4096)
}

/// A world whose file is 16 pages long, with room for slabs that are never used up, and the first granule open.
fn open_world() -> World {
    let mut w = World::with(1, quiet(MIB));
    w.whims.deaf = true;
    open_where_closed(&mut w);
    write(&mut w, 2, Range::new(0, 16 * 4096), false);
    for rank in 0..4 {
        write(&mut w, rank, A, true); // everybody holds a slab
    }
    assert!(is_open(&w, A));
    w
}

fn open_where_closed(w: &mut World) {
    for rank in [0, 2] {
        if !w.open[rank / 2].contains_key(&0) {
            ranks::begin_other(w, rank, Kind::Open(true), 0, Range::default());
            w.quiesce();
        }
    }
}

fn open_word(w: &World, range: Range) -> u64 {
    w.agents[0].memory.view().granules[word_of(range.offset)].open.load(SeqCst)
}

fn is_open(w: &World, range: Range) -> bool {
    let word = open_word(w, range);
    word != 0 && word & CLOSING == 0
}

/// Entries of the rank's ring that the agent has not taken out for good.
fn waiting(w: &World, rank: usize) -> u64 {
    let ring = &w.agents[0].memory.rings[w.ranks[rank].slot];
    ring.head.0.load(SeqCst) - ring.tail.0.load(SeqCst)
}

/// Steps of a thread until it has reached a point, the runtime standing still.
fn step_until(w: &mut World, rank: usize, reached: impl Fn(&World) -> bool) {
    for _ in 0..200 {
        if reached(w) {
            return;
        }
        ranks::step(w, rank, false);
    }
    panic!("rank {rank} does not get there: {:?}", w.ranks[rank]);
}

fn step_alone(w: &mut World, rank: usize) -> bool {
    (0..60).for_each(|_| ranks::step(w, rank, false));
    !w.ranks[rank].is_busy()
}

/// A write that ends without a question.
fn push(w: &mut World, rank: usize, range: Range) {
    let (pushes, seq) = (w.pushes, w.slot(rank).seq.load(SeqCst));
    ranks::begin_write(w, rank, 0, range, true);
    step_until(w, rank, |w| !w.ranks[rank].is_busy());
    assert_eq!((w.pushes, w.slot(rank).seq.load(SeqCst)), (pushes + 1, seq + 1), "it asked for nothing");
}

/// The thread has pushed its commit, and has not looked whether that counts.
fn pushed(w: &mut World, rank: usize, range: Range) {
    let pushes = w.pushes;
    ranks::begin_write(w, rank, 0, range, true);
    step_until(w, rank, |w| w.pushes > pushes);
}

/// The thread has written its slab, has seen that the granule is open, and has not pushed.
fn about_to_push(w: &mut World, rank: usize, range: Range) {
    let pushes = w.pushes;
    ranks::begin_write(w, rank, 0, range, true);
    // A look at the slab, the bytes, what came of them.
    (0..3).for_each(|_| ranks::step(w, rank, false));
    assert!(w.pushes == pushes && w.ranks[rank].pending.is_none(), "{:?}", w.ranks[rank]);
}

/// It pushes in vain, and asks.
fn pushes_in_vain(w: &mut World, rank: usize) {
    let pushes = w.pushes;
    (0..2).for_each(|_| ranks::step(w, rank, false));
    let asked = w.ranks[rank].pending.is_some() || w.ranks[rank].answer.is_some();
    assert!(w.pushes == pushes + 1 && asked, "{:?}", w.ranks[rank]);
}

fn read(w: &mut World, rank: usize, range: Range) {
    other(w, rank, Kind::Read, range);
    no_violation(w);
}

/// Everything is right, now, after a death of the agent, and on the disk.
fn all_right(w: &mut World, range: Range) {
    no_violation(w);
    w.whims.deaf = false;
    w.quiesce();
    read(w, 3, range);
    w.kill_agent();
    w.restart();
    read(w, 1, range);
    drain(w);
    assert_eq!(w.agents[0].overlay.dirty_bytes(), 0);
    w.finish();
    no_violation(w);
}

fn restart(w: &mut World) {
    w.kill_agent();
    w.restart();
}

/// A poll in the middle of which the agent dies.
fn die_in_poll(w: &mut World, at: u64) {
    w.agents[0].dying = Some(at);
    w.poll();
    assert!(w.agents[0].is_dead);
}

/// Open where the first granule is, of a file that is long enough for the other with its word.
fn two_granules() -> World {
    let mut w = open_world();
    write(&mut w, 2, FAR, false);
    other(&mut w, 2, Kind::Truncate, Range::new(FAR.end() + 8192, u64::MAX)); // now the agent knows the size
    write(&mut w, 0, A, true);
    assert!(is_open(&w, FAR) && w.agents[0].memory.view().all_clear(0, FAR));
    w
}

#[test]
fn nothing_is_pushed_where_the_bit_is_clear_though_another_granule_opened_the_word() {
    let mut w = two_granules();
    let pushes = w.pushes;
    ranks::begin_write(&mut w, 0, 0, FAR, true);
    (0..3).for_each(|_| ranks::step(&mut w, 0, false));
    // Meanwhile the disk is read and written without a question.
    for absorbs in [None, Some(false)] {
        match absorbs {
            None => ranks::begin_other(&mut w, 2, Kind::Read, 0, FAR),
            Some(absorbs) => ranks::begin_write(&mut w, 2, 0, FAR, absorbs),
        }
        assert!(step_alone(&mut w, 2));
    }
    run(&mut w, 0);
    assert_eq!(w.pushes, pushes, "it was asked for");
    read(&mut w, 2, FAR);
    write(&mut w, 0, Range::new(FAR.end(), 4096), true);
    assert_eq!(w.pushes, pushes, "the first closed the word");
    // What a cheap read hinted at is fetched meanwhile.
    write(&mut w, 0, Range::new(FAR.end(), 4096), true);
    assert!(is_open(&w, FAR));
    push(&mut w, 2, FAR);
    push(&mut w, 3, A);
    push(&mut w, 0, Range::new(FAR.end(), 4096));
    read(&mut w, 0, Range::new(FAR.offset, 8192));
    all_right(&mut w, FAR);
}

#[test]
fn nothing_is_pushed_where_a_bit_is_set_before_everybody_has_left_the_disk() {
    let mut w = two_granules();
    ranks::begin_write(&mut w, 1, 0, FAR, false);
    (0..2).for_each(|_| ranks::step(&mut w, 1, false)); // it has seen the bit clear
    ranks::begin_write(&mut w, 0, 0, FAR, true);
    assert!(!step_alone(&mut w, 0), "the commit waits for it");
    write(&mut w, 3, A, true); // this does not
    write(&mut w, 3, A, true);
    assert!(!is_open(&w, FAR) && !w.agents[0].memory.view().all_clear(0, FAR));
    let pushes = w.pushes;
    ranks::begin_write(&mut w, 2, 0, FAR, true);
    assert!(!step_alone(&mut w, 2) && w.pushes == pushes, "so does this");
    (0..2).for_each(|_| ranks::step(&mut w, 3, false));
    [1, 0, 2].into_iter().for_each(|rank| run(&mut w, rank));
    read(&mut w, 3, FAR);
    all_right(&mut w, FAR);
}

#[test]
fn who_finds_its_ring_full_asks_and_all_that_it_pushed_is_there() {
    let mut w = open_world();
    let small = |at: u64| Range::new(at * 300 % 60_000, 512);
    for at in 0..ENTRIES_MAX as u64 {
        push(&mut w, 0, small(at));
    }
    assert_eq!(waiting(&w, 0), ENTRIES_MAX as u64);
    let (pushes, applied) = (w.pushes, w.agents[0].overlay.counters().pushed_commits_total);
    ranks::begin_write(&mut w, 0, 0, small(ENTRIES_MAX as u64), true);
    assert!(step_alone(&mut w, 0) && w.pushes == pushes, "it asks");
    assert_eq!(w.agents[0].overlay.counters().pushed_commits_total - applied, ENTRIES_MAX as u64);
    assert_eq!((waiting(&w, 0), w.agents[0].overlay.counters().pushes_passed_over_total), (0, 0));
    push(&mut w, 0, A);
    read(&mut w, 2, Range::new(0, 16 * 4096));
    all_right(&mut w, Range::new(0, 16 * 4096));
}

#[test]
fn while_no_agent_runs_threads_push_until_their_rings_are_full_and_then_wait() {
    let mut w = open_world();
    w.kill_agent();
    for at in 0..ENTRIES_MAX as u64 {
        push(&mut w, 0, block(at % 16));
        if at % 2 == 0 {
            push(&mut w, 3, block(at % 16));
        }
    }
    ranks::begin_write(&mut w, 0, 0, block(3), true);
    assert!(!step_alone(&mut w, 0), "it waits");
    w.restart();
    run(&mut w, 0);
    read(&mut w, 2, Range::new(0, 16 * 4096));
    all_right(&mut w, Range::new(0, 16 * 4096));
}

#[test]
fn who_has_used_up_its_slabs_asks_for_one_and_pushes_on() {
    let mut w = world(); // slabs of a page
    write(&mut w, 2, Range::new(0, 16 * 4096), false);
    for at in 0..12 {
        write(&mut w, 0, block(at % 3), true);
        read(&mut w, 2, block(at % 3));
    }
    assert!(w.pushes > 0, "{}", w.pushes);
    assert_eq!(w.agents[0].overlay.counters().pushes_passed_over_total, 0);
    all_right(&mut w, A);
}

#[test]
fn what_was_pushed_survives_an_agent_that_dies_in_the_middle_of_taking_it() {
    for at in [BEFORE_APPEND, BEFORE_TAILS, BEFORE_OUTPUTS] {
        for newer in [0, 2] {
            let mut w = open_world();
            push(&mut w, 0, A);
            push(&mut w, 3, block(1));
            die_in_poll(&mut w, at);
            assert_eq!(waiting(&w, 0), u64::from(at < BEFORE_OUTPUTS), "{at}");
            push(&mut w, newer, A); // the word is open
            w.restart();
            read(&mut w, 3, Range::new(0, 8192));
            all_right(&mut w, Range::new(0, 8192));
        }
    }
}

#[test]
fn what_the_journal_holds_is_not_applied_again_over_what_came_later() {
    for ranks in [[0, 2], [2, 0]] {
        let mut w = open_world();
        ranks.into_iter().for_each(|rank| push(&mut w, rank, A));
        die_in_poll(&mut w, BEFORE_TAILS);
        w.restart();
        assert_eq!(w.agents[0].overlay.counters().pushed_commits_total, 0, "all of it was there");
        assert!((0..4).all(|rank| waiting(&w, rank) == 0));
        read(&mut w, 3, A);
        all_right(&mut w, A);
    }
}

#[test]
fn what_is_taken_out_twice_after_its_bytes_were_written_anew_on_the_disk_stays_gone() {
    // A direct write drops what was pushed; the tail of that was never stored.
    let mut w = open_world();
    push(&mut w, 0, A);
    w.agents[0].dying = Some(BEFORE_TAILS);
    ranks::begin_write(&mut w, 2, 0, A, false);
    (0..5).for_each(|_| ranks::step(&mut w, 2, false));
    assert!(w.agents[0].is_dead && waiting(&w, 0) == 1);
    w.restart();
    run(&mut w, 2);
    read(&mut w, 3, A);
    all_right(&mut w, A);
}

#[test]
fn what_was_pushed_survives_an_agent_that_dies_while_it_closes_the_granule() {
    for at in [BEFORE_APPEND, BEFORE_TAILS, BEFORE_OUTPUTS] {
        let mut w = open_world();
        push(&mut w, 0, A);
        about_to_push(&mut w, 1, block(1));
        w.agents[0].dying = Some(at);
        ranks::begin_write(&mut w, 2, 0, block(2), false);
        (0..5).for_each(|_| ranks::step(&mut w, 2, false));
        assert!(w.agents[0].is_dead && !is_open(&w, A));
        pushes_in_vain(&mut w, 1);
        w.restart();
        read(&mut w, 3, A);
        run(&mut w, 1);
        run(&mut w, 2);
        all_right(&mut w, Range::new(0, 3 * 4096));
    }
}

#[test]
fn an_agent_that_dies_right_after_it_said_that_it_closes_a_granule_loses_nothing_that_was_pushed_there() {
    let mut w = open_world();
    push(&mut w, 0, A);
    pushed(&mut w, 1, A);
    about_to_push(&mut w, 2, block(1));
    w.agents[0].memory.view().begin_closing(0, word_of(0));
    w.kill_agent();
    ranks::step(&mut w, 1, false);
    assert!(w.ranks[1].pending.is_some(), "it asks whether that counts");
    pushes_in_vain(&mut w, 2);
    w.restart();
    read(&mut w, 3, A);
    assert!(!is_open(&w, A) && open_word(&w, A) == 0);
    run(&mut w, 1);
    run(&mut w, 2);
    all_right(&mut w, Range::new(0, 8192));
}

#[test]
fn a_commit_pushed_by_a_thread_that_is_killed_before_it_looks_is_there_for_good_or_not_at_all() {
    for (marked, agent_dies) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut w = open_world();
        pushed(&mut w, 0, A);
        let slot = w.ranks[0].slot;
        if !marked {
            // As if it was killed before it could.
            w.agents[0].memory.marks.words[slot / 64].fetch_and(!(1 << (slot % 64)), SeqCst);
        }
        w.agents[0].dying = agent_dies.then_some(BEFORE_APPEND);
        w.kill(0);
        if agent_dies {
            w.restart();
        }
        assert_eq!(
            w.agents[0].memory.rings[slot].head.0.load(SeqCst),
            w.agents[0].memory.rings[slot].tail.0.load(SeqCst)
        );
        (0..3).for_each(|_| read(&mut w, 2, A));
        open_where_closed(&mut w);
        // Whoever has the slot now finds nothing of it.
        write(&mut w, 0, block(1), true);
        read(&mut w, 2, A);
        all_right(&mut w, A);
    }
}

#[test]
fn what_a_thread_pushed_before_it_ended_survives_an_agent_that_dies_before_the_append() {
    for at in [Some(BEFORE_APPEND), Some(BEFORE_TAILS), Some(BEFORE_OUTPUTS), None] {
        let mut w = open_world();
        push(&mut w, 0, A);
        push(&mut w, 1, block(1));
        push(&mut w, 0, block(2));
        match at {
            Some(at) => w.agents[0].dying = Some(at),
            None => w.kill_agent(),
        }
        w.kill(0);
        assert!(w.agents[0].is_dead);
        push(&mut w, 2, block(2));
        w.restart();
        read(&mut w, 2, Range::new(0, 3 * 4096));
        open_where_closed(&mut w);
        write(&mut w, 0, block(3), true);
        all_right(&mut w, Range::new(0, 4 * 4096));
    }
}

#[test]
fn a_slot_given_to_another_thread_brings_nothing_of_its_last_ones_ring() {
    for pushes in [0, 5, ENTRIES_MAX as u64] {
        let mut w = open_world();
        let slot = w.ranks[0].slot;
        for at in 0..pushes {
            push(&mut w, 0, block(at % 16));
        }
        w.kill(0);
        assert_eq!(w.ranks[0].slot, slot, "another thread has it");
        assert_eq!(waiting(&w, 0), 0);
        read(&mut w, 2, Range::new(0, 16 * 4096));
        open_where_closed(&mut w);
        for at in 0..ENTRIES_MAX as u64 + 3 {
            ranks::begin_write(&mut w, 0, 0, block(at % 5), true);
            assert!(step_alone(&mut w, 0));
        }
        assert_eq!(w.agents[0].overlay.counters().pushes_passed_over_total, 0);
        read(&mut w, 2, Range::new(0, 16 * 4096));
        all_right(&mut w, Range::new(0, 16 * 4096));
    }
}

#[test]
fn a_read_and_a_sync_find_what_was_pushed_before_they_were_asked_for() {
    let mut w = open_world();
    push(&mut w, 0, A);
    ranks::begin_other(&mut w, 2, Kind::Read, 0, A);
    assert!(step_alone(&mut w, 2));
    no_violation(&w);
    push(&mut w, 0, A);
    other(&mut w, 2, Kind::Fsync, A);
    w.crash(true);
    no_violation(&w);
}

#[test]
fn a_push_counts_before_a_direct_write_is_granted_or_not_at_all() {
    let mut w = open_world();
    push(&mut w, 0, A);
    about_to_push(&mut w, 1, A);
    ranks::begin_write(&mut w, 2, 0, A, false);
    step_until(&mut w, 2, |w| w.ranks[2].answer == Some(Answer::Go));
    pushes_in_vain(&mut w, 1);
    assert!(!step_alone(&mut w, 1), "the commit waits for the direct write");
    run(&mut w, 2);
    run(&mut w, 1);
    read(&mut w, 3, A);
    all_right(&mut w, A);
}

#[test]
fn no_granule_is_opened_while_a_truncation_of_the_file_waits() {
    for kind in [Kind::Truncate, Kind::Rearrange] {
        let mut w = open_world();
        about_to_push(&mut w, 0, block(1));
        push(&mut w, 1, block(2));
        w.agents[0].overlay.drain(true);
        w.poll(); // a write-back is under way, and stands still
        w.agents[0].overlay.drain(false);
        ranks::begin_other(&mut w, 2, kind, 0, Range::new(4096, u64::MAX));
        (0..3).for_each(|_| ranks::step(&mut w, 2, false));
        assert!(w.ranks[2].answer.is_none(), "it waits for the write-back");
        assert!(!is_open(&w, A));
        pushes_in_vain(&mut w, 0);
        for _ in 0..2 {
            ranks::begin_write(&mut w, 3, 0, A, true);
            assert!(step_alone(&mut w, 3), "it lies below");
            assert!(!is_open(&w, A), "{kind:?}: what is committed meanwhile opens nothing");
        }
        [2, 0].into_iter().for_each(|rank| run(&mut w, rank));
        read(&mut w, 1, Range::new(0, 3 * 4096));
        all_right(&mut w, Range::new(0, 3 * 4096));
    }
}

/// Somebody has a lease in the granule, or waits for one, or a fetch is under way there: not where A is.
/// A rank that starves reads the slow file under a lease, and does not come to an end.
fn lease_on_the_disk(w: &mut World, rank: usize, Range { offset, length }: Range) {
    w.request(rank, &Request::Read { file: 0, offset, length, leased: true, in_order: false });
    assert!(matches!(w.ranks[rank].answer.take(), Some(Answer::Disk { .. })));
    assert!(w.slot(rank).holds_slow_read());
}

/// It does.
fn end_of_lease(w: &mut World, rank: usize) {
    w.slot(rank).release_read();
    w.ranks[rank].pending = None;
}

fn occupied(w: &mut World, how: usize) {
    match how {
        0 => lease_on_the_disk(w, 2, block(9)),
        1 => {
            ranks::begin_write(w, 2, 0, block(9), false);
            step_until(w, 2, |w| w.ranks[2].answer == Some(Answer::Go));
        }
        2 => {
            w.agents[0].memory.view().hint(w.ranks[2].slot as u32, 0, block(9), 1 << 30, FetchTurn::Soon);
            w.poll();
            assert!(!w.agents[0].tasks.is_empty());
        }
        _ => {
            push(w, 0, block(9));
            w.agents[0].overlay.drain(true);
            w.poll(); // a write-back is under way, and stands still
            w.agents[0].overlay.drain(false);
            ranks::begin_write(w, 2, 0, block(9), false);
            (0..3).for_each(|_| ranks::step(w, 2, false));
            assert!(w.ranks[2].answer.is_none());
            let shared = w.agents[0].memory.view();
            w.agents[0].overlay.close_granules(shared, 0, A);
            w.carry_out();
        }
    }
}

#[test]
fn no_granule_is_opened_where_somebody_has_a_lease_or_waits_for_one_or_a_fetch_is_under_way() {
    for how in 0..4 {
        let mut w = open_world();
        occupied(&mut w, how);
        for _ in 0..2 {
            ranks::begin_write(&mut w, 0, 0, A, true);
            assert!(step_alone(&mut w, 0), "{how}: nothing is where it lies");
            assert!(!is_open(&w, A), "{how}");
        }
        if how == 0 {
            end_of_lease(&mut w, 2);
        }
        run(&mut w, 2);
        w.quiesce();
        write(&mut w, 0, A, true);
        write(&mut w, 0, A, true);
        assert!(is_open(&w, A), "{how}");
        all_right(&mut w, Range::new(0, 16 * 4096));
    }
}

#[test]
fn no_bit_clears_while_another_granule_keeps_its_word_open() {
    let mut w = two_granules();
    write(&mut w, 0, FAR, true);
    write(&mut w, 0, FAR, false); // drops it, and closes the word
    write(&mut w, 0, A, true); // opens it
    about_to_push(&mut w, 1, FAR);
    w.agents[0].overlay.request_barrier();
    w.poll();
    while !w.agents[0].tasks.is_empty() {
        w.step_task(0);
    }
    w.poll();
    let is_set = |w: &World| !w.agents[0].memory.view().all_clear(0, FAR);
    assert!(is_open(&w, FAR) && is_set(&w), "what is pushed there would not be seen");
    run(&mut w, 1);
    read(&mut w, 2, FAR);
    all_right(&mut w, FAR);
}

#[test]
fn a_push_counts_before_a_fetch_begins_in_its_granule_or_not_at_all() {
    let mut w = open_world();
    drain(&mut w);
    about_to_push(&mut w, 0, block(9));
    assert!(is_open(&w, A));
    w.agents[0].memory.view().hint(w.ranks[2].slot as u32, 0, Range::new(8 * 4096, 8192), 1 << 30, FetchTurn::Soon);
    w.poll();
    let fetches = |w: &World| {
        w.agents[0].tasks.iter().any(|task| matches!(task, Task::Copy { order, .. } if order.kind == CopyKind::Fetch))
    };
    assert!(fetches(&w) && !is_open(&w, A));
    pushes_in_vain(&mut w, 0);
    run(&mut w, 0);
    w.quiesce();
    read(&mut w, 2, Range::new(8 * 4096, 8192));
    all_right(&mut w, Range::new(8 * 4096, 8192));
}

#[test]
fn nothing_is_pushed_under_a_lease_on_the_disk() {
    let mut w = open_world();
    about_to_push(&mut w, 0, block(9));
    lease_on_the_disk(&mut w, 2, block(9));
    assert!(!is_open(&w, A));
    pushes_in_vain(&mut w, 0);
    end_of_lease(&mut w, 2);
    run(&mut w, 0);
    read(&mut w, 3, block(9));
    all_right(&mut w, block(9));
}

#[test]
fn a_granule_of_which_nothing_is_left_on_flash_is_closed_before_its_bit_clears() {
    let mut w = open_world();
    push(&mut w, 0, A);
    drain(&mut w);
    about_to_push(&mut w, 0, block(1));
    w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
    w.agents[0].overlay.request_barrier();
    for _ in 0..20 {
        w.poll();
        while !w.agents[0].tasks.is_empty() {
            w.step_task(0);
        }
    }
    assert_eq!((w.agents[0].overlay.mapped_bytes(), open_word(&w, A)), (0, 0));
    assert!(w.agents[0].memory.view().all_clear(0, A));
    pushes_in_vain(&mut w, 0);
    run(&mut w, 0);
    read(&mut w, 2, Range::new(0, 8192));
    all_right(&mut w, Range::new(0, 8192));
}

#[test]
fn nothing_comes_to_flash_by_a_push_of_a_file_that_is_left_alone() {
    for strangers in [false, true] {
        let mut w = open_world();
        push(&mut w, 0, A);
        about_to_push(&mut w, 1, block(1));
        if strangers {
            w.agents[0].overlay.keep_off(w.agents[0].memory.view(), true);
            w.carry_out();
        } else {
            other(&mut w, 2, Kind::Bypass(true), Range::default());
        }
        assert!(!is_open(&w, A));
        pushes_in_vain(&mut w, 1);
        run(&mut w, 1);
        assert!(!w.agents[0].overlay.files[&0].map.touches(block(1)), "strangers {strangers}");
        write(&mut w, 0, block(2), true);
        assert!(!w.agents[0].overlay.files[&0].map.touches(block(2)) && !is_open(&w, A));
        read(&mut w, 3, Range::new(0, 3 * 4096));
        no_violation(&w);
    }
}

#[test]
fn of_pushes_to_one_block_the_last_one_stays_whoever_made_it() {
    for order in [vec![0, 2, 0], vec![2, 0, 2, 0], vec![3, 2, 1, 0], vec![0, 1, 2, 3], vec![2, 0, 0, 3, 1, 0, 2]] {
        for dies in [false, true] {
            let mut w = open_world();
            order.iter().for_each(|rank| push(&mut w, *rank, A));
            if dies {
                restart(&mut w);
            }
            read(&mut w, 1, A);
            all_right(&mut w, A);
        }
    }
}

#[test]
fn what_was_pushed_under_a_number_of_before_is_passed_over_though_the_word_is_open_again() {
    let mut w = open_world();
    about_to_push(&mut w, 0, block(1));
    write(&mut w, 2, A, false); // closes it
    write(&mut w, 2, A, true); // opens it
    assert!(is_open(&w, A));
    ranks::step(&mut w, 0, false); // pushes
    w.poll();
    assert_eq!(w.agents[0].overlay.counters().pushes_passed_over_total, 1);
    ranks::step(&mut w, 0, false); // asks
    run(&mut w, 0);
    read(&mut w, 2, block(1));
    all_right(&mut w, block(1));
}

#[test]
fn a_slab_that_nobody_asked_for_is_seen_once_all_that_came_before_is_carried_out() {
    let mut w = world(); // slabs of a page
    write(&mut w, 2, Range::new(0, 16 * 4096), false);
    write(&mut w, 0, A, true);
    push(&mut w, 0, A);
    let shown = |w: &World| w.slot(0).slabs.iter().map(|slab| slab.read().length).sum::<u64>();
    let before = shown(&w);
    let (overlay, memory) = {
        let agent = &mut w.agents[0];
        (&mut agent.overlay, &agent.memory)
    };
    overlay.poll(memory.view());
    assert!(w.agents[0].overlay.slab_pages(0) > 0 && shown(&w) <= before, "only the runtime shows it");
    w.carry_out();
    assert_eq!(shown(&w), w.agents[0].overlay.slab_pages(0) * 4096);
    push(&mut w, 0, A);
    all_right(&mut w, A);
}
