//! The shared file: one mapping that the agent owns and every process of a run maps too.
//!
//! ```text
//! Header | FileEntry x FILES_MAX | Slot x SLOTS_MAX | CopyRecord x COPIES_MAX | OpenFiles x SLOTS_MAX | bits: BITS_PER_FILE per file
//! | Granule x GRANULES_PER_FILE per file | Interleaving x FILES_MAX | Marks | Ring x SLOTS_MAX
//! | keys of listings | Listing x LISTINGS_MAX | counters of threads that ended
//! ```
//!
//! **Bits.** One bit per granule (1 MiB) of a file. A clear bit is a lease on absence: nothing of that
//! granule is on flash. A file larger than `BITS_PER_FILE` granules wraps round, so that a set bit may speak
//! for several granules: that costs a question to the agent, never a wrong answer.
//!
//! **Granules.** Two words for a granule: its generation, which grows whenever bytes of it come to flash, so that
//! who read the slow file without asking sees afterwards whether that was right; and whether bytes may be
//! committed there without asking. A file of more than [`GRANULES_PER_FILE`] granules wraps round here too.
//!
//! **Rings.** Commits that need no answer, one ring a slot, and marks that say whose ring holds some
//! ([`super::ring`]).
//!
//! **Listings.** Where the bytes of granules lie on flash, for reads that do not ask ([`super::listing`]).
//!
//! **Interleaving.** What processes tell each other of where their requests begin and end, without order:
//! [`headstart_policy::order`]. A file has that of the one before with its number until requests have written
//! over it.
//!
//! **Slots.** One per thread. What is written to them, and in which order, is in [`super::handshake`] (requests),
//! [`super::lease`] (leases and slabs) and [`super::hints`].
//!
//! The slot of a dead thread whose write may still land stays taken, and says what is quarantined, until the
//! quarantine is lifted. An agent that starts while owners of slots live goes on with the file as it finds it
//! (`overlay/adoption.rs`).
//!
//! The layout is the same for whoever maps the file: its sizes are asserted below.

use std::mem::offset_of;

pub use super::limits::FILES_MAX;

use super::deadline::Deadline;
use super::handover::{COPIES_MAX, CopyRecord, OpenFiles};
use super::listing::{LISTINGS_MAX, Listing, ListingKeys};
use super::marks::Marks;
use super::read_times::ReadTimes;
use super::ring::Ring;
pub use crate::counters::Counter;
use headstart_policy::order::Interleaving;
use headstart_units::GRANULE_BYTES;
use headstart_units::atomics::{AtomicU32, AtomicU64, Ordering};
use headstart_units::request::Range;

/// Threads that can take part at once.
pub const SLOTS_MAX: usize = 4096;
/// Bits of one file.
pub const BITS_PER_FILE: u64 = if cfg!(loom) { 128 } else { 65536 };
/// Words of bits of one file.
pub const WORDS_PER_FILE: usize = (BITS_PER_FILE / 64) as usize;
/// Words of one file that tell of changes: for so many granules each has its own.
pub const GRANULES_PER_FILE: usize = if cfg!(loom) { 2 } else { 512 };
/// Pieces of flash that one read lease, and slabs that one slot, can hold.
pub const PIECES_MAX: usize = if cfg!(loom) { 1 } else { 8 };
/// Hints a slot's ring holds.
pub const HINTS_MAX: usize = if cfg!(loom) { 2 } else { 32 };
/// First word of a shared file that is ready.
pub const MAGIC: u64 = 0x6865_6164_7374_6131;
/// Counters a slot has room for.
pub(crate) const COUNTERS_MAX: usize = 64;

/// `Slot::state`: no request under way.
pub const STATE_FREE: u32 = 0;
/// `Slot::state`: a kernel call on the slow file may be under way without the agent's knowledge.
pub const STATE_CHEAP: u32 = 1;
/// `Slot::state`: waiting for the agent, or under a lease; nobody waits for it.
pub const STATE_ASKING: u32 = 2;
/// `Slot::state`: the thread died in a cheap write, which may still land.
pub const STATE_QUARANTINED: u32 = 3;
/// `Slot::state`: reading the slow file, and looking afterwards whether that was right. It says so for the pace of
/// copies alone: to everybody else the slot is free.
pub const STATE_READING: u32 = 4;
/// `Slot::state`: as `STATE_ASKING`, but that it asks nobody: it reads bytes on flash by a listing.
pub const STATE_LISTED: u32 = 5;

