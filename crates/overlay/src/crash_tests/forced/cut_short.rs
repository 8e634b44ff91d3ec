//! Truncations whose threads die before they tell of them: what was cut off stays away whoever makes the file longer.

use super::*;
use crate::crash_tests::world::RANKS;

/// What is cut off: the second of two pages on flash.
const CUT_OFF: Range = Range { offset: 4096, length: 4096 };
/// Past the end, in the granule of those pages, and in one that nothing of is on flash.
const BEHIND: [Range; 2] = [Range { offset: 12288, length: 4096 }, Range { offset: 3 * GRANULE_BYTES, length: 4096 }];

fn two_pages() -> World {
    let mut w = world();
    write(&mut w, 0, Range::new(0, 8192), true);
    w
}

fn begin_cut(w: &mut World, rank: usize, size: u64) {
    ranks::begin_other(w, rank, Kind::Truncate, 0, Range::new(size, u64::MAX));
    ranks::step(w, rank, false);
}

/// Rank 2 has made its call, and told nobody.
fn cut(w: &mut World) {
    assert!(w.ranks[2].answer.is_some(), "it was granted");
    while w.inodes[0].store.size() != CUT_OFF.offset {
        ranks::step(w, 2, false);
    }
}

fn stays_away(mut w: World) {
    assert!(!w.agents[0].overlay.files[&0].map.touches(CUT_OFF), "whoever asked was told that it is cut off");
    (0..RANKS).for_each(|rank| run(&mut w, rank));
    assert!(!w.agents[0].overlay.files[&0].map.touches(CUT_OFF));
    assert_eq!(size_bit(&w), 0);
    w.finish();
    no_violation(&w);
}

fn size_bit(w: &World) -> u32 {
    w.agents[0].memory.view().files[0].size_bit.load(Ordering::Relaxed)
}

fn until_it_waits(w: &mut World, rank: usize) {
    (0..12).for_each(|_| ranks::step(w, rank, false));
    assert!(w.ranks[rank].is_busy(), "it waits");
}

#[test]
fn nobody_writes_past_the_end_between_a_truncation_and_the_death_of_its_thread() {
    for behind in BEHIND {
        let mut w = two_pages();
        begin_cut(&mut w, 2, CUT_OFF.offset);
        cut(&mut w);
        ranks::begin_write(&mut w, 0, 0, behind, false);
        until_it_waits(&mut w, 0);
        assert_eq!(w.inodes[0].store.size(), CUT_OFF.offset);
        w.kill(1);
        stays_away(w);
    }
}

#[test]
fn a_truncation_waits_for_writes_past_the_end_that_began_before() {
    for behind in BEHIND {
        // One that took the file for long enough, too.
        for known in [false, true] {
            let mut w = two_pages();
            if known {
                write(&mut w, 0, behind, false);
                other(&mut w, 0, Kind::Truncate, Range::new(behind.end(), u64::MAX));
            }
            ranks::begin_write(&mut w, 0, 0, behind, false);
            (0..2).for_each(|_| ranks::step(&mut w, 0, false));
            begin_cut(&mut w, 2, CUT_OFF.offset);
            assert!(w.ranks[2].answer.is_none());
            run(&mut w, 0);
            w.poll();
            cut(&mut w);
            w.kill(1);
            stays_away(w);
        }
    }
}

#[test]
fn no_truncation_makes_the_file_longer_between_another_and_the_death_of_its_thread() {
    let mut w = two_pages();
    begin_cut(&mut w, 2, CUT_OFF.offset);
    cut(&mut w);
    begin_cut(&mut w, 0, 1 << 20);
    until_it_waits(&mut w, 0);
    // To the same size it may.
    begin_cut(&mut w, 1, CUT_OFF.offset);
    assert!(w.ranks[1].answer.is_some());
    w.kill(1);
    stays_away(w);
}

#[test]
fn a_truncation_that_ends_beside_another_lets_nobody_write_past_the_end() {
    let mut w = two_pages();
    begin_cut(&mut w, 2, CUT_OFF.offset);
    w.request(1, &Request::Truncate { file: 0, size: CUT_OFF.offset });
    assert_eq!(w.ranks[1].answer.take(), Some(Answer::Go));
    cut(&mut w);
    w.request(1, &Request::TruncateDone { file: 0, size: CUT_OFF.offset, changed: false });
    assert_eq!(w.ranks[1].answer.take(), Some(Answer::Done));
    ranks::begin_write(&mut w, 0, 0, BEHIND[1], false);
    until_it_waits(&mut w, 0);
    w.kill(1);
    stays_away(w);
}

