//! Reads of flash without a question, each test for a rule of what is listed, and until when.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::extent_map::{Benefit, Mapped};
use crate::recency::{Access, Stamp};
use headstart_protocol::counters::{Counter, Dropped};
use headstart_protocol::shared::word_of;
use headstart_units::MIB;

/// A file of 16 pages of which the first is absorbed; everybody holds slabs that are never used up.
fn absorbed() -> World {
    let mut w = World::with(1, quiet(MIB));
    open_file(&mut w);
    write(&mut w, 2, Range::new(0, 16 * 4096), false);
    for rank in [2, 0] {
        write(&mut w, rank, A, true);
    }
    w
}

/// The same, and the page is read until its granule is listed.
fn listed() -> World {
    let mut w = absorbed();
    read_twice(&mut w, A);
    w
}

fn read(w: &mut World, rank: usize, range: Range) {
    other(w, rank, Kind::Read, range);
}

fn read_twice(w: &mut World, range: Range) {
    (0..2).for_each(|_| read(w, 3, range));
    assert!(is_listed(w, range));
}

fn is_listed(w: &World, range: Range) -> bool {
    w.agents[0].memory.view().listed(0, range.offset).is_some()
}

fn is_open(w: &World, range: Range) -> bool {
    w.agents[0].overlay.rings.is_open(0, word_of(range.offset))
}

fn questions(w: &World, rank: usize) -> u64 {
    w.slot(rank).seq.load(Relaxed)
}

/// Stops a read by the listing where its bytes are read and not looked at.
fn half_read(w: &mut World, rank: usize) {
    ranks::begin_other(w, rank, Kind::Read, 0, A);
    for _ in 0..10 {
        if ranks::has_read_flash(w, rank) {
            return;
        }
        ranks::step(w, rank, false);
    }
    panic!("it reads nothing: {:?}", w.ranks[rank]);
}

#[test]
fn a_granule_that_is_read_twice_is_closed_and_listed_and_then_read_without_a_question() {
    let mut w = absorbed();
    read(&mut w, 3, A);
    assert!(is_open(&w, A) && !is_listed(&w, A), "once may be all");
    read(&mut w, 3, A);
    assert!(!is_open(&w, A) && is_listed(&w, A));
    let before = [1, 3].map(|rank| questions(&w, rank));
    [1, 3].into_iter().for_each(|rank| read(&mut w, rank, A));
    assert_eq!([1, 3].map(|rank| questions(&w, rank)), before);
    assert_eq!((w.listed, w.agents[0].overlay.counters().listings_total), (2, 1));
    no_violation(&w);
}

#[test]
fn a_thread_reads_by_a_listing_while_no_agent_lives() {
    let mut w = listed();
    w.kill_agent();
    ranks::begin_other(&mut w, 1, Kind::Read, 0, A);
    (0..10).for_each(|_| ranks::step(&mut w, 1, false));
    assert!(!w.ranks[1].is_busy() && w.listed == 1 && w.agents[0].is_dead);
    w.restart();
    no_violation(&w);
}

/// What takes bytes of the first page off flash, or puts others in their place, by thread 0; whether they are clean.
type Change = (bool, fn(&mut World));

const CHANGES: [Change; 6] = [
    (false, |w| write(w, 0, A, true)),
    (false, |w| write(w, 0, Range::new(100, 50), false)),
    (false, |w| other(w, 0, Kind::Truncate, Range::new(10, u64::MAX))),
    (true, |w| {
        w.agents[0].overlay.set_capacity(Capacity::Bytes(0));
        w.poll();
        write(w, 0, A, false);
    }),
    (true, |w| {
        assert_eq!(w.agents[0].overlay.flash_failed(0, A), Answer::Done);
        w.carry_out();
        write(w, 0, A, false);
    }),
    (true, |w| write(w, 0, Range::new(4000, 500), false)),
];