/// `Slot::kind`: a read.
pub const KIND_READ: u32 = 0;
/// `Slot::kind`: a write within the known size.
pub const KIND_WRITE: u32 = 1;
/// `Slot::kind`: a write that may change the file's size.
pub const KIND_EXTEND: u32 = 2;

/// `Slot::lease`: none.
pub const LEASE_NONE: u32 = 0;
/// `Slot::lease`: reading the slow file in `lease_offset, lease_length`.
pub const LEASE_SLOW_READ: u32 = 1;
/// `Slot::lease`: reading the flash pieces.
pub const LEASE_FLASH_READ: u32 = 2;
/// `Slot::lease`: writing the slow file in `lease_offset, lease_length`.
pub const LEASE_DIRECT_WRITE: u32 = 3;
/// `Slot::lease`: the thread died under a direct-write lease; its write may still land.
pub const LEASE_QUARANTINED: u32 = 4;
/// `Slot::lease`: a direct-write lease whose holder gave its request up: it writes nothing any more.
pub const LEASE_GIVEN_UP: u32 = 5;

/// `Slot::lease_flags`: the direct write may change the file's size.
pub const DIRECT_EXTENDS: u32 = 1;
/// `Slot::lease_flags`: it is a truncation.
pub const DIRECT_TRUNCATES: u32 = 2;
/// The same: another agent, the file's owner, may have to hear of its end, for a record there.
pub const DIRECT_ORDERED: u32 = 4;

/// The first page: who owns the file.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Header {
    /// [`MAGIC`] once everything else is in place.
    pub magic: AtomicU64,
    /// [`super::PROTOCOL_VERSION`].
    pub version: AtomicU64,
    /// The kernel's boot id, as two words.
    pub boot_id: [AtomicU64; 2],
    /// Grows with every start of the agent.
    pub epoch: AtomicU64,
    /// The agent's process.
    pub agent_pid: AtomicU64,
    /// Its start time in clock ticks since boot, against reuse of the number.
    pub agent_start: AtomicU64,
    /// Bytes of flash an absorbed write could get now; a hint that saves a useless question.
    pub free_bytes: AtomicU64,
    /// Slots with an index at or above this were never used.
    pub slots_used: AtomicU64,
    /// Data files with a number at or above this were never used: a process may keep one that is deleted open
    /// by its number.
    pub data_files_used: AtomicU64,
    /// Bytes of writes that found no space and did not ask, since the agent started: it tells from them how
    /// much is wanted.
    pub refused_bytes: AtomicU64,
    /// The namespace of the process numbers in the slots; zero: not known, all ones: they are of several.
    pub pid_namespace: AtomicU64,
    reserved: [AtomicU64; 4],
    /// Until when this node is a member, where there are others.
    pub deadline: Deadline,
}

/// What everybody knows of one file.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct FileEntry {
    /// Inode of the slow file, for whoever reads the table.
    pub inode: AtomicU64,
    /// A size the file has at least; a write past it may extend the file.
    pub size: AtomicU64,
    /// Number of set bits.
    pub set_bits: AtomicU64,
    /// When bytes were last absorbed, in nanoseconds since 1970; zero: never since it was opened.
    pub modified_ns: AtomicU64,
    /// Set while the agent changes the file's size: extending writes ask.
    pub size_bit: AtomicU32,
    /// One while the entry is in use.
    pub used: AtomicU32,
    /// Grows whenever the regions change that belong on flash; zero: there never were any.
    pub regions: AtomicU64,
    /// One once processes may have the file open that never said so: forked children, and programs executed
    /// with its descriptor.
    pub inherited: AtomicU32,
    /// Where the furthest write ended that found no space and was not asked for, in [`REFUSED_UNIT_BYTES`],
    /// rounded down.
    pub refused_end: AtomicU32,
    /// One while nothing that is written of the file may come to flash: beside the size, which is looked at too.
    left_alone: AtomicU32,
    unused: AtomicU32,
    /// What reads of it took.
    pub read_times: ReadTimes,
    reserved: [AtomicU64; 2],
}