#[test]
fn writes_past_the_end_that_come_later_do_not_put_a_truncation_off() {
    let mut w = two_pages();
    ranks::begin_write(&mut w, 0, 0, BEHIND[0], false);
    (0..2).for_each(|_| ranks::step(&mut w, 0, false));
    begin_cut(&mut w, 2, CUT_OFF.offset);
    ranks::begin_write(&mut w, 3, 0, BEHIND[1], false);
    until_it_waits(&mut w, 3);
    run(&mut w, 0);
    cut(&mut w);
    assert!(w.ranks[3].is_busy() && w.ranks[3].answer.is_none());
    (2..4).for_each(|rank| run(&mut w, rank));
    stays_away(w);
}

#[test]
fn an_agent_that_dies_once_it_has_seen_what_became_of_a_truncation_leaves_it_to_be_seen() {
    for behind in BEHIND {
        let mut w = two_pages();
        begin_cut(&mut w, 2, CUT_OFF.offset);
        cut(&mut w);
        w.kill_agent();
        w.kill(1);
        w.adopt();
        ranks::begin_write(&mut w, 0, 0, behind, false);
        until_it_waits(&mut w, 0);
        w.restart();
        stays_away(w);
    }
}

#[test]
fn an_agent_that_starts_meanwhile_lets_nobody_write_past_the_end_either() {
    for (living, behind) in [(false, BEHIND[0]), (false, BEHIND[1]), (true, BEHIND[0]), (true, BEHIND[1])] {
        let mut w = two_pages();
        begin_cut(&mut w, 2, CUT_OFF.offset);
        cut(&mut w);
        w.kill_agent();
        ranks::begin_write(&mut w, 0, 0, behind, false);
        until_it_waits(&mut w, 0);
        if living {
            w.restart();
            until_it_waits(&mut w, 0);
        }
        w.kill(1);
        if !living {
            w.restart();
        }
        stays_away(w);
    }
}

#[test]
fn nobody_waits_for_ever_for_a_truncation_nor_it_for_others() {
    for behind in BEHIND {
        let mut w = two_pages();
        ranks::begin_write(&mut w, 3, 0, behind, false);
        (0..2).for_each(|_| ranks::step(&mut w, 3, false));
        begin_cut(&mut w, 2, CUT_OFF.offset);
        assert!(w.agents[0].overlay.waits_for_slots(), "no message tells when it has waited long enough");
        (0..LONG).for_each(|_| w.poll());
        cut(&mut w);
        // Both stand still from here on.
        ranks::begin_write(&mut w, 0, 0, behind, false);
        until_it_waits(&mut w, 0);
        assert!(w.agents[0].overlay.waits_for_slots());
        (0..LONG).for_each(|_| w.poll());
        (0..12).for_each(|_| ranks::step(&mut w, 0, false));
        assert!(!w.ranks[0].is_busy());
        ranks::begin_write(&mut w, 1, 0, Range::new(4 * GRANULE_BYTES, 10), false);
        (0..12).for_each(|_| ranks::step(&mut w, 1, false));
        assert!(!w.ranks[1].is_busy(), "nor do those wait that come later");
        w.quiesce();
        assert_eq!(size_bit(&w), 0);
        w.finish();
        no_violation(&w);
    }
}

#[test]
fn a_truncation_that_nobody_waits_for_any_more_leaves_no_size_bit() {
    let mut w = two_pages();
    ranks::begin_write(&mut w, 0, 0, BEHIND[1], false);
    (0..2).for_each(|_| ranks::step(&mut w, 0, false));
    begin_cut(&mut w, 2, CUT_OFF.offset);
    assert!(w.ranks[2].answer.is_none() && size_bit(&w) == 1);
    w.kill(1);
    assert_eq!(size_bit(&w), 0);
    run(&mut w, 0);
    w.finish();
    no_violation(&w);
}
