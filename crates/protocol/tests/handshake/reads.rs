//! Reads of the slow file that look afterwards: rules no-validate-read, no-gen-read and disk-no-bump. Bits and
//! generations in their order, and generations of ranges.
//!
//! The slow file is a cell that the agent's side writes while the rank reads it: such a read is no fault, it only must
//! not count. The kernel orders nothing here.

use std::sync::Arc;

use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

use super::explorer::{BIT, FILE, HERE, Seen, World, holds, refuted};

/// Bytes that nobody may read in the slow file: others are on flash above them.
const HIDDEN: u64 = 2;
const READ: &str = "hidden bytes count";

type Load = fn(&World) -> (u64, bool);
type Judge = fn(&World, u64) -> bool;
type Agent = fn(&World);

/// What a read loads before: the generation, then the bits.
fn load(world: &World) -> (u64, bool) {
    let generation = world.shared().generation_of(FILE, HERE);
    world.step();
    (generation, world.shared().all_clear(FILE, HERE))
}

fn judge(world: &World, generation: u64) -> bool {
    world.shared().is_unchanged(FILE, HERE, generation)
}

fn announce(world: &World) {
    world.shared().announce(FILE, HERE);
}

fn set_bit(world: &World) {
    world.entry().set_bits.fetch_add(1, Ordering::SeqCst);
    world.shared().bits[0].fetch_or(1, Ordering::SeqCst);
}

fn raise(world: &World) {
    world.shared().granules[0].generation.fetch_add(1, Ordering::Release);
}

/// A read without a question, and a commit, beneath which somebody writes with the agent's leave.
fn read(seen: &Seen, load: Load, judge: Judge, agent: Agent) {
    let slow = Arc::new(AtomicU64::new(0));
    let (file, noted) = (slow.clone(), seen.clone());
    World::new().run(
        move |world| {
            let (generation, is_clear) = load(world);
            if !noted.answer(is_clear, "cheap", "asked") {
                return;
            }
            world.step();
            let found = file.load(Ordering::Relaxed);
            world.step();
            if noted.answer(judge(world, generation), "counts", "in vain") {
                assert_ne!(found, HIDDEN, "{READ}");
            }
        },
        |world| {
            agent(world);
            world.step();
            slow.store(HIDDEN, Ordering::Relaxed);
        },
    );
}

const ALL: [&str; 4] = ["cheap", "asked", "counts", "in vain"];

#[test]
fn what_a_read_finds_beneath_bytes_on_flash_does_not_count() {
    holds(&ALL, |seen| read(seen, load, judge, announce));
}

#[test]
fn nor_does_it_where_all_bits_are_set_at_once() {
    holds(&ALL, |seen| read(seen, load, judge, |world| world.shared().announce_all(FILE)));
}

#[test]
fn a_read_that_does_not_look_afterwards_takes_it() {
    refuted(READ, |seen| read(seen, load, |_, _| true, announce));
}

#[test]
fn a_look_afterwards_without_a_fence_comes_too_early() {
    let judge: Judge = |world, before| world.shared().generation_of(FILE, HERE) == before;
    refuted(READ, move |seen| read(seen, load, judge, announce));
}

#[test]
fn a_read_that_loads_the_generation_behind_the_bits_takes_it() {
    let load: Load = |world| {
        let is_clear = world.shared().all_clear(FILE, HERE);
        world.step();
        (world.shared().generation_of(FILE, HERE), is_clear)
    };
    refuted(READ, move |seen| read(seen, load, judge, announce));
}

#[test]
fn a_generation_loaded_without_acquire_ordering_belongs_to_older_bits() {
    let load: Load = |world| {
        let generation = world.shared().granules[0].generation.load(Ordering::Relaxed);
        world.step();
        (generation, world.shared().all_clear(FILE, HERE))
    };
    refuted(READ, move |seen| read(seen, load, judge, announce));
}

#[test]
fn a_generation_raised_before_the_bit_is_set_lets_a_read_take_it() {
    refuted(READ, |seen| {
        read(seen, load, judge, |world| {
            raise(world);
            world.step();
            set_bit(world);
            fence(Ordering::SeqCst);
        })
    });
}

#[test]
fn a_bit_without_a_generation_lets_a_read_take_it() {
    refuted(READ, |seen| {
        read(seen, load, judge, |world| {
            set_bit(world);
            fence(Ordering::SeqCst);
        })
    });
}

