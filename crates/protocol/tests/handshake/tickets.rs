//! Rings of several ranks, rings that are full, and slabs that take the place of used ones.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headstart_protocol::lease::Place;
use headstart_protocol::ring::{Collector, ENTRIES_MAX, Pushed};
use headstart_units::request::Range;
use loom::sync::atomic::Ordering;

use super::by_hand::{Hand, Without};
use super::explorer::{FILE, HERE, Seen, World, holds, holds_within, refuted};
use super::rings::PLACE;

/// What most faults need is two (Musuvathi and Qadeer, PLDI 2007).
const PREEMPTIONS: usize = 3;

const DISORDER: &str = "a commit is applied after a later one";
const TORN: &str = "an entry is torn or out of order";

/// One rank commits; another, which has heard of it, commits too. The agent drains meanwhile, and once more. Earlier
/// pushes have left marks of the slots in `marked`.
fn order<Drain: Default>(
    seen: &Seen,
    [first, second]: [u32; 2],
    marked: &[u32],
    take: fn(&mut Drain, &World) -> Vec<Pushed>,
) {
    let world = World::with_rings(2);
    let number = world.open();
    marked.iter().for_each(|slot| assert!(!world.shared().mark(*slot)));
    let (earlier, later) = (Arc::clone(&world), Arc::clone(&world));
    let is_pushed = Arc::new(AtomicBool::new(false));
    let (known, noted) = (Arc::clone(&is_pushed), seen.clone());
    let ranks = [
        loom::thread::spawn(move || {
            earlier.step();
            earlier.shared().push(first, number, HERE, PLACE);
            earlier.reply.send();
        }),
        loom::thread::spawn(move || {
            later.step();
            if noted.answer(later.reply.has_come(), "heard", "not heard") {
                later.shared().push(second, number, HERE, PLACE);
                known.store(true, Ordering::Relaxed);
            }
        }),
    ];
    let mut drain = Drain::default();
    world.step();
    let mut taken = take(&mut drain, &world);
    seen.note(["none", "one", "both"][taken.len()]);
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
    taken.extend(take(&mut drain, &world));
    let slots: Vec<_> = taken.iter().map(|pushed| pushed.slot).collect();
    let expected: &[u32] = if is_pushed.load(Ordering::Relaxed) { &[first, second] } else { &[first] };
    assert_eq!(slots, expected, "{DISORDER}");
}

const ALL: [&str; 5] = ["heard", "not heard", "none", "one", "both"];

#[test]
fn commits_of_two_ranks_are_applied_in_their_order() {
    for slots in [[0, 1], [1, 0]] {
        let take = |collector: &mut Collector, world: &World| collector.take(world.shared());
        holds(&ALL, move |seen| order(seen, slots, &[0, 1], take));
        holds_within(PREEMPTIONS, &ALL, move |seen| order(seen, slots, &slots[1..], take));
        holds(&ALL, move |seen| {
            order(seen, slots, &[0, 1], |hand: &mut Hand, world| hand.take(world, Without::Nothing))
        });
    }
}

#[test]
fn a_drain_that_notes_the_tickets_after_it_took_the_marks_applies_a_later_commit_first() {
    refuted(DISORDER, |seen| order(seen, [0, 1], &[1], |hand: &mut Hand, world| hand.take(world, Without::EarlyBound)));
}

#[test]
fn a_drain_that_takes_what_came_while_it_looked_applies_a_later_commit_first() {
    refuted(DISORDER, |seen| order(seen, [0, 1], &[0, 1], |hand: &mut Hand, world| hand.take(world, Without::Bound)));
}

#[test]
fn a_drain_in_the_order_of_slots_applies_a_later_commit_first() {
    refuted(DISORDER, |seen| order(seen, [1, 0], &[0, 1], |hand: &mut Hand, world| hand.take(world, Without::Order)));
}

fn part(k: u64) -> Range {
    Range::new(k * HERE.length, HERE.length)
}

