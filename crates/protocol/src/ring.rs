//! Rings: commits that need no answer. Each slot has one; its thread writes entries, the agent takes them out.
//!
//! ```text
//! library: loads the granule's open word: a number | takes a ticket | writes the entry, moves the head | fence
//!          | marks its slot | loads the open word again -> the same: committed
//!                                                        -> another: asks the agent to commit, under the same number
//! agent:   looks before each request: tickets taken so far | takes the marks | fence | reads the rings
//!          | applies, in the order of tickets, what has none that was taken since
//!          closes a granule: another word | fence | looks; what comes later under the old number counts no more
//! ```
//!
//! **Whole entries.** An entry is complete before the ring's head moves over it: a thread that dies at any store
//! leaves whole entries or none. The agent moves the tail once the records of what it took out are appended. One
//! that dies before leaves entries that the journal may hold: the next one knows those by their numbers.
//!
//! **Order.** Tickets order the entries of all rings; the agent does not see all rings at one moment. It applies
//! what has a ticket taken before it began to look. Say that it applies X and has not seen Y, which has a smaller
//! ticket. X took its ticket before the agent began to look, and Y was not in its ring when the agent looked there,
//! after that. So Y had not returned when X took its ticket: the two writes overlap in time, and Y may come after X.
//!
//! **Closing.** Of the library's fence and the agent's one comes first: either the library sees that the word
//! changed, or the agent sees the entry. Until the records of what it takes out then are appended the word says
//! [`CLOSING`], and its number: should the agent die first, the next one takes entries under that number for good.
//!
//! **Marks** ([`super::marks`]) say which rings have something. They are taken after the tickets are looked at, and
//! before the rings are read.

use std::collections::BTreeMap;

use super::lease::Place;
use super::marks::{Gathered, Lonely, SlotSet};
use super::shared::{GRANULES_PER_FILE, Shared, bit_of, word_of};
use headstart_units::GRANULE_BYTES;
use headstart_units::atomics::{AtomicU32, AtomicU64, Ordering, fence};
use headstart_units::request::Range;

/// In [`Granule::open`], beside the number: the agent takes out what was pushed under it, and nothing more is.
pub const CLOSING: u64 = 1 << 63;

/// Entries of one ring: so many commits can wait for the agent before a thread asks it (assumed).
pub const ENTRIES_MAX: usize = if cfg!(loom) { 2 } else { 128 };

/// One commit.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Entry {
    /// The slot's number of it, as a message would carry it.
    pub seq: AtomicU64,
    /// Orders it among the entries of all rings.
    pub ticket: AtomicU64,
    /// What its granule's `open` word held when it was written.
    pub open: AtomicU64,
    /// First byte of the slow file.
    pub offset: AtomicU64,
    /// Length in bytes.
    pub length: AtomicU64,
    /// Offset in the data file.
    pub place: AtomicU64,
    /// The slow file.
    pub file: AtomicU32,
    /// The data file.
    pub data_file: AtomicU32,
}

/// The ring of one slot.
#[repr(C)]
#[derive(Debug)]
pub struct Ring {
    /// Entries ever written; the slot's thread stores it.
    pub head: Lonely,
    /// Entries ever taken out, whose records are appended; the agent stores it.
    pub tail: Lonely,
    /// Entry `n` is at `n % ENTRIES_MAX`.
    pub entries: [Entry; ENTRIES_MAX],
}

impl Default for Ring {
    fn default() -> Ring {
        let entries = std::array::from_fn(|_| Entry::default());
        Ring { head: Lonely::default(), tail: Lonely::default(), entries }
    }
}

/// A commit that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Whose it is.
    pub slot: u32,
    /// The slot's number of it.
    pub seq: u64,
    /// Orders it.
    pub ticket: u64,
    /// What the granule's open word held.
    pub open: u64,
    /// The bytes of the slow file.
    pub range: Range,
    /// Where they lie.
    pub place: Place,
}