#[test]
fn whatever_changes_the_map_ends_the_listing_and_a_read_by_it_is_made_again() {
    for (number, (is_clean, change)) in CHANGES.into_iter().enumerate() {
        let mut w = listed();
        if is_clean {
            drain(&mut w);
            assert!(is_listed(&w, A), "what is clean is where it was");
        }
        half_read(&mut w, 3);
        let before = questions(&w, 3);
        change(&mut w);
        assert!(!is_listed(&w, A), "change {number}");
        run(&mut w, 3);
        assert!(questions(&w, 3) > before, "change {number}: what was read does not count");
        read(&mut w, 1, A);
        no_violation(&w);
    }
}

#[test]
fn a_place_that_is_another_s_by_now_is_not_read_by_a_listing_of_before() {
    let mut w = listed();
    half_read(&mut w, 3);
    let place = w.agents[0].overlay.files[&0].map.at(0).expect("it is mapped").place;
    write(&mut w, 0, A, true);
    barrier(&mut w);
    assert!(w.agents[0].overlay.files[&0].map.at(0).is_some_and(|mapped| mapped.place != place));
    run(&mut w, 3);
    assert_eq!(w.agents[0].memory.slots[3].counters[Counter::ListedReadsInVain as usize].load(Relaxed), 1);
    no_violation(&w);
}

#[test]
fn opening_a_word_ends_the_listings_of_all_granules_that_share_it() {
    let mut w = absorbed();
    write(&mut w, 0, FAR, true);
    read_twice(&mut w, A);
    assert!(!is_open(&w, A));
    write(&mut w, 0, FAR, true);
    assert!(is_open(&w, A) && !is_listed(&w, A), "commits there need no answer from now on");
    let pushes = w.pushes;
    write(&mut w, 0, A, true);
    assert_eq!(w.pushes, pushes + 1);
    read(&mut w, 3, A);
    no_violation(&w);
}

#[test]
fn what_is_pushed_between_two_reads_keeps_a_granule_open_and_unlisted() {
    let mut w = absorbed();
    for _ in 0..3 {
        read(&mut w, 3, A);
        write(&mut w, 0, A, true);
        assert!(is_open(&w, A) && !is_listed(&w, A));
    }
    // Pushed, and not taken out before the second read.
    read(&mut w, 3, A);
    ranks::begin_write(&mut w, 0, 0, A, true);
    while w.ranks[0].is_busy() {
        ranks::step(&mut w, 0, false);
    }
    ranks::begin_other(&mut w, 3, Kind::Read, 0, A);
    while w.ranks[3].is_busy() {
        ranks::step(&mut w, 3, false);
    }
    assert!(is_open(&w, A) && !is_listed(&w, A));
    no_violation(&w);
}

/// The agent takes a read of thread `rank` in, whose answer is not sent.
fn take_in_read(w: &mut World, rank: u32) {
    let envelope = Envelope { slot: rank, seq: 1000 };
    let request = Request::Read { file: 0, offset: A.offset, length: A.length, leased: false, in_order: false };
    w.agents[0].overlay.take_in(w.agents[0].memory.view(), 1, envelope, &request);
}

/// The page leaves the map.
fn drop_page(w: &mut World) {
    w.agents[0].overlay.drop_all(0, Dropped::Discarded);
}

/// Another page of the granule comes to the map.
fn add_page(w: &mut World) {
    let agent = &mut w.agents[0];
    let (stamp, benefit) = (Stamp::default(), Benefit::default());
    let mapped = Mapped { range: Range::new(8192, 4096), data_file: 77, place: 0, dirty: false, stamp, benefit };
    agent.overlay.map_in(agent.memory.view(), 0, mapped, Access::Sequential);
}

