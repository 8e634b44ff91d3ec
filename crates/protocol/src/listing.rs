//! Listings: where the bytes of a granule lie on flash, for threads that read them without a question.
//!
//! ```text
//! thread:  loads the key: k | loads what is listed | reads the data file | fence | loads the key: still k -> it counts
//!                                                                                               -> else asks
//! agent:   ends: key = 0 | fence | whatever rests on a change of the map: an answer, an open granule, a free place
//!          fills: key = 0 | fence | what is listed | key = a number that no key had before
//! ```
//!
//! **No lease.** A listing is ended before anybody can know that one of its extents left the map. A place on flash is
//! given to somebody else only long after that. So a read that finds the same key behind its bytes has read bytes
//! that were mapped, in one piece of what the key stood for: keys never come again, under no agent.
//!
//! **What is not listed.** Commits in an open granule are acknowledged without the agent's map: a granule is open or
//! listed, never both. What a listing says rests on records that are appended, as an answer does. An agent that takes
//! over ends all listings first, as it does not know them. While no agent lives they stay right: nothing leaves a map.
//!
//! **Where.** A granule has one place among the listings, and the newest one there wins. Keys lie together and have
//! their memory from the beginning; that of a listing is reserved before it is filled first.
//!
//! **Uses.** The agent hears of no read by a listing. Threads note which blocks of the granule they read since the agent
//! last looked, and whether in order: recency needs to know which extents were used, and policies what is read.

use super::lease::Place;
use super::shared::Shared;
use headstart_units::GRANULE_BYTES;
use headstart_units::atomics::{AtomicU32, AtomicU64, Ordering, fence};
use headstart_units::request::Range;

/// Listings there are: those of 2 GiB of files (assumed: what small requests read again and again).
pub const LISTINGS_MAX: usize = if cfg!(loom) { 1 } else { 2048 };
/// Extents of one listing: what fits into 8 KiB, for a granule of 4 KiB requests.
pub const EXTENTS_MAX: usize = if cfg!(loom) { 1 } else { 340 };
/// Blocks of a granule, of each of which is noted whether it was read: a bit for reads in order and one for others
/// (assumed: 32 KiB, a small request or two; two bits each fill a word).
pub const USE_BLOCKS: u64 = 32;
const USE_BLOCK_BYTES: u64 = GRANULE_BYTES / USE_BLOCKS;
/// Files' granules lie so far apart among the listings; an odd number, so that few files share one.
const FILE_STRIDE: u64 = 0x9e37_79b1;

/// The keys, and what is counted beside them.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ListingKeys {
    /// The last number that was a key.
    pub last: AtomicU64,
    reserved: [AtomicU64; 15],
    /// By listing: zero: there is none.
    pub keys: [AtomicU64; LISTINGS_MAX],
    /// By listing: blocks that were read, those out of order in the lower half.
    pub uses: [AtomicU64; LISTINGS_MAX],
}

impl Default for ListingKeys {
    fn default() -> ListingKeys {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        ListingKeys { last: AtomicU64::new(0), reserved: Default::default(), keys: zeros(), uses: zeros() }
    }
}

/// An extent of a listing.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ListedExtent {
    /// Offset in the granule.
    pub offset: AtomicU32,
    /// Length in bytes.
    pub length: AtomicU32,
    /// The data file.
    pub data_file: AtomicU32,
    reserved: AtomicU32,
    /// Offset in the data file.
    pub place: AtomicU64,
}

/// The extents of one granule, in order. They do not overlap.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Listing {
    /// The slow file.
    pub file: AtomicU32,
    /// How many extents there are.
    pub count: AtomicU32,
    /// The granule: offset / [`GRANULE_BYTES`].
    pub granule: AtomicU64,
    reserved: [AtomicU64; 2],
    /// The extents.
    pub extents: [ListedExtent; EXTENTS_MAX],
}

impl Default for Listing {
    fn default() -> Listing {
        let extents = std::array::from_fn(|_| ListedExtent::default());
        let (file, count, granule) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
        Listing { file, count, granule, reserved: Default::default(), extents }
    }
}

/// A listing that was found, under the key that it had then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    index: u32,
    key: u64,
}

