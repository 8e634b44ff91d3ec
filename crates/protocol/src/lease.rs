//! What the agent grants in a slot: one lease, and slabs.
//!
//! The agent writes a grant before it replies, and the socket orders the reply behind it. A read lease is
//! released by the library's store, which is ordered behind the reads made under it; a direct-write lease and
//! used slabs are taken back by the agent, after its append, also when the library has said that it gave the
//! request up. What a slab and a direct-write lease are worth the agent knows itself: the slot is told of
//! them, and its word is not taken for them.

use super::shared::{
    DIRECT_ORDERED, DIRECT_TRUNCATES, LEASE_DIRECT_WRITE, LEASE_FLASH_READ, LEASE_GIVEN_UP, LEASE_NONE,
    LEASE_QUARANTINED, LEASE_SLOW_READ, PIECES_MAX, Piece, Shared, Slab, Slot,
};
use headstart_units::atomics::Ordering;
use headstart_units::request::Range;

/// A piece of flash: of a lease, or a slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The slow file it belongs to.
    pub file: u32,
    /// The data file it lies in.
    pub data_file: u32,
    /// Offset in the data file.
    pub place: u64,
    /// Length in bytes; zero: none.
    pub length: u64,
}

impl Piece {
    /// Writes it; only the agent calls this. The length comes last: as long as it is zero there is nothing.
    pub fn grant(&self, place: Place) {
        self.length.store(0, Ordering::Relaxed);
        self.file.store(place.file, Ordering::Relaxed);
        self.data_file.store(place.data_file, Ordering::Relaxed);
        self.place.store(place.place, Ordering::Relaxed);
        self.length.store(place.length, Ordering::Release);
    }

    /// Reads it.
    pub fn read(&self) -> Place {
        let length = self.length.load(Ordering::Acquire);
        Place {
            file: self.file.load(Ordering::Relaxed),
            data_file: self.data_file.load(Ordering::Relaxed),
            place: self.place.load(Ordering::Relaxed),
            length,
        }
    }
}

impl Slot {
    /// The agent's grant of a read of the slow file in `range`.
    pub fn grant_slow_read(&self, range: Range) {
        self.grant_slow(LEASE_SLOW_READ, range);
    }

    /// The end of the direct write that was granted is an owner's to hear: bytes on flash may lie above what it writes.
    pub fn order_direct_write(&self) {
        self.lease_flags.fetch_or(DIRECT_ORDERED, Ordering::Release);
    }

    /// Whether it is.
    pub fn orders_direct_write(&self) -> bool {
        self.lease_flags.load(Ordering::Acquire) & DIRECT_ORDERED != 0
    }

    /// The agent's grant of a write of `file`, the slow file, in `range`; `flags` are `DIRECT_*`.
    pub fn grant_direct_write(&self, file: u32, range: Range, flags: u32) {
        self.lease_file.store(file, Ordering::Relaxed);
        self.lease_flags.store(flags, Ordering::Relaxed);
        self.grant_slow(LEASE_DIRECT_WRITE, range);
    }

    fn grant_slow(&self, lease: u32, range: Range) {
        self.lease_offset.store(range.offset, Ordering::Relaxed);
        self.lease_length.store(range.length, Ordering::Relaxed);
        self.lease.store(lease, Ordering::Release);
    }

    /// The agent's grant of a read of at most [`PIECES_MAX`] flash pieces, in file order.
    pub fn grant_flash_read(&self, pieces: impl IntoIterator<Item = Place>) {
        let mut count = 0;
        for (cell, place) in self.pieces.iter().zip(pieces) {
            cell.grant(place);
            count += 1;
        }
        self.pieces_count.store(count, Ordering::Relaxed);
        self.lease.store(LEASE_FLASH_READ, Ordering::Release);
    }