/// The library's side.
impl Shared<'_> {
    /// The number under which bytes of `range` may be committed without an answer, if they may: they lie within one
    /// granule, and the slot's ring has room.
    #[inline]
    pub fn open_for(&self, slot: u32, file: u32, range: Range) -> Option<u64> {
        let word = word_of(range.offset);
        if range.is_empty() || (range.end() - 1) / GRANULE_BYTES != range.offset / GRANULE_BYTES {
            return None;
        }
        let open = self.granule(file, word).open.load(Ordering::Acquire);
        // Another granule may have the same word. No bit is cleared while its word is open.
        let is_open = open != 0 && open & CLOSING == 0 && self.is_set(file, bit_of(range.offset));
        (is_open && !self.rings[slot as usize].is_full()).then_some(open)
    }

    /// Pushes the commit of `range` at `place`, under the slot's next number, and marks the slot. It counts if
    /// [`Shared::is_open_under`] the number afterwards; else the agent is to be asked, under the same one. Whether the
    /// agent sleeps, and is to be told.
    #[inline]
    pub fn push(&self, slot: u32, open: u64, range: Range, place: Place) -> bool {
        let cell = &self.slots[slot as usize];
        let ticket = self.marks.tickets.0.fetch_add(1, Ordering::SeqCst) + 1;
        let seq = cell.seq.load(Ordering::Relaxed) + 1;
        cell.seq.store(seq, Ordering::Release);
        self.rings[slot as usize].write(&Pushed { slot, seq, ticket, open, range, place });
        fence(Ordering::SeqCst);
        self.mark(slot)
    }

    /// Whether the commits of `range` still need no answer, under that number: after a push.
    #[inline]
    pub fn is_open_under(&self, file: u32, range: Range, open: u64) -> bool {
        self.granule(file, word_of(range.offset)).open.load(Ordering::SeqCst) == open
    }
}

impl Ring {
    #[inline]
    fn is_full(&self) -> bool {
        self.waiting() >= ENTRIES_MAX as u64
    }

    /// How many entries the agent has not taken out for good.
    #[inline]
    fn waiting(&self) -> u64 {
        self.head.0.load(Ordering::Relaxed).wrapping_sub(self.tail.0.load(Ordering::Acquire))
    }

    /// Whether the agent should be told to look, after a push: at each quarter of the ring that fills. It hands out
    /// slabs for as many writes again, before those at hand are used up.
    #[inline]
    pub fn wants_agent(&self) -> bool {
        let (waiting, quarter) = (self.waiting(), ENTRIES_MAX.div_ceil(4) as u64);
        waiting >= quarter && self.head.0.load(Ordering::Relaxed).is_multiple_of(quarter)
    }

    /// Adds an entry, whole before the head moves over it. [`Shared::push`] is how threads do that.
    #[inline]
    pub fn write(&self, pushed: &Pushed) {
        let head = self.head.0.load(Ordering::Relaxed);
        let entry = &self.entries[head as usize % ENTRIES_MAX];
        entry.seq.store(pushed.seq, Ordering::Relaxed);
        entry.ticket.store(pushed.ticket, Ordering::Relaxed);
        entry.open.store(pushed.open, Ordering::Relaxed);
        entry.offset.store(pushed.range.offset, Ordering::Relaxed);
        entry.length.store(pushed.range.length, Ordering::Relaxed);
        entry.place.store(pushed.place.place, Ordering::Relaxed);
        entry.file.store(pushed.place.file, Ordering::Relaxed);
        entry.data_file.store(pushed.place.data_file, Ordering::Relaxed);
        self.head.0.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Entry `at` of the ring, which is the slot's.
    pub fn read(&self, slot: u32, at: u64) -> Pushed {
        let entry = &self.entries[at as usize % ENTRIES_MAX];
        let length = entry.length.load(Ordering::Relaxed);
        Pushed {
            slot,
            seq: entry.seq.load(Ordering::Relaxed),
            ticket: entry.ticket.load(Ordering::Relaxed),
            open: entry.open.load(Ordering::Relaxed),
            range: Range::new(entry.offset.load(Ordering::Relaxed), length),
            place: Place {
                file: entry.file.load(Ordering::Relaxed),
                data_file: entry.data_file.load(Ordering::Relaxed),
                place: entry.place.load(Ordering::Relaxed),
                length,
            },
        }
    }
}

/// The agent's side: opening and closing.
impl Shared<'_> {
    /// Commits in the granules of this word need no answer from now on. Returns the number.
    pub fn open(&self, file: u32, word: usize) -> u64 {
        let granule = self.granule(file, word);
        let number = granule.generation.fetch_add(1, Ordering::SeqCst) + 1;
        granule.open.store(number, Ordering::SeqCst);
        number
    }