/// What [`FileEntry::refused_end`] counts in.
const REFUSED_UNIT_BYTES: u64 = 64 << 10;

impl FileEntry {
    /// A write that ends there found no space.
    pub fn refuse(&self, end: u64) {
        let units = u32::try_from(end / REFUSED_UNIT_BYTES).unwrap_or(u32::MAX);
        if self.refused_end.load(Ordering::Relaxed) < units {
            self.refused_end.fetch_max(units, Ordering::Relaxed);
        }
    }

    /// How long the file is at least by writes that found no space.
    pub fn refused_end_bytes(&self) -> u64 {
        u64::from(self.refused_end.load(Ordering::Relaxed)) * REFUSED_UNIT_BYTES
    }

    /// Whether nothing that is written of the file may come to flash, so that nobody need ask. A hint: who sees what
    /// held before writes to the disk, as it may at any time, or is told by the agent, which goes by what it knows.
    #[inline]
    pub fn is_left_alone(&self) -> bool {
        self.left_alone.load(Ordering::Relaxed) != 0
    }

    /// The agent's side: whether it is so now.
    pub fn leave_alone(&self, is_left_alone: bool) {
        self.left_alone.store(is_left_alone.into(), Ordering::Relaxed);
    }

    /// Bytes were absorbed at that time, in nanoseconds since 1970.
    #[inline]
    pub fn absorbed_at(&self, now_ns: u64) {
        if self.modified_ns.load(Ordering::Relaxed) < now_ns {
            self.modified_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// A process that has said that it has the file open is about to fork or to execute a program: before it
    /// does, so that whoever hears that it has closed the file, or ended, sees this.
    pub fn bequeath(&self) {
        self.inherited.store(1, Ordering::Release);
    }

    /// Whether anybody may have it open of whom nobody heard.
    pub fn is_inherited(&self) -> bool {
        self.inherited.load(Ordering::Acquire) != 0
    }
}

/// What tells of changes in the granules that share it.
#[repr(C, align(16))]
#[derive(Debug, Default)]
pub struct Granule {
    /// Grows whenever bytes there come to flash, or the slow file changes below bytes that are on flash.
    pub generation: AtomicU64,
    /// Commits there need no answer while it holds this number, which it never held before; zero: they do.
    pub open: AtomicU64,
}

/// A piece of flash in a lease.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Piece {
    /// The slow file it belongs to.
    pub file: AtomicU32,
    /// The data file it lies in.
    pub data_file: AtomicU32,
    /// Offset in the data file.
    pub place: AtomicU64,
    /// Length in bytes; zero: there is none.
    pub length: AtomicU64,
}

/// A slab: flash that a thread may write absorbed bytes to. The thread takes from it ahead of the agent, while the
/// agent shows what it knows to be used: `end` is the same as long as it is this slab, and `place` only grows.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slab {
    /// The slow file it is for.
    pub file: AtomicU32,
    /// The data file it lies in.
    pub data_file: AtomicU32,
    /// Offset in the data file; what lies before is used.
    pub place: AtomicU64,
    /// Where it ends there; zero: it is no slab.
    pub end: AtomicU64,
}

/// A critical read that missed, for the agent's critical data table.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Hint {
    /// The slow file.
    pub file: AtomicU64,
    /// Offset in it.
    pub offset: AtomicU64,
    /// Length in bytes.
    pub length: AtomicU64,
    /// Benefit in nanoseconds (S4D eq. 8); in the two highest bits when it is worth a fetch.
    pub benefit_ns: AtomicU64,
}

/// What one thread counted.
#[repr(C)]
#[derive(Debug)]
pub struct Cells([AtomicU64; COUNTERS_MAX]);

