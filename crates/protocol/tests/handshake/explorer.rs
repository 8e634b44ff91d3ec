//! Runs models, and the memory they work on.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use headstart_policy::client::{Decision, Reason, Request};
use headstart_protocol::call::{Answer, Call, Failure, Moved, Step, Thread};
use headstart_protocol::listing::{Listing, ListingKeys};
use headstart_protocol::marks::Marks;
use headstart_protocol::ring::Ring;
use headstart_protocol::shared::{Cells, FileEntry, GRANULES_PER_FILE, Granule, Header, Shared, Slot, WORDS_PER_FILE};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The file all models work on.
pub const FILE: u32 = 0;
/// A range whose bit lies in the first word.
pub const HERE: Range = Range { offset: 0, length: 4096 };
/// A range whose bit lies in the second word.
pub const ELSEWHERE: Range = Range { offset: 64 * GRANULE_BYTES, length: 4096 };
/// The bit of [`HERE`].
pub const BIT: u64 = 0;
/// The word of its granule.
pub const WORD: usize = 0;

/// Bytes that at most one thread may change at a time, and nobody while another reads them: the slow file's,
/// or those of a place on flash. An access that is not ordered behind all that it conflicts with is reported.
pub struct Bytes(UnsafeCell<()>);

// SAFETY: loom checks every access, and there is nothing behind the pointer.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub fn new() -> Bytes {
        Bytes(UnsafeCell::new(()))
    }

    pub fn read(&self) {
        self.0.with(|_| ());
    }

    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

/// A message on its way, in one direction.
pub struct Message(AtomicU32);

impl Message {
    pub fn new() -> Message {
        Message(AtomicU32::new(0))
    }

    pub fn send(&self) {
        self.0.store(1, Ordering::Release);
    }

    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}

/// One file, its ranks, one agent.
pub struct World {
    header: Header,
    files: Vec<FileEntry>,
    slots: Vec<Slot>,
    bits: Vec<AtomicU64>,
    granules: Vec<Granule>,
    marks: Marks,
    rings: Vec<Ring>,
    listing_keys: ListingKeys,
    listings: Vec<Listing>,
    ended: Cells,
    /// What the models fight over.
    pub bytes: Bytes,
    /// From the rank to the agent.
    pub request: Message,
    /// From the agent to the rank.
    pub reply: Message,
    steps: AtomicU32,
}

impl World {
    /// With one rank, which has no ring.
    pub fn new() -> Arc<World> {
        World::of(1, 0)
    }

    /// With so many ranks that have rings.
    pub fn with_rings(ranks: usize) -> Arc<World> {
        World::of(ranks, ranks)
    }

    fn of(ranks: usize, rings: usize) -> Arc<World> {
        let world = World {
            header: Header::default(),
            files: vec![FileEntry::default()],
            slots: (0..ranks).map(|_| Slot::default()).collect(),
            bits: (0..WORDS_PER_FILE).map(|_| AtomicU64::new(0)).collect(),
            granules: (0..GRANULES_PER_FILE).map(|_| Granule::default()).collect(),
            marks: Marks::default(),
            rings: (0..rings).map(|_| Ring::default()).collect(),
            listing_keys: ListingKeys::default(),
            listings: vec![Listing::default()],
            ended: Cells::default(),
            bytes: Bytes::new(),
            request: Message::new(),
            reply: Message::new(),
            steps: AtomicU32::new(0),
        };
        world.header.slots_used.store(ranks as u64, Ordering::Relaxed);
        world.slots.iter().for_each(|slot| slot.file.store(FILE, Ordering::Relaxed));
        Arc::new(world)
    }

