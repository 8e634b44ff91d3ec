//! The shared file: one mapping that the agent owns and every process of a run maps too.
//!
//! ```text
//! Header | FileEntry x FILES_MAX | Slot x SLOTS_MAX | bits: BITS_PER_FILE per file
//! ```
//!
//! **Bits.** One bit per granule (1 MiB) of a file. A clear bit is a lease on absence: nothing of that granule is on flash.
//! A file larger than `BITS_PER_FILE` granules wraps round, so that a set bit may speak for several granules: that costs a
//! question to the agent, never a wrong answer.
//!
//! **Slots.** One per thread. What is written to them, and in which order, is in [`super::handshake`] (requests),
//! [`super::lease`] (leases and slabs) and [`super::hints`].
//!
//! The layout is the same for whoever maps the file: its sizes are asserted below.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::request::Range;

/// Bytes one bit speaks for.
pub const GRANULE_BYTES: u64 = 1 << 20;
/// Threads that can take part at once.
pub const SLOTS_MAX: usize = 4096;
/// Files that can be known at once.
pub const FILES_MAX: usize = 16384;
/// Bits of one file.
pub const BITS_PER_FILE: u64 = if cfg!(loom) { 128 } else { 65536 };
/// Words of bits of one file.
pub const WORDS_PER_FILE: usize = (BITS_PER_FILE / 64) as usize;
/// Pieces of flash that one read lease, and slabs that one slot, can hold.
pub const PIECES_MAX: usize = if cfg!(loom) { 1 } else { 8 };
/// Hints a slot's ring holds.
pub const HINTS_MAX: usize = if cfg!(loom) { 2 } else { 32 };
/// First word of a shared file that is ready.
pub const MAGIC: u64 = 0x6865_6164_7374_6131;
/// Counters of a slot.
pub const COUNTERS_MAX: usize = 24;

/// `Slot::state`: no request under way.
pub const STATE_FREE: u32 = 0;
/// `Slot::state`: a kernel call on the slow file may be under way without the agent's knowledge.
pub const STATE_CHEAP: u32 = 1;
/// `Slot::state`: waiting for the agent, or under a lease; nobody waits for it.
pub const STATE_ASKING: u32 = 2;

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

/// What the library counts in its slot; index into [`Slot::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Requests absorbed by flash.
    AbsorbedRequests = 0,
    /// Bytes absorbed by flash.
    AbsorbedBytes = 1,
    /// Read requests served from flash, in whole or in part.
    FlashReadRequests = 2,
    /// Bytes read from flash.
    FlashReadBytes = 3,
    /// Read requests served by the disk alone because nothing of them is on flash.
    DiskReadMissRequests = 4,
    /// Bytes read from disk.
    DiskReadBytes = 5,
    /// Write requests sent to disk because the cost model prefers it.
    DiskWriteUnwantedRequests = 6,
    /// Write requests sent to disk because flash had no free space.
    DiskWriteNoSpaceRequests = 7,
    /// Bytes written to disk by the program.
    DiskWriteBytes = 8,
    /// Critical reads that missed and were handed to the agent as hints.
    CriticalReadMisses = 9,
    /// Hints lost because the ring was full.
    HintsLost = 10,
    /// Round trips to the agent.
    RoundTrips = 11,
    /// Requests that took the cheap path (no round trip).
    CheapRequests = 12,
}

/// The first page: who owns the file.
#[repr(C, align(64))]
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
    reserved: [AtomicU64; 7],
}

/// What everybody knows of one file.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct FileEntry {
    /// Device and inode of the slow file, for whoever reads the table.
    pub device: AtomicU64,
    /// Inode of the slow file.
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
    reserved: [AtomicU64; 2],
}

/// A piece of flash in a lease, or a slab.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Piece {
    /// The slow file it belongs to.
    pub file: AtomicU32,
    /// The data file it lies in.
    pub data_file: AtomicU32,
    /// Offset in the data file.
    pub place: AtomicU64,
    /// Length in bytes; a slab of length zero is no slab.
    pub length: AtomicU64,
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
    /// Benefit in nanoseconds (S4D eq. 8).
    pub benefit_ns: AtomicU64,
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
    /// First byte of the slow range a lease covers.
    pub lease_offset: AtomicU64,
    /// Its length.
    pub lease_length: AtomicU64,
    /// Owner's process; zero: free.
    pub owner_pid: AtomicU32,
    /// Owner's thread.
    pub owner_tid: AtomicU32,
    /// The owner process's start time in clock ticks since boot.
    pub owner_start: AtomicU64,
    /// Pieces of the flash read lease, in file order; `pieces_count` are valid.
    pub pieces: [Piece; PIECES_MAX],
    /// Slabs: flash space this thread may write absorbed bytes to.
    pub slabs: [Piece; PIECES_MAX],
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
    pub counters: [AtomicU64; COUNTERS_MAX],
}

/// The shared file as it lies in memory.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    header: Header,
    files: [FileEntry; FILES_MAX],
    slots: [Slot; SLOTS_MAX],
    bits: [AtomicU64; WORDS_PER_FILE * FILES_MAX],
}

// A model checker's atomics are larger; everybody else sees this.
#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 128 && size_of::<FileEntry>() == 64 && size_of::<Slot>() == 1792);
    assert!(size_of::<Region>() == 128 + FILES_MAX * 64 + SLOTS_MAX * 1792 + FILES_MAX * 8192);
    assert!(std::mem::offset_of!(Slot, pieces) == 72 && std::mem::offset_of!(Slot, hints) == 472);
};

impl Region {
    /// Bytes of the shared file. It is sparse: what is not used takes no memory.
    pub const BYTES: usize = size_of::<Region>();

    /// The parts as slices.
    pub fn view(&self) -> Shared<'_> {
        Shared { header: &self.header, files: &self.files, slots: &self.slots, bits: &self.bits }
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
    /// The bits, [`WORDS_PER_FILE`] words a file.
    pub bits: &'a [AtomicU64],
}

/// Index of the bit that speaks for the granule of `offset`.
pub fn bit_of(offset: u64) -> u64 {
    (offset / GRANULE_BYTES) % BITS_PER_FILE
}

/// The bits that speak for `range`: the first one and their number, both modulo [`BITS_PER_FILE`]. Empty ranges have none.
pub fn bits_of(range: Range) -> impl Iterator<Item = u64> {
    let first = range.offset / GRANULE_BYTES;
    let count = if range.is_empty() { 0 } else { ((range.end() - 1) / GRANULE_BYTES - first + 1).min(BITS_PER_FILE) };
    (first..first + count).map(|granule| granule % BITS_PER_FILE)
}

impl<'a> Shared<'a> {
    pub(super) fn word(&self, file: u32, bit: u64) -> &'a AtomicU64 {
        &self.bits[file as usize * WORDS_PER_FILE + (bit / 64) as usize]
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
}