/// The thread's side.
impl Shared<'_> {
    /// The listing for the granule of this offset, if it has one now. What is read by it counts only if it
    /// [is the same](Shared::is_still_listed) afterwards.
    pub fn listed(&self, file: u32, offset: u64) -> Option<Listed> {
        let granule = offset / GRANULE_BYTES;
        let index = self.listing_of(file, granule)?;
        let key = self.listing_keys.keys[index as usize].load(Ordering::Acquire);
        if key == 0 {
            return None;
        }
        let cell = &self.listings[index as usize];
        let is_it = cell.file.load(Ordering::Relaxed) == file && cell.granule.load(Ordering::Relaxed) == granule;
        is_it.then_some(Listed { index, key })
    }

    /// Where the first bytes of `range` lie, and how many of them lie there. None also if it is another listing by now,
    /// which may have been half written: nobody goes by what that said.
    pub fn listed_piece(&self, listed: Listed, range: Range) -> Option<Place> {
        let cell = &self.listings[listed.index as usize];
        let within = range.offset % GRANULE_BYTES;
        let count = (cell.count.load(Ordering::Relaxed) as usize).min(EXTENTS_MAX);
        let begins_before = |extent: &ListedExtent| u64::from(extent.offset.load(Ordering::Relaxed)) <= within;
        let behind = cell.extents[..count].partition_point(begins_before);
        let extent = &cell.extents[behind.checked_sub(1)?];
        let skipped = within.checked_sub(extent.offset.load(Ordering::Relaxed).into())?;
        let length = u64::from(extent.length.load(Ordering::Relaxed)).checked_sub(skipped)?.min(range.length);
        let place = extent.place.load(Ordering::Relaxed).wrapping_add(skipped);
        let data_file = extent.data_file.load(Ordering::Relaxed);
        let file = cell.file.load(Ordering::Relaxed);
        (length > 0 && self.is_still_listed(listed)).then_some(Place { file, data_file, place, length })
    }

    /// Whether it is the same listing as when it was found: then what was read by it meanwhile counts.
    pub fn is_still_listed(&self, listed: Listed) -> bool {
        fence(Ordering::Acquire);
        self.listing_keys.keys[listed.index as usize].load(Ordering::Relaxed) == listed.key
    }

    /// Bytes of its granule were read by it; whether that began where the process's last
    /// request ended. Of uses that are noted at the
    /// same time one may be lost.
    pub fn use_listing(&self, listed: Listed, range: Range, in_order: bool) {
        let cell = &self.listing_keys.uses[listed.index as usize];
        let (uses, blocks) = (cell.load(Ordering::Relaxed), u64::from(blocks_of(range)));
        let more = uses | if in_order { blocks << USE_BLOCKS } else { blocks };
        // Most find that their blocks are noted, and store nothing.
        if more != uses {
            cell.store(more, Ordering::Relaxed);
        }
    }
}

