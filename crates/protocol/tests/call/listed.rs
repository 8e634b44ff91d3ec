//! Reads of flash by a listing: without a question, and what makes them ask after all.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use headstart_policy::client::Request;
use headstart_policy::order::Distance;
use headstart_protocol::call::{Answer, Call, Failure, FlashFault, Moved, Step, Thread};
use headstart_protocol::counters::RequestCounters;
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_protocol::shared::{LEASE_NONE, STATE_ASKING, STATE_FREE, STATE_LISTED};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::{Direction, Range};

use super::world::{BLOCK, FILE, Limited, Rank, request};

const LENGTH: u64 = BLOCK.length;
/// What counts as used of [`BLOCK`].
const USE_BLOCK: Range = Range { offset: 0, length: 32 << 10 };

/// A file whose first two granules have bits.
fn memory() -> Memory {
    let memory = Memory::new(1, 1, 1);
    memory.files[0].size.store(4 << 20, Ordering::Relaxed);
    memory.view().announce(FILE, Range::new(0, 2 * GRANULE_BYTES));
    memory
}

fn rank(memory: &Memory) -> Rank<'_> {
    Rank { memory, slot: 0, absorbs: false }
}

/// Lists extents of a granule, each of which lies at this place of data file 7.
fn list(memory: &Memory, granule: u64, extents: &[(u64, u64, u64)]) -> u32 {
    let shared = memory.view();
    let index = shared.listing_of(FILE, granule).unwrap();
    let places = extents.iter().map(|&(offset, length, place)| {
        (granule * GRANULE_BYTES + offset, Place { file: FILE, data_file: 7, place, length })
    });
    shared.fill_listing(index, FILE, granule, places);
    index
}

fn at(offset: u64, length: u64, place: u64) -> Step {
    Step::Flash { range: Range::new(offset, length), data_file: 7, place }
}

fn ask(offset: u64, length: u64) -> Step {
    Step::Ask(Message::Read { file: FILE, offset, length, leased: false, in_order: false })
}

fn begin(thread: &impl Thread, range: Range) -> (Call, Step) {
    let (mut call, step) = Call::read(FILE, request(Direction::Read, range));
    assert_eq!(step, Step::Look);
    let step = call.look(thread);
    (call, step)
}

fn state(memory: &Memory) -> (u32, u32) {
    let slot = &memory.slots[0];
    (slot.state.load(Ordering::Relaxed), slot.lease.load(Ordering::Relaxed))
}

fn counted(memory: &Memory) -> RequestCounters {
    let mut counters = RequestCounters::default();
    counters.add(&memory.slots[0].counters);
    counters
}

#[test]
fn a_read_by_a_listing_asks_nobody_and_counts_once_it_has_looked_again() {
    let memory = memory();
    let index = list(&memory, 0, &[(0, LENGTH, 8192)]);
    let rank = rank(&memory);
    let (mut call, step) = begin(&rank, BLOCK);
    assert_eq!((step, state(&memory)), (at(0, LENGTH, 8192), (STATE_LISTED, LEASE_NONE)));
    assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Look);
    assert_eq!((call.look(&rank), call.result(), call.flash_bytes()), (Step::Done, Ok(LENGTH), LENGTH));
    assert_eq!(state(&memory), (STATE_FREE, LEASE_NONE));
    let counted = counted(&memory);
    assert_eq!((counted.listed_reads_total, counted.listed_reads_in_vain_total), (1, 0));
    assert_eq!((counted.flash_read_requests_total, counted.flash_read_bytes_total), (1, LENGTH));
    assert!(memory.view().take_uses(index).ranges(0).eq([(USE_BLOCK, false)]), "the agent hears of it");
}

#[test]
fn the_agent_hears_whether_a_read_is_in_order_with_and_without_a_question() {
    for is_first in [false, true] {
        let memory = memory();
        let rank = rank(&memory);
        let in_order = !is_first;
        let distance = Distance { bytes: 0, is_first, ..Distance::default() };
        let sequential = Request { distance, ..request(Direction::Read, BLOCK) };
        let begin = || {
            let (mut call, _) = Call::read(FILE, sequential);
            let step = call.look(&rank);
            (call, step)
        };
        let (_, step) = begin();
        assert_eq!(step, Step::Ask(Message::Read { file: FILE, offset: 0, length: LENGTH, leased: false, in_order }));
        memory.slots[0].free();
        let index = list(&memory, 0, &[(0, LENGTH, 8192)]);
        let (mut call, _) = begin();
        assert_eq!((call.on_moved(&rank, Moved::Bytes(LENGTH)), call.look(&rank)), (Step::Look, Step::Done));
        assert!(memory.view().take_uses(index).ranges(0).eq([(USE_BLOCK, in_order)]));
    }
}

