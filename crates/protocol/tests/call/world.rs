//! One block of one file, threads that drive a [`Call`] each, and an agent that keeps the protocol's
//! other side in the simplest way: a map of one entry, a new place for every commit, one direct write at
//! a time, a granule that is open after a commit until something is in the way, and listed after a read. Whoever is next is drawn at random.
//! A thread may drive its call in a wrong order, and the agent leave out a rule of rings.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use headstart_policy::client::{Decision, Reason, Request};
use headstart_policy::order::Distance;
use headstart_protocol::call::{Answer, Call, Moved, Step, Thread};
use headstart_protocol::lease::Place;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::Request as Message;
use headstart_protocol::ring::Collector;
use headstart_protocol::shared::{STATE_CHEAP, STATE_FREE, Shared, Slot};
use headstart_units::chance::Random;
use headstart_units::request::{Direction, Range};

pub const FILE: u32 = 0;
pub const BLOCK: Range = Range { offset: 0, length: 4096 };
/// What a place on flash holds that nobody may read.
const GARBAGE: usize = usize::MAX;

/// A thread as a call sees it.
pub struct Rank<'a> {
    pub memory: &'a Memory,
    pub slot: usize,
    /// Whether a policy wants its bytes on flash.
    pub absorbs: bool,
}

impl Thread for Rank<'_> {
    fn slot(&self) -> &Slot {
        &self.memory.slots[self.slot]
    }

    fn index(&self) -> u32 {
        self.slot as u32
    }

    fn shared(&self) -> Shared<'_> {
        self.memory.view()
    }

    fn decide(&self, request: &Request) -> (Request, Decision) {
        let wanted = Decision::Flash { benefit_ns: 1 };
        (*request, if self.absorbs { wanted } else { Decision::Disk(Reason::NoBenefit) })
    }
}

/// One whose descriptor may be taken from it, or that may read by no listing.
pub struct Limited<'a> {
    pub rank: Rank<'a>,
    pub is_open: Cell<bool>,
    pub lists: bool,
}

impl Thread for Limited<'_> {
    fn slot(&self) -> &Slot {
        self.rank.slot()
    }

    fn index(&self) -> u32 {
        self.rank.index()
    }

    fn shared(&self) -> Shared<'_> {
        self.rank.shared()
    }

    fn decide(&self, request: &Request) -> (Request, Decision) {
        self.rank.decide(request)
    }

    fn is_still_open(&self) -> bool {
        self.is_open.get()
    }

    fn has_stayed_open(&self) -> bool {
        self.is_open.get()
    }

    fn may_read_listed(&self) -> bool {
        self.lists
    }
}

pub fn request(direction: Direction, range: Range) -> Request {
    Request { direction, range, distance: Distance::far(1 << 30) }
}

/// What a thread or the agent does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Right,
    /// It is at the slow file without having looked at the bits.
    NoLook,
    /// It takes what it read of the slow file without a lease for good.
    NoSecondLook,
    /// Its request is in no slot while it looks and moves.
    NotPublished,
    /// Its slot is CHEAP while it waits for the agent.
    KeepsSlot,
    /// It says that bytes are moved before they are: of the slow file without a lease, and with one, and
    /// of flash.
    CheapLater,
    LeasedLater,
    FlashLater,
    /// It does not look again after a push.
    NoLookAfterPush,
    /// The agent does not take out what was pushed before it looks at a request.
    NoDrain,
    /// It does not close the granule before a direct write, or before it clears the bit.
    OpenDirect,
    OpenClear,
    /// It applies what was pushed under an old number, or what was committed already.
    Stale,
    Twice,
    /// It applies what it took out in the order of slots.
    NoTickets,
    /// A thread does not look again after it read by a listing.
    NoLookAfterListed,
    /// The agent does not end a listing before a commit, a drop or anything else; it lists what is open; and it fills a
    /// listing anew under the key of before.
    NoEnd,
    ListOpen,
    KeyAgain,
}

/// From the first end of a write or read of one value to the last begin of one.
struct Zone {
    from: u64,
    to: u64,
}

impl Zone {
    fn of(spans: &[(u64, u64)]) -> Zone {
        let ends = spans.iter().map(|(_, ended)| *ended);
        let begins = spans.iter().map(|(begun, _)| *begun);
        Zone { from: ends.min().expect("a value is written"), to: begins.max().expect("a value is written") }
    }

