//! A commit that needs no answer, and an agent that looks now and then and closes the granule: what counts for the
//! library is taken out by the agent, whole. Rules ring-no-fence, close-no-fence, ring-no-validate, and those of
//! marks; a ring whose agent dies while it closes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use headstart_protocol::lease::Place;
use headstart_protocol::ring::{Collector, Pushed};
use loom::sync::atomic::{Ordering, fence};

use super::by_hand::{Hand, Without, fill, fill_at, move_head};
use super::explorer::{FILE, HERE, RACE, Seen, WORD, World, holds, refuted};

/// Where the bytes lie.
pub const PLACE: Place = Place { file: FILE, data_file: 7, place: 8192, length: 4096 };

const LOST: &str = "a commit that counts is lost";
const TORN: &str = "an entry is torn";

/// The rank's and the agent's part in a model; each test leaves out something else.
#[derive(Clone, Copy)]
struct Sides<Drain> {
    /// An earlier push has left the mark, which the agent has not seen.
    is_marked: bool,
    push: fn(&World, u64),
    counts: fn(&World, u64) -> bool,
    /// The agent looks once before it closes.
    polls: bool,
    close: fn(&World),
    take: fn(&mut Drain, &World) -> Vec<Pushed>,
}

/// All rules.
const WHOLE: Sides<Collector> = Sides { is_marked: true, push, counts, polls: false, close, take };
/// The same, of an agent whose drain is made by hand.
const HAND: Sides<Hand> = Sides {
    is_marked: WHOLE.is_marked,
    push: WHOLE.push,
    counts: WHOLE.counts,
    polls: true,
    close: WHOLE.close,
    take: |hand, world| hand.take(world, Without::Nothing),
};

fn push(world: &World, open: u64) {
    world.shared().push(0, open, HERE, PLACE);
}

fn counts(world: &World, open: u64) -> bool {
    world.shared().is_open_under(FILE, HERE, open)
}

fn close(world: &World) {
    world.shared().begin_closing(FILE, WORD);
    fence(Ordering::SeqCst);
}

fn take(collector: &mut Collector, world: &World) -> Vec<Pushed> {
    collector.take(world.shared())
}

fn push_by_hand(world: &World, open: u64, before_the_mark: fn()) {
    fill(world, 0, open);
    move_head(world, 0, Ordering::Release);
    before_the_mark();
}

/// Writes the bytes and commits them; whether that counts without an answer.
fn commit(world: &World, seen: &Seen, push: fn(&World, u64), counts: fn(&World, u64) -> bool) -> bool {
    let Some(open) = world.shared().open_for(0, FILE, HERE) else {
        seen.note("closed");
        return false;
    };
    world.bytes.write();
    world.step();
    push(world, open);
    world.step();
    seen.answer(counts(world, open), "counts", "asks")
}

fn check(world: &World, taken: &[Pushed], number: u64) {
    for pushed in taken {
        assert_eq!(*pushed, Pushed { slot: 0, seq: 1, ticket: 1, open: number, range: HERE, place: PLACE }, "{TORN}");
        world.bytes.read();
    }
}

fn meet<Drain: Default + 'static>(seen: &Seen, sides: Sides<Drain>) {
    let world = World::with_rings(1);
    let number = world.open();
    if sides.is_marked {
        world.shared().mark(0);
    }
    let counted = Arc::new(AtomicBool::new(false));
    let (noted, known) = (seen.clone(), Arc::clone(&counted));
    let mut taken = Vec::new();
    world.run(
        move |world| {
            let counts = commit(world, &noted, sides.push, sides.counts);
            known.store(counts, Ordering::Relaxed);
        },
        |world| {
            let mut drain = Drain::default();
            if sides.polls {
                taken.extend((sides.take)(&mut drain, world));
                world.step();
            }
            (sides.close)(world);
            world.step();
            taken.extend((sides.take)(&mut drain, world));
            check(world, &taken, number);
            world.shared().end_closing(FILE, WORD);
        },
    );
    let is_taken = seen.answer(!taken.is_empty(), "taken", "not taken");
    assert!(is_taken || !counted.load(Ordering::Relaxed), "{LOST}");
}