#[test]
fn a_read_by_a_listing_that_changed_meanwhile_is_asked_for_and_tries_no_other() {
    type Change = fn(&Memory);
    let changes: [Change; 2] = [
        |memory| memory.view().end_listing(0),
        // Another one, which says the same.
        |memory| assert_eq!(list(memory, 0, &[(0, LENGTH, 8192)]), 0),
    ];
    for change in changes {
        for before_it_moves in [true, false] {
            let memory = memory();
            let rank = rank(&memory);
            assert_eq!(list(&memory, 0, &[(0, LENGTH, 8192)]), 0);
            let (mut call, _) = begin(&rank, BLOCK);
            if before_it_moves {
                change(&memory);
            }
            assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Look);
            if !before_it_moves {
                change(&memory);
            }
            assert_eq!((call.look(&rank), state(&memory).0), (ask(0, LENGTH), STATE_ASKING));
            list(&memory, 0, &[(0, LENGTH, 8192)]);
            memory.slots[0].grant_flash_read([Place { file: FILE, data_file: 3, place: 0, length: 100 }]);
            let step = call.on_answer(&rank, Answer::Flash(100)).unwrap();
            assert_eq!(step, Step::Flash { range: Range::new(0, 100), data_file: 3, place: 0 });
            assert_eq!(call.on_moved(&rank, Moved::Bytes(100)), ask(100, LENGTH - 100));
            let counted = counted(&memory);
            assert_eq!((counted.listed_reads_total, counted.listed_reads_in_vain_total), (0, 1));
            assert!(memory.view().take_uses(0).is_empty());
        }
    }
}

#[test]
fn extents_are_read_piece_by_piece_up_to_a_hole_and_the_rest_is_asked_for() {
    let memory = memory();
    let rank = rank(&memory);
    list(&memory, 0, &[(0, 1000, 0), (1000, 1000, 9192), (3000, 1000, 0)]);
    let (mut call, step) = begin(&rank, BLOCK);
    assert_eq!(step, at(0, 1000, 0));
    assert_eq!(call.on_moved(&rank, Moved::Bytes(1000)), at(1000, 1000, 9192));
    assert_eq!(call.on_moved(&rank, Moved::Bytes(1000)), Step::Look);
    assert_eq!(call.look(&rank), ask(2000, LENGTH - 2000));
    assert_eq!((call.flash_bytes(), counted(&memory).listed_reads_total), (2000, 1));
}

#[test]
fn each_granule_of_a_read_has_its_own_listing() {
    let memory = memory();
    let rank = rank(&memory);
    let range = Range::new(GRANULE_BYTES - 500, 1000);
    list(&memory, 0, &[(GRANULE_BYTES - 4096, 4096, 0)]);
    let second = list(&memory, 1, &[(0, 4096, 8192)]);
    for ends in [false, true] {
        let (mut call, step) = begin(&rank, range);
        assert_eq!(step, at(range.offset, 500, 3596));
        assert_eq!(call.on_moved(&rank, Moved::Bytes(500)), Step::Look);
        assert_eq!(call.look(&rank), at(GRANULE_BYTES, 500, 8192));
        assert_eq!(call.on_moved(&rank, Moved::Bytes(500)), Step::Look);
        if ends {
            memory.view().end_listing(second);
            assert_eq!(call.look(&rank), ask(GRANULE_BYTES, 500), "the first part stays");
        } else {
            assert_eq!((call.look(&rank), call.result()), (Step::Done, Ok(1000)));
        }
    }
}

#[test]
fn what_flash_does_not_give_by_a_listing_is_asked_for() {
    for moved in
        [Moved::FlashFailed(FlashFault::Broken), Moved::FlashFailed(FlashFault::Unreachable), Moved::Failed(14)]
    {
        let memory = memory();
        let rank = rank(&memory);
        list(&memory, 0, &[(0, 1000, 0), (1000, 3096, 9192)]);
        let (mut call, _) = begin(&rank, BLOCK);
        assert_eq!(call.on_moved(&rank, Moved::Bytes(1000)), at(1000, 3096, 9192));
        assert_eq!(call.on_moved(&rank, moved), ask(0, LENGTH), "nothing was looked at");
    }
}

#[test]
fn a_read_ends_where_the_programs_memory_does() {
    let memory = memory();
    let rank = rank(&memory);
    list(&memory, 0, &[(0, LENGTH, 8192)]);
    let (mut call, _) = begin(&rank, BLOCK);
    assert_eq!(call.on_moved(&rank, Moved::Bytes(10)), Step::Look);
    assert_eq!((call.look(&rank), call.result(), state(&memory).0), (Step::Done, Ok(10), STATE_FREE));
}

#[test]
fn a_thread_reads_by_no_listing_that_may_not_or_whose_descriptor_is_closed() {
    let memory = memory();
    list(&memory, 0, &[(0, LENGTH, 8192)]);
    let thread = Limited { rank: rank(&memory), is_open: Cell::new(true), lists: false };
    assert_eq!(begin(&thread, BLOCK).1, ask(0, LENGTH));
    let thread = Limited { rank: rank(&memory), is_open: Cell::new(false), lists: true };
    let (call, step) = begin(&thread, BLOCK);
    assert_eq!((step, call.result(), state(&memory).0), (Step::Done, Err(Failure::Changed), STATE_FREE));
}