impl Default for Cells {
    fn default() -> Cells {
        Cells(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl std::ops::Deref for Cells {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// One thread's place in the shared file.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    /// `STATE_*`.
    pub state: AtomicU32,
    /// `KIND_*`.
    pub kind: AtomicU32,
    /// Index of the file.
    pub file: AtomicU32,
    /// `LEASE_*`.
    pub lease: AtomicU32,
    /// First byte of the request.
    pub offset: AtomicU64,
    /// Its length.
    pub length: AtomicU64,
    /// The last message's number; never falls while the shared file lives.
    pub seq: AtomicU64,
    /// The slow file of a direct-write lease.
    pub lease_file: AtomicU32,
    /// `DIRECT_*` of a direct-write lease.
    pub lease_flags: AtomicU32,
    /// First byte of the slow range a lease covers.
    pub lease_offset: AtomicU64,
    /// Its length.
    pub lease_length: AtomicU64,
    /// Owner's process, as the agent that gave the slot away sees it; zero: free.
    pub owner_pid: AtomicU32,
    /// Owner's thread; zero once the library has given the slot up.
    pub owner_tid: AtomicU32,
    /// The owner process's start time in clock ticks since boot.
    pub owner_start: AtomicU64,
    /// Pieces of the flash read lease, in file order; `pieces_count` are valid.
    pub pieces: [Piece; PIECES_MAX],
    /// Slabs: flash space this thread may write absorbed bytes to.
    pub slabs: [Slab; PIECES_MAX],
    /// Up to where the thread has taken of each, in its data file. Its own word, but for the agent that grants one.
    pub taken: [AtomicU64; PIECES_MAX],
    /// How many `pieces` are valid.
    pub pieces_count: AtomicU32,
    /// Next hint the library writes.
    pub hints_head: AtomicU32,
    /// Next hint the agent reads.
    pub hints_tail: AtomicU32,
    reserved: AtomicU32,
    /// Ring of hints.
    pub hints: [Hint; HINTS_MAX],
    /// [`Counter`]s, written by the owner alone.
    pub counters: Cells,
}

/// The shared file as it lies in memory.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    header: Header,
    files: [FileEntry; FILES_MAX],
    slots: [Slot; SLOTS_MAX],
    copies: [CopyRecord; COPIES_MAX],
    open_files: [OpenFiles; SLOTS_MAX],
    bits: [AtomicU64; WORDS_PER_FILE * FILES_MAX],
    granules: [Granule; GRANULES_PER_FILE * FILES_MAX],
    interleavings: [Interleaving; FILES_MAX],
    marks: Marks,
    rings: [Ring; SLOTS_MAX],
    listing_keys: ListingKeys,
    listings: [Listing; LISTINGS_MAX],
    ended: Cells,
}

// A model checker's atomics are larger; everybody else sees this.
#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 256 && offset_of!(Header, deadline) == 128);
    assert!(size_of::<FileEntry>() == 128 && size_of::<Slot>() == 2176);
    assert!(offset_of!(FileEntry, size) / 64 == offset_of!(FileEntry, left_alone) / 64, "one line has both");
    assert!(size_of::<CopyRecord>() == 40 && size_of::<OpenFiles>() == 6144);
    let records = COPIES_MAX * 40 + SLOTS_MAX * 6144;
    assert!(size_of::<Granule>() == 16 && size_of::<Marks>() == 640 && size_of::<Ring>() == 8320);
    let of_files = FILES_MAX * (128 + 8192 + 8192 + 8256);
    assert!(size_of::<Interleaving>() == 8256);
    assert!(size_of::<ListingKeys>() == 128 + LISTINGS_MAX * 16 && size_of::<Listing>() == 8192);
    let listings = 128 + LISTINGS_MAX * (16 + 8192);
    let of_slots = SLOTS_MAX * (2176 + 8320);
    assert!(size_of::<Region>() == 256 + of_files + of_slots + records + 640 + listings + COUNTERS_MAX * 8);
    assert!(offset_of!(Slot, pieces) == 80 && offset_of!(Slot, hints) == 544);
};

impl Region {
    /// Bytes of the shared file. It is sparse: what is not used takes no memory. What is used has its memory
    /// before: the agent reserves it, as there may be none left when a page is touched, which ends whoever
    /// touches it.
    pub const BYTES: usize = size_of::<Region>();