#[test]
fn without_the_agents_fence_the_write_beneath_overtakes_the_generation() {
    refuted(READ, |seen| {
        read(seen, load, judge, |world| {
            set_bit(world);
            world.step();
            raise(world);
        })
    });
}

/// A granule comes to flash, is written beneath, and is clear again: what was written there was lost with its thread.
#[test]
fn a_read_that_looks_at_the_bits_alone_takes_what_was_there_between() {
    holds(&ALL, |seen| hidden_between(seen, judge));
    refuted(READ, |seen| hidden_between(seen, |world, _| world.shared().all_clear(FILE, HERE)));
}

fn hidden_between(seen: &Seen, judge: Judge) {
    let slow = Arc::new(AtomicU64::new(0));
    let (file, noted) = (slow.clone(), seen.clone());
    World::new().run(
        move |world| {
            let (generation, is_clear) = load(world);
            if !noted.answer(is_clear, "cheap", "asked") {
                return;
            }
            world.step();
            let found = file.load(Ordering::Relaxed);
            world.step();
            if noted.answer(judge(world, generation), "counts", "in vain") {
                assert_ne!(found, HIDDEN, "{READ}");
            }
        },
        |world| {
            announce(world);
            world.step();
            slow.store(HIDDEN, Ordering::Relaxed);
            world.step();
            slow.store(0, Ordering::Release);
            world.step();
            world.shared().clear_bit(FILE, BIT);
        },
    );
}

/// A read that the agent sent to the slow file: it loaded the generation before it asked. Then somebody commits there,
/// or is let write beneath clean bytes.
fn sent(seen: &Seen, before_asking: bool, agent: Agent) {
    let slow = Arc::new(AtomicU64::new(0));
    let (file, noted) = (slow.clone(), seen.clone());
    let world = World::new();
    world.shared().announce(FILE, HERE);
    world.run(
        move |world| {
            let before = world.shared().generation_of(FILE, HERE);
            world.step();
            world.request.send();
            world.step();
            if !noted.answer(world.reply.has_come(), "answered", "waits") {
                return;
            }
            let after = world.shared().generation_of(FILE, HERE);
            let generation = if before_asking { before } else { after };
            world.step();
            let found = file.load(Ordering::Relaxed);
            world.step();
            if noted.answer(judge(world, generation), "counts", "in vain") {
                assert_ne!(found, HIDDEN, "{READ}");
            }
        },
        |world| {
            if !world.request.has_come() {
                return;
            }
            world.reply.send();
            world.step();
            agent(world);
            world.step();
            slow.store(HIDDEN, Ordering::Relaxed);
        },
    );
}

fn grant(world: &World) {
    world.shared().raise_generation(FILE, HERE);
}

#[test]
fn a_read_that_was_sent_to_the_slow_file_sees_what_came_behind_the_answer() {
    holds(&["answered", "waits", "counts", "in vain"], |seen| sent(seen, true, grant));
}

#[test]
fn a_generation_loaded_behind_the_answer_may_be_newer_than_it() {
    refuted(READ, |seen| sent(seen, false, grant));
}

#[test]
fn a_write_beneath_clean_bytes_that_raises_nothing_is_taken() {
    refuted(READ, |seen| sent(seen, true, |_| fence(Ordering::SeqCst)));
}

#[test]
fn a_generation_raised_without_a_fence_lets_the_write_overtake_it() {
    refuted(READ, |seen| sent(seen, true, raise));
}

/// Two granules whose words are raised one after the other: the sum of what was read of both.
#[test]
fn the_generation_of_a_range_is_the_same_only_if_that_of_each_granule_is() {
    let both = Range::new(GRANULE_BYTES - 10, 20);
    holds(&["cheap", "asked", "same", "other"], move |seen| {
        let noted = seen.clone();
        let slow = Arc::new(AtomicU64::new(0));
        let file = slow.clone();
        World::new().run(
            move |world| {
                let before = world.shared().generation_of(FILE, both);
                world.step();
                if !noted.answer(world.shared().all_clear(FILE, both), "cheap", "asked") {
                    return;
                }
                world.step();
                let found = file.load(Ordering::Relaxed);
                if noted.answer(world.shared().is_unchanged(FILE, both, before), "same", "other") {
                    assert_ne!(found, HIDDEN, "{READ}");
                }
            },
            |world| {
                world.shared().announce(FILE, Range::new(GRANULE_BYTES, 1));
                world.step();
                slow.store(HIDDEN, Ordering::Relaxed);
            },
        );
    });
}