/// The agent's side.
impl Shared<'_> {
    /// Where a listing of the granule would be; none where there are no listings.
    pub fn listing_of(&self, file: u32, granule: u64) -> Option<u32> {
        let count = self.listings.len().min(LISTINGS_MAX) as u64;
        (count > 0).then(|| (granule.wrapping_add(u64::from(file).wrapping_mul(FILE_STRIDE)) % count) as u32)
    }

    /// Fills a listing, which has its memory: extents as they are mapped now, in order, each within the granule. Those
    /// that lie one behind the other on flash too become one; what does not fit is left out. The key.
    pub fn fill_listing(
        &self,
        index: u32,
        file: u32,
        granule: u64,
        extents: impl IntoIterator<Item = (u64, Place)>,
    ) -> u64 {
        self.end_listing(index);
        self.fence_listings();
        let cell = &self.listings[index as usize];
        cell.file.store(file, Ordering::Relaxed);
        cell.granule.store(granule, Ordering::Relaxed);
        let (mut count, mut last) = (0, None::<(u64, Place)>);
        for (offset, place) in extents {
            match &mut last {
                Some((begin, before)) if is_behind(*begin, before, offset, &place) => before.length += place.length,
                _ if count == EXTENTS_MAX => break,
                _ => {
                    count += 1;
                    last = Some((offset, place));
                }
            }
            let (offset, place) = last.expect("just set");
            cell.extents[count - 1].write(offset % GRANULE_BYTES, &place);
        }
        cell.count.store(count as u32, Ordering::Relaxed);
        let key = self.listing_keys.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.listing_keys.keys[index as usize].store(key, Ordering::Release);
        key
    }

    /// Nobody reads by the listing any more, once [`Shared::fence_listings`] was called: what is read is in vain.
    pub fn end_listing(&self, index: u32) {
        self.listing_keys.keys[index as usize].store(0, Ordering::Relaxed);
    }

    /// Whatever is stored from now on is seen only with the ends from before.
    pub fn fence_listings(&self) {
        fence(Ordering::Release);
    }

    /// At a start, before anything else: ends those of the agent before.
    pub fn end_all_listings(&self) {
        (0..self.listings.len().min(LISTINGS_MAX) as u32).for_each(|index| self.end_listing(index));
        self.fence_listings();
    }

    /// Uses of a listing since this was asked last.
    pub fn take_uses(&self, index: u32) -> Uses {
        let cell = &self.listing_keys.uses[index as usize];
        if cell.load(Ordering::Relaxed) == 0 {
            return Uses::default();
        }
        let uses = cell.swap(0, Ordering::Relaxed);
        Uses { in_order: (uses >> USE_BLOCKS) as u32, out_of_order: uses as u32 }
    }
}

/// Blocks of a granule that were read by its listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    in_order: u32,
    out_of_order: u32,
}

impl Uses {
    /// Whether there were none.
    pub fn is_empty(self) -> bool {
        self == Uses::default()
    }

    /// What was read of a granule that begins at `start`: ranges of blocks one behind the other, and whether all reads of
    /// them were in order.
    pub fn ranges(self, start: u64) -> impl Iterator<Item = (Range, bool)> {
        let in_order = runs(self.in_order & !self.out_of_order).map(|run| (run, true));
        in_order.chain(runs(self.out_of_order).map(|run| (run, false))).map(move |((first, count), in_order)| {
            (Range::new(start + first * USE_BLOCK_BYTES, count * USE_BLOCK_BYTES), in_order)
        })
    }
}

/// Blocks that a range of one granule touches.
fn blocks_of(range: Range) -> u32 {
    if range.is_empty() {
        return 0;
    }
    let block = |offset: u64| offset % GRANULE_BYTES / USE_BLOCK_BYTES;
    let (first, last) = (block(range.offset), block(range.end() - 1));
    (u32::MAX >> (USE_BLOCKS - 1 - last)) & (u32::MAX << first)
}

/// The runs of set bits: the first one and their count.
fn runs(mut bits: u32) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| bits.trailing_zeros())?;
        let count = (bits >> first).trailing_ones();
        bits &= !(u32::MAX >> (u32::BITS - count) << first);
        Some((first.into(), count.into()))
    })
}

fn is_behind(begin: u64, before: &Place, offset: u64, place: &Place) -> bool {
    begin + before.length == offset
        && before.data_file == place.data_file
        && before.place + before.length == place.place
}