    /// Whether the value was the register's from one moment to the other; else it was at one between them.
    fn is_forward(&self) -> bool {
        self.from < self.to
    }

    /// Whether the other value was the register's at a moment at which this one was.
    fn conflicts(&self, other: &Zone) -> bool {
        self.is_forward() && self.from < other.to && other.from < self.to
    }
}

struct Operation {
    call: Call,
    next: Step,
    /// The step before was to move bytes, and they are moved.
    is_moved: bool,
    /// What was said to be moved and is not.
    later: Option<Step>,
    is_leased: bool,
    is_pushed: bool,
    is_listed: bool,
    direction: Direction,
    absorbs: bool,
    begun: u64,
    version: usize,
    found: Option<usize>,
}

pub struct World {
    random: Random,
    order: Order,
    memory: Memory,
    clock: u64,
    operations: Vec<Option<Operation>>,
    asked: Vec<Option<Message<'static>>>,
    answers: Vec<Option<Answer>>,
    /// The block in the slow file, and the places on flash: numbers of writes.
    disk: usize,
    flash: Vec<usize>,
    mapped: Option<usize>,
    /// The slow file has what is mapped as well.
    is_clean: bool,
    writer: Option<usize>,
    /// The granule is open, under that number.
    open: Option<u64>,
    collector: Collector,
    /// The last commit of each thread.
    committed: Vec<u64>,
    /// Of each value: when its write, and those who read it, began and ended.
    spans: Vec<Vec<(u64, u64)>>,
    /// How often each kind of step was made: nothing is shown by a history without them.
    pub steps: [u64; 4],
    /// How often a read of the slow file took a lease.
    pub leased_reads: u64,
    /// How many commits were pushed, and how many of them counted.
    pub pushes: [u64; 2],
    /// Reads by a listing, and those that counted.
    pub listed: [u64; 2],
}

impl World {
    pub fn new(seed: u64, ranks: usize, order: Order) -> World {
        let memory = Memory::new(1, ranks, 1);
        memory.header.free_bytes.store(1 << 40, Ordering::Relaxed);
        memory.files[0].size.store(BLOCK.end(), Ordering::Relaxed);
        World {
            random: Random(seed),
            order,
            memory,
            clock: 0,
            operations: (0..ranks).map(|_| None).collect(),
            asked: vec![None; ranks],
            answers: vec![None; ranks],
            disk: 0,
            flash: Vec::new(),
            mapped: None,
            is_clean: false,
            writer: None,
            open: None,
            collector: Collector::default(),
            committed: vec![0; ranks],
            spans: vec![vec![(0, 0)]],
            steps: [0; 4],
            leased_reads: 0,
            pushes: [0; 2],
            listed: [0; 2],
        }
    }

    /// Runs a history to its end.
    pub fn run(&mut self, operations: u64) -> Result<(), String> {
        let mut left = operations;
        for _ in 0..100 * operations {
            self.clock += 1;
            let rank = self.random.below(self.operations.len() as u64) as usize;
            match self.random.below(10) {
                0..5 if self.operations[rank].is_some() => self.step(rank)?,
                0..5 if left > 0 => {
                    left -= 1;
                    self.begin(rank);
                }
                0..5 => {}
                5..9 => self.serve(rank),
                _ => self.write_back(),
            }
            if left == 0 && self.operations.iter().all(Option::is_none) {
                return self.check();
            }
        }
        Err(String::from("no end is reached"))
    }

    fn begin(&mut self, rank: usize) {
        let direction = if self.random.chance(50) { Direction::Read } else { Direction::Write };
        let absorbs = self.random.chance(50);
        let thread = Rank { memory: &self.memory, slot: rank, absorbs };
        let request = request(direction, BLOCK);
        let (call, next) = match direction {
            Direction::Read => Call::read(FILE, request),
            Direction::Write => Call::write(&thread, FILE, request),
        };
        if self.order == Order::NotPublished {
            self.memory.slots[rank].free();
        }
        let version = self.spans.len();
        if direction == Direction::Write {
            self.spans.push(Vec::new());
        }
        self.operations[rank] = Some(Operation {
            call,
            next,
            is_moved: false,
            later: None,
            is_leased: false,
            is_pushed: false,
            is_listed: false,
            direction,
            absorbs,
            begun: self.clock,
            version,
            found: None,
        });
    }

