//! Rules of requests: no-fence-rank, no-fence-agent, bit-after-commit, no-wait, slot-kept;
//! slots read while they change; bits cleared; descriptors closed.

use headstart_protocol::shared::{KIND_WRITE, STATE_CHEAP, STATE_FREE, Slot};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;
use loom::sync::atomic::{AtomicU32, Ordering, fence};

use super::explorer::{BIT, ELSEWHERE, FILE, HERE, RACE, Seen, World, holds, refuted};

type Step = fn(&World);

fn publish(world: &World) {
    world.slot().publish_cheap(KIND_WRITE, FILE, HERE);
}

/// The request's fields, in the order and with the ordering of a plain store.
fn fill(slot: &Slot, range: Range, ordering: Ordering) {
    slot.kind.store(KIND_WRITE, ordering);
    slot.file.store(FILE, ordering);
    slot.offset.store(range.offset, ordering);
    slot.length.store(range.length, ordering);
}

fn publish_without_fence(world: &World) {
    fill(world.slot(), HERE, Ordering::Release);
    world.slot().state.store(STATE_CHEAP, Ordering::Release);
}

fn free(world: &World) {
    world.slot().free();
}

fn announce(world: &World) {
    world.shared().announce(FILE, HERE);
}

fn announce_without_fence(world: &World) {
    world.entry().set_bits.fetch_add(1, Ordering::SeqCst);
    world.shared().bits[0].fetch_or(1, Ordering::SeqCst);
}

fn nothing(_: &World) {}

fn settled(world: &World) -> bool {
    world.shared().is_settled(FILE, BIT)
}

/// A cheap request, and bytes that come to flash and go back to the slow file.
fn meet(seen: &Seen, publish: Step, free: Step, announce: Step, settled: fn(&World) -> bool) {
    let world = World::new();
    let noted = seen.clone();
    world.run(
        move |world| {
            publish(world);
            world.step();
            if noted.answer(world.shared().all_clear(FILE, HERE), "cheap", "asked") {
                world.bytes.read();
            }
            world.step();
            free(world);
        },
        |world| {
            announce(world);
            world.step();
            if seen.answer(settled(world), "committed", "waits") {
                world.bytes.write();
            }
        },
    );
}

const ALL: [&str; 4] = ["cheap", "asked", "committed", "waits"];

#[test]
fn a_cheap_request_and_a_commit_never_meet_at_the_slow_file() {
    holds(&ALL, |seen| meet(seen, publish, free, announce, settled));
}

/// All bits of a file are set at once, as another node may be at it.
#[test]
fn nor_do_they_where_all_bits_are_set_at_once() {
    holds(&ALL, |seen| meet(seen, publish, free, |world| world.shared().announce_all(FILE), settled));
}

#[test]
fn without_the_ranks_fence_they_meet() {
    refuted(RACE, |seen| meet(seen, publish_without_fence, free, announce, settled));
}

#[test]
fn without_the_agents_fence_they_meet() {
    refuted(RACE, |seen| meet(seen, publish, free, announce_without_fence, settled));
}

#[test]
fn if_the_agent_does_not_look_at_the_slots_they_meet() {
    refuted(RACE, |seen| meet(seen, publish, free, announce, |_| true));
}

#[test]
fn a_request_without_a_slot_meets_the_commit() {
    refuted(RACE, |seen| meet(seen, |_| fence(Ordering::SeqCst), nothing, announce, settled));
}

#[test]
fn a_slot_freed_without_release_ordering_lets_them_meet() {
    refuted(RACE, |seen| {
        meet(seen, publish, |world| world.slot().state.store(STATE_FREE, Ordering::Relaxed), announce, settled)
    });
}

#[test]
fn a_bit_set_after_the_commit_lets_them_meet() {
    refuted(RACE, |_| {
        World::new().run(
            |world| {
                publish(world);
                if world.shared().all_clear(FILE, HERE) {
                    world.bytes.read();
                }
                free(world);
            },
            |world| {
                if settled(world) {
                    world.bytes.write();
                }
                announce(world);
            },
        );
    });
}

/// A rank that sees the bit asks, and an agent that waits for the slot must not wait for one that asks.
fn ask(seen: &Seen, ask: Step) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            publish(world);
            world.step();
            if noted.answer(world.shared().all_clear(FILE, HERE), "cheap", "asked") {
                return free(world);
            }
            ask(world);
            world.step();
            world.request.send();
        },
        |world| {
            announce(world);
            world.step();
            if world.request.has_come() {
                seen.note("heard");
                assert!(settled(world), "the agent waits for a rank that waits for the agent");
            }
        },
    );
}

#[test]
fn nobody_waits_for_a_rank_that_asks() {
    holds(&["cheap", "asked", "heard"], |seen| ask(seen, |world| world.slot().ask()));
}

#[test]
fn a_rank_that_keeps_its_slot_while_it_asks_blocks_the_agent() {
    refuted("waits for a rank", |seen| ask(seen, nothing));
}

