//! The shared file as plain vectors, of any size: for agents that no other process takes part in, in
//! simulations and tests.

use super::handover::{CopyRecord, OpenFiles};
use super::listing::{Listing, ListingKeys};
use super::marks::Marks;
use super::ring::Ring;
use super::shared::{Cells, FileEntry, GRANULES_PER_FILE, Granule, Header, Shared, Slot, WORDS_PER_FILE};
use headstart_policy::order::Interleaving;
use headstart_units::atomics::{AtomicU64, Ordering};

/// Listings of a memory: so few that granules of small worlds share them.
const LISTINGS: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct Memory {
    /// Who owns it.
    pub header: Header,
    /// The files known.
    pub files: Vec<FileEntry>,
    /// The threads' slots.
    pub slots: Vec<Slot>,
    /// The bits, [`WORDS_PER_FILE`] words a file.
    pub bits: Vec<AtomicU64>,
    /// What tells of changes, [`GRANULES_PER_FILE`] words a file.
    pub granules: Vec<Granule>,
    /// Whose rings hold commits.
    pub marks: Marks,
    /// Commits that need no answer, of each slot.
    pub rings: Vec<Ring>,
    /// Which listings there are.
    pub listing_keys: ListingKeys,
    /// What they say.
    pub listings: Vec<Listing>,
    /// How processes' requests lie to each other, of each file.
    pub interleavings: Vec<Interleaving>,
    /// Copies under way.
    pub copies: Vec<CopyRecord>,
    /// The files of each slot's process.
    pub open_files: Vec<OpenFiles>,
    /// What threads counted that have ended.
    pub ended: Cells,
}

impl Memory {
    /// For so many files, threads and copies under way. Every slot counts as used.
    pub fn new(files: usize, threads: usize, copies: usize) -> Memory {
        let memory = Memory {
            header: Header::default(),
            files: (0..files).map(|_| FileEntry::default()).collect(),
            slots: (0..threads).map(|_| Slot::default()).collect(),
            bits: (0..files * WORDS_PER_FILE).map(|_| AtomicU64::new(0)).collect(),
            granules: (0..files * GRANULES_PER_FILE).map(|_| Granule::default()).collect(),
            marks: Marks::default(),
            rings: (0..threads).map(|_| Ring::default()).collect(),
            listing_keys: ListingKeys::default(),
            listings: (0..LISTINGS).map(|_| Listing::default()).collect(),
            interleavings: (0..files).map(|_| Interleaving::default()).collect(),
            copies: (0..copies).map(|_| CopyRecord::default()).collect(),
            open_files: (0..threads).map(|_| OpenFiles::default()).collect(),
            ended: Cells::default(),
        };
        memory.header.slots_used.store(threads as u64, Ordering::Relaxed);
        memory
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