    fn step(&mut self, rank: usize) -> Result<(), String> {
        let mut operation = self.operations[rank].take().expect("it is under way");
        let may_go_on = matches!(operation.next, Step::Ask(_)) && self.random.chance(50);
        match operation.later.take_if(|_| !may_go_on) {
            Some(later) => self.transfer(later, &mut operation),
            None => self.go_on(rank, &mut operation),
        }
        if operation.next == Step::Done && operation.later.is_none() {
            return self.end(rank, &operation);
        }
        self.operations[rank] = Some(operation);
        Ok(())
    }

    fn go_on(&mut self, rank: usize, operation: &mut Operation) {
        let order = self.order;
        match operation.next {
            Step::Look => self.look(rank, operation),
            Step::Slow(_) | Step::Flash { .. } if !operation.is_moved => self.begin_move(rank, operation),
            Step::Slow(_) | Step::Flash { .. } => self.moved(rank, operation),
            Step::Push => {
                self.pushes[0] += 1;
                operation.next = operation.call.push(&thread(&self.memory, rank, operation));
                operation.is_pushed = true;
            }
            Step::Ask(message) | Step::AskPushed(message)
                if self.asked[rank].is_none() && self.answers[rank].is_none() =>
            {
                if order == Order::KeepsSlot {
                    self.memory.slots[rank].state.store(STATE_CHEAP, Ordering::Relaxed);
                }
                self.steps[3] += 1;
                if matches!(operation.next, Step::Ask(_)) {
                    self.memory.slots[rank].seq.fetch_add(1, Ordering::Relaxed);
                }
                self.asked[rank] = Some(message);
            }
            Step::Ask(_) | Step::AskPushed(_) => {
                let Some(answer) = self.answers[rank].take() else { return };
                let thread = thread(&self.memory, rank, operation);
                operation.next = operation.call.on_answer(&thread, answer).expect("the agent answers what is asked");
                operation.is_leased = true;
            }
            Step::Tell(_) => unreachable!("no ring fills here"),
            Step::Sync | Step::Done => unreachable!("reads and writes sync nothing, and end at once"),
        }
    }

    fn look(&mut self, rank: usize, operation: &mut Operation) {
        let reads_listed = std::mem::take(&mut operation.is_listed);
        let is_second = operation.direction == Direction::Read && operation.found.is_some() && !reads_listed;
        let does_not_look = match self.order {
            Order::NoLook => {
                self.transfer(Step::Slow(BLOCK), operation);
                true
            }
            Order::NoSecondLook => is_second,
            Order::NoLookAfterPush => operation.is_pushed,
            Order::NoLookAfterListed => reads_listed,
            _ => false,
        };
        if does_not_look {
            self.memory.slots[rank].free();
            operation.next = Step::Done;
            return;
        }
        self.steps[0] += 1;
        operation.next = operation.call.look(&thread(&self.memory, rank, operation));
        operation.is_leased = false;
        let counts = operation.is_pushed && !matches!(operation.next, Step::AskPushed(_));
        operation.is_pushed = false;
        self.pushes[1] += u64::from(counts);
        self.listed[1] += u64::from(reads_listed && operation.next == Step::Done);
    }

    fn begin_move(&mut self, rank: usize, operation: &mut Operation) {
        let is_slow = matches!(operation.next, Step::Slow(_));
        self.steps[if is_slow { 1 } else { 2 }] += 1;
        let reads_flash = !is_slow && operation.direction == Direction::Read;
        operation.is_listed = reads_flash && self.memory.slots[rank].held_pieces().next().is_none();
        self.listed[0] += u64::from(operation.is_listed);
        let later = match self.order {
            Order::CheapLater => is_slow && !operation.is_leased,
            Order::LeasedLater => is_slow && operation.is_leased,
            Order::FlashLater => !is_slow,
            _ => false,
        };
        if later {
            operation.later = Some(operation.next);
            self.moved(rank, operation);
        } else {
            self.transfer(operation.next, operation);
            operation.is_moved = true;
        }
    }

    fn moved(&mut self, rank: usize, operation: &mut Operation) {
        let thread = thread(&self.memory, rank, operation);
        operation.next = operation.call.on_moved(&thread, Moved::Bytes(BLOCK.length));
        operation.is_moved = false;
    }

