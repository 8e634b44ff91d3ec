//! Duplicates of managed descriptors.

use std::sync::atomic::Ordering;

use libc::c_int;

use super::descriptions::{DESCRIPTIONS, description_of, release};
use super::table::{MANAGED, TABLE, WANTED, raise_used};
use crate::gate::gate;
use crate::process;

/// A managed descriptor about to be duplicated; its description has one more reference until the duplicate is made or
/// this is dropped.
pub(crate) struct Duplicate {
    of: c_int,
    entry: u32,
    used: bool,
}

impl Duplicate {
    /// Nothing if the descriptor is not managed, or not at this moment, or this is a `vfork` child.
    pub(crate) fn of(fd: c_int) -> Option<Duplicate> {
        let cell = TABLE.get(fd as usize).filter(|cell| cell.load(Ordering::Acquire) >= MANAGED)?;
        if !process::is_own() {
            return None;
        }
        let _gate = gate();
        let entry = cell.load(Ordering::Acquire) & !WANTED;
        let description = description_of(entry)?;
        DESCRIPTIONS[description as usize].references.fetch_add(1, Ordering::AcqRel);
        Some(Duplicate { of: fd, entry, used: false })
    }

    /// The kernel made `fd` a duplicate. Of what, is found out later where the original was replaced meanwhile.
    pub(crate) fn made(mut self, fd: c_int) {
        if TABLE[self.of as usize].load(Ordering::Acquire) & !WANTED != self.entry {
            return;
        }
        self.used = true;
        raise_used(fd);
        TABLE[fd as usize].store(self.entry, Ordering::Release);
    }
}

impl Drop for Duplicate {
    fn drop(&mut self) {
        if !self.used {
            release(&gate(), self.entry - MANAGED);
        }
    }
}
