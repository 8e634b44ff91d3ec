//! Rings: commits that need no answer. Each slot has one; its thread writes entries, the agent takes them out.
//!
//! An entry is complete before the ring's head moves over it, so that a thread that dies at any store leaves
//! whole entries or none. Tickets order the entries of all rings. A mark says that a slot has something for the
//! agent, so that it need not look at every slot.

use super::shared::SLOTS_MAX;
use headstart_units::atomics::{AtomicU32, AtomicU64};

/// Entries of one ring: so many commits can wait for the agent before a thread asks it (assumed).
pub const ENTRIES_MAX: usize = if cfg!(loom) { 2 } else { 128 };
/// Words of marks.
pub const MARK_WORDS: usize = if cfg!(loom) { 1 } else { SLOTS_MAX / 64 };

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

/// A word in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Lonely(pub AtomicU64);

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

/// Whose slots have something for the agent, and the counter of tickets.
#[repr(C)]
#[derive(Debug)]
pub struct Marks {
    /// Tickets taken so far, of all rings.
    pub tickets: Lonely,
    /// A bit a slot.
    pub words: [AtomicU64; MARK_WORDS],
    reserved: Lonely,
}

impl Default for Marks {
    fn default() -> Marks {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Marks { tickets: Lonely::default(), words, reserved: Lonely::default() }
    }
}
