//! Reads of flash by a listing: rules list-no-validate, list-end-late, list-no-end-open, list-key-again, list-fill-no-zero
//! and list-adopt-keep. A place is a cell that the next owner writes while somebody reads it: such a read is no fault, it
//! only must not count.

use std::sync::Arc;

use headstart_protocol::lease::Place;
use headstart_protocol::listing::Listed;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

use super::explorer::{FILE, HERE, Seen, WORD, World, holds, holds_within, refuted};

/// What the next owner of a place writes there.
const FOREIGN: u64 = 2;
const READ: &str = "foreign bytes count";
const TORN: &str = "half of one listing and half of another";
const LATE: &str = "a listing outlives what was answered";

type Judge = fn(&World, Listed) -> bool;
type Agent = fn(&World);

fn place(number: u32) -> Place {
    Place { file: FILE, data_file: number, place: u64::from(number) * 4096, length: HERE.length }
}

fn fill(world: &World, number: u32) {
    world.shared().fill_listing(0, FILE, 0, [(0, place(number))]);
}

fn end(world: &World) {
    world.shared().end_listing(0);
    world.shared().fence_listings();
}

fn judge(world: &World, listed: Listed) -> bool {
    world.shared().is_still_listed(listed)
}

/// A read by a listing whose place the agent gives to somebody else.
fn read(seen: &Seen, judge: Judge, agent: Agent) {
    let flash = Arc::new(AtomicU64::new(0));
    let (cell, noted) = (flash.clone(), seen.clone());
    let world = World::new();
    fill(&world, 1);
    world.run(
        move |world| {
            let Some(listed) = world.shared().listed(FILE, 0) else { return noted.note("asked") };
            world.step();
            // The next listing names another place.
            if world.shared().listed_piece(listed, HERE).is_none_or(|found| found.data_file != 1) {
                return noted.note("asked");
            }
            world.step();
            let found = cell.load(Ordering::Relaxed);
            world.step();
            if noted.answer(judge(world, listed), "counts", "in vain") {
                assert_ne!(found, FOREIGN, "{READ}");
            }
        },
        |world| {
            agent(world);
            world.step();
            flash.store(FOREIGN, Ordering::Relaxed);
        },
    );
}

const ALL: [&str; 3] = ["asked", "counts", "in vain"];

#[test]
fn what_is_read_by_a_listing_counts_only_if_it_was_mapped_all_the_time() {
    holds(&ALL, |seen| read(seen, judge, end));
    holds_within(2, &ALL, |seen| {
        read(seen, judge, |world| {
            world.shared().end_all_listings();
            fill(world, 2);
        })
    });
}

#[test]
fn a_read_by_a_listing_that_does_not_look_afterwards_takes_what_is_foreign() {
    refuted(READ, |seen| read(seen, |_, _| true, end));
}

#[test]
fn a_look_at_the_key_without_a_fence_comes_too_early() {
    let judge: Judge = |world, _| world.shared().listing_keys.keys[0].load(Ordering::Relaxed) == 1;
    refuted(READ, move |seen| read(seen, judge, end));
}

#[test]
fn an_end_without_a_fence_lets_the_next_owner_overtake_it() {
    refuted(READ, |seen| read(seen, judge, |world| world.shared().end_listing(0)));
}

#[test]
fn a_key_that_comes_again_makes_foreign_bytes_count() {
    refuted(READ, |seen| {
        read(seen, judge, |world| {
            end(world);
            world.shared().listing_keys.last.store(0, Ordering::Relaxed);
            fill(world, 2);
        })
    });
}

/// A listing is filled anew while a thread reads what it says.
fn refilled(seen: &Seen, agent: Agent) {
    let noted = seen.clone();
    let world = World::new();
    fill(&world, 1);
    world.run(
        move |world| {
            let Some(listed) = world.shared().listed(FILE, 0) else { return noted.note("asked") };
            world.step();
            match world.shared().listed_piece(listed, HERE) {
                Some(found) => {
                    noted.note(if found.data_file == 1 { "before" } else { "after" });
                    assert_eq!(found, place(found.data_file), "{TORN}");
                }
                None => noted.note("asked"),
            }
        },
        agent,
    );
}