    /// The pieces of a flash-read lease, for the library; what is asked is answered, so that the lease is there.
    pub fn leased_pieces(&self) -> impl Iterator<Item = Place> + '_ {
        let count = self.pieces_count.load(Ordering::Acquire) as usize;
        self.pieces[..count.min(PIECES_MAX)].iter().map(Piece::read)
    }

    /// The pieces that somebody still reads, for the agent.
    pub fn held_pieces(&self) -> impl Iterator<Item = Place> + '_ {
        self.holds_flash_read().then(|| self.leased_pieces()).into_iter().flatten()
    }

    /// Releases a read lease; the library calls this after its last read. Direct-write leases are taken back
    /// by the agent.
    pub fn release_read(&self) {
        self.lease.store(LEASE_NONE, Ordering::Release);
    }

    /// Gives up whatever lease there is, as nobody answered; the library calls this when it is at no call of
    /// the kernel. Of a direct write only the range is known then, not what was written of it: the agent
    /// looks at it and takes the lease back.
    pub fn give_up(&self) {
        let _ = self.lease.compare_exchange(LEASE_DIRECT_WRITE, LEASE_GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
        self.forget_read();
    }

    /// The thread asks where to read and is granted nothing: what an agent before granted for the same request, and
    /// died before it could say so, is no lease.
    pub fn forget_read(&self) {
        if matches!(self.lease.load(Ordering::Acquire), LEASE_SLOW_READ | LEASE_FLASH_READ) {
            self.release_read();
        }
    }

    /// Whether the holder of a direct-write lease gave its request up.
    pub fn has_given_up(&self) -> bool {
        self.lease.load(Ordering::Acquire) == LEASE_GIVEN_UP
    }

    /// Takes a direct-write lease back; only the agent calls this, after its append.
    pub fn revoke_lease(&self) {
        self.lease.store(LEASE_NONE, Ordering::Release);
    }

    /// File and new size of a truncation under way, or of one whose thread died and of which nothing is recorded yet.
    pub fn truncation(&self) -> Option<(u32, u64)> {
        let lease = self.lease.load(Ordering::Acquire);
        let granted = matches!(lease, LEASE_DIRECT_WRITE | LEASE_QUARANTINED | LEASE_GIVEN_UP);
        let truncates = self.lease_flags.load(Ordering::Acquire) & DIRECT_TRUNCATES != 0;
        let file = self.lease_file.load(Ordering::Relaxed);
        (granted && truncates).then(|| (file, self.lease_offset.load(Ordering::Relaxed)))
    }

    /// The truncation of a thread that is gone is recorded.
    pub fn forget_truncation(&self) {
        self.lease_flags.fetch_and(!DIRECT_TRUNCATES, Ordering::Release);
    }

    /// Whether a slow-read lease is held.
    pub fn holds_slow_read(&self) -> bool {
        self.lease.load(Ordering::Acquire) == LEASE_SLOW_READ
    }

    /// Whether a flash-read lease is held.
    pub fn holds_flash_read(&self) -> bool {
        self.lease.load(Ordering::Acquire) == LEASE_FLASH_READ
    }

    /// Whether a slow-read lease on `range` of `file` is held.
    pub fn slow_read_overlaps(&self, file: u32, range: Range) -> bool {
        self.holds_slow_read() && self.file.load(Ordering::Relaxed) == file && self.leased().overlaps(range)
    }

    /// The slow range of the lease.
    pub fn leased(&self) -> Range {
        Range::new(self.lease_offset.load(Ordering::Relaxed), self.lease_length.load(Ordering::Relaxed))
    }
}

/// Data files keep offsets equal to the slow file's modulo this.
const PLACE_ALIGNMENT: u64 = 4096;
/// A slab that holds at least this much of a write too large for it is used without asking for a better one.
const PART_MIN: u64 = 1 << 20;

impl Slab {
    /// As far as the agent knows it to be unused.
    pub fn read(&self) -> Place {
        let end = self.end.load(Ordering::Acquire);
        let place = self.place.load(Ordering::Relaxed);
        Place {
            file: self.file.load(Ordering::Relaxed),
            data_file: self.data_file.load(Ordering::Relaxed),
            place,
            length: end.saturating_sub(place),
        }
    }