    /// What is used whatever takes part: the bytes of header, table of files, copies, marks, keys of listings, and
    /// counters of threads that ended.
    pub fn always() -> [std::ops::Range<usize>; 5] {
        let (files, copies, ended) = (offset_of!(Region, slots), offset_of!(Region, copies), offset_of!(Region, ended));
        let marks = offset_of!(Region, marks);
        let copies = copies..copies + size_of::<CopyRecord>() * COPIES_MAX;
        let keys = offset_of!(Region, listing_keys);
        let keys = keys..keys + size_of::<ListingKeys>();
        [0..files, copies, marks..marks + size_of::<Marks>(), keys, ended..Region::BYTES]
    }

    /// The bytes of a listing.
    pub fn of_listing(index: u32) -> std::ops::Range<usize> {
        let first = offset_of!(Region, listings) + index as usize * size_of::<Listing>();
        first..first + size_of::<Listing>()
    }

    /// The bytes of a slot, of its ring, and of what its process has open.
    pub fn of_slot(slot: u32) -> [std::ops::Range<usize>; 3] {
        let one = |first: usize, size: usize| first + slot as usize * size..first + (slot as usize + 1) * size;
        let of_slot = one(offset_of!(Region, slots), size_of::<Slot>());
        let open_files = one(offset_of!(Region, open_files), size_of::<OpenFiles>());
        [of_slot, one(offset_of!(Region, rings), size_of::<Ring>()), open_files]
    }

    /// The bytes of a file's bits and granules, and of what processes tell each other of their requests.
    pub fn of_file(file: u32) -> [std::ops::Range<usize>; 3] {
        let one = |first: usize, size: usize| first + file as usize * size..first + (file as usize + 1) * size;
        let bits = one(offset_of!(Region, bits), WORDS_PER_FILE * size_of::<AtomicU64>());
        let granules = one(offset_of!(Region, granules), GRANULES_PER_FILE * size_of::<Granule>());
        [bits, granules, one(offset_of!(Region, interleavings), size_of::<Interleaving>())]
    }

    /// How processes' requests for a file lie to each other: no part of the protocol, hence of no view.
    #[inline]
    pub fn interleaving(&self, file: u32) -> &Interleaving {
        &self.interleavings[file as usize]
    }

    /// Who owns the file, for whoever needs no more.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The parts as slices.
    pub fn view(&self) -> Shared<'_> {
        Shared {
            header: &self.header,
            files: &self.files,
            slots: &self.slots,
            copies: &self.copies,
            open_files: &self.open_files,
            bits: &self.bits,
            granules: &self.granules,
            marks: &self.marks,
            rings: &self.rings,
            listing_keys: &self.listing_keys,
            listings: &self.listings,
            ended: &self.ended,
        }
    }
}

/// The parts of the shared file; in tests they are plain vectors.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// Who owns the file.
    pub header: &'a Header,
    /// The files known.
    pub files: &'a [FileEntry],
    /// The threads' slots.
    pub slots: &'a [Slot],
    /// Copies under way.
    pub copies: &'a [CopyRecord],
    /// The files of each slot's process.
    pub open_files: &'a [OpenFiles],
    /// The bits, [`WORDS_PER_FILE`] words a file.
    pub bits: &'a [AtomicU64],
    /// What tells of changes, [`GRANULES_PER_FILE`] words a file.
    pub granules: &'a [Granule],
    /// Whose rings hold commits.
    pub marks: &'a Marks,
    /// Commits that need no answer, of each slot.
    pub rings: &'a [Ring],
    /// Which listings there are.
    pub listing_keys: &'a ListingKeys,
    /// What they say.
    pub listings: &'a [Listing],
    /// What threads counted that have ended.
    pub ended: &'a Cells,
}

/// Index of the bit that speaks for the granule of `offset`.
pub(crate) fn bit_of(offset: u64) -> u64 {
    (offset / GRANULE_BYTES) % BITS_PER_FILE
}

