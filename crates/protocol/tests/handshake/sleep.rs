//! An agent that sleeps until it is told something: what a thread leaves is looked at, or the agent is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headstart_protocol::ring::Collector;
use loom::sync::atomic::{Ordering, fence};

use super::by_hand::{fill, move_head};
use super::explorer::{FILE, HERE, Seen, World, holds, refuted};
use super::rings::PLACE;

const UNTOLD: &str = "the agent sleeps over what was left, and is not told";

/// The thread pushes, and says whether the agent is to be told. The agent looks, and sleeps if it may.
fn meet(seen: &Seen, is_marked: bool, push: fn(&World) -> bool, sleep: fn(&Collector, &World) -> bool) {
    let world = World::with_rings(1);
    world.open();
    if is_marked {
        // Of something before, which is taken out.
        world.shared().mark(0);
    }
    let is_told = Arc::new(AtomicBool::new(false));
    let (noted, known) = (seen.clone(), Arc::clone(&is_told));
    let (mut is_found, mut sleeps) = (false, false);
    world.run(
        move |world| known.store(noted.answer(push(world), "told", "not told"), Ordering::Relaxed),
        |world| {
            let mut collector = Collector::default();
            is_found = !collector.take(world.shared()).is_empty();
            // Nobody leaves any.
            let _ = collector.take_hinted();
            world.step();
            sleeps = sleep(&collector, world);
        },
    );
    seen.answer(is_found, "found", "not found");
    seen.answer(sleeps, "sleeps", "awake");
    assert!(is_found || !sleeps || is_told.load(Ordering::Relaxed), "{UNTOLD}");
}

fn push(world: &World) -> bool {
    let open = world.shared().open_for(0, FILE, HERE).expect("it stays open");
    world.shared().push(0, open, HERE, PLACE)
}

/// Leaves an entry, and marks the slot as `mark` does.
fn push_by_hand(world: &World, mark: impl FnOnce() -> bool) -> bool {
    let open = world.shared().open_for(0, FILE, HERE).expect("it stays open");
    fill(world, 0, open);
    move_head(world, 0, Ordering::Release);
    fence(Ordering::SeqCst);
    mark()
}

fn sleep(collector: &Collector, world: &World) -> bool {
    collector.fall_asleep(world.shared())
}

fn say_so(world: &World) {
    world.shared().marks.sleeping.0.store(1, Ordering::SeqCst);
}

fn is_marked(world: &World) -> bool {
    world.shared().marks.words[0].load(Ordering::Relaxed) != 0
}

const ALL: [&str; 6] = ["told", "not told", "found", "not found", "sleeps", "awake"];

#[test]
fn what_a_sleeping_agent_has_not_seen_it_is_told_of() {
    for is_marked in [false, true] {
        holds(&ALL, move |seen| meet(seen, is_marked, push, sleep));
    }
}

#[test]
fn an_agent_that_looks_at_marks_before_it_says_that_it_sleeps_is_not_told() {
    let sleep = |_: &Collector, world: &World| {
        let is_quiet = !is_marked(world);
        world.step();
        say_so(world);
        fence(Ordering::SeqCst);
        is_quiet
    };
    refuted(UNTOLD, move |seen| meet(seen, false, push, sleep));
}

#[test]
fn an_agent_that_does_not_fence_before_it_looks_is_not_told() {
    let sleep = |_: &Collector, world: &World| {
        say_so(world);
        world.step();
        !is_marked(world)
    };
    refuted(UNTOLD, move |seen| meet(seen, false, push, sleep));
}

#[test]
fn an_agent_that_sleeps_over_a_ring_which_is_not_read_to_its_end_is_not_told() {
    let sleep = |_: &Collector, world: &World| {
        say_so(world);
        fence(Ordering::SeqCst);
        !is_marked(world)
    };
    refuted(UNTOLD, move |seen| meet(seen, true, push, sleep));
}

#[test]
fn a_thread_that_looks_whether_the_agent_sleeps_before_it_marks_its_slot_does_not_tell_it() {
    let push = |world: &World| {
        push_by_hand(world, || {
            let sleeps = world.shared().marks.sleeping.0.load(Ordering::SeqCst) != 0;
            world.step();
            world.shared().mark(0);
            sleeps
        })
    };
    refuted(UNTOLD, move |seen| meet(seen, false, push, sleep));
}

#[test]
fn a_thread_that_does_not_fence_behind_its_mark_does_not_tell_the_agent() {
    let push = |world: &World| {
        push_by_hand(world, || {
            world.shared().marks.words[0].fetch_or(1, Ordering::SeqCst);
            world.shared().marks.sleeping.0.load(Ordering::SeqCst) != 0
        })
    };
    refuted(UNTOLD, move |seen| meet(seen, false, push, sleep));
}
