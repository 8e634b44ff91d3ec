//! Rules 8, 9 and 11: the size bit, writes to files that shrink, appends, and the count of set bits that fsync reads.

use headstart_protocol::shared::{KIND_EXTEND, KIND_WRITE, STATE_CHEAP, Slot};
use headstart_units::request::Range;
use loom::sync::atomic::{AtomicU32, Ordering, fence};

use super::explorer::{BIT, FILE, HERE, RACE, Seen, World, holds, refuted, sync};

type Publish = fn(&World) -> bool;

fn publish(world: &World) -> bool {
    world.slot().publish_write(world.entry(), FILE, HERE)
}

fn announce(world: &World) {
    world.shared().announce_extension(FILE);
}

fn cheap(world: &World, extends: bool) -> bool {
    world.shared().write_is_cheap(FILE, HERE, extends)
}

fn may_be_extending(world: &World) -> bool {
    world.shared().may_be_extending(FILE, 0)
}

/// What a rank does whose write may make the file longer.
fn writes(seen: &Seen, publish: Publish, cheap: fn(&World, bool) -> bool) -> impl FnOnce(&World) + use<> {
    let noted = seen.clone();
    move |world| {
        let extends = publish(world);
        world.step();
        if noted.answer(cheap(world, extends), "cheap", "asked") {
            world.bytes.write();
        }
        world.step();
        world.slot().free();
    }
}

/// A write that may make the file longer, and an agent that sets its size: either call alone at a time, or
/// one undoes the other. The file was `size` long when the rank last heard of it and is empty now.
fn extend(
    seen: &Seen,
    size: u64,
    publish: Publish,
    cheap: fn(&World, bool) -> bool,
    announce: fn(&World),
    may_be_extending: fn(&World) -> bool,
) {
    let world = World::new();
    world.entry().size.store(size, Ordering::Relaxed);
    world.run(writes(seen, publish, cheap), |world| {
        world.entry().size.fetch_min(0, Ordering::SeqCst);
        world.step();
        announce(world);
        world.step();
        if seen.answer(may_be_extending(world), "waits", "extended") {
            return;
        }
        world.bytes.write();
        world.step();
        world.shared().end_extension(FILE);
    });
}

const ALL: [&str; 4] = ["cheap", "asked", "extended", "waits"];

#[test]
fn the_agent_and_a_cheap_write_never_change_the_size_at_once() {
    holds(&ALL, |seen| extend(seen, 0, publish, cheap, announce, may_be_extending));
}

#[test]
fn a_write_that_took_the_file_for_longer_than_it_is_never_changes_the_size_with_the_agent() {
    holds(&ALL, |seen| extend(seen, HERE.end(), publish, cheap, announce, may_be_extending));
}

#[test]
fn without_the_agents_fence_both_change_the_size() {
    let announce = |world: &World| world.entry().size_bit.store(1, Ordering::SeqCst);
    refuted(RACE, move |seen| extend(seen, 0, publish, cheap, announce, may_be_extending));
}

#[test]
fn without_the_ranks_fence_both_change_the_size() {
    let publish = |world: &World| {
        let slot: &Slot = world.slot();
        slot.kind.store(KIND_EXTEND, Ordering::Release);
        slot.offset.store(HERE.offset, Ordering::Release);
        slot.length.store(HERE.length, Ordering::Release);
        slot.state.store(STATE_CHEAP, Ordering::Release);
        true
    };
    refuted(RACE, move |seen| extend(seen, 0, publish, cheap, announce, may_be_extending));
}

#[test]
fn a_write_that_does_not_look_at_the_size_bit_meets_the_extension() {
    let cheap = |world: &World, _| world.shared().all_clear(FILE, HERE);
    refuted(RACE, move |seen| extend(seen, 0, publish, cheap, announce, may_be_extending));
}

#[test]
fn a_write_that_does_not_look_at_the_size_again_meets_the_extension() {
    let publish = |world: &World| {
        let extends = HERE.end() > world.entry().size.load(Ordering::Acquire);
        world.slot().publish_cheap(if extends { KIND_EXTEND } else { KIND_WRITE }, FILE, HERE);
        extends
    };
    refuted(RACE, move |seen| extend(seen, HERE.end(), publish, cheap, announce, may_be_extending));
}

#[test]
fn an_agent_that_believes_the_kind_of_write_meets_one_from_before_the_file_shrank() {
    let believes = |world: &World| {
        let slot = world.slot();
        slot.state.load(Ordering::Acquire) == STATE_CHEAP && slot.kind.load(Ordering::Acquire) == KIND_EXTEND
    };
    refuted(RACE, move |seen| extend(seen, HERE.end(), publish, cheap, announce, believes));
}