#[test]
fn a_granule_is_listed_with_the_answer_and_not_if_it_changed_before() {
    for (change, is_listed_then) in [(None, true), (Some(drop_page as fn(&mut World)), false), (Some(add_page), false)]
    {
        let mut w = absorbed();
        // What was pushed is taken out with the first read, and its record is not stored before the answers.
        ranks::begin_write(&mut w, 0, 0, A, true);
        while w.ranks[0].is_busy() {
            ranks::step(&mut w, 0, false);
        }
        [1, 3].into_iter().for_each(|rank| take_in_read(&mut w, rank));
        assert!(!is_open(&w, A) && !is_listed(&w, A), "nothing is stored yet");
        change.into_iter().for_each(|change| change(&mut w));
        w.carry_out();
        assert_eq!(is_listed(&w, A), is_listed_then);
        w.check_listings();
        assert!(!w.violations.iter().any(|text| text.contains("listed")), "{:?}", w.violations);
    }
}

#[test]
fn the_end_of_a_listing_is_shown_before_any_answer_is_sent() {
    let mut w = listed();
    drop_page(&mut w);
    let agent = &mut w.agents[0];
    let records = agent.overlay.take_journal();
    assert!(!records.is_empty());
    agent.overlay.on_appended(agent.memory.view());
    assert!(!is_listed(&w, A), "no output is carried out yet");
}

#[test]
fn the_next_agent_ends_listings_before_anything_else() {
    let mut w = listed();
    half_read(&mut w, 3);
    w.kill_agent();
    w.restart();
    assert!(!is_listed(&w, A), "nobody has asked it for anything");
    write(&mut w, 0, A, true);
    run(&mut w, 3);
    read(&mut w, 1, A);
    no_violation(&w);
}

#[test]
fn bytes_that_are_not_trusted_any_more_are_listed_no_longer() {
    let mut w = listed();
    let mapped = w.agents[0].overlay.files[&0].map.at(0).expect("it is mapped");
    w.agents[0].overlay.request_barrier();
    w.poll();
    w.agents[0].tasks.clear();
    let failed = NotSynced { data_files: vec![mapped.data_file], ..NotSynced::default() };
    w.agents[0].overlay.on_barrier_synced(w.agents[0].memory.view(), Err(failed));
    w.carry_out();
    assert!(w.agents[0].overlay.files[&0].map.at(0).is_some_and(|mapped| mapped.dirty) && !is_listed(&w, A));
}

#[test]
fn bytes_that_the_disks_answer_sooner_are_listed_no_longer_once_that_is_seen() {
    let mut w = listed();
    drain(&mut w);
    assert!(is_listed(&w, A));
    w.measure(0, 1000);
    read(&mut w, 3, A);
    w.poll();
    assert!(!is_listed(&w, A));
    (0..3).for_each(|_| read(&mut w, 3, A));
    assert!(!is_listed(&w, A) && w.sooner_reads > 0);
    no_violation(&w);
}

#[test]
fn an_agent_that_ends_leaves_no_listing() {
    let mut w = listed();
    w.agents[0].overlay.close_all_granules(w.agents[0].memory.view());
    assert!(!is_listed(&w, A));
}

/// When the extent of an offset was last used.
fn stamp(w: &World, offset: u64) -> Stamp {
    w.agents[0].overlay.files[&0].map.at(offset).expect("it is mapped").stamp
}

#[test]
fn what_is_read_by_a_listing_counts_as_used_and_what_lies_beside_it_does_not() {
    const BESIDE: u64 = 15 * 4096;
    let mut w = absorbed();
    write(&mut w, 0, Range::new(BESIDE, 4096), true);
    read_twice(&mut w, A);
    // Others are used meanwhile.
    for page in 1..200 {
        write(&mut w, 0, Range::new(GRANULE_BYTES + page % 16 * 4096, 4096), true);
    }
    w.poll();
    let before = [0, BESIDE].map(|offset| stamp(&w, offset));
    half_read(&mut w, 3);
    while w.ranks[3].is_busy() {
        ranks::step(&mut w, 3, false);
    }
    assert_eq!((stamp(&w, 0), w.listed), (before[0], 1), "nobody told the agent");
    w.poll();
    let after = stamp(&w, 0);
    assert!(after.generation > before[0].at(after.folds).generation);
    assert_eq!(stamp(&w, BESIDE), before[1]);
    no_violation(&w);
}