const ALL: [&str; 5] = ["closed", "counts", "asks", "taken", "not taken"];

#[test]
fn what_counts_is_taken_before_the_granule_is_closed() {
    for is_marked in [false, true] {
        holds(&ALL, move |seen| meet(seen, Sides { is_marked, ..WHOLE }));
    }
}

#[test]
fn what_counts_is_taken_whether_or_not_the_agent_looked_before() {
    for is_marked in [false, true] {
        holds(&ALL, move |seen| meet(seen, Sides { is_marked, polls: true, ..WHOLE }));
    }
    holds(&ALL, |seen| meet(seen, HAND));
}

#[test]
fn a_commit_that_is_not_looked_at_again_is_lost() {
    refuted(LOST, |seen| meet(seen, Sides { counts: |_, _| true, ..WHOLE }));
}

#[test]
fn a_push_without_a_fence_where_the_mark_is_set_is_lost() {
    let push = |world: &World, open: u64| {
        push_by_hand(world, open, || ());
        world.shared().mark(0);
    };
    refuted(LOST, move |seen| meet(seen, Sides { push, ..WHOLE }));
}

#[test]
fn a_mark_without_a_fence_behind_it_is_lost() {
    let push = |world: &World, open: u64| {
        push_by_hand(world, open, || fence(Ordering::SeqCst));
        world.shared().marks.words[0].fetch_or(1, Ordering::SeqCst);
    };
    refuted(LOST, move |seen| meet(seen, Sides { push, is_marked: false, ..WHOLE }));
}

#[test]
fn a_mark_before_the_head_is_taken_for_nothing() {
    let push = |world: &World, open: u64| {
        world.shared().mark(0);
        push_by_hand(world, open, || fence(Ordering::SeqCst));
    };
    refuted(LOST, move |seen| meet(seen, Sides { push, polls: true, ..WHOLE }));
}

#[test]
fn a_push_without_a_mark_is_lost() {
    let push = |world: &World, open: u64| push_by_hand(world, open, || fence(Ordering::SeqCst));
    refuted(LOST, move |seen| meet(seen, Sides { push, is_marked: false, ..WHOLE }));
}

#[test]
fn an_agent_that_closes_without_a_fence_overlooks_a_commit() {
    let close = |world: &World| world.shared().begin_closing(FILE, WORD);
    for is_marked in [false, true] {
        refuted(LOST, move |seen| meet(seen, Sides { close, is_marked, ..WHOLE }));
    }
}

#[test]
fn an_agent_that_drains_and_then_closes_overlooks_a_commit() {
    refuted(LOST, |seen| meet(seen, Sides { polls: true, take: take_once, ..WHOLE_ONCE }));
}

/// Takes once only: before the granule is closed.
#[derive(Default)]
struct Once(Option<Collector>);

fn take_once(once: &mut Once, world: &World) -> Vec<Pushed> {
    match once.0 {
        None => once.0.insert(Collector::default()).take(world.shared()),
        Some(_) => Vec::new(),
    }
}

const WHOLE_ONCE: Sides<Once> = Sides { is_marked: true, push, counts, polls: true, close, take: take_once };

fn without_fence(hand: &mut Hand, world: &World) -> Vec<Pushed> {
    hand.take(world, Without::Fence)
}

#[test]
fn an_agent_that_does_not_fence_behind_the_marks_overlooks_a_commit() {
    refuted(LOST, |seen| meet(seen, Sides { take: without_fence, ..HAND }));
}