impl ListedExtent {
    fn write(&self, offset: u64, place: &Place) {
        self.offset.store(offset as u32, Ordering::Relaxed);
        self.length.store(place.length as u32, Ordering::Relaxed);
        self.data_file.store(place.data_file, Ordering::Relaxed);
        self.place.store(place.place, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    const FILE: u32 = 1;
    const GRANULE: u64 = 5;
    const START: u64 = GRANULE * GRANULE_BYTES;

    fn place(data_file: u32, place: u64, length: u64) -> Place {
        Place { file: FILE, data_file, place, length }
    }

    fn fill(shared: Shared<'_>, extents: &[(u64, Place)]) -> u32 {
        let index = shared.listing_of(FILE, GRANULE).unwrap();
        shared.fill_listing(index, FILE, GRANULE, extents.iter().copied());
        index
    }

    #[test]
    fn a_listing_says_where_the_bytes_of_its_granule_lie_and_of_no_other() {
        let memory = Memory::new(2, 1, 1);
        let shared = memory.view();
        assert_eq!(shared.listed(FILE, START), None);
        fill(shared, &[(START + 4096, place(7, 8192, 4096)), (START + 12288, place(8, 0, 100))]);
        let listed = shared.listed(FILE, START + 9).expect("it is there");
        let piece = |offset, length| shared.listed_piece(listed, Range::new(START + offset, length));
        assert_eq!(piece(4096, 10), Some(place(7, 8192, 10)));
        assert_eq!(piece(5000, 9000), Some(place(7, 8192 + 904, 3192)), "up to the end of the extent");
        assert_eq!(piece(12288, 9000), Some(place(8, 0, 100)));
        assert_eq!((piece(0, 10), piece(8192, 10), piece(12388, 10)), (None, None, None));
        let count = shared.listings.len() as u64;
        assert_eq!(shared.listed(FILE, START + count * GRANULE_BYTES), None, "it has the same place");
        assert_eq!(shared.listed(0, START), None);
    }

    #[test]
    fn extents_one_behind_the_other_on_flash_are_one_and_what_does_not_fit_is_left_out() {
        let memory = Memory::new(2, 1, 1);
        let shared = memory.view();
        let together = |k: u64| (START + k * 1024, place(3, k * 1024, 1024));
        fill(shared, &[together(0), together(1), together(2), (START + 3072, place(4, 3072, 1024))]);
        let listed = shared.listed(FILE, START).unwrap();
        assert_eq!(shared.listed_piece(listed, Range::new(START, 9999)), Some(place(3, 0, 3072)));
        let apart: Vec<_> = (0..400).map(|k| (START + k * 1024, place(3, k * 4096, 1024))).collect();
        fill(shared, &apart);
        let listed = shared.listed(FILE, START).unwrap();
        let piece = |k: u64| shared.listed_piece(listed, Range::new(START + k * 1024, 1024));
        let last = EXTENTS_MAX as u64 - 1;
        assert_eq!((piece(last), piece(last + 1)), (Some(place(3, last * 4096, 1024)), None));
    }

    #[test]
    fn a_listing_that_was_ended_or_filled_anew_is_another() {
        let memory = Memory::new(2, 1, 1);
        let shared = memory.view();
        let index = fill(shared, &[(START, place(1, 0, 4096))]);
        let first = shared.listed(FILE, START).unwrap();
        assert!(shared.is_still_listed(first));
        shared.end_listing(index);
        assert!(!shared.is_still_listed(first) && shared.listed(FILE, START).is_none());
        fill(shared, &[(START, place(1, 0, 4096))]);
        assert!(!shared.is_still_listed(first), "no key comes twice");
        shared.end_all_listings();
        fill(shared, &[(START, place(1, 0, 4096))]);
        assert!(!shared.is_still_listed(first), "nor under the next agent");
    }

    #[test]
    fn blocks_that_are_read_are_noted_by_the_order_of_their_reads() {
        let memory = Memory::new(2, 1, 1);
        let shared = memory.view();
        let index = fill(shared, &[(START, place(1, 0, 4096))]);
        let listed = shared.listed(FILE, START).unwrap();
        let block = |number: u64| START + number * USE_BLOCK_BYTES;
        let read = |from, until, in_order| shared.use_listing(listed, Range::between(from, until), in_order);
        read(block(3) + 5, block(5) + 1, true);
        read(block(5) + 7, block(5) + 8, false);
        read(block(5) + 7, block(5) + 8, true);
        read(block(USE_BLOCKS - 1), block(USE_BLOCKS), false);
        read(block(7), block(7), false);
        let uses: Vec<_> = shared.take_uses(index).ranges(START).collect();
        let range = |from, until| Range::between(block(from), block(until));
        assert_eq!(uses, [(range(3, 5), true), (range(5, 6), false), (range(USE_BLOCKS - 1, USE_BLOCKS), false)]);
        assert!(shared.take_uses(index).is_empty());
        read(START, block(USE_BLOCKS), true);
        assert!(shared.take_uses(index).ranges(START).eq([(range(0, USE_BLOCKS), true)]));
    }
}