#[test]
fn nobody_goes_by_a_listing_that_is_half_written() {
    holds_within(2, &["asked", "before", "after"], |seen| refilled(seen, |world| fill(world, 2)));
}

/// Stores what is listed, and then a key.
fn write_over(world: &World, key: u64) {
    let extent = &world.shared().listings[0].extents[0];
    extent.data_file.store(2, Ordering::Relaxed);
    world.step();
    extent.place.store(place(2).place, Ordering::Relaxed);
    world.step();
    world.shared().listing_keys.keys[0].store(key, Ordering::Release);
}

#[test]
fn a_listing_filled_without_an_end_before_is_taken_half_written() {
    refuted(TORN, |seen| refilled(seen, |world| write_over(world, 2)));
}

#[test]
fn a_listing_filled_without_a_fence_behind_its_end_is_taken_half_written() {
    refuted(TORN, |seen| {
        refilled(seen, |world| {
            world.shared().end_listing(0);
            world.step();
            write_over(world, 2);
        })
    });
}

#[test]
fn a_listing_filled_under_the_same_key_is_taken_half_written() {
    refuted(TORN, |seen| {
        refilled(seen, |world| {
            end(world);
            world.step();
            write_over(world, 1);
        })
    });
}

/// A thread that was answered, or may commit without being answered, looks for a listing from before.
fn after(seen: &Seen, is_told: fn(&World) -> bool, agent: Agent) {
    let noted = seen.clone();
    let world = World::with_rings(1);
    world.shared().announce(FILE, HERE);
    fill(&world, 1);
    world.run(
        move |world| {
            if !noted.answer(is_told(world), "told", "not told") {
                return;
            }
            world.step();
            assert_eq!(world.shared().listed(FILE, 0), None, "{LATE}");
        },
        agent,
    );
}

fn is_answered(world: &World) -> bool {
    world.reply.has_come()
}

fn may_push(world: &World) -> bool {
    world.shared().open_for(0, FILE, HERE).is_some()
}

const TOLD: [&str; 2] = ["told", "not told"];

#[test]
fn whoever_was_answered_or_may_push_finds_no_listing_from_before() {
    holds(&TOLD, |seen| {
        after(seen, is_answered, |world| {
            end(world);
            world.step();
            world.reply.send();
        })
    });
    holds(&TOLD, |seen| {
        after(seen, is_answered, |world| {
            world.shared().end_all_listings();
            world.step();
            world.reply.send();
        })
    });
    holds(&TOLD, |seen| {
        after(seen, may_push, |world| {
            end(world);
            world.step();
            world.shared().open(FILE, WORD);
        })
    });
}

#[test]
fn a_listing_that_ends_behind_the_answer_is_found() {
    refuted(LATE, |seen| {
        after(seen, is_answered, |world| {
            world.reply.send();
            world.step();
            end(world);
        })
    });
}

#[test]
fn an_answer_that_is_not_ordered_behind_the_end_is_seen_before_it() {
    refuted(LATE, |seen| {
        after(
            seen,
            |world| {
                let is_told = world.entry().size.load(Ordering::Relaxed) == 1;
                fence(Ordering::Acquire);
                is_told
            },
            |world| {
                world.shared().end_listing(0);
                world.step();
                world.entry().size.store(1, Ordering::Relaxed);
            },
        )
    });
}

#[test]
fn a_listing_that_ends_behind_the_opening_of_its_granule_is_found() {
    refuted(LATE, |seen| {
        after(seen, may_push, |world| {
            world.shared().open(FILE, WORD);
            world.step();
            end(world);
        })
    });
}

#[test]
fn a_listing_that_the_next_agent_does_not_end_is_found() {
    refuted(LATE, |seen| after(seen, is_answered, |world| world.reply.send()));
}
