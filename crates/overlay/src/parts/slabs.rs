//! The slabs of each slot, as they stand in it.

use std::collections::BTreeMap;

use headstart_protocol::lease::Place;
use headstart_protocol::shared::{PIECES_MAX, Shared};

use crate::flash_space::Run;

/// One slab; without pages it is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slab {
    /// The file it is for.
    pub(crate) file: u32,
    /// Its pages.
    pub(crate) run: Run,
    /// The slot shows it.
    pub(crate) is_shown: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Slabs {
    by_slot: BTreeMap<u32, [Slab; PIECES_MAX]>,
    bytes_max: u64,
}

impl Slabs {
    /// Nobody has any. None is longer than `bytes_max`, but where one write needs more.
    pub(crate) fn new(bytes_max: u64) -> Slabs {
        Slabs { by_slot: BTreeMap::new(), bytes_max }
    }

    /// The longest there is to be.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The entries of the slot's table, those without pages too.
    pub(crate) fn of(&self, slot: u32) -> [Slab; PIECES_MAX] {
        self.by_slot.get(&slot).copied().unwrap_or_default()
    }

    /// The entries that are free.
    pub(crate) fn free_entries(&self, slot: u32) -> Vec<usize> {
        let table = self.of(slot);
        (0..PIECES_MAX).filter(|at| table[*at].run.pages == 0).collect()
    }

    /// Changes an entry, and what the slot shows of it if it is to.
    pub(crate) fn set(&mut self, shared: Shared<'_>, slot: u32, at: usize, slab: Slab) {
        self.by_slot.entry(slot).or_default()[at] = slab;
        let (Slab { file, run, is_shown }, cell) = (slab, &shared.slots[slot as usize]);
        if run.pages == 0 {
            return cell.revoke_slab(at);
        }
        if is_shown {
            let bytes = run.bytes();
            cell.show_slab(at, Place { file, data_file: run.data_file, place: bytes.offset, length: bytes.length });
        }
    }

    /// Shows an entry from now on, if it is still the slab that begins at this page.
    pub(crate) fn reveal(&mut self, shared: Shared<'_>, slot: u32, at: usize, page: u64) {
        let slab = self.of(slot)[at];
        if slab.run.pages > 0 && slab.run.page == page {
            self.set(shared, slot, at, Slab { is_shown: true, ..slab });
        }
    }

    /// Takes the pages `used` from the slab they lie in: what lay before them in it. The slot shows it only once that
    /// is asked for ([`Slabs::show`]). None if they lie in no slab of the file.
    pub(crate) fn consume(&mut self, slot: u32, file: u32, used: Run) -> Option<Run> {
        let used_end = used.page + used.pages;
        let holds = |slab: &&mut Slab| {
            let Slab { file: owner, run, .. } = **slab;
            run.pages > 0
                && owner == file
                && run.data_file == used.data_file
                && used.page >= run.page
                && used_end <= run.page + run.pages
        };
        let slab = self.by_slot.get_mut(&slot)?.iter_mut().find(holds)?;
        let run = slab.run;
        slab.run = Run { page: used_end, pages: run.page + run.pages - used_end, ..run };
        Some(Run { pages: used.page - run.page, ..run })
    }

    /// Shows the slabs of the slot in it as they are.
    pub(crate) fn show(&mut self, shared: Shared<'_>, slot: u32) {
        for (at, slab) in self.of(slot).into_iter().enumerate() {
            self.set(shared, slot, at, slab);
        }
    }

    /// Takes the slot's slabs away: all, or those of one file. Their pages.
    pub(crate) fn take(&mut self, shared: Shared<'_>, slot: u32, file: Option<u32>) -> Vec<Run> {
        let mut taken = Vec::new();
        for (at, Slab { file: owner, run, .. }) in self.of(slot).into_iter().enumerate() {
            if run.pages > 0 && file.is_none_or(|file| file == owner) {
                self.set(shared, slot, at, Slab::default());
                taken.push(run);
            }
        }
        taken
    }

    /// Takes the slot's slabs away and forgets them.
    pub(crate) fn forget(&mut self, shared: Shared<'_>, slot: u32) {
        (0..PIECES_MAX).for_each(|at| self.set(shared, slot, at, Slab::default()));
        self.by_slot.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use headstart_protocol::memory::Memory;

    use super::*;

    #[test]
    fn a_commit_takes_from_the_slab_it_lies_in_and_the_slot_shows_it_when_asked_to() {
        let memory = Memory::new(4, 1, 4);
        let mut slabs = Slabs::new(1 << 20);
        let run = Run { data_file: 3, page: 10, pages: 8 };
        slabs.set(memory.view(), 0, 2, Slab { file: 1, run, is_shown: true });
        let used = Run { page: 12, pages: 2, ..run };
        assert_eq!(slabs.consume(0, 2, used), None, "it is another file's");
        assert_eq!(slabs.consume(0, 1, Run { data_file: 4, ..used }), None);
        assert_eq!(slabs.consume(0, 1, used), Some(Run { pages: 2, ..run }));
        let shown = || memory.slots[0].slabs[2].read();
        assert_eq!(shown().length, run.bytes().length);
        slabs.show(memory.view(), 0);
        assert_eq!((shown().place, shown().length), (14 * 4096, 4 * 4096));
        assert_eq!(slabs.free_entries(0).len(), PIECES_MAX - 1);
        assert_eq!(slabs.take(memory.view(), 0, Some(2)), []);
        assert_eq!(slabs.take(memory.view(), 0, None), [Run { page: 14, pages: 4, ..run }]);
        assert_eq!(shown().length, 0);
    }
}