#[test]
fn a_head_moved_before_the_entry_is_there_shows_a_torn_one() {
    let push = |world: &World, open: u64| {
        let at = move_head(world, 0, Ordering::Release);
        fill_at(world, 0, at, open);
        fence(Ordering::SeqCst);
        world.shared().mark(0);
    };
    refuted(TORN, move |seen| meet(seen, Sides { push, ..WHOLE }));
}

#[test]
fn bytes_written_after_the_push_are_not_there_with_it() {
    let push = |world: &World, open: u64| {
        push(world, open);
        world.step();
        world.bytes.write();
    };
    refuted(RACE, move |seen| meet(seen, Sides { push, ..WHOLE }));
}

/// How far an agent came that died on the way to a closed granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Death {
    BeforeClosing,
    AfterTheWord,
    AfterTheFence,
    AfterTheDrain,
    AfterTheAppend,
}

const DEATHS: [Death; 5] =
    [Death::BeforeClosing, Death::AfterTheWord, Death::AfterTheFence, Death::AfterTheDrain, Death::AfterTheAppend];

/// What the dead agent has appended. It has moved no tail.
fn die(world: &World, death: Death, begin_closing: fn(&World)) -> Vec<Pushed> {
    if death >= Death::AfterTheWord {
        begin_closing(world);
        world.step();
    }
    if death >= Death::AfterTheFence {
        fence(Ordering::SeqCst);
    }
    let mut taken = Vec::new();
    if death >= Death::AfterTheDrain {
        taken = Collector::default().take(world.shared());
        world.step();
    }
    if death < Death::AfterTheAppend {
        return Vec::new();
    }
    world.shared().end_closing(FILE, WORD);
    taken
}

/// The next agent takes what counts under the numbers that it finds.
fn adopt(world: &World, close: fn(&World)) -> Vec<Pushed> {
    let open: Vec<_> = world.shared().open_words(FILE).collect();
    if !open.is_empty() {
        close(world);
        world.step();
    }
    let mut taken = Collector::default().take_all(world.shared());
    taken.retain(|pushed| open.contains(&(WORD, pushed.open)));
    taken
}

fn take_over(seen: &Seen, death: Death, begin_closing: fn(&World), adopt: fn(&World) -> Vec<Pushed>) {
    let world = World::with_rings(1);
    let number = world.open();
    let counted = Arc::new(AtomicBool::new(false));
    let (noted, known) = (seen.clone(), Arc::clone(&counted));
    let mut taken = Vec::new();
    world.run(
        move |world| known.store(commit(world, &noted, push, counts), Ordering::Relaxed),
        |world| {
            taken = die(world, death, begin_closing);
            world.step();
            taken.extend(adopt(world));
            check(world, &taken, number);
        },
    );
    assert!(taken.len() <= 1, "a commit is taken twice");
    let is_taken = seen.answer(taken.len() == 1, "taken", "not taken");
    assert!(is_taken || !counted.load(Ordering::Relaxed), "{LOST}");
}

fn begin_closing(world: &World) {
    world.shared().begin_closing(FILE, WORD);
}

#[test]
fn what_counted_before_an_agent_died_is_taken_by_the_next() {
    for death in DEATHS {
        holds(&ALL, move |seen| take_over(seen, death, begin_closing, |world| adopt(world, close)));
    }
}

#[test]
fn a_word_that_forgets_its_number_before_the_append_loses_what_counted() {
    for death in [Death::AfterTheWord, Death::AfterTheFence, Death::AfterTheDrain] {
        let forget = |world: &World| world.shared().end_closing(FILE, WORD);
        refuted(LOST, move |seen| take_over(seen, death, forget, |world| adopt(world, close)));
    }
}

#[test]
fn an_agent_that_takes_over_and_does_not_close_what_it_finds_open_overlooks_a_commit() {
    refuted(LOST, |seen| take_over(seen, Death::BeforeClosing, begin_closing, |world| adopt(world, |_| ())));
    refuted(LOST, |seen| take_over(seen, Death::BeforeClosing, begin_closing, |world| adopt(world, begin_closing)));
}
