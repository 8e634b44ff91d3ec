//! What each kind of request does, one step after the other, and what its slot says meanwhile.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use headstart_policy::client::Request;
use headstart_protocol::call::{Answer, Call, Failure, FlashFault, Moved, Step, Unexpected};
use headstart_protocol::counters::RequestCounters;
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_protocol::shared::{LEASE_NONE, STATE_ASKING, STATE_CHEAP, STATE_FREE, STATE_READING, Shared};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::{Direction, Range};

use super::world::{BLOCK, FILE, Limited, Rank, request};

const LENGTH: u64 = BLOCK.length;
const ASK_READ: Step =
    Step::Ask(Message::Read { file: FILE, offset: 0, length: LENGTH, leased: false, in_order: false });
const ASK_SLAB: Step = Step::Ask(Message::Slab { file: FILE, offset: 0, length: LENGTH });
const ASK_WRITE: Step = Step::Ask(Message::Write { file: FILE, offset: 0, length: LENGTH, extends: false });
const WRITE_DONE: Step = Step::Ask(Message::WriteDone { file: FILE, offset: 0, length: LENGTH });
const PLACE: Place = Place { file: FILE, data_file: 7, place: 8192, length: LENGTH };
const AT_PLACE: Step = Step::Flash { range: BLOCK, data_file: 7, place: 8192 };

fn memory() -> Memory {
    let memory = Memory::new(1, 1, 1);
    memory.header.free_bytes.store(1 << 40, Ordering::Relaxed);
    memory.files[0].size.store(1 << 20, Ordering::Relaxed);
    memory
}

fn rank(memory: &Memory, absorbs: bool) -> Rank<'_> {
    Rank { memory, slot: 0, absorbs }
}

fn state(memory: &Memory) -> u32 {
    memory.slots[0].state.load(Ordering::Relaxed)
}

fn counted(memory: &Memory) -> RequestCounters {
    let mut counters = RequestCounters::default();
    counters.add(&memory.slots[0].counters);
    counters
}

fn set_bit(shared: Shared) {
    shared.announce(FILE, BLOCK);
}

/// A read whose bits are clear, at the slow file.
fn bare_read(rank: &Rank) -> Call {
    let (mut call, step) = Call::read(FILE, request(Direction::Read, BLOCK));
    assert_eq!(step, Step::Look);
    assert_eq!((call.look(rank), state(rank.memory)), (Step::Slow(BLOCK), STATE_READING));
    call
}

#[test]
fn a_read_of_clear_bits_counts_once_it_has_looked_again() {
    let memory = memory();
    let rank = rank(&memory, false);
    let mut call = bare_read(&rank);
    assert!(memory.slots[0].is_free() && !memory.slots[0].is_busy_with(FILE), "nobody waits for it");
    assert_eq!(call.on_moved(&rank, Moved::Bytes(100)), Step::Look);
    assert_eq!((call.look(&rank), state(&memory)), (Step::Done, STATE_FREE));
    assert_eq!((call.result(), call.flash_bytes()), (Ok(100), 0));
    let counted = counted(&memory);
    assert_eq!((counted.cheap_requests_total, counted.disk_read_unwanted_bytes_total), (1, 100));
    assert_eq!((counted.reads_again_total, counted.reads_again_leased_total), (0, 0));
}

#[test]
fn a_read_of_the_slow_file_counts_only_if_nothing_came_to_flash_meanwhile() {
    for moved in [Moved::Bytes(LENGTH), Moved::Failed(5)] {
        let memory = memory();
        let rank = rank(&memory, false);
        let mut call = bare_read(&rank);
        set_bit(memory.view());
        memory.view().clear_bit(FILE, 0);
        assert_eq!(call.on_moved(&rank, moved), Step::Look);
        assert_eq!((call.look(&rank), state(&memory)), (ASK_READ, STATE_ASKING), "the bit is clear again");
        assert_eq!(call.on_answer(&rank, Answer::Disk(LENGTH)), Ok(Step::Slow(BLOCK)));
        assert_eq!((state(&memory), memory.slots[0].is_free()), (STATE_READING, true));
        call.on_moved(&rank, Moved::Bytes(LENGTH));
        assert_eq!((call.look(&rank), call.result(), state(&memory)), (Step::Done, Ok(LENGTH), STATE_FREE));
        assert_eq!((counted(&memory).reads_again_total, counted(&memory).cheap_requests_total), (1, 0));
    }
}

