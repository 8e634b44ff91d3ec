//! The table: one atomic word for each descriptor number.
//!
//! ```text
//! UNKNOWN   UNMANAGED   CLOSING   OWN_SOCKET   OWN_FILE   OWN_CLOSING   CLOSING_MANAGED
//! MANAGED + description, perhaps | WANTED
//! ```

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::c_int;

/// Descriptors at or above this number cannot be managed: opening a managed file there fails with EMFILE.
pub(crate) const DESCRIPTORS_MAX: usize = 65536;

/// Descriptors below this number are looked at where a process is about to lose what it takes to look later
/// (assumed: programs that have inherited others do not count on them).
pub(crate) const FIRST_MAX: c_int = 64;

pub(crate) const UNKNOWN: u32 = 0;
pub(crate) const UNMANAGED: u32 = 1;
pub(crate) const CLOSING: u32 = 2;
pub(crate) const OWN_SOCKET: u32 = 3;
pub(crate) const OWN_FILE: u32 = 4;
pub(crate) const CLOSING_MANAGED: u32 = 5;
pub(crate) const OWN_CLOSING: u32 = 6;
/// A managed entry is this plus the description's index.
pub(crate) const MANAGED: u32 = 16;
/// Set in a managed entry while whoever closes or replaces the descriptor waits for calls under way on it.
pub(crate) const WANTED: u32 = 1 << 31;

pub(crate) static TABLE: [AtomicU32; DESCRIPTORS_MAX] = [const { AtomicU32::new(UNKNOWN) }; DESCRIPTORS_MAX];
/// One past the highest entry that ever left UNKNOWN.
pub(crate) static TABLE_USED: AtomicI32 = AtomicI32::new(0);

/// Takes a descriptor for unmanaged until it is closed.
pub(crate) fn leave_alone(fd: c_int) {
    if let Some(cell) = TABLE.get(fd as usize) {
        raise_used(fd);
        let _ = cell.compare_exchange(UNKNOWN, UNMANAGED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

pub(crate) fn raise_used(fd: c_int) {
    if TABLE_USED.load(Ordering::Relaxed) <= fd {
        TABLE_USED.fetch_max(fd + 1, Ordering::AcqRel);
    }
}

/// `entry`: what the table held of the descriptor.
pub(crate) fn forget_unmanaged(fd: c_int, entry: u32) {
    let _ = TABLE[fd as usize].compare_exchange(entry, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
}

/// The descriptors from `first` to `last` for which the table holds anything.
pub(crate) fn known(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let end = (TABLE_USED.load(Ordering::Acquire) as u32).min(last.saturating_add(1));
    (first..end).map(|fd| fd as c_int).filter(|&fd| TABLE[fd as usize].load(Ordering::Acquire) != UNKNOWN)
}

/// Whether the table holds a descriptor for unmanaged, without looking further.
#[inline]
pub(crate) fn known_unmanaged(fd: c_int) -> bool {
    TABLE.get(fd as usize).is_some_and(|cell| cell.load(Ordering::Acquire) == UNMANAGED)
}

/// Whether the table holds a descriptor for managed, without looking further.
pub(crate) fn known_managed(fd: c_int) -> bool {
    TABLE.get(fd as usize).is_some_and(|cell| cell.load(Ordering::Acquire) >= MANAGED)
}