/// The word that tells of changes in the granule of that number; also of all that a bit of that number speaks for.
#[inline]
pub fn word_of_granule(number: u64) -> usize {
    (number % GRANULES_PER_FILE as u64) as usize
}

const _: () = assert!(BITS_PER_FILE.is_multiple_of(GRANULES_PER_FILE as u64), "granules that share a bit share a word");

/// That of the granule of `offset`.
#[inline]
pub fn word_of(offset: u64) -> usize {
    word_of_granule(offset / GRANULE_BYTES)
}

/// The granule of a range that lies in one, as most requests do.
#[inline]
pub(crate) fn only_granule(range: Range) -> Option<u64> {
    let first = range.offset / GRANULE_BYTES;
    (!range.is_empty() && (range.end() - 1) / GRANULE_BYTES == first).then_some(first)
}

/// The bits that speak for `range`: the first one and their number, both modulo [`BITS_PER_FILE`]. Empty
/// ranges have none.
#[inline]
pub fn bits_of(range: Range) -> impl Iterator<Item = u64> {
    let first = range.offset / GRANULE_BYTES;
    let count = if range.is_empty() { 0 } else { ((range.end() - 1) / GRANULE_BYTES - first + 1).min(BITS_PER_FILE) };
    (first..first + count).map(|granule| granule % BITS_PER_FILE)
}

/// The words that tell of changes in `range`, each once.
#[inline]
pub(crate) fn granules_of(range: Range) -> impl Iterator<Item = usize> {
    let first = range.offset / GRANULE_BYTES;
    let count = if range.is_empty() { 0 } else { (range.end() - 1) / GRANULE_BYTES - first + 1 };
    (first..first + count.min(GRANULES_PER_FILE as u64)).map(word_of_granule)
}

impl<'a> Shared<'a> {
    /// The word of a file that tells of changes in the granules that share it.
    #[inline]
    pub(super) fn granule(&self, file: u32, word: usize) -> &'a Granule {
        &self.granules[file as usize * GRANULES_PER_FILE + word]
    }

    #[inline]
    pub(super) fn word(&self, file: u32, bit: u64) -> &'a AtomicU64 {
        &self.bits[file as usize * WORDS_PER_FILE + (bit / 64) as usize]
    }

    /// The thread behind `slot` has ended: what it counted is kept, whichever agent serves. Nothing if that
    /// was done before.
    pub fn keep_counts(&self, slot: u32) {
        for (sum, cell) in self.ended.iter().zip(self.slots[slot as usize].counters.iter()) {
            sum.fetch_add(cell.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// An agent ends in order and nobody takes part any more: the next one counts anew.
    pub fn forget_counts(&self) {
        self.ended.iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
    }

    /// The slots that were ever used.
    pub fn used_slots(&self) -> &'a [Slot] {
        let count = self.header.slots_used.load(Ordering::Acquire) as usize;
        &self.slots[..count.min(self.slots.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_each_granule_it_touches_once() {
        let bits = |offset, length| bits_of(Range::new(offset, length)).collect::<Vec<_>>();
        assert_eq!(bits(0, 0), vec![]);
        assert_eq!(bits(GRANULE_BYTES - 1, 2), vec![0, 1]);
        assert_eq!(bits(5, GRANULE_BYTES), vec![0, 1]);
        assert_eq!(bits(BITS_PER_FILE * GRANULE_BYTES - 1, 2), vec![BITS_PER_FILE - 1, 0], "bits wrap round");
        assert_eq!(bits(0, u64::MAX).len() as u64, BITS_PER_FILE);
    }

    #[test]
    fn a_range_names_each_word_of_its_granules_once() {
        let words = |offset, length| granules_of(Range::new(offset, length)).collect::<Vec<_>>();
        assert_eq!(words(7, 0), vec![]);
        assert_eq!(words(5, GRANULE_BYTES), vec![0, 1]);
        let last = GRANULES_PER_FILE - 1;
        assert_eq!(words(GRANULES_PER_FILE as u64 * GRANULE_BYTES - 1, 2), vec![last, 0], "words wrap round");
        assert_eq!(words(3 * GRANULE_BYTES, u64::MAX).len(), GRANULES_PER_FILE);
    }
}