    fn transfer(&mut self, step: Step, operation: &mut Operation) {
        let cell = match step {
            Step::Slow(_) => &mut self.disk,
            Step::Flash { place, .. } => &mut self.flash[(place / BLOCK.length) as usize],
            other => unreachable!("{other:?} moves nothing"),
        };
        match operation.direction {
            Direction::Read => operation.found = Some(*cell),
            Direction::Write => *cell = operation.version,
        }
    }

    fn end(&mut self, rank: usize, operation: &Operation) -> Result<(), String> {
        if self.memory.slots[rank].state.load(Ordering::Relaxed) != STATE_FREE {
            return Err(String::from("an idle thread has a request in its slot"));
        }
        let version = match operation.direction {
            Direction::Read => operation.found.expect("a read has read"),
            Direction::Write => operation.version,
        };
        if version == GARBAGE {
            return Err(String::from("garbage is read"));
        }
        self.spans[version].push((operation.begun, self.clock));
        Ok(())
    }

    /// Whether the history is one of an atomic register: every write and read has its effect at one moment
    /// between its begin and its end (Gibbons and Korach 1997, for values that are written once).
    pub fn check(&self) -> Result<(), String> {
        let zones: Vec<Zone> = self.spans.iter().map(|spans| Zone::of(spans)).collect();
        for (version, zone) in zones.iter().enumerate() {
            for (other, beside) in zones.iter().enumerate().filter(|(other, _)| *other != version) {
                if zone.conflicts(beside) {
                    return Err(format!("an old value is read: {version} and {other} in turns"));
                }
            }
        }
        Ok(())
    }

    fn serve(&mut self, rank: usize) {
        let Some(message) = self.asked[rank] else { return };
        if self.order != Order::NoDrain {
            self.drain();
        }
        self.close_for(&message);
        let (shared, slot) = (self.memory.view(), &self.memory.slots[rank]);
        let answer = match message {
            Message::Slab { .. } => {
                // For two writes: the second asks nobody.
                slot.show_slab(0, Place { length: 2 * BLOCK.length, ..place_of(self.flash.len()) });
                self.flash.extend([GARBAGE; 2]);
                Answer::Done
            }
            Message::Commit { .. } if self.is_committed(rank) => Answer::Done,
            Message::Commit { place, .. } => {
                shared.announce(FILE, BLOCK);
                let is_held_up = shared.slow_read_overlaps(FILE, BLOCK) || self.writer.is_some();
                if !shared.is_settled(FILE, 0) || is_held_up {
                    return;
                }
                use_slab(slot, place);
                shared.raise_generation(FILE, BLOCK);
                self.end_listing();
                (self.mapped, self.is_clean) = (Some((place / BLOCK.length) as usize), false);
                self.committed[rank] = slot.seq.load(Ordering::Relaxed);
                self.open.get_or_insert_with(|| shared.open(FILE, 0));
                Answer::Done
            }
            Message::Read { leased, .. } => self.read(rank, leased),
            Message::Write { .. } if self.writer.is_some() => return,
            Message::Write { .. } => {
                if shared.slow_read_overlaps(FILE, BLOCK) && self.is_clean {
                    self.end_listing();
                    self.mapped = None;
                }
                if self.mapped.is_some() {
                    shared.raise_generation(FILE, BLOCK);
                }
                self.writer = Some(rank);
                slot.grant_direct_write(FILE, BLOCK, 0);
                Answer::Go
            }
            Message::WriteDone { .. } => {
                assert_eq!(self.writer.take(), Some(rank));
                self.end_listing();
                self.mapped = None;
                slot.revoke_lease();
                Answer::Done
            }
            other => unreachable!("no thread asks {other:?}"),
        };
        self.asked[rank] = None;
        self.answers[rank] = Some(answer);
        self.free_places();
    }

    /// Closes the granule for what may not begin in an open one.
    fn close_for(&mut self, message: &Message) {
        let closes = match message {
            Message::Write { .. } => self.writer.is_none() && self.order != Order::OpenDirect,
            // In order to list it, of the wrong orders in those of listings alone: others show by granules that stay open.
            Message::Read { leased, .. } => {
                let lists =
                    matches!(self.order, Order::Right | Order::NoLookAfterListed | Order::NoEnd | Order::KeyAgain);
                (lists && self.random.chance(40)) || *leased
            }
            _ => false,
        };
        if closes {
            self.close();
        }
    }

