//! Commits that need no answer, step by step; rings that are full, or that a thread left when it was killed.

use std::sync::atomic::{AtomicU64, Ordering};

use headstart_protocol::call::{Answer, Call, Moved, Step};
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_protocol::ring::{Collector, ENTRIES_MAX, Pushed};
use headstart_protocol::shared::{GRANULES_PER_FILE, STATE_FREE};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::{Direction, Range};

use super::world::{BLOCK, FILE, Rank, request};

const WORD: usize = 0;
const SLAB: Place = Place { file: FILE, data_file: 7, place: 1 << 20, length: 1 << 20 };

/// A file of two granules; the first is open, under the number.
fn memory() -> (Memory, u64) {
    let memory = Memory::new(1, 1, 1);
    memory.header.free_bytes.store(1 << 40, Ordering::Relaxed);
    memory.files[0].size.store(2 * GRANULE_BYTES, Ordering::Relaxed);
    memory.slots[0].show_slab(0, SLAB);
    memory.view().announce(FILE, BLOCK);
    let open = memory.view().open(FILE, WORD);
    (memory, open)
}

fn rank(memory: &Memory) -> Rank<'_> {
    Rank { memory, slot: 0, absorbs: true }
}

/// Writes a range to flash; what comes then.
fn written(memory: &Memory, range: Range) -> (Call, Step) {
    let rank = rank(memory);
    let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, range));
    assert!(matches!(step, Step::Flash { .. }), "{step:?}");
    let step = call.on_moved(&rank, Moved::Bytes(range.length));
    (call, step)
}

fn seq(memory: &Memory) -> u64 {
    memory.slots[0].seq.load(Ordering::Relaxed)
}

/// What a push of `range` is taken out as.
fn pushed(open: u64, number: u64, range: Range, place: u64) -> Pushed {
    let place = Place { file: FILE, data_file: SLAB.data_file, place, length: range.length };
    Pushed { slot: 0, seq: number, ticket: number, open, range, place }
}

#[test]
fn a_write_in_an_open_granule_asks_nobody_and_is_taken_out_as_it_was_made() {
    let (memory, open) = memory();
    let rank = rank(&memory);
    for number in 1..=2 {
        let (mut call, step) = written(&memory, BLOCK);
        assert_eq!((step, seq(&memory)), (Step::Push, number - 1));
        assert_eq!((call.push(&rank), seq(&memory)), (Step::Look, number));
        assert_eq!((call.look(&rank), call.result()), (Step::Done, Ok(BLOCK.length)));
        assert_eq!(memory.slots[0].state.load(Ordering::Relaxed), STATE_FREE);
    }
    let expected = [1, 2].map(|number| pushed(open, number, BLOCK, SLAB.place + (number - 1) * BLOCK.length));
    assert_eq!(Collector::default().take(memory.view()), expected, "each went to pages of its own");
}

#[test]
fn a_granule_closed_after_the_push_is_asked_about_under_the_same_number() {
    let (memory, _) = memory();
    let rank = rank(&memory);
    let (mut call, step) = written(&memory, BLOCK);
    assert_eq!((step, call.push(&rank)), (Step::Push, Step::Look));
    memory.view().begin_closing(FILE, WORD);
    let Range { offset, length } = BLOCK;
    let commit = Message::Commit { file: FILE, data_file: SLAB.data_file, offset, length, place: SLAB.place };
    assert_eq!((call.look(&rank), seq(&memory)), (Step::AskPushed(commit), 1));
    assert_eq!(call.on_answer(&rank, Answer::Done), Ok(Step::Done));
    assert_eq!(call.result(), Ok(BLOCK.length));
}

#[test]
fn a_granule_opened_anew_does_not_make_up_for_the_number_before() {
    let (memory, _) = memory();
    let rank = rank(&memory);
    let (mut call, _) = written(&memory, BLOCK);
    call.push(&rank);
    memory.view().begin_closing(FILE, WORD);
    memory.view().end_closing(FILE, WORD);
    memory.view().open(FILE, WORD);
    assert!(matches!(call.look(&rank), Step::AskPushed(_)));
}

#[test]
fn what_is_closed_or_spans_granules_or_grows_the_file_is_asked_for() {
    let across = Range::new(GRANULE_BYTES - 4096, 8192);
    let (end, in_second) = (Range::new(2 * GRANULE_BYTES - 4096, 8192), Range::new(GRANULE_BYTES, 4096));
    for range in [across, end, in_second] {
        let (memory, _) = memory();
        let (_, step) = written(&memory, range);
        assert!(matches!(step, Step::Ask(Message::Commit { .. })), "{range:?}: {step:?}");
        assert_eq!(Collector::default().take(memory.view()), [], "nothing is pushed");
    }
}

#[test]
fn a_granule_that_shares_its_word_with_an_open_one_is_asked_for_until_its_bit_is_set() {
    let (memory, _) = memory();
    let far = Range::new(GRANULES_PER_FILE as u64 * GRANULE_BYTES, BLOCK.length);
    memory.files[0].size.store(far.end(), Ordering::Relaxed);
    assert!(matches!(written(&memory, far).1, Step::Ask(Message::Commit { .. })), "others read the slow file there");
    memory.view().announce(FILE, far);
    assert_eq!(written(&memory, far).1, Step::Push);
}