#[test]
fn a_read_that_the_agent_sends_to_the_slow_file_counts_by_the_generation_from_before_it_asked() {
    for answer in [Answer::Disk(LENGTH), Answer::Sooner(LENGTH)] {
        let memory = memory();
        let rank = rank(&memory, false);
        set_bit(memory.view());
        let (mut call, _) = Call::read(FILE, request(Direction::Read, BLOCK));
        assert_eq!(call.look(&rank), ASK_READ);
        memory.view().raise_generation(FILE, BLOCK);
        assert_eq!(call.on_answer(&rank, answer), Ok(Step::Slow(BLOCK)));
        call.on_moved(&rank, Moved::Bytes(LENGTH));
        assert_eq!(call.look(&rank), ASK_READ, "it may have come to flash before the answer or behind it");
        assert_eq!(call.on_answer(&rank, answer), Ok(Step::Slow(BLOCK)));
        call.on_moved(&rank, Moved::Bytes(LENGTH));
        assert_eq!((call.look(&rank), call.result()), (Step::Done, Ok(LENGTH)));
    }
}

#[test]
fn a_read_that_was_in_vain_three_times_asks_for_a_lease_and_holds_it_to_the_last_byte() {
    let memory = memory();
    let (rank, slot) = (rank(&memory, false), &memory.slots[0]);
    let ask = |leased| Step::Ask(Message::Read { file: FILE, offset: 0, length: LENGTH, leased, in_order: false });
    let mut call = bare_read(&rank);
    for leased in [false, false, true] {
        memory.view().raise_generation(FILE, BLOCK);
        assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Look);
        assert_eq!(call.look(&rank), ask(leased));
        if leased {
            slot.grant_slow_read(Range::new(0, 1024));
        }
        let length = if leased { 1024 } else { LENGTH };
        assert_eq!(call.on_answer(&rank, Answer::Disk(length)), Ok(Step::Slow(Range::new(0, length))));
    }
    memory.view().raise_generation(FILE, BLOCK);
    assert!(slot.holds_slow_read());
    let rest = Message::Read { file: FILE, offset: 1024, length: LENGTH - 1024, leased: true, in_order: false };
    assert_eq!(call.on_moved(&rank, Moved::Bytes(1024)), Step::Ask(rest), "under a lease nothing is looked at again");
    assert!(!slot.holds_slow_read());
    slot.grant_slow_read(Range::new(1024, LENGTH - 1024));
    call.on_answer(&rank, Answer::Sooner(LENGTH - 1024)).unwrap();
    assert_eq!((call.on_moved(&rank, Moved::Bytes(10)), slot.holds_slow_read()), (Step::Done, false));
    assert_eq!((call.result(), state(&memory)), (Ok(1034), STATE_FREE));
    assert_eq!((counted(&memory).reads_again_total, counted(&memory).reads_again_leased_total), (2, 1));
}

#[test]
fn a_read_whose_descriptor_is_closed_meanwhile_is_made_again_whatever_the_words_of_the_file_say_by_then() {
    // Their memory may be given back, which makes them zero again, and given to another file.
    for raised in [false, true] {
        for (asks, bit) in [(false, false), (true, false), (true, true)] {
            let memory = memory();
            let thread = Limited { rank: rank(&memory, false), is_open: Cell::new(true), lists: true };
            if bit {
                set_bit(memory.view());
            }
            let (mut call, mut step) = Call::read(FILE, request(Direction::Read, BLOCK));
            while step == Step::Look {
                step = call.look(&thread);
            }
            if asks && !bit {
                memory.view().raise_generation(FILE, BLOCK);
                call.on_moved(&thread, Moved::Bytes(LENGTH));
                assert_eq!(call.look(&thread), ASK_READ);
            }
            if asks {
                step = call.on_answer(&thread, Answer::Disk(LENGTH)).unwrap();
            }
            assert_eq!(step, Step::Slow(BLOCK));
            thread.is_open.set(false);
            memory.granules[0].generation.store(0, Ordering::Relaxed);
            if raised {
                memory.view().raise_generation(FILE, BLOCK);
            }
            assert_eq!(call.on_moved(&thread, Moved::Bytes(LENGTH)), Step::Look);
            assert_eq!((call.look(&thread), call.result()), (Step::Done, Err(Failure::Changed)));
            assert_eq!(state(&memory), STATE_FREE);
        }
    }
}

