//! In which order truncations, calls that move bytes, and commits of one file go.

use super::*;

/// Ranks 0 and 2 are allowed to cut the file to these sizes, and then make their kernel calls and tell of them in an
/// order: the bits of `order` say whose call comes first, and whose end is told first.
fn overlapping(sizes: [u64; 2], order: u8) -> World {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 16384), true);
    let ranks = [0, 2];
    for (rank, size) in ranks.into_iter().zip(sizes) {
        begin_truncation(&mut w, rank, size);
        until_granted(&mut w, rank);
        ranks::step(&mut w, rank, false);
    }
    let (calls, ends) = (usize::from(order & 1), usize::from(order >> 1));
    for turn in [calls, 1 - calls] {
        ranks::step(&mut w, ranks[turn], false);
    }
    let last = sizes[1 - calls];
    assert_eq!(w.inodes[0].store.size(), last, "each has made its call");
    for turn in [ends, 1 - ends] {
        run(&mut w, ranks[turn]);
        known_size_is_safe(&w);
    }
    let known = w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed);
    assert_eq!(known, sizes[0].min(sizes[1]), "which of them came last nobody knows");
    assert_eq!(w.agents[0].overlay.files[&0].map.end(), known.min(16384));
    w
}

fn known_size_is_safe(w: &World) {
    let known = w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed);
    assert!(known <= w.inodes[0].store.size() && known == w.agents[0].overlay.files[&0].length.size());
}

const SIZES: [[u64; 2]; 4] = [[4096, 8192], [8192, 4096], [0, 1 << 30], [1 << 30, 8192]];

#[test]
fn truncations_overlap_and_the_file_is_known_to_be_as_long_as_the_shortest_whoever_comes_last() {
    for sizes in SIZES {
        for order in 0..4 {
            let mut w = overlapping(sizes, order);
            let size = w.inodes[0].store.size();
            // It is found out again as soon as somebody needs it.
            let behind = Range::new(size.min(1 << 20), 4096);
            write(&mut w, 0, behind, true);
            assert_eq!(w.inodes[0].store.size(), size.max(behind.end()));
            known_size_is_safe(&w);
            w.finish();
            no_violation(&w);
        }
    }
}

/// Three truncations are under way, to 4096, 8192 and 12288; the second one happens and ends, the third does not
/// happen. In the end the first one does, or does not, or its process dies.
#[test]
fn a_truncation_that_ends_beside_others_counts_and_what_they_may_cut_off_is_not_taken_for_the_size() {
    for (agent_dies, first) in [(false, "ends"), (true, "ends"), (false, "fails"), (true, "fails"), (false, "dies")] {
        let mut w = world();
        write(&mut w, 0, Range::new(0, 16384), true);
        for (rank, size) in [(0, 4096), (2, 8192), (3, 12288)] {
            w.request(rank, &Request::Truncate { file: 0, size });
            until_granted(&mut w, rank);
            assert_eq!(w.ranks[rank].answer.take(), Some(Answer::Go));
        }
        if agent_dies {
            w.kill_agent();
            w.restart();
            assert_eq!(w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed), 4096);
        }
        w.inodes[0].store.truncate(8192);
        for (rank, size, changed) in [(2, 8192, true), (3, 12288, false)] {
            w.request(rank, &Request::TruncateDone { file: 0, size, changed });
            assert_eq!(w.ranks[rank].answer.take(), Some(Answer::Done));
            known_size_is_safe(&w);
            assert_eq!(w.agents[0].overlay.files[&0].map.end(), 8192, "the first one's are still there");
            assert_eq!(w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed), 4096, "it may come any time");
            assert!(!w.agents[0].overlay.files[&0].length.is_extending());
        }
        let changed = first == "ends";
        if changed {
            w.inodes[0].store.truncate(4096);
        }
        if first == "dies" {
            w.kill(0);
        } else {
            w.request(0, &Request::TruncateDone { file: 0, size: 4096, changed });
        }
        w.quiesce();
        let end = if changed { 4096 } else { 8192 };
        let known = w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed);
        assert_eq!((w.agents[0].overlay.files[&0].map.end(), known), (end, end), "{first}");
        known_size_is_safe(&w);
        no_violation(&w);
    }
}

#[test]
fn what_a_living_truncation_may_cut_off_is_not_taken_for_the_size_when_another_s_thread_dies() {
    for (agent_dies, size) in [(false, 16384), (true, 16384), (false, 8192), (true, 8192), (false, 1 << 20)] {
        let mut w = world();
        write(&mut w, 2, Range::new(0, 16384), true);
        begin_truncation(&mut w, 0, size);
        begin_truncation(&mut w, 3, 4096);
        until_granted(&mut w, 3);
        assert!(w.ranks[0].answer.is_some());
        if agent_dies {
            w.kill_agent();
            w.restart();
            assert_eq!(w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed), 4096);
        }
        w.kill(0); // before its call
        assert_eq!(w.agents[0].overlay.files[&0].map.end(), 16384, "to {size}");
        assert_eq!(w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed), 4096);
        run(&mut w, 3);
        assert_eq!((w.inodes[0].store.size(), w.agents[0].overlay.files[&0].map.end()), (4096, 4096));
        known_size_is_safe(&w);
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_truncation_waits_for_bytes_that_are_committed_and_for_which_the_file_is_not_long_enough_yet() {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, Range::new(8192, 4096), true);
    until_it_waits(&mut w, 0);
    begin_truncation(&mut w, 3, 0);
    assert!(w.ranks[3].answer.is_none(), "they would be dropped, and the file made longer for them");
    (0..2).for_each(|_| w.step_task(0));
    assert!(w.ranks[0].answer.is_some() && w.ranks[3].answer.is_some());
    run(&mut w, 0);
    run(&mut w, 3);
    w.quiesce();
    assert_eq!((w.inodes[0].store.size(), w.agents[0].overlay.files[&0].map.end()), (0, 0));
    no_violation(&w);
}