    fn is(&self, slab: &Place) -> bool {
        self.end.load(Ordering::Relaxed) == slab.place + slab.length
            && self.data_file.load(Ordering::Relaxed) == slab.data_file
            && self.file.load(Ordering::Relaxed) == slab.file
    }
}

/// Slabs as the agent shows them.
impl Slot {
    /// Shows a slab, or that less is left of the one that is there. What was there before is used up, or its thread
    /// waits for an answer: a thread that takes at the same time finds nothing left in it, however old or new the
    /// words that it sees.
    pub fn show_slab(&self, at: usize, slab: Place) {
        let cell = &self.slabs[at];
        if cell.is(&slab) {
            return cell.place.store(slab.place, Ordering::Release);
        }
        self.revoke_slab(at);
        cell.file.store(slab.file, Ordering::Relaxed);
        cell.data_file.store(slab.data_file, Ordering::Relaxed);
        cell.place.store(slab.place, Ordering::Relaxed);
        self.taken[at].store(slab.place, Ordering::Release);
        cell.end.store(slab.place + slab.length, Ordering::Release);
    }

    /// Takes a slab back.
    pub fn revoke_slab(&self, at: usize) {
        self.slabs[at].end.store(0, Ordering::Release);
    }
}

/// What the library finds among the slot's slabs for a write of `range`.
impl Slot {
    /// The smallest slab that takes all of `range`; if none does, the one that takes most. With its index.
    pub fn slab(&self, file: u32, range: Range) -> Option<(usize, Place)> {
        let largest = || self.usable_slabs(file, range).max_by_key(|(_, slab)| slab.length);
        self.whole_slab(file, range).or_else(largest)
    }

    /// The smallest slab that takes all of `range`.
    pub(crate) fn whole_slab(&self, file: u32, range: Range) -> Option<(usize, Place)> {
        let fits = |(_, slab): &(usize, Place)| slab.length >= range.length;
        self.usable_slabs(file, range).filter(fits).min_by_key(|(_, slab)| slab.length)
    }

    /// The same as [`Slot::slab`], if it is good enough not to ask the agent for another.
    pub(crate) fn good_slab(&self, file: u32, range: Range) -> Option<(usize, Place)> {
        self.slab(file, range).filter(|(_, slab)| slab.length >= range.length.min(PART_MIN))
    }

    /// `used`, in the slab of this index, is about to be written: nothing else is to go to its pages.
    pub(crate) fn take_slab(&self, at: usize, used: Place) {
        let end = used.place + used.length;
        self.taken[at].store(end.next_multiple_of(PLACE_ALIGNMENT), Ordering::Relaxed);
    }

    /// The slabs of `file`, each from where the first byte of `range` may lie.
    fn usable_slabs(&self, file: u32, range: Range) -> impl Iterator<Item = (usize, Place)> + '_ {
        self.slabs.iter().zip(&self.taken).enumerate().filter_map(move |(at, (slab, taken))| {
            // In this order: with a `taken` of the slab before, which is used up, nothing is left of that one.
            let taken = taken.load(Ordering::Acquire);
            let end = slab.end.load(Ordering::Acquire);
            let held = slab.read();
            if held.file != file {
                return None;
            }
            let first = held.place.max(taken);
            let place = first + range.offset.wrapping_sub(first) % PLACE_ALIGNMENT;
            let length = end.checked_sub(place).filter(|&length| length > 0)?;
            Some((at, Place { place, length, ..held }))
        })
    }
}

impl Shared<'_> {
    /// Whether a slow-read lease overlaps `range` of `file`.
    pub fn slow_read_overlaps(&self, file: u32, range: Range) -> bool {
        self.used_slots().iter().any(|slot| slot.slow_read_overlaps(file, range))
    }
}