#[test]
fn a_read_whose_descriptor_is_closed_before_it_asks_asks_nothing() {
    let memory = memory();
    set_bit(memory.view());
    let thread = Limited { rank: rank(&memory, false), is_open: Cell::new(false), lists: true };
    let (mut call, _) = Call::read(FILE, request(Direction::Read, BLOCK));
    assert_eq!((call.look(&thread), call.result(), state(&memory)), (Step::Done, Err(Failure::Changed), STATE_FREE));
}

#[test]
fn a_read_of_set_bits_holds_a_lease_on_flash_from_the_answer_to_its_last_byte() {
    let memory = memory();
    let (rank, slot) = (rank(&memory, false), &memory.slots[0]);
    let leased = || slot.lease.load(Ordering::Relaxed) != LEASE_NONE;
    set_bit(memory.view());
    let (mut call, _) = Call::read(FILE, request(Direction::Read, BLOCK));
    assert_eq!((call.look(&rank), state(&memory)), (ASK_READ, STATE_ASKING));
    // The first half lies in two pieces on flash, the second in the slow file.
    slot.grant_flash_read([Place { length: 1024, ..PLACE }, Place { place: 0, length: 1024, ..PLACE }]);
    let piece = |offset, place| Step::Flash { range: Range::new(offset, 1024), data_file: 7, place };
    assert_eq!(call.on_answer(&rank, Answer::Flash(2048)), Ok(piece(0, 8192)));
    assert_eq!((call.on_moved(&rank, Moved::Bytes(1024)), leased()), (piece(1024, 0), true));
    let rest = Range::new(2048, 2048);
    let ask = Step::Ask(Message::Read {
        file: FILE,
        offset: rest.offset,
        length: rest.length,
        leased: false,
        in_order: false,
    });
    assert_eq!((call.on_moved(&rank, Moved::Bytes(1024)), leased()), (ask, false));
    assert_eq!(call.on_answer(&rank, Answer::Disk(rest.length)), Ok(Step::Slow(rest)));
    assert_eq!(call.on_moved(&rank, Moved::Bytes(rest.length)), Step::Look);
    assert_eq!(call.look(&rank), Step::Done);
    assert_eq!((call.result(), call.flash_bytes(), state(&memory)), (Ok(LENGTH), 2048, STATE_FREE));
    let counted = counted(&memory);
    assert_eq!((counted.flash_read_requests_total, counted.flash_read_bytes_total), (1, 2048));
}

#[test]
fn what_flash_cannot_give_is_dropped_and_read_from_the_disk() {
    for (fault, writes_back) in [(FlashFault::Broken, false), (FlashFault::Unreachable, true)] {
        let memory = memory();
        let (rank, slot) = (rank(&memory, false), &memory.slots[0]);
        set_bit(memory.view());
        let (mut call, _) = Call::read(FILE, request(Direction::Read, BLOCK));
        call.look(&rank);
        slot.grant_flash_read([PLACE]);
        assert_eq!(call.on_answer(&rank, Answer::Flash(LENGTH)), Ok(AT_PLACE));
        let mut step = call.on_moved(&rank, Moved::FlashFailed(fault));
        assert_eq!(slot.lease.load(Ordering::Relaxed), LEASE_NONE);
        if writes_back {
            assert_eq!(step, Step::Ask(Message::WriteBack { file: FILE, offset: 0, length: LENGTH }));
            step = call.on_answer(&rank, Answer::Done).unwrap();
        }
        assert_eq!(step, Step::Ask(Message::FlashFailed { file: FILE, offset: 0, length: LENGTH }));
        assert_eq!(call.on_answer(&rank, Answer::Done), Ok(ASK_READ));
        assert_eq!(call.on_answer(&rank, Answer::Refused(5)), Ok(Step::Done));
        assert_eq!((call.result(), state(&memory)), (Err(Failure::Errno(5)), STATE_FREE));
        assert_eq!(counted(&memory).failed_read_requests_total, 1);
    }
}