/// The thread goes on until it waits for the agent.
fn until_it_waits(w: &mut World, rank: usize) {
    for _ in 0..10 {
        ranks::step(w, rank, false);
    }
    assert!(w.ranks[rank].is_busy(), "it waits");
}

fn begin_truncation(w: &mut World, rank: usize, size: u64) {
    ranks::begin_other(w, rank, Kind::Truncate, 0, Range::new(size, u64::MAX));
    ranks::step(w, rank, false);
}

/// A truncation waits for others, if not for long.
fn until_granted(w: &mut World, rank: usize) {
    for _ in 0..LONG {
        if w.ranks[rank].answer.is_none() {
            w.poll();
        }
    }
    assert!(w.ranks[rank].answer.is_some(), "nobody waits for ever for the other");
}

/// The file becomes longer once, if that has begun.
fn extend(w: &mut World) {
    for _ in 0..2 {
        let begun = w.agents[0].tasks.iter().position(|task| matches!(task, Task::Extend { .. }));
        begun.into_iter().for_each(|at| w.step_task(at));
    }
}

/// A write past the end that nobody asked the agent about, rank 0's: until it ends, nobody else makes the
/// file longer. Behind it waits a commit of `first` by rank 1, behind that a truncation to `size` by rank 2,
/// and last a commit of `last` by rank 3.
fn queue(first: Range, size: u64, last: Range) -> World {
    let mut w = world();
    ranks::begin_write(&mut w, 0, 0, A, false);
    for _ in 0..2 {
        ranks::step(&mut w, 0, false);
    }
    ranks::begin_write(&mut w, 1, 0, first, true);
    until_it_waits(&mut w, 1);
    begin_truncation(&mut w, 2, size);
    ranks::begin_write(&mut w, 3, 0, last, true);
    until_it_waits(&mut w, 3);
    assert!(w.ranks[2].answer.is_none() && !is_mapped(&w, first), "the truncation waits for the first commit");
    w
}

fn is_mapped(w: &World, range: Range) -> bool {
    w.agents[0].overlay.files[&0].map.touches(range)
}

const FIRST: Range = Range { offset: 2 * GRANULE_BYTES, length: 4096 };
const LAST: Range = Range { offset: 4 * GRANULE_BYTES, length: 4096 };

