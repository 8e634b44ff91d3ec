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
//! **Slots.** One per thread. The library writes the request before `state`, with release ordering; `CHEAP` is followed by a
//! sequentially consistent fence before the bits are loaded ([`Slot::publish_cheap`]). The agent sets a bit, fences and then
//! loads the slots. So either the library sees the bit or the agent sees the slot.
//!
//! Leases and slabs in a slot are written by the agent before it replies. A read lease is released by the library's store;
//! a direct-write lease and used slabs by the agent, after its append.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::request::Range;

/// Bytes one bit speaks for.
pub const GRANULE_BYTES: u64 = 1 << 20;
/// Threads that can take part at once.
pub const SLOTS_MAX: usize = 4096;
/// Files that can be known at once.
pub const FILES_MAX: usize = 16384;
/// Bits of one file.
pub const BITS_PER_FILE: u64 = 65536;
/// Words of bits of one file.
pub const WORDS_PER_FILE: usize = (BITS_PER_FILE / 64) as usize;
/// Pieces of flash that one read lease, and slabs that one slot, can hold.
pub const PIECES_MAX: usize = 8;
/// Hints a slot's ring holds.
pub const HINTS_MAX: usize = 32;
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

impl Slot {
    /// Publishes a request that may go to the slow file without the agent, and fences: bits loaded afterwards are newer than the publication.
    pub fn publish_cheap(&self, kind: u32, file: u32, range: Range) {
        self.kind.store(kind, Ordering::Relaxed);
        self.file.store(file, Ordering::Relaxed);
        self.offset.store(range.offset, Ordering::Relaxed);
        self.length.store(range.length, Ordering::Relaxed);
        self.state.store(STATE_CHEAP, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Says that the request waits for the agent; whoever waited for the slot goes on.
    pub fn ask(&self) {
        self.state.store(STATE_ASKING, Ordering::Release);
    }

    /// No request is under way any more.
    pub fn free(&self) {
        self.state.store(STATE_FREE, Ordering::Release);
    }

    /// Releases a read lease. Direct-write leases are released by the agent.
    pub fn release_read(&self) {
        self.lease.store(LEASE_NONE, Ordering::Release);
    }

    /// Whether a request in `CHEAP` state overlaps `range` of `file`. Extending writes are taken to reach the end of the file.
    pub fn cheap_overlaps(&self, file: u32, range: Range) -> bool {
        if self.state.load(Ordering::Acquire) != STATE_CHEAP || self.file.load(Ordering::Relaxed) != file {
            return false;
        }
        self.requested().overlaps(range)
    }

    /// Whether a `CHEAP` write that may extend `file` is under way.
    pub fn cheap_extends(&self, file: u32) -> bool {
        self.state.load(Ordering::Acquire) == STATE_CHEAP
            && self.file.load(Ordering::Relaxed) == file
            && self.kind.load(Ordering::Relaxed) == KIND_EXTEND
    }

    /// The published range.
    pub fn requested(&self) -> Range {
        Range::new(self.offset.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed))
    }

    /// Whether a slow-read lease on `range` of `file` is held.
    pub fn slow_read_overlaps(&self, file: u32, range: Range) -> bool {
        self.lease.load(Ordering::Acquire) == LEASE_SLOW_READ
            && self.file.load(Ordering::Relaxed) == file
            && self.leased().overlaps(range)
    }

    /// The slow range of the lease.
    pub fn leased(&self) -> Range {
        Range::new(self.lease_offset.load(Ordering::Relaxed), self.lease_length.load(Ordering::Relaxed))
    }

    /// Adds to a counter; only the owner calls this.
    pub fn count(&self, counter: Counter, amount: u64) {
        let cell = &self.counters[counter as usize];
        cell.store(cell.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// Leaves a hint for the agent; counts it as lost if the ring is full.
    pub fn hint(&self, file: u32, range: Range, benefit_ns: u64) {
        let head = self.hints_head.load(Ordering::Relaxed);
        if head.wrapping_sub(self.hints_tail.load(Ordering::Acquire)) as usize >= HINTS_MAX {
            self.count(Counter::HintsLost, 1);
            return;
        }
        let hint = &self.hints[head as usize % HINTS_MAX];
        hint.file.store(file.into(), Ordering::Relaxed);
        hint.offset.store(range.offset, Ordering::Relaxed);
        hint.length.store(range.length, Ordering::Relaxed);
        hint.benefit_ns.store(benefit_ns, Ordering::Relaxed);
        self.hints_head.store(head.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest hint: file, range, benefit in nanoseconds. Only the agent calls this.
    pub fn take_hint(&self) -> Option<(u32, Range, u64)> {
        let tail = self.hints_tail.load(Ordering::Relaxed);
        if tail == self.hints_head.load(Ordering::Acquire) {
            return None;
        }
        let hint = &self.hints[tail as usize % HINTS_MAX];
        let taken = (
            hint.file.load(Ordering::Relaxed) as u32,
            Range::new(hint.offset.load(Ordering::Relaxed), hint.length.load(Ordering::Relaxed)),
            hint.benefit_ns.load(Ordering::Relaxed),
        );
        self.hints_tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(taken)
    }
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
    fn word(&self, file: u32, bit: u64) -> &'a AtomicU64 {
        &self.bits[file as usize * WORDS_PER_FILE + (bit / 64) as usize]
    }

    /// Whether every bit of `range` is clear. The caller has published its slot and fenced.
    pub fn all_clear(&self, file: u32, range: Range) -> bool {
        bits_of(range).all(|bit| self.word(file, bit).load(Ordering::Acquire) & (1 << (bit % 64)) == 0)
    }

    /// Whether one bit is set.
    pub fn is_set(&self, file: u32, bit: u64) -> bool {
        self.word(file, bit).load(Ordering::Acquire) & (1 << (bit % 64)) != 0
    }

    /// Sets one bit; the caller fences before it looks at the slots.
    pub fn set_bit(&self, file: u32, bit: u64) {
        let mask = 1 << (bit % 64);
        if self.word(file, bit).fetch_or(mask, Ordering::SeqCst) & mask == 0 {
            self.files[file as usize].set_bits.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Clears one bit.
    pub fn clear_bit(&self, file: u32, bit: u64) {
        let mask = 1 << (bit % 64);
        if self.word(file, bit).fetch_and(!mask, Ordering::SeqCst) & mask != 0 {
            self.files[file as usize].set_bits.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The slots that were ever used.
    pub fn used_slots(&self) -> &'a [Slot] {
        let count = self.header.slots_used.load(Ordering::Acquire) as usize;
        &self.slots[..count.min(self.slots.len())]
    }

    /// Whether a `CHEAP` request of a living thread overlaps `range` of `file`.
    pub fn cheap_overlaps(&self, file: u32, range: Range) -> bool {
        self.used_slots().iter().any(|slot| slot.cheap_overlaps(file, range))
    }

    /// Whether a slow-read lease overlaps `range` of `file`.
    pub fn slow_read_overlaps(&self, file: u32, range: Range) -> bool {
        self.used_slots().iter().any(|slot| slot.slow_read_overlaps(file, range))
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
    fn hints_keep_their_order_and_a_full_ring_counts_what_it_loses() {
        let slot = Slot::default();
        for k in 0..HINTS_MAX as u64 + 3 {
            slot.hint(1, Range::new(k, 1), k);
        }
        assert_eq!(slot.counters[Counter::HintsLost as usize].load(Ordering::Relaxed), 3);
        for k in 0..HINTS_MAX as u64 {
            assert_eq!(slot.take_hint(), Some((1, Range::new(k, 1), k)));
        }
        assert_eq!(slot.take_hint(), None);
    }
}