    /// They need one again. The caller fences after the last word, and takes out what was pushed.
    pub fn begin_closing(&self, file: u32, word: usize) {
        self.granule(file, word).open.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// What was pushed before is appended.
    pub fn end_closing(&self, file: u32, word: usize) {
        self.granule(file, word).open.store(0, Ordering::SeqCst);
    }

    /// The words of the file that are open, or about to be closed, with their numbers: for an agent that takes over.
    pub fn open_words(&self, file: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        let number = move |word: usize| self.granule(file, word).open.load(Ordering::SeqCst) & !CLOSING;
        (0..GRANULES_PER_FILE).map(move |word| (word, number(word))).filter(|(_, number)| *number != 0)
    }
}

/// The agent's side: what it has taken out of rings.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    gathered: Gathered,
    /// By slot, up to where a ring is read, where that is beyond its tail.
    read: BTreeMap<u32, u64>,
}

impl Collector {
    /// Takes out what may be applied, in the order in which it is to be. Closings were followed by a fence.
    pub fn take(&mut self, shared: Shared<'_>) -> Vec<Pushed> {
        let until = shared.marks.tickets.0.load(Ordering::SeqCst);
        self.gathered.gather(shared);
        if self.gathered.rings.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let read = &mut self.read;
        // Those that hold more stay.
        self.gathered.rings.retain(|slot| read_ring(shared, read, slot, until, &mut taken));
        taken.sort_unstable_by_key(|pushed| pushed.ticket);
        taken
    }

    /// Looks into the ring of a slot whether it is marked or not: its thread is gone, maybe before it could mark it.
    pub fn look_into(&mut self, slot: u32) {
        self.gathered.rings.insert(slot);
    }

    /// Takes out all there is, as no thread pushes: for an agent that takes over, whose words are closed.
    pub fn take_all(&mut self, shared: Shared<'_>) -> Vec<Pushed> {
        for slot in 0..shared.used_slots().len() as u32 {
            self.gathered.rings.insert(slot);
            // Nobody knows whose marks the agent before took.
            self.gathered.hints.insert(slot);
        }
        self.take(shared)
    }

    /// The slots whose threads may have left hints, of the marks that were taken along with those of rings; none of
    /// them any more.
    pub fn take_hinted(&mut self) -> SlotSet {
        std::mem::take(&mut self.gathered.hints)
    }

    /// The agent sleeps from now on, unless it is to look ([`Gathered::fall_asleep`]).
    pub fn fall_asleep(&self, shared: Shared<'_>) -> bool {
        self.gathered.fall_asleep(shared)
    }

    /// The records of all that was taken out are appended.
    pub fn store_tails(&mut self, shared: Shared<'_>) {
        for (slot, read) in std::mem::take(&mut self.read) {
            shared.rings[slot as usize].tail.0.store(read, Ordering::Release);
        }
    }
}

/// Reads the ring of a slot as far as its tickets allow; whether it holds more.
fn read_ring(
    shared: Shared<'_>,
    read: &mut BTreeMap<u32, u64>,
    slot: u32,
    until: u64,
    taken: &mut Vec<Pushed>,
) -> bool {
    let Some(ring) = shared.rings.get(slot as usize) else { return false };
    let tail = ring.tail.0.load(Ordering::Relaxed);
    let (head, first) = (ring.head.0.load(Ordering::Acquire), read.get(&slot).copied().unwrap_or(tail));
    if head == first {
        return false;
    }
    // A head that makes no sense is taken for an empty ring.
    let is_sound = head.wrapping_sub(tail) <= ENTRIES_MAX as u64 && first.wrapping_sub(tail) <= head.wrapping_sub(tail);
    let mut next = if is_sound { first } else { head };
    while next != head {
        let pushed = ring.read(slot, next);
        if pushed.ticket > until {
            break;
        }
        taken.push(pushed);
        next = next.wrapping_add(1);
    }
    read.insert(slot, next);
    next != head
}
