//! The ring of hints: what is taken was left, whole and in order, even when the ring is full.

use headstart_policy::client::FetchTurn;
use headstart_policy::client::s4d::Critical;
use headstart_protocol::marks::Gathered;
use headstart_protocol::shared::{HINTS_MAX, Slot};
use headstart_units::request::Range;
use loom::sync::atomic::Ordering;

use super::explorer::{Seen, World, holds, refuted};

const TORN: &str = "a hint is torn or out of order";
const LOST: &str = "a hint has no mark";

/// One more hint than the ring holds; the agent takes as many as it finds.
fn ring(seen: &Seen, leave: fn(&Slot, u32), take: fn(&Slot) -> Option<Critical>) {
    let noted = seen.clone();
    World::new().run(
        move |world| {
            for k in 1..=HINTS_MAX as u32 + 1 {
                leave(world.slot(), k);
                world.step();
            }
        },
        |world| {
            let mut last = 0;
            for _ in 0..=HINTS_MAX {
                world.step();
                let Some(taken) = take(world.slot()) else { break };
                assert!(taken.file > last && taken == hint(taken.file), "{TORN}");
                last = taken.file;
            }
            noted.note(match last as usize {
                0 => "none",
                last if last > HINTS_MAX => "all",
                _ => "some",
            });
        },
    );
}

fn hint(k: u32) -> Critical {
    Critical { file: k, range: Range::new(k.into(), 1), benefit_ns: k.into(), turn: FetchTurn::Soon }
}

fn leave(slot: &Slot, k: u32) {
    let Critical { file, range, benefit_ns, turn } = hint(k);
    slot.hint(file, range, benefit_ns, turn);
}

/// Leaves a hint and its mark, as `leave` says; a hint that is not taken has a mark, or had one whose taker is to look.
fn marked(seen: &Seen, is_marked: bool, leave: fn(&World)) {
    let noted = seen.clone();
    let world = World::new();
    if is_marked {
        // Of something before, which is taken.
        world.shared().mark(0);
    }
    let mut is_taken = false;
    world.run(leave, |world| {
        let mut gathered = Gathered::default();
        gathered.gather(world.shared());
        world.step();
        is_taken = !gathered.hints.is_empty() && world.slot().take_hint().is_some();
    });
    if !noted.answer(is_taken, "taken", "left") {
        let mut gathered = Gathered::default();
        gathered.gather(world.shared());
        assert!(!gathered.hints.is_empty(), "{LOST}");
        assert_eq!(world.slot().take_hint(), Some(hint(1)));
    }
}

#[test]
fn a_hint_that_is_not_taken_has_a_mark() {
    for is_marked in [false, true] {
        holds(&["taken", "left"], move |seen| {
            marked(seen, is_marked, |world| {
                let Critical { file, range, benefit_ns, turn } = hint(1);
                world.shared().hint(0, file, range, benefit_ns, turn);
            });
        });
    }
}

#[test]
fn a_mark_before_its_hint_may_be_taken_in_vain() {
    refuted(LOST, |seen| {
        marked(seen, false, |world| {
            world.shared().mark(0);
            world.step();
            leave(world.slot(), 1);
        });
    });
}

#[test]
fn a_hint_without_a_fence_where_the_mark_is_set_is_lost() {
    refuted(LOST, |seen| {
        marked(seen, true, |world| {
            leave(world.slot(), 1);
            world.shared().mark(0);
        });
    });
}

#[test]
fn hints_are_taken_whole_and_in_order() {
    holds(&["none", "some", "all"], |seen| ring(seen, leave, Slot::take_hint));
}

#[test]
fn a_head_moved_before_the_hint_is_there_shows_a_torn_one() {
    refuted(TORN, |seen| {
        let leave = |slot: &Slot, k: u32| {
            let head = slot.hints_head.load(Ordering::Relaxed);
            if head.wrapping_sub(slot.hints_tail.load(Ordering::Acquire)) as usize >= HINTS_MAX {
                return;
            }
            slot.hints_head.store(head + 1, Ordering::Release);
            let hint = &slot.hints[head as usize % HINTS_MAX];
            hint.file.store(k.into(), Ordering::Relaxed);
            hint.offset.store(k.into(), Ordering::Relaxed);
            hint.length.store(1, Ordering::Relaxed);
            hint.benefit_ns.store(k.into(), Ordering::Relaxed);
        };
        ring(seen, leave, Slot::take_hint);
    });
}

#[test]
fn a_tail_moved_before_the_hint_is_read_shows_a_torn_one() {
    refuted(TORN, |seen| {
        let take = |slot: &Slot| {
            let tail = slot.hints_tail.load(Ordering::Relaxed);
            if tail == slot.hints_head.load(Ordering::Acquire) {
                return None;
            }
            slot.hints_tail.store(tail + 1, Ordering::Release);
            let hint = &slot.hints[tail as usize % HINTS_MAX];
            Some(Critical {
                file: hint.file.load(Ordering::Relaxed) as u32,
                range: Range::new(hint.offset.load(Ordering::Relaxed), hint.length.load(Ordering::Relaxed)),
                benefit_ns: hint.benefit_ns.load(Ordering::Relaxed),
                turn: FetchTurn::Soon,
            })
        };
        ring(seen, leave, take);
    });
}
