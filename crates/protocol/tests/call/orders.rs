//! Random histories of threads that drive calls: none is wrong while steps are made in their order, and
//! each wrong order is found.

use headstart_units::chance::Random;

use super::world::{Order, World};

const RANKS: usize = 3;
const OPERATIONS: u64 = 12;
const HISTORIES: u64 = 20_000;
/// Some wrong orders break few of them.
const WRONG_HISTORIES: u64 = 100_000;

/// The first history that is not right.
fn found(order: Order) -> Option<String> {
    let mut seeds = Random(order as u64);
    (0..WRONG_HISTORIES).find_map(|_| {
        let seed = seeds.next();
        World::new(seed, RANKS, order).run(OPERATIONS).err().map(|text| format!("seed {seed}: {text}"))
    })
}

#[test]
fn calls_in_the_order_of_their_steps_return_no_old_value_and_end() {
    let (mut seeds, mut steps, mut leased_reads, mut pushes) = (Random(1), [0; 4], 0, [0; 2]);
    let mut listed = [0; 2];
    for _ in 0..HISTORIES {
        let seed = seeds.next();
        let mut world = World::new(seed, RANKS, Order::Right);
        world.run(OPERATIONS).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        steps.iter_mut().zip(world.steps).for_each(|(sum, count)| *sum += count);
        leased_reads += world.leased_reads;
        listed.iter_mut().zip(world.listed).for_each(|(sum, count)| *sum += count);
        pushes.iter_mut().zip(world.pushes).for_each(|(sum, count)| *sum += count);
    }
    let [pushed, counted] = pushes;
    assert!(counted > HISTORIES / 4 && pushed > counted, "pushed, and counted: {pushes:?}");
    assert!(listed[1] > HISTORIES / 40 && listed[0] > listed[1] + 100, "read by listings, and counted: {listed:?}");
    assert!(leased_reads > 100, "{leased_reads} reads were in vain again and again");
    assert!(steps.iter().all(|count| *count > 2 * HISTORIES), "looks, slow files, flash, questions: {steps:?}");
}

fn is_found(order: Order, how: &str) {
    let found = found(order).unwrap_or_else(|| panic!("{order:?} goes unnoticed"));
    assert!(found.contains(how), "{order:?}: {found}");
}

#[test]
fn a_thread_that_does_not_look_is_found() {
    is_found(Order::NoLook, "old value");
}

#[test]
fn a_thread_that_does_not_look_again_is_found() {
    is_found(Order::NoSecondLook, "old value");
}

#[test]
fn a_thread_whose_request_is_in_no_slot_is_found() {
    is_found(Order::NotPublished, "old value");
}

#[test]
fn a_thread_that_keeps_its_slot_while_it_asks_is_found() {
    is_found(Order::KeepsSlot, "no end");
}

#[test]
fn a_thread_that_frees_its_slot_before_it_moves_is_found() {
    is_found(Order::CheapLater, "old value");
}

#[test]
fn a_thread_that_releases_a_lease_or_says_it_wrote_before_it_moves_is_found() {
    is_found(Order::LeasedLater, "old value");
}

#[test]
fn a_thread_that_commits_before_it_wrote_is_found() {
    is_found(Order::FlashLater, "");
}

#[test]
fn a_thread_that_does_not_look_again_after_a_push_is_found() {
    is_found(Order::NoLookAfterPush, "old value");
}

#[test]
fn an_agent_that_answers_before_it_takes_out_what_was_pushed_is_found() {
    is_found(Order::NoDrain, "old value");
}

#[test]
fn an_agent_that_leaves_a_granule_open_is_found() {
    is_found(Order::OpenDirect, "old value");
    is_found(Order::OpenClear, "old value");
}

#[test]
fn an_agent_that_applies_what_does_not_count_is_found() {
    is_found(Order::Stale, "old value");
    is_found(Order::Twice, "");
    is_found(Order::NoTickets, "old value");
}

#[test]
fn a_thread_that_does_not_look_again_after_it_read_by_a_listing_is_found() {
    is_found(Order::NoLookAfterListed, "is read");
}

#[test]
fn an_agent_that_lists_what_is_not_so_any_more_is_found() {
    is_found(Order::NoEnd, "is read");
    is_found(Order::ListOpen, "is read");
    is_found(Order::KeyAgain, "is read");
}