#[test]
fn a_commit_that_came_after_a_truncation_is_applied_after_it() {
    for size in [4096, 3 * GRANULE_BYTES, 5 * GRANULE_BYTES] {
        let mut w = queue(FIRST, size, LAST);
        assert!(!is_mapped(&w, LAST), "to {size}");
        for rank in [0, 2, 3, 1] {
            run(&mut w, rank);
        }
        assert_eq!(w.inodes[0].store.size(), size.max(LAST.end()), "to {size}");
        assert!(is_mapped(&w, LAST) && is_mapped(&w, FIRST) == (size > FIRST.offset), "to {size}");
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_commit_for_which_the_file_is_long_enough_before_and_after_a_truncation_does_not_wait_for_it() {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    ranks::begin_write(&mut w, 1, 0, FIRST, true);
    until_it_waits(&mut w, 1);
    begin_truncation(&mut w, 2, 4096);
    ranks::begin_write(&mut w, 3, 0, A, true);
    for _ in 0..10 {
        ranks::step(&mut w, 3, false);
    }
    assert!(!w.ranks[3].is_busy() && w.ranks[2].answer.is_none());
    w.quiesce();
    no_violation(&w);
}

#[test]
fn a_truncation_is_put_off_for_ever_by_no_writes_that_make_the_file_longer() {
    // To less than is written, and to more.
    for size in [4096, 1 << 30] {
        let mut w = world();
        let mut pages = (1..).map(|page| Range::new(page * 4096, 4096));
        let begin = |w: &mut World, rank: usize, range: Range| {
            ranks::begin_write(w, rank, 0, range, rank != 3);
            for _ in 0..10 {
                ranks::step(w, rank, false);
            }
        };
        // Ranks 0 and 1 absorb, rank 3 writes to the disk.
        for rank in [0, 1, 3] {
            begin(&mut w, rank, pages.next().unwrap());
        }
        begin_truncation(&mut w, 2, size);
        let mut later = 0;
        while w.ranks[2].answer.is_none() {
            extend(&mut w);
            // The direct write ends first, so that the file grows while the next commit comes.
            for rank in [3, 0, 1] {
                (0..5).for_each(|_| ranks::step(&mut w, rank, false));
                if !w.ranks[rank].is_busy() {
                    later += 1;
                    begin(&mut w, rank, pages.next().unwrap());
                }
            }
            assert!(later < 10, "to {size}: {later} writes that came later were made");
        }
        w.quiesce();
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_commit_that_a_truncation_holds_back_goes_on_when_the_truncations_thread_is_gone() {
    let mut w = world();
    w.agents[0].memory.view().slots[3].publish_cheap(KIND_EXTEND, 0, Range::new(0, 10));
    ranks::begin_write(&mut w, 0, 0, FIRST, true);
    until_it_waits(&mut w, 0);
    begin_truncation(&mut w, 2, 4096);
    ranks::begin_write(&mut w, 1, 0, LAST, true);
    until_it_waits(&mut w, 1);
    assert!(!is_mapped(&w, LAST));
    w.agents[0].memory.view().slots[3].free();
    w.kill(1);
    for rank in [1, 0] {
        run(&mut w, rank);
    }
    assert_eq!(w.inodes[0].store.size(), LAST.end());
    w.finish();
    no_violation(&w);
}

#[test]
fn a_truncation_goes_on_when_the_thread_of_a_commit_that_it_holds_back_is_gone() {
    let mut w = world();
    w.agents[0].memory.view().slots[1].publish_cheap(KIND_EXTEND, 0, Range::new(0, 10));
    ranks::begin_write(&mut w, 2, 0, FIRST, true);
    until_it_waits(&mut w, 2);
    begin_truncation(&mut w, 0, 4096);
    ranks::begin_write(&mut w, 3, 0, LAST, true);
    until_it_waits(&mut w, 3);
    w.agents[0].memory.view().slots[1].free();
    w.kill(1);
    run(&mut w, 0);
    assert_eq!((w.inodes[0].store.size(), w.agents[0].overlay.files[&0].map.end()), (4096, 0));
    w.finish();
    no_violation(&w);
}

#[test]
fn commits_and_truncations_in_turn_come_to_their_ends_also_under_another_agent() {
    for agent_dies in [false, true] {
        let mut w = queue(FIRST, 3 * GRANULE_BYTES, LAST);
        if agent_dies {
            w.kill_agent();
            w.restart();
            // They ask again in another order.
            for rank in [2, 3, 1] {
                ranks::step(&mut w, rank, false);
            }
        }
        run(&mut w, 0);
        begin_truncation(&mut w, 0, 4096);
        w.quiesce();
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn bytes_that_the_kernel_is_to_move_are_off_flash_durably_before_and_none_comes_until_it_has() {
    let mut w = world();
    write(&mut w, 0, A, true);
    write(&mut w, 0, FIRST, true);
    w.request(2, &Request::Rearrange { file: 0, from: FIRST.offset });
    w.poll();
    // A commit that came later does not put it off.
    ranks::begin_write(&mut w, 0, 0, FIRST, true);
    until_it_waits(&mut w, 0);
    assert_eq!(w.ranks[2].answer, None, "its bytes are dirty");
    while w.ranks[2].answer.is_none() {
        if w.agents[0].tasks.is_empty() {
            w.poll();
        } else {
            w.step_task(0);
        }
    }
    assert_eq!(w.ranks[2].answer, Some(Answer::Go));
    assert!(
        w.agents[0].overlay.dirty_bytes() >= A.length && w.ranks[0].is_busy(),
        "what lies before stays, the commit waits"
    );
    let durable =
        Recovered::replay(&w.agents[0].journal.bytes[HEADER_BYTES..w.agents[0].journal.stable], Replay::Everything);
    let maps_any = |map: &crate::extent_map::ExtentMap| map.overlapping(FIRST).any(|mapped| mapped.dirty);
    assert!(!maps_any(&durable.files[&0].map), "power loss must not bring them back over what was moved there");
    w.request(2, &Request::RearrangeDone { file: 0, from: FIRST.offset, size: FIRST.end() });
    run(&mut w, 0);
    assert!(is_mapped(&w, FIRST) && is_mapped(&w, A));
    w.finish();
    no_violation(&w);
}

#[test]
fn what_flash_held_clean_of_bytes_that_the_kernel_moved_is_no_more_and_the_size_is_the_slow_file_s() {
    let mut w = world();
    write(&mut w, 0, A, true);
    write(&mut w, 0, FIRST, true);
    drain(&mut w);
    assert!(is_mapped(&w, FIRST));
    w.request(2, &Request::Rearrange { file: 0, from: 4096 });
    w.quiesce();
    assert_eq!(w.ranks[2].answer, Some(Answer::Go));
    w.request(2, &Request::RearrangeDone { file: 0, from: 4096, size: 8192 });
    w.quiesce();
    assert!(!is_mapped(&w, FIRST) && is_mapped(&w, A));
    assert_eq!(
        (w.agents[0].overlay.files[&0].length.size(), w.agents[0].memory.view().files[0].size.load(Ordering::Relaxed)),
        (8192, 8192)
    );
}