#[test]
fn an_absorbed_write_is_at_its_slab_before_it_is_committed() {
    let memory = memory();
    let rank = rank(&memory, true);
    let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
    assert_eq!((step, state(&memory)), (ASK_SLAB, STATE_ASKING));
    memory.slots[0].show_slab(0, PLACE);
    assert_eq!(call.on_answer(&rank, Answer::Done), Ok(AT_PLACE));
    assert_eq!(state(&memory), STATE_ASKING, "the slab is not given away under it");
    let commit = Message::Commit { file: FILE, data_file: 7, offset: 0, length: LENGTH, place: 8192 };
    assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Ask(commit));
    assert_eq!(call.on_answer(&rank, Answer::Done), Ok(Step::Done));
    assert_eq!((call.result(), call.flash_bytes(), state(&memory)), (Ok(LENGTH), LENGTH, STATE_FREE));
    assert_eq!(counted(&memory).absorbed_bytes_total, LENGTH);
}

#[test]
fn a_commit_that_is_refused_goes_on_as_a_direct_write() {
    for answer in [Answer::HeldUp, Answer::NoSpace, Answer::Bypassed] {
        let memory = memory();
        let rank = rank(&memory, true);
        memory.slots[0].show_slab(0, PLACE);
        let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
        assert_eq!(step, AT_PLACE);
        call.on_moved(&rank, Moved::Bytes(LENGTH));
        assert_eq!(call.on_answer(&rank, answer), Ok(Step::Look));
        assert_eq!((call.look(&rank), state(&memory)), (Step::Slow(BLOCK), STATE_CHEAP));
        assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Done);
        assert_eq!((call.result(), call.flash_bytes()), (Ok(LENGTH), 0));
        assert_eq!(memory.slots[0].slabs[0].read(), PLACE, "the slab is its own still");
    }
}

#[test]
fn flash_that_is_full_or_fails_leaves_the_write_to_the_disk() {
    let moved = [Moved::Bytes(10), Moved::FlashFailed(FlashFault::Full), Moved::FlashFailed(FlashFault::Broken)];
    for moved in moved {
        let memory = memory();
        let rank = rank(&memory, true);
        memory.slots[0].show_slab(0, PLACE);
        let (mut call, _) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
        assert_eq!(call.on_moved(&rank, moved), Step::Look);
    }
}