/// One commit more than the ring holds, as far as there is room; the agent takes as many as it finds, twice.
fn fill<Drain: Default>(seen: &Seen, take: fn(&mut Drain, &World) -> Vec<Pushed>) {
    let world = World::with_rings(1);
    let number = world.open();
    let noted = seen.clone();
    world.run(
        move |world| {
            for k in 1..=ENTRIES_MAX as u64 + 1 {
                let Some(open) = world.shared().open_for(0, FILE, part(k)) else { return noted.note("full") };
                world.shared().push(0, open, part(k), PLACE);
                world.step();
            }
            noted.note("room");
        },
        |world| {
            let (mut drain, mut last) = (Drain::default(), 0);
            for _ in 0..2 {
                for pushed in take(&mut drain, world) {
                    last += 1;
                    let expected =
                        Pushed { slot: 0, seq: last, ticket: last, open: number, range: part(last), place: PLACE };
                    assert_eq!(pushed, expected, "{TORN}");
                }
                world.step();
            }
            seen.note(match last as usize {
                0 => "none",
                last if last > ENTRIES_MAX => "all",
                _ => "some",
            });
        },
    );
}

#[test]
fn a_full_ring_takes_nothing_and_what_is_taken_is_whole_and_in_order() {
    holds_within(PREEMPTIONS, &["full", "room", "none", "some", "all"], |seen| {
        fill(seen, |collector: &mut Collector, world| {
            let taken = collector.take(world.shared());
            collector.store_tails(world.shared());
            taken
        });
    });
}

#[test]
fn a_tail_moved_before_the_entry_is_read_shows_a_torn_one() {
    refuted(TORN, |seen| fill(seen, Hand::take_behind_the_tail));
}

const MIXED: &str = "a slab is seen in part";
const USED: Place = Place { file: FILE, data_file: 7, place: 0, length: 12288 };
const SMALL: Place = Place { file: FILE, data_file: 7, place: 0, length: 4096 };
const NEW: Place = Place { file: FILE, data_file: 8, place: 4096, length: 4096 };

/// A thread that has used up a slab looks for another, while the agent shows one in its place.
fn replace(seen: &Seen, used: Place, show: fn(&World)) {
    let world = World::with_rings(1);
    world.slot().show_slab(0, used);
    world.slot().taken[0].store(used.place + used.length, Ordering::Relaxed);
    let noted = seen.clone();
    world.run(
        move |world| {
            let found = world.slot().slab(FILE, HERE);
            if noted.answer(found.is_some(), "found", "none") {
                assert_eq!(found, Some((0, NEW)), "{MIXED}");
            }
        },
        show,
    );
}

#[test]
fn a_slab_in_the_place_of_a_used_one_is_seen_whole_or_not_at_all() {
    for used in [USED, SMALL] {
        holds_within(PREEMPTIONS, &["found", "none"], move |seen| {
            replace(seen, used, |world| world.slot().show_slab(0, NEW))
        });
    }
}

fn show_place(world: &World) {
    world.slot().slabs[0].data_file.store(NEW.data_file, Ordering::Relaxed);
    world.slot().slabs[0].place.store(NEW.place, Ordering::Relaxed);
    world.slot().taken[0].store(NEW.place, Ordering::Release);
}

fn show_end(world: &World) {
    world.slot().slabs[0].end.store(NEW.place + NEW.length, Ordering::Release);
}

#[test]
fn a_slab_shown_over_one_that_is_not_revoked_is_seen_in_part() {
    refuted(MIXED, |seen| {
        replace(seen, USED, |world| {
            show_place(world);
            show_end(world);
        });
    });
}

#[test]
fn a_slab_whose_end_is_shown_first_is_seen_in_part() {
    refuted(MIXED, |seen| {
        replace(seen, SMALL, |world| {
            world.slot().revoke_slab(0);
            show_end(world);
            show_place(world);
        });
    });
}