    pub fn shared(&self) -> Shared<'_> {
        Shared {
            header: &self.header,
            files: &self.files,
            slots: &self.slots,
            // Only agents read the two.
            copies: &[],
            open_files: &[],
            bits: &self.bits,
            granules: &self.granules,
            marks: &self.marks,
            rings: &self.rings,
            listing_keys: &self.listing_keys,
            listings: &self.listings,
            ended: &self.ended,
        }
    }

    /// Commits of [`HERE`] need no answer from now on, as after one that was asked for. The number.
    pub fn open(&self) -> u64 {
        self.shared().announce(FILE, HERE);
        self.shared().open(FILE, WORD)
    }

    pub fn slot(&self) -> &Slot {
        &self.slots[0]
    }

    pub fn entry(&self) -> &FileEntry {
        &self.files[0]
    }

    /// Stands before each step of a model: loom tries all orders of steps. By itself it leaves out some: it
    /// does not run a thread's store before another's load of the same cell if the storing thread has itself
    /// loaded the cell in between. Relaxed, so that no step is ordered by it.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs the two sides at once.
    pub fn run(self: &Arc<World>, rank: impl FnOnce(&World) + Send + 'static, agent: impl FnOnce(&World)) {
        let world = Arc::clone(self);
        let thread = loom::thread::spawn(move || {
            world.step();
            rank(&world);
        });
        self.step();
        agent(self);
        thread.join().unwrap();
    }
}

impl Thread for World {
    fn slot(&self) -> &Slot {
        &self.slots[0]
    }

    fn index(&self) -> u32 {
        0
    }

    fn shared(&self) -> Shared<'_> {
        self.shared()
    }

    fn decide(&self, request: &Request) -> (Request, Decision) {
        (*request, Decision::Disk(Reason::NoBenefit))
    }
}

/// An fsync: `kernel` syncs the slow file, `ask` has the agent sync what it promised.
pub fn sync(world: &World, kernel: impl FnOnce(), ask: impl FnOnce()) -> Result<u64, Failure> {
    let (mut call, step) = Call::sync(world, FILE);
    assert_eq!(step, Step::Sync);
    kernel();
    if let Step::Ask(_) = call.on_moved(world, Moved::Bytes(0)) {
        ask();
        assert_eq!(call.on_answer(world, Answer::Done), Ok(Step::Done));
    }
    call.result()
}

/// What executions came to, so that a model that never gets anywhere is noticed.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeSet<&'static str>>>);

impl Seen {
    pub fn note(&self, what: &'static str) {
        self.0.lock().unwrap().insert(what);
    }

    /// Notes which way a question was answered.
    pub fn answer(&self, answer: bool, yes: &'static str, no: &'static str) -> bool {
        self.note(if answer { yes } else { no });
        answer
    }
}

fn check(preemptions: Option<usize>, model: impl Fn(&Seen) + Send + Sync + 'static) -> Seen {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    let seen = Seen::default();
    let noted = seen.clone();
    builder.check(move || model(&noted));
    seen
}

/// No execution of the model breaks a rule, and together they come to each of `outcomes`.
pub fn holds(outcomes: &[&'static str], model: impl Fn(&Seen) + Send + Sync + 'static) {
    come_to(outcomes, &check(None, model));
}

/// The same of those executions in which threads are interrupted so often: of models of which all take too long.
pub fn holds_within(preemptions: usize, outcomes: &[&'static str], model: impl Fn(&Seen) + Send + Sync + 'static) {
    come_to(outcomes, &check(Some(preemptions), model));
}

fn come_to(outcomes: &[&'static str], seen: &Seen) {
    let seen = seen.0.lock().unwrap().clone();
    assert_eq!(
        seen,
        outcomes.iter().copied().collect::<BTreeSet<_>>(),
        "the executions do not come to what they should"
    );
}

/// Some execution of the model breaks the rule; `symptom` is part of what is reported.
pub fn refuted(symptom: &str, model: impl Fn(&Seen) + Send + Sync + 'static) {
    let result = catch_unwind(AssertUnwindSafe(|| drop(check(None, model))));
    let panic = result.expect_err("the model checker finds no execution that needs the rule");
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default();
    assert!(text.contains(symptom), "it failed for another reason: {text}");
}

/// What loom says of an access to [`Bytes`] that is not ordered behind one it conflicts with.
pub const RACE: &str = "Causality violation";