#[test]
fn a_write_finds_no_space_without_asking() {
    let memory = memory();
    memory.header.free_bytes.store(0, Ordering::Relaxed);
    let rank = rank(&memory, true);
    let (_, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
    assert_eq!((step, state(&memory)), (Step::Look, STATE_CHEAP));
    assert_eq!(memory.header.refused_bytes.load(Ordering::Relaxed), LENGTH);
}

#[test]
fn a_direct_write_under_a_lease_says_what_it_wrote() {
    for (moved, length) in [(Moved::Bytes(LENGTH), LENGTH), (Moved::Failed(28), 0)] {
        let memory = memory();
        let rank = rank(&memory, false);
        set_bit(memory.view());
        let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
        assert_eq!((step, state(&memory)), (Step::Look, STATE_CHEAP));
        assert_eq!((call.look(&rank), state(&memory)), (ASK_WRITE, STATE_ASKING));
        assert_eq!(call.on_answer(&rank, Answer::Go), Ok(Step::Slow(BLOCK)));
        let done = Step::Ask(Message::WriteDone { file: FILE, offset: 0, length });
        assert_eq!(call.on_moved(&rank, moved), done);
        assert_eq!(done == WRITE_DONE, length == LENGTH);
        assert_eq!(call.on_answer(&rank, Answer::Done), Ok(Step::Done));
        assert_eq!(call.result().is_ok(), length == LENGTH);
        assert_eq!(state(&memory), STATE_FREE);
    }
}

#[test]
fn a_write_that_makes_the_file_longer_asks_while_the_agent_changes_its_size() {
    let memory = memory();
    memory.files[0].size_bit.store(1, Ordering::Relaxed);
    let rank = rank(&memory, false);
    for (range, asks) in [(BLOCK, false), (Range::new(1 << 20, 10), true)] {
        let (mut call, _) = Call::write(&rank, FILE, request(Direction::Write, range));
        let extends = Message::Write { file: FILE, offset: range.offset, length: range.length, extends: true };
        assert_eq!(call.look(&rank), if asks { Step::Ask(extends) } else { Step::Slow(range) });
        memory.slots[0].free();
    }
}

#[test]
fn an_append_claims_everything_from_the_known_size_on_and_drops_nothing() {
    let memory = memory();
    set_bit(memory.view());
    let rank = rank(&memory, false);
    let (mut call, step) = Call::extend(&rank, FILE, u64::MAX);
    let tail = Range::between(1 << 20, u64::MAX);
    assert_eq!((step, memory.slots[0].requested()), (Step::Look, tail));
    let ask = Message::Write { file: FILE, offset: tail.offset, length: tail.length, extends: true };
    assert_eq!(call.look(&rank), Step::Ask(ask), "a bit is set, if elsewhere");
    assert_eq!(call.on_answer(&rank, Answer::Go), Ok(Step::Slow(tail)));
    let done = Message::WriteDone { file: FILE, offset: tail.offset, length: 0 };
    assert_eq!(call.on_moved(&rank, Moved::Bytes(0)), Step::Ask(done));
}

#[test]
fn a_change_of_the_size_is_asked_for_and_told_of() {
    let memory = memory();
    let rank = rank(&memory, false);
    for (moved, changed) in [(Moved::Bytes(0), true), (Moved::Failed(27), false)] {
        let (mut call, step) = Call::truncate(FILE, 10);
        assert_eq!((step, state(&memory)), (Step::Ask(Message::Truncate { file: FILE, size: 10 }), STATE_FREE));
        assert_eq!(call.on_answer(&rank, Answer::Go), Ok(Step::Slow(Range::between(10, u64::MAX))));
        let done = Message::TruncateDone { file: FILE, size: 10, changed };
        assert_eq!(call.on_moved(&rank, moved), Step::Ask(done));
        assert_eq!((call.on_answer(&rank, Answer::Done), call.result().is_ok()), (Ok(Step::Done), changed));
    }
    let (mut call, step) = Call::rearrange(FILE, 10);
    assert_eq!(step, Step::Ask(Message::Rearrange { file: FILE, from: 10 }));
    assert_eq!(call.on_answer(&rank, Answer::Go), Ok(Step::Slow(Range::between(10, u64::MAX))));
    let done = Message::RearrangeDone { file: FILE, from: 10, size: 77 };
    assert_eq!(call.on_moved(&rank, Moved::Bytes(77)), Step::Ask(done));
}

#[test]
fn an_fsync_asks_if_anything_was_on_flash_before_the_kernels() {
    let memory = memory();
    let rank = rank(&memory, false);
    let (mut call, step) = Call::sync(&rank, FILE);
    assert_eq!(step, Step::Sync);
    set_bit(memory.view());
    assert_eq!(call.on_moved(&rank, Moved::Bytes(0)), Step::Done, "what came since was not acknowledged before");
    let (mut call, _) = Call::sync(&rank, FILE);
    memory.view().clear_bit(FILE, 0);
    assert_eq!(call.on_moved(&rank, Moved::Bytes(0)), Step::Ask(Message::Sync { file: FILE }));
    assert_eq!(call.on_answer(&rank, Answer::Go), Err(Unexpected));
    assert_eq!((call.on_answer(&rank, Answer::Done), call.result()), (Ok(Step::Done), Ok(0)));
}

#[test]
fn bytes_are_written_back_only_where_some_may_be_on_flash() {
    let memory = memory();
    let rank = rank(&memory, false);
    assert_eq!(Call::write_back(&rank, FILE, BLOCK).1, Step::Done);
    set_bit(memory.view());
    let ask = Message::WriteBack { file: FILE, offset: 0, length: LENGTH };
    assert_eq!(Call::write_back(&rank, FILE, BLOCK).1, Step::Ask(ask));
    assert_eq!(Call::write_back(&rank, FILE, Range::new(1 << 20, 10)).1, Step::Done);
}

/// What a request did to the slot before its kernel call, and in the end. The range of a read stands nowhere.
type Trace = (Vec<(u32, u32, Range)>, Result<u64, Failure>, RequestCounters, u32, Option<Step>);

/// A request one step at a time, as far as it asks nobody; `meanwhile` happens while it is at the slow file.
fn step_by_step(memory: &Memory, rank: &Rank, request: Request, moved: Moved, meanwhile: fn(&Memory)) -> Trace {
    let (mut call, mut step) = match request.direction {
        Direction::Read => Call::read(FILE, request),
        Direction::Write => Call::write(rank, FILE, request),
    };
    let mut seen = Vec::new();
    loop {
        step = match step {
            Step::Look => call.look(rank),
            Step::Slow(_) => {
                seen.push(published(memory));
                meanwhile(memory);
                call.on_moved(rank, moved)
            }
            Step::Done => return (seen, call.result(), counted(memory), state(memory), None),
            step => return (seen, Ok(0), counted(memory), state(memory), Some(step)),
        };
    }
}

/// The same at once.
fn at_once(memory: &Memory, rank: &Rank, request: Request, moved: Moved, meanwhile: fn(&Memory)) -> Trace {
    let (mut seen, mut first) = (Vec::new(), None);
    let told = |_: Call, step: Step| {
        first = Some(step);
        Ok(0)
    };
    let result = match request.direction {
        Direction::Read => {
            let kernel = || {
                seen.push(published(memory));
                meanwhile(memory);
                moved
            };
            Call::read_at_once(rank, FILE, &request, kernel, told)
        }
        Direction::Write => {
            let kernel = |_| {
                seen.push(published(memory));
                meanwhile(memory);
                moved
            };
            Call::write_at_once(rank, FILE, request, kernel, told)
        }
    };
    (seen, result, counted(memory), state(memory), first)
}

fn published(memory: &Memory) -> (u32, u32, Range) {
    let slot = &memory.slots[0];
    (state(memory), slot.kind.load(Ordering::Relaxed), slot.requested())
}

#[test]
fn a_request_at_once_takes_the_steps_of_one_after_the_other() {
    let ranges = [BLOCK, Range::new(0, 0), Range::new(GRANULE_BYTES - 10, 20), Range::new((1 << 20) - 5, 10)];
    let moves = [Moved::Bytes(0), Moved::Bytes(4), Moved::Failed(5)];
    let (mut asked, mut alone) = (0, 0);
    let meanwhile: [fn(&Memory); 2] = [|_| (), |memory| memory.view().raise_generation(FILE, BLOCK)];
    let cases = meanwhile.into_iter().flat_map(|meanwhile| moves.map(|moved| (meanwhile, moved)));
    let cases = cases.flat_map(|(meanwhile, moved)| ranges.map(|range| (meanwhile, moved, range)));
    for (meanwhile, moved, range) in cases {
        for direction in [Direction::Read, Direction::Write] {
            for (absorbs, bit, size_bit) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
                let traces = [step_by_step, at_once].map(|run| {
                    let memory = memory();
                    if bit {
                        set_bit(memory.view());
                    }
                    memory.files[0].size_bit.store(size_bit.into(), Ordering::Relaxed);
                    run(&memory, &rank(&memory, absorbs), request(direction, range), moved, meanwhile)
                });
                assert_eq!(traces[0], traces[1], "{direction:?} {range:?} {moved:?} {absorbs} {bit} {size_bit}");
                *if traces[0].4.is_some() { &mut asked } else { &mut alone } += 1;
            }
        }
    }
    assert!(asked > 20 && alone > 20, "{asked} asked, {alone} did not");
}