/// A write that may make the file longer, and an agent that lets somebody cut it: whether it was cut the size says to the
/// agent if that thread dies. The file was `size` long when the rank last heard of it.
fn cut(seen: &Seen, size: u64, lower_size: fn(&World)) {
    let world = World::new();
    world.entry().size.store(size, Ordering::Relaxed);
    world.run(writes(seen, publish, cheap), |world| {
        announce(world);
        world.step();
        lower_size(world);
        world.step();
        if seen.answer(may_be_extending(world), "waits", "cut") {
            return;
        }
        world.bytes.write();
        world.step();
        world.shared().end_extension(FILE);
    });
}

fn lower_size(world: &World) {
    world.shared().lower_size(FILE, 0);
}

#[test]
fn a_truncation_and_a_cheap_write_never_change_the_size_at_once() {
    for size in [0, HERE.end()] {
        holds(&["cheap", "asked", "cut", "waits"], move |seen| cut(seen, size, lower_size));
    }
}

#[test]
fn without_a_fence_behind_the_lower_size_a_write_meets_the_truncation() {
    let unfenced = |world: &World| {
        world.entry().size.fetch_min(0, Ordering::SeqCst);
    };
    refuted(RACE, move |seen| cut(seen, HERE.end(), unfenced));
}

/// An append, which is cheap while the file has no set bit at all, and a commit.
fn append(seen: &Seen, announce: fn(&World)) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            world.slot().publish_cheap(KIND_EXTEND, FILE, Range::new(0, u64::MAX));
            world.step();
            if noted.answer(world.shared().append_is_cheap(FILE), "cheap", "asked") {
                world.bytes.write();
            }
            world.step();
            world.slot().free();
        },
        |world| {
            world.step();
            announce(world);
            world.step();
            if seen.answer(world.shared().is_settled(FILE, BIT), "committed", "waits") {
                world.bytes.write();
            }
        },
    );
}

#[test]
fn an_append_and_a_commit_never_meet_at_the_slow_file() {
    holds(&["cheap", "asked", "committed", "waits"], |seen| append(seen, |world| world.shared().announce(FILE, HERE)));
}

#[test]
fn a_count_raised_after_the_fence_lets_them_meet() {
    refuted(RACE, |seen| {
        append(seen, |world| {
            world.shared().bits[0].fetch_or(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            world.entry().set_bits.fetch_add(1, Ordering::SeqCst);
        });
    });
}

/// An fsync, while the acknowledged bytes go back to the slow file, where nothing but the fsync makes them durable.
fn fsync(seen: &Seen, sync: fn(&World, &mut dyn FnMut(), &mut dyn FnMut())) {
    let world = World::new();
    world.shared().announce(FILE, HERE);
    let slow = std::sync::Arc::new(AtomicU32::new(0));
    let (written, noted) = (slow.clone(), seen.clone());
    world.run(
        move |world| {
            let (durable, asked) = (std::cell::Cell::new(false), std::cell::Cell::new(false));
            let mut kernel = || durable.set(written.load(Ordering::Relaxed) == 1);
            sync(world, &mut kernel, &mut || asked.set(true));
            noted.note(if asked.get() { "asked" } else { "alone" });
            assert!(durable.get() || asked.get(), "acknowledged bytes are lost");
        },
        |world| {
            slow.store(1, Ordering::Relaxed);
            world.step();
            world.shared().clear_bit(FILE, BIT);
        },
    );
}

#[test]
fn an_fsync_that_does_not_ask_finds_every_byte_in_the_slow_file() {
    holds(&["alone", "asked"], |seen| {
        fsync(seen, |world, kernel, ask| sync(world, kernel, ask).map(|_| ()).unwrap());
    });
}

#[test]
fn an_fsync_that_loads_the_count_last_loses_bytes() {
    refuted("are lost", |seen| {
        fsync(seen, |world, kernel, ask| {
            kernel();
            world.step();
            if world.entry().set_bits.load(Ordering::Acquire) != 0 {
                ask();
            }
        });
    });
}

#[test]
fn a_count_loaded_without_acquire_ordering_loses_bytes() {
    refuted("are lost", |seen| {
        fsync(seen, |world, kernel, ask| {
            let promised = world.entry().set_bits.load(Ordering::Relaxed) != 0;
            kernel();
            world.step();
            if promised {
                ask();
            }
        });
    });
}