    fn read(&mut self, rank: usize, leased: bool) -> Answer {
        let may_be_sooner = self.is_clean && self.writer.is_none() && self.random.chance(50);
        let slot = &self.memory.slots[rank];
        if let Some(place) = self.mapped.filter(|_| !may_be_sooner) {
            slot.grant_flash_read([place_of(place)]);
            if (self.open.is_none() || self.order == Order::ListOpen) && self.random.chance(70) {
                self.list(place_of(place));
            }
            return Answer::Flash(BLOCK.length);
        }
        if leased {
            self.leased_reads += 1;
            slot.grant_slow_read(BLOCK);
        }
        if self.mapped.is_some() { Answer::Sooner(BLOCK.length) } else { Answer::Disk(BLOCK.length) }
    }

    /// Whether the commit that the thread asks for was applied when it was pushed.
    fn is_committed(&self, rank: usize) -> bool {
        self.order != Order::Twice && self.memory.slots[rank].seq.load(Ordering::Relaxed) == self.committed[rank]
    }

    /// Applies what was pushed.
    fn drain(&mut self) {
        let mut taken = self.collector.take(self.memory.view());
        if self.order == Order::NoTickets {
            taken.sort_by_key(|pushed| pushed.slot);
        }
        for pushed in taken {
            let rank = pushed.slot as usize;
            let counts = self.order == Order::Stale || self.open == Some(pushed.open);
            if counts && pushed.seq > self.committed[rank] {
                self.committed[rank] = pushed.seq;
                self.memory.view().raise_generation(FILE, BLOCK);
                (self.mapped, self.is_clean) = (Some((pushed.place.place / BLOCK.length) as usize), false);
                use_slab(&self.memory.slots[rank], pushed.place.place);
            }
        }
        self.collector.store_tails(self.memory.view());
    }

    /// What was pushed before is applied, and nothing that is pushed later.
    fn close(&mut self) {
        if self.open.is_some() {
            self.memory.view().begin_closing(FILE, 0);
            self.drain();
            self.open = None;
            self.memory.view().end_closing(FILE, 0);
        }
    }

    /// The block goes back to the slow file; the next time it leaves flash, and its bit is cleared.
    fn write_back(&mut self) {
        if self.writer.is_some() {
            return;
        }
        match self.mapped {
            Some(place) if !self.is_clean => (self.disk, self.is_clean) = (self.flash[place], true),
            _ => {
                if self.order != Order::OpenClear {
                    self.close();
                }
                if self.mapped.is_some() && !self.is_clean {
                    return; // pushed meanwhile
                }
                self.end_listing();
                self.mapped = None;
                self.memory.view().clear_bit(FILE, 0);
                self.free_places();
            }
        }
    }

    /// Reads of the block ask nobody.
    fn list(&self, place: Place) {
        let shared = self.memory.view();
        let key = shared.fill_listing(0, FILE, 0, [(0, place)]);
        if self.order == Order::KeyAgain {
            shared.listing_keys.keys[0].fetch_sub(key - 1, Ordering::Relaxed);
        }
    }

    fn end_listing(&self) {
        if self.order != Order::NoEnd {
            self.memory.view().end_listing(0);
        }
    }

    /// Places that nothing names hold anything.
    fn free_places(&mut self) {
        for (place, cell) in self.flash.iter_mut().enumerate() {
            let offset = place as u64 * BLOCK.length;
            let is_here = |held: Place| held.place <= offset && offset < held.place + held.length;
            let slots = &self.memory.slots;
            let is_named = slots.iter().any(|slot| slot.held_pieces().any(is_here) || is_here(slot.slabs[0].read()));
            if !is_named && self.mapped != Some(place) {
                *cell = GARBAGE;
            }
        }
    }
}

fn place_of(place: usize) -> Place {
    Place { file: FILE, data_file: 0, place: place as u64 * BLOCK.length, length: BLOCK.length }
}

/// The place is no more the slab's, and what lies before it neither.
fn use_slab(slot: &Slot, place: u64) {
    let held = slot.slabs[0].read();
    let (next, end) = (place + BLOCK.length, held.place + held.length);
    if held.place <= place && next < end {
        slot.show_slab(0, Place { place: next, length: end - next, ..held });
    } else if held.place <= place && next == end {
        slot.revoke_slab(0);
    }
}

fn thread<'a>(memory: &'a Memory, slot: usize, operation: &Operation) -> Rank<'a> {
    Rank { memory, slot, absorbs: operation.absorbs }
}