/// Two requests one after the other; the agent may read half of each.
fn torn(seen: &Seen, publish: fn(&Slot, Range)) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            let slot = world.slot();
            publish(slot, HERE);
            if world.shared().all_clear(FILE, HERE) {
                noted.note("cheap");
                world.bytes.read();
            }
            world.step();
            slot.free();
            world.step();
            publish(slot, ELSEWHERE);
        },
        |world| {
            announce(world);
            world.step();
            if seen.answer(settled(world), "committed", "waits") {
                world.bytes.write();
            }
        },
    );
}

#[test]
fn an_agent_that_reads_half_of_two_requests_knows_that_the_first_has_ended() {
    holds(&["cheap", "committed", "waits"], |seen| {
        torn(seen, |slot, range| slot.publish_cheap(KIND_WRITE, FILE, range));
    });
}

#[test]
fn with_relaxed_fields_it_takes_the_first_for_the_second() {
    refuted(RACE, |seen| {
        torn(seen, |slot, range| {
            fill(slot, range, Ordering::Relaxed);
            slot.state.store(STATE_CHEAP, Ordering::Release);
            fence(Ordering::SeqCst);
        });
    });
}

#[test]
fn with_the_state_before_the_request_it_overlooks_the_request() {
    refuted(RACE, |seen| {
        torn(seen, |slot, range| {
            slot.state.store(STATE_CHEAP, Ordering::Release);
            fence(Ordering::SeqCst);
            fill(slot, range, Ordering::Release);
        });
    });
}

/// What was on flash goes back to the slow file, and the bit is cleared.
fn clear(seen: &Seen, load: fn(&World) -> bool, clear: Step) {
    let world = World::new();
    announce(&world);
    let noted = seen.clone();
    world.run(
        move |world| {
            publish(world);
            world.step();
            if noted.answer(load(world), "cheap", "asked") {
                world.bytes.read();
            }
        },
        clear,
    );
}

fn all_clear(world: &World) -> bool {
    world.shared().all_clear(FILE, HERE)
}

fn write_and_clear(world: &World) {
    world.bytes.write();
    world.step();
    world.shared().clear_bit(FILE, BIT);
}

#[test]
fn whoever_sees_a_bit_cleared_sees_the_slow_file_as_it_was_left() {
    holds(&["cheap", "asked"], |seen| clear(seen, all_clear, write_and_clear));
}

#[test]
fn a_bit_cleared_before_the_last_write_back_shows_old_bytes() {
    refuted(RACE, |seen| {
        clear(seen, all_clear, |world| {
            world.shared().clear_bit(FILE, BIT);
            world.bytes.write();
        });
    });
}

#[test]
fn bits_loaded_without_acquire_ordering_show_old_bytes() {
    refuted(RACE, |seen| {
        clear(seen, |world| world.shared().bits[0].load(Ordering::Relaxed) == 0, write_and_clear);
    });
}

/// Bytes come to flash, go back and leave it, again and again, while a rank makes one request after the
/// other. `DEEP=1` for more.
#[test]
fn a_granule_goes_to_flash_and_back_while_a_rank_works() {
    let deep = std::env::var_os("DEEP").is_some();
    let (requests, turns) = if deep { (3, 2) } else { (2, 1) };
    holds(&ALL, move |seen| {
        let noted = seen.clone();
        World::new().run(
            move |world| {
                for _ in 0..requests {
                    publish(world);
                    if noted.answer(all_clear(world), "cheap", "asked") {
                        world.bytes.read();
                    }
                    free(world);
                    world.step();
                }
            },
            |world| {
                for _ in 0..turns {
                    announce(world);
                    if seen.answer(settled(world), "committed", "waits") {
                        world.bytes.write();
                    }
                    world.step();
                    world.shared().clear_bit(FILE, BIT);
                    world.step();
                }
            },
        );
    });
}

/// A request in one thread, and a `close` in another that tells the agent once nobody uses the file any more.
fn close(seen: &Seen, publish: Step, order: fn()) {
    let world = World::new();
    let open = std::sync::Arc::new(AtomicU32::new(1));
    let (known, noted) = (open.clone(), seen.clone());
    world.run(
        move |world| {
            publish(world);
            world.step();
            if noted.answer(known.load(Ordering::Acquire) == 1, "open", "closed") {
                world.bytes.read();
            }
            world.slot().free();
        },
        |world| {
            open.store(0, Ordering::Release);
            order();
            world.step();
            if seen.answer(!world.slot().is_busy_with(FILE), "told", "waits") {
                world.bytes.write();
            }
        },
    );
}

fn publish_asking(world: &World) {
    world.slot().publish_asking(KIND_WRITE, FILE, Range::new(GRANULE_BYTES, 1));
}

#[test]
fn a_file_is_closed_only_once_no_request_uses_it() {
    for publish in [publish, publish_asking] {
        holds(&["open", "closed", "told", "waits"], move |seen| close(seen, publish, || fence(Ordering::SeqCst)));
    }
}

#[test]
fn a_close_without_a_fence_overlooks_a_request() {
    refuted(RACE, |seen| close(seen, publish, || ()));
}

#[test]
fn a_request_without_a_fence_is_overlooked_by_a_close() {
    refuted(RACE, |seen| close(seen, publish_without_fence, || fence(Ordering::SeqCst)));
}
