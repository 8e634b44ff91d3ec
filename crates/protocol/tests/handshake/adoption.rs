//! An agent that dies between two steps, and the next one, which has nothing but the shared file, while a rank goes on.
//!
//! The kernel frees the dead agent's lock behind its last store, so that the next agent sees all it stored:
//! both run in one thread.

use headstart_protocol::shared::KIND_WRITE;
use loom::sync::atomic::Ordering;

use super::explorer::{BIT, FILE, HERE, RACE, Seen, World, holds, refuted, sync};

/// How far the dead agent came on the way to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Death {
    BeforeTheBit,
    AfterTheCount,
    AfterTheBit,
    AfterTheFence,
    AfterTheLook,
}

const DEATHS: [Death; 5] =
    [Death::BeforeTheBit, Death::AfterTheCount, Death::AfterTheBit, Death::AfterTheFence, Death::AfterTheLook];

/// The steps of [`headstart_protocol::shared::Shared::announce`] up to a death.
fn die(world: &World, death: Death) {
    if death >= Death::AfterTheFence {
        world.shared().announce(FILE, HERE);
        if death == Death::AfterTheLook {
            world.shared().is_settled(FILE, BIT);
        }
        return;
    }
    if death >= Death::AfterTheCount {
        world.entry().set_bits.fetch_add(1, Ordering::SeqCst);
    }
    if death >= Death::AfterTheBit {
        world.shared().bits[0].fetch_or(1, Ordering::SeqCst);
    }
}

fn adopt(world: &World) -> Vec<u64> {
    world.shared().adopt_bits(FILE)
}

fn look(world: &World) -> bool {
    world.shared().is_settled(FILE, BIT)
}

/// The next agent gets the pending commit again. It settles the bits it found as well as those it sets.
fn take_over(seen: &Seen, death: Death, adopt: fn(&World) -> Vec<u64>, look: fn(&World) -> bool) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            world.slot().publish_cheap(KIND_WRITE, FILE, HERE);
            world.step();
            if noted.answer(world.shared().all_clear(FILE, HERE), "cheap", "asked") {
                world.bytes.read();
            }
            world.step();
            world.slot().free();
        },
        |world| {
            die(world, death);
            world.step();
            let was_set = world.shared().is_set(FILE, BIT);
            let bits = adopt(world);
            assert_eq!(bits.contains(&BIT), was_set, "a bit is not found");
            if bits.is_empty() {
                world.shared().announce(FILE, HERE);
            }
            world.step();
            assert!(world.shared().is_set(FILE, BIT), "a set bit is lost");
            assert_eq!(world.entry().set_bits.load(Ordering::Relaxed), 1, "the count is wrong");
            if seen.answer(look(world), "committed", "waits") {
                world.bytes.write();
            }
        },
    );
}

#[test]
fn an_agent_that_takes_over_at_any_step_keeps_the_bits_and_waits_for_the_slots() {
    for death in DEATHS {
        holds(&["cheap", "asked", "committed", "waits"], move |seen| take_over(seen, death, adopt, look));
    }
}

#[test]
fn an_agent_that_adopts_a_bit_without_a_fence_overlooks_a_slot() {
    let adopt = |world: &World| world.shared().set_bits(FILE).collect();
    refuted(RACE, move |seen| take_over(seen, Death::AfterTheBit, adopt, look));
}

#[test]
fn an_agent_that_takes_found_bits_for_settled_overlooks_a_slot() {
    for death in [Death::AfterTheBit, Death::AfterTheFence, Death::AfterTheLook] {
        refuted(RACE, move |seen| take_over(seen, death, adopt, |_| true));
    }
}

/// The dead agent's commit was applied; the next one writes the bytes back.
fn forget(seen: &Seen, adopt: fn(&World) -> Vec<u64>) {
    let world = World::new();
    world.shared().announce(FILE, HERE);
    let noted = seen.clone();
    world.run(
        move |world| {
            world.slot().publish_cheap(KIND_WRITE, FILE, HERE);
            world.step();
            if noted.answer(world.shared().all_clear(FILE, HERE), "cheap", "asked") {
                world.bytes.read();
            }
            world.step();
            world.slot().free();
        },
        |world| {
            adopt(world);
            world.step();
            world.bytes.write();
        },
    );
}

#[test]
fn a_rank_asks_where_the_dead_agent_had_set_a_bit() {
    holds(&["asked"], |seen| forget(seen, adopt));
}

#[test]
fn an_agent_that_begins_with_clear_bits_lets_ranks_read_old_bytes() {
    refuted(RACE, |seen| {
        forget(seen, |world| {
            world.shared().bits[0].store(0, Ordering::SeqCst);
            Vec::new()
        });
    });
}

/// A lease that the dead agent granted.
fn keep_lease(seen: &Seen, overlaps: fn(&World) -> bool) {
    let world = World::new();
    world.slot().grant_slow_read(HERE);
    let noted = seen.clone();
    world.run(
        move |world| {
            noted.note("read");
            world.bytes.read();
            world.step();
            world.slot().release_read();
        },
        |world| {
            if seen.answer(overlaps(world), "waits", "committed") {
                return;
            }
            world.bytes.write();
        },
    );
}

#[test]
fn a_lease_of_the_dead_agent_holds_for_the_next() {
    holds(&["read", "waits", "committed"], |seen| {
        keep_lease(seen, |world| world.shared().slow_read_overlaps(FILE, HERE));
    });
}

#[test]
fn an_agent_that_knows_only_its_own_leases_meets_a_read() {
    refuted(RACE, |seen| keep_lease(seen, |_| false));
}

/// An agent that dies while it sets or clears a bit, and an fsync: as long as the bit is set, it asks.
fn count(steps: [fn(&World); 2], deaths: std::ops::Range<usize>, set_before: bool) {
    for death in deaths {
        let model = move |_: &Seen| {
            let world = World::new();
            if set_before {
                world.shared().announce(FILE, HERE);
            }
            let announced = std::sync::Arc::new(loom::sync::atomic::AtomicU32::new(set_before.into()));
            let known = announced.clone();
            world.run(
                move |world| {
                    let promised = known.load(Ordering::Acquire) == 1 && world.shared().is_set(FILE, BIT);
                    let mut asked = false;
                    sync(world, || (), || asked = true).unwrap();
                    assert!(asked || !promised || !world.shared().is_set(FILE, BIT), "a set bit is not counted");
                },
                |world| {
                    steps[..death].iter().for_each(|step| step(world));
                    announced.store(1, Ordering::Release);
                },
            );
        };
        holds(&[], model);
    }
}

fn raise(world: &World) {
    world.entry().set_bits.fetch_add(1, Ordering::SeqCst);
}

fn lower(world: &World) {
    world.entry().set_bits.fetch_sub(1, Ordering::SeqCst);
}

fn set(world: &World) {
    world.shared().bits[0].fetch_or(1, Ordering::SeqCst);
}

fn unset(world: &World) {
    world.shared().bits[0].fetch_and(!1, Ordering::SeqCst);
}

#[test]
fn an_agent_that_dies_while_it_changes_a_bit_leaves_no_set_bit_uncounted() {
    count([raise, set], 0..3, false);
    count([unset, lower], 0..3, true);
}

#[test]
#[should_panic = "a set bit is not counted"]
fn a_bit_set_before_it_is_counted_is_left_uncounted() {
    count([set, raise], 1..2, false);
}

#[test]
#[should_panic = "a set bit is not counted"]
fn a_count_lowered_before_the_bit_is_cleared_leaves_it_uncounted() {
    count([lower, unset], 1..2, true);
}
