//! Open file descriptions, which the descriptors share that `dup` made.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::c_int;

use super::offset::Offset;
use super::table::{DESCRIPTORS_MAX, MANAGED, TABLE, TABLE_USED, WANTED};
use crate::files::records::{self, Record};
use crate::gate::Gate;

/// An open file description, shared by the descriptors that dup made.
pub(crate) struct Description {
    /// Descriptors of this process; zero: free.
    pub references: AtomicU32,
    /// The file's record.
    pub record: AtomicU32,
    /// `O_*` flags that matter: access mode, O_APPEND, O_DSYNC, O_SYNC, O_DIRECT.
    pub flags: AtomicI32,
    /// Who uses its offset.
    pub offset: Offset,
}

pub(crate) static DESCRIPTIONS: [Description; DESCRIPTORS_MAX] = [const {
    Description {
        references: AtomicU32::new(0),
        record: AtomicU32::new(0),
        flags: AtomicI32::new(0),
        offset: Offset::free(),
    }
}; DESCRIPTORS_MAX];

pub(crate) fn describe(fd: c_int, record: u32, flags: c_int) -> u32 {
    let free = |index: &usize| DESCRIPTIONS[*index].references.load(Ordering::Acquire) == 0;
    let index = (fd as usize..DESCRIPTORS_MAX).chain(0..fd as usize).find(free);
    let index = index.expect("there are as many descriptions as descriptors");
    DESCRIPTIONS[index].record.store(record, Ordering::Release);
    DESCRIPTIONS[index].flags.store(flags, Ordering::Release);
    // A handler that jumped out of a call left it taken.
    DESCRIPTIONS[index].offset.abandon();
    DESCRIPTIONS[index].references.store(1, Ordering::Release);
    index as u32
}

pub(crate) fn release(gate: &Gate, index: u32) {
    let description = &DESCRIPTIONS[index as usize];
    if description.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        records::release(gate, description.record.load(Ordering::Acquire));
    }
}

/// The description behind an entry of the table.
pub(crate) fn description_of(entry: u32) -> Option<u32> {
    (entry & !WANTED).checked_sub(MANAGED)
}

/// The record behind an entry of the table, and its index.
#[inline]
pub(crate) fn record_of(entry: u32) -> (u32, &'static Record) {
    let index = DESCRIPTIONS[(entry - MANAGED) as usize].record.load(Ordering::Acquire);
    (index, records::record(index))
}

/// The descriptors of a record, with their entries.
pub(crate) fn all_of(record: u32) -> impl Iterator<Item = (c_int, u32)> {
    let entries =
        (0..TABLE_USED.load(Ordering::Acquire)).map(|fd| (fd, TABLE[fd as usize].load(Ordering::Acquire) & !WANTED));
    entries.filter(move |&(_, entry)| entry >= MANAGED && record_of(entry).0 == record)
}

/// A descriptor of a record.
pub(crate) fn any_of(record: u32) -> Option<c_int> {
    all_of(record).next().map(|(fd, _)| fd)
}