#[test]
fn a_ring_that_fills_calls_the_agent_and_a_full_one_asks_until_records_are_appended() {
    let (memory, open) = memory();
    let rank = rank(&memory);
    let mut told = Vec::new();
    for number in 1..=ENTRIES_MAX {
        let (mut call, step) = written(&memory, BLOCK);
        assert_eq!((step, call.push(&rank)), (Step::Push, Step::Look), "{number}");
        let mut step = call.look(&rank);
        if let Step::Tell(message) = step {
            assert_eq!(message, Message::Marked);
            told.push(number);
            step = call.on_told(&rank);
        }
        assert_eq!(step, Step::Done);
    }
    assert_eq!(told, [ENTRIES_MAX / 4, ENTRIES_MAX / 2, ENTRIES_MAX * 3 / 4, ENTRIES_MAX]);
    let asks = || matches!(written(&memory, BLOCK).1, Step::Ask(Message::Commit { .. }));
    assert!(asks());
    let mut collector = Collector::default();
    let taken = collector.take(memory.view());
    assert!(taken.len() == ENTRIES_MAX && taken.iter().all(|pushed| pushed.open == open));
    assert!(asks(), "the records of what was taken out are not appended");
    collector.store_tails(memory.view());
    assert!(!asks());
}

/// The stores of a push of [`BLOCK`] to `place`, one after the other; the mark is the last.
fn stores(memory: &Memory, open: u64, place: u64) -> Vec<(&AtomicU64, u64)> {
    let (ring, tickets) = (&memory.rings[0], &memory.marks.tickets.0);
    let head = ring.head.0.load(Ordering::Relaxed);
    let entry = &ring.entries[head as usize % ENTRIES_MAX];
    let (ticket, number) = (tickets.load(Ordering::Relaxed) + 1, seq(memory) + 1);
    vec![
        (tickets, ticket),
        (&memory.slots[0].seq, number),
        (&entry.seq, number),
        (&entry.ticket, ticket),
        (&entry.open, open),
        (&entry.offset, BLOCK.offset),
        (&entry.length, BLOCK.length),
        (&entry.place, place),
        (&ring.head.0, head + 1),
        (&memory.marks.words[0], 1),
    ]
}

/// A thread commits once, and is killed after so many stores of its second push; what the agent takes out then, and
/// after the slot's next thread has pushed.
fn killed_after(count: usize, order: fn(&mut Vec<(&AtomicU64, u64)>)) -> [Vec<Pushed>; 2] {
    let (memory, open) = memory();
    let (shared, mut collector) = (memory.view(), Collector::default());
    let at = |k: u64| SLAB.place + k * BLOCK.length;
    shared.push(0, open, BLOCK, pushed(open, 1, BLOCK, at(0)).place);
    // As in a ring that went round before.
    memory.rings[0].entries[1].data_file.store(SLAB.data_file, Ordering::Relaxed);
    let mut stores = stores(&memory, open, at(1));
    order(&mut stores);
    stores[..count].iter().for_each(|(cell, value)| cell.store(*value, Ordering::Relaxed));
    let before = collector.take(shared);
    collector.store_tails(shared);
    shared.push(0, open, BLOCK, pushed(open, 3, BLOCK, at(2)).place);
    [before, collector.take(shared)]
}

/// Whether all that is taken out was pushed, whole and in order; the thread's first commit is there at once.
fn is_sound([before, after]: &[Vec<Pushed>; 2]) -> bool {
    let numbers = || before.iter().chain(after).map(|pushed| (pushed.seq, pushed.ticket));
    let places = before.iter().chain(after).map(|pushed| (pushed.place.place - SLAB.place) / BLOCK.length);
    let is_whole = before.iter().chain(after).all(|pushed| pushed.range == BLOCK && pushed.place.length > 0);
    before.first().is_some_and(|first| first.seq == 1)
        && is_whole
        && numbers().is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1)
        && places.is_sorted_by(|one, next| one < next)
        && after.last().is_some_and(|last| last.place.place == SLAB.place + 2 * BLOCK.length)
}

#[test]
fn a_thread_killed_at_any_store_of_a_push_leaves_a_whole_entry_or_none() {
    let mut taken = Vec::new();
    for count in 0..=10 {
        let found = killed_after(count, |_| ());
        assert!(is_sound(&found), "killed after {count} stores: {found:?}");
        taken.push(found[0].len() + found[1].len());
    }
    assert_eq!(taken, [2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3], "the entry is there with the head");
}

#[test]
fn a_head_moved_before_the_entry_would_leave_a_torn_one() {
    let head_first = |stores: &mut Vec<(&AtomicU64, u64)>| stores[..9].rotate_right(1);
    assert!((0..=10).any(|count| !is_sound(&killed_after(count, head_first))), "the test sees no torn entry");
}

#[test]
fn a_ring_that_makes_no_sense_is_taken_for_empty() {
    let (memory, open) = memory();
    let (shared, mut collector) = (memory.view(), Collector::default());
    memory.rings[0].head.0.store(ENTRIES_MAX as u64 + 1, Ordering::Relaxed);
    shared.mark(0);
    assert_eq!(collector.take(shared), []);
    collector.store_tails(shared);
    shared.push(0, open, BLOCK, pushed(open, 1, BLOCK, SLAB.place).place);
    assert_eq!(collector.take(shared), [pushed(open, 1, BLOCK, SLAB.place)]);
}