#[test]
fn a_write_of_a_file_that_is_left_alone_goes_to_the_disk_without_a_question_whatever_room_there_is() {
    for (free_bytes, at_hand) in [(1 << 40, true), (1 << 40, false), (0, false)] {
        let memory = memory();
        memory.header.free_bytes.store(free_bytes, Ordering::Relaxed);
        if at_hand {
            memory.slots[0].show_slab(0, PLACE);
        }
        let rank = rank(&memory, true);
        memory.files[0].leave_alone(true);
        let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
        assert_eq!((step, call.look(&rank), state(&memory)), (Step::Look, Step::Slow(BLOCK), STATE_CHEAP));
        assert_eq!(call.on_moved(&rank, Moved::Bytes(LENGTH)), Step::Done);
        assert_eq!((call.result(), call.flash_bytes()), (Ok(LENGTH), 0));
        let counted = counted(&memory);
        assert_eq!((counted.disk_write_bypassed_requests_total, counted.disk_write_no_space_requests_total), (1, 0));
        assert_eq!(memory.header.refused_bytes.load(Ordering::Relaxed), 0, "it lacks no space");
        // Where something of it is on flash, as of any direct write.
        set_bit(memory.view());
        let (mut call, step) = Call::write(&rank, FILE, request(Direction::Write, BLOCK));
        assert_eq!((step, call.look(&rank)), (Step::Look, ASK_WRITE));
    }
}
