//! The flash space: pages of the data files, who holds them, and when they may be used again.
//!
//! ```text
//! free ---allocate---> slab ---commit---> mapped ---unmap---> removed ---barrier, nobody holds it---> free
//!  |                     '------give back-----------------------------------------------------------------^
//!  '--punch (another file needs the room)--> hollow: an address without storage behind it
//! ```
//!
//! A page is 4 KiB. An extent holds every page it touches; a page is removed when the last extent on it is gone, and free only
//! after a barrier made the superseding or removing record durable. `charged` pages (all but free and hollow) never exceed
//! the capacity; neither do charged and free pages together, as far as the file system can punch holes.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::Range;

/// Bytes of a page: unit of allocation, and the alignment that places and offsets share.
pub const PAGE_BYTES: u64 = 4096;

/// Pages of one data file, by their byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The data file.
    pub data_file: u32,
    /// First page.
    pub page: u64,
    /// Number of pages.
    pub pages: u64,
}

impl Run {
    /// The run as bytes of the data file.
    pub fn bytes(self) -> Range {
        Range::new(self.page * PAGE_BYTES, self.pages * PAGE_BYTES)
    }

    /// The pages that `length` bytes from `place` touch.
    pub fn touching(data_file: u32, place: u64, length: u64) -> Run {
        let page = place / PAGE_BYTES;
        Run { data_file, page, pages: place.saturating_add(length).div_ceil(PAGE_BYTES) - page }
    }
}

/// Disjoint runs of pages, merged where they touch, by address and by length.
#[derive(Clone, Debug, Default)]
struct RunSet {
    runs: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    pages: u64,
}

impl RunSet {
    fn put(&mut self, page: u64, pages: u64) {
        self.runs.insert(page, pages);
        self.by_length.insert((pages, page));
        self.pages += pages;
    }

    fn remove(&mut self, page: u64) -> Option<u64> {
        let pages = self.runs.remove(&page)?;
        self.by_length.remove(&(pages, page));
        self.pages -= pages;
        Some(pages)
    }

    fn insert(&mut self, mut page: u64, mut pages: u64) {
        if let Some((&before, &length)) = self.runs.range(..page).next_back()
            && before + length == page
        {
            self.remove(before);
            page = before;
            pages += length;
        }
        if let Some(length) = self.remove(page + pages) {
            pages += length;
        }
        self.put(page, pages);
    }

    /// Takes up to `most` pages, at least `least`: from the shortest run that has `most`, else from the longest.
    fn take(&mut self, least: u64, most: u64) -> Option<(u64, u64)> {
        let fitting = self.by_length.range((most, 0)..).next().or_else(|| self.by_length.last());
        let &(pages, page) = fitting.filter(|(pages, _)| *pages >= least)?;
        let taken = pages.min(most);
        self.remove(page);
        if taken < pages {
            self.put(page + taken, pages - taken);
        }
        Some((page, taken))
    }

    fn longest(&self) -> u64 {
        self.by_length.last().map_or(0, |(pages, _)| *pages)
    }
}

#[derive(Clone, Debug, Default)]
struct DataFile {
    writable: bool,
    holders: Vec<u16>,
    free: RunSet,
    hollow: RunSet,
}

/// All data files of one agent.
#[derive(Clone, Debug)]
pub struct FlashSpace {
    capacity_pages: u64,
    charged_pages: u64,
    mapped_pages: u64,
    files: BTreeMap<u32, DataFile>,
    removed: Vec<Run>,
    in_barrier: Vec<Run>,
    /// Covered by a durable barrier, but held by somebody when last looked at.
    covered: Vec<Run>,
    removed_pages: u64,
}

impl FlashSpace {
    /// An empty space of `capacity_bytes`, rounded down to pages.
    pub fn new(capacity_bytes: u64) -> FlashSpace {
        FlashSpace {
            capacity_pages: capacity_bytes / PAGE_BYTES,
            charged_pages: 0,
            mapped_pages: 0,
            files: BTreeMap::new(),
            removed: Vec::new(),
            in_barrier: Vec::new(),
            covered: Vec::new(),
            removed_pages: 0,
        }
    }

    /// Changes the capacity; what is charged above it stays until it is removed.
    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        self.capacity_pages = capacity_bytes / PAGE_BYTES;
    }

    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_pages * PAGE_BYTES
    }

    /// Bytes that could be allocated now.
    pub fn available_bytes(&self) -> u64 {
        self.capacity_pages.saturating_sub(self.charged_pages) * PAGE_BYTES
    }

    /// Bytes removed that are not free yet: they wait for a barrier, or for whoever holds them.
    pub fn removed_bytes(&self) -> u64 {
        self.removed_pages * PAGE_BYTES
    }

    /// Whether anything removed waits for the next barrier.
    pub fn awaits_barrier(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Bytes charged above the capacity.
    pub fn excess_bytes(&self) -> u64 {
        self.charged_pages.saturating_sub(self.capacity_pages) * PAGE_BYTES
    }

    /// Bytes in slabs, mapped or removed.
    pub fn charged_bytes(&self) -> u64 {
        self.charged_pages * PAGE_BYTES
    }

    /// Bytes of pages that hold extents.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_pages * PAGE_BYTES
    }

    /// Adds a data file; only a writable one is allocated from.
    pub fn add_data_file(&mut self, data_file: u32, writable: bool) {
        self.files.entry(data_file).or_insert_with(|| DataFile { writable, ..DataFile::default() });
    }

    /// Nothing is allocated from the data file any more.
    pub fn retire(&mut self, data_file: u32) {
        if let Some(file) = self.files.get_mut(&data_file) {
            file.writable = false;
        }
    }

    /// Whether space is allocated from the data file.
    pub fn is_writable(&self, data_file: u32) -> bool {
        self.files.get(&data_file).is_some_and(|file| file.writable)
    }

    /// Forgets a data file that nothing is mapped in; its free pages need not be punched, the file goes.
    pub fn remove_data_file(&mut self, data_file: u32) {
        self.files.remove(&data_file);
    }

    /// Whether nothing of the data file is charged: it may be deleted.
    pub fn is_unused(&self, data_file: u32) -> bool {
        self.files.get(&data_file).is_some_and(|file| {
            let size = file.holders.len() as u64;
            file.free.pages + file.hollow.pages == size
        })
    }

    /// Size the data file must have so that every allocated page lies inside.
    pub fn size_bytes(&self, data_file: u32) -> u64 {
        self.files.get(&data_file).map_or(0, |file| file.holders.len() as u64 * PAGE_BYTES)
    }

    /// Takes between `least` and `most` pages in one run of `data_file`, if the capacity allows.
    pub fn allocate(&mut self, data_file: u32, least: u64, most: u64) -> Option<Run> {
        let room = self.capacity_pages.saturating_sub(self.charged_pages);
        let most = most.min(room);
        if least == 0 || least > most {
            return None;
        }
        let file = self.files.get_mut(&data_file).filter(|file| file.writable)?;
        let (page, pages) =
            file.free.take(least, most).or_else(|| file.hollow.take(least, most)).unwrap_or_else(|| {
                let page = file.holders.len() as u64;
                file.holders.resize((page + most) as usize, 0);
                (page, most)
            });
        self.charged_pages += pages;
        Some(Run { data_file, page, pages })
    }

    /// The longest run that `allocate` could take from freed pages of `data_file` without growing it.
    pub fn longest_free(&self, data_file: u32) -> u64 {
        self.files.get(&data_file).map_or(0, |file| file.free.longest())
    }

    /// Returns pages of a slab that nothing was written to, or whose bytes nobody was told of.
    pub fn give_back(&mut self, run: Run) {
        if run.pages > 0
            && let Some(file) = self.files.get_mut(&run.data_file)
        {
            file.free.insert(run.page, run.pages);
            self.charged_pages -= run.pages;
        }
    }

    /// An extent now holds these pages. They were charged before (a slab), or are adopted from the journal at a start.
    pub fn hold(&mut self, run: Run) {
        let file = self.files.entry(run.data_file).or_default();
        let end = (run.page + run.pages) as usize;
        if file.holders.len() < end {
            file.holders.resize(end, 0);
        }
        for holders in &mut file.holders[run.page as usize..end] {
            self.mapped_pages += u64::from(*holders == 0);
            *holders += 1;
        }
    }

    /// Charges pages adopted from the journal, once all extents hold theirs; addresses nobody holds are hollow.
    pub fn charge_adopted(&mut self) {
        for file in self.files.values_mut() {
            for (page, holders) in file.holders.iter().enumerate() {
                if *holders > 0 {
                    self.charged_pages += 1;
                } else {
                    file.hollow.insert(page as u64, 1);
                }
            }
        }
    }

    /// An extent no longer holds these pages; those nobody holds any more are removed.
    pub fn release(&mut self, run: Run) {
        let file = self.files.get_mut(&run.data_file).expect("an extent's data file is known");
        for page in run.page..run.page + run.pages {
            let holders = &mut file.holders[page as usize];
            *holders -= 1;
            if *holders > 0 {
                continue;
            }
            self.mapped_pages -= 1;
            self.removed_pages += 1;
            match self.removed.last_mut() {
                Some(last) if last.data_file == run.data_file && last.page + last.pages == page => last.pages += 1,
                _ => self.removed.push(Run { data_file: run.data_file, page, pages: 1 }),
            }
        }
    }

    /// A barrier begins: what was removed before it can be free after it.
    pub fn begin_barrier(&mut self) {
        self.in_barrier.append(&mut self.removed);
    }

    /// The barrier is durable: its pages can be free.
    pub fn end_barrier(&mut self) {
        self.covered.append(&mut self.in_barrier);
    }

    /// Whether any page could be free if nobody held it.
    pub fn has_covered(&self) -> bool {
        !self.covered.is_empty()
    }

    /// Frees the pages that a durable barrier covers, unless `held` says that a reader or a copy still uses them.
    pub fn free_covered(&mut self, held: impl Fn(Run) -> bool) {
        for run in std::mem::take(&mut self.covered) {
            if held(run) {
                self.covered.push(run);
                continue;
            }
            self.removed_pages -= run.pages;
            if let Some(file) = self.files.get_mut(&run.data_file) {
                file.free.insert(run.page, run.pages);
                self.charged_pages -= run.pages;
            }
        }
    }

    /// The barrier failed: its pages wait for the next one.
    pub fn abandon_barrier(&mut self) {
        let mut runs = std::mem::take(&mut self.in_barrier);
        runs.append(&mut self.removed);
        self.removed = runs;
    }

    /// Free runs to punch so that the data files together take no more than the capacity: those of `except`, which may need them
    /// next, last.
    pub fn punch_excess(&mut self, except: u32) -> Vec<Run> {
        let stored: u64 = self.files.values().map(|file| file.holders.len() as u64 - file.hollow.pages).sum();
        let mut excess = stored.saturating_sub(self.capacity_pages);
        let mut punched = Vec::new();
        if excess == 0 {
            return punched;
        }
        let others: Vec<u32> = self.files.keys().copied().filter(|file| *file != except).collect();
        for data_file in others.into_iter().chain([except]) {
            let Some(file) = self.files.get_mut(&data_file) else { continue };
            while excess > 0
                && let Some((page, pages)) = file.free.take(1, excess)
            {
                excess -= pages;
                file.hollow.insert(page, pages);
                punched.push(Run { data_file, page, pages });
            }
        }
        punched
    }

    /// The data files known.
    pub fn data_files(&self) -> impl Iterator<Item = u32> + '_ {
        self.files.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_free_only_after_a_barrier_begun_since_its_removal() {
        let mut space = FlashSpace::new(4 * PAGE_BYTES);
        space.add_data_file(1, true);
        let run = space.allocate(1, 4, 8).unwrap();
        assert_eq!((run.pages, space.available_bytes()), (4, 0));
        space.hold(run);
        space.begin_barrier();
        space.release(run);
        space.end_barrier();
        space.free_covered(|_| false);
        assert_eq!(space.allocate(1, 1, 1), None, "the barrier began before the removal");
        space.begin_barrier();
        space.end_barrier();
        space.free_covered(|_| true);
        assert_eq!(space.allocate(1, 1, 1), None, "somebody still holds it");
        space.free_covered(|_| false);
        assert_eq!(space.allocate(1, 4, 4), Some(run), "no further barrier is needed");
    }

    #[test]
    fn a_page_shared_by_two_extents_goes_with_the_last() {
        let mut space = FlashSpace::new(PAGE_BYTES * 2);
        space.add_data_file(1, true);
        let run = space.allocate(1, 1, 1).unwrap();
        space.hold(run);
        space.hold(run);
        space.release(run);
        assert_eq!(space.removed_bytes(), 0);
        space.release(run);
        assert_eq!(space.removed_bytes(), PAGE_BYTES);
    }

    #[test]
    fn room_freed_in_one_file_serves_another_once_punched() {
        let mut space = FlashSpace::new(8 * PAGE_BYTES);
        space.add_data_file(1, true);
        space.add_data_file(2, true);
        let run = space.allocate(1, 8, 8).unwrap();
        assert_eq!(space.allocate(2, 1, 1), None);
        space.give_back(run);
        assert!(space.allocate(2, 3, 3).is_some());
        assert_eq!(space.punch_excess(2), vec![Run { pages: 3, ..run }], "no more than the other needs");
        assert_eq!(space.allocate(1, 6, 6), None, "five pages are left");
        assert_eq!(space.allocate(1, 4, 4).map(|run| run.page), Some(3));
        assert_eq!(space.allocate(1, 1, 1).map(|run| run.page), Some(7));
    }

    #[test]
    fn a_punched_address_is_used_again_and_a_files_own_fragments_are_punched_when_it_grows_past_them() {
        let mut space = FlashSpace::new(8 * PAGE_BYTES);
        space.add_data_file(1, true);
        let runs: Vec<Run> = (0..8).map(|_| space.allocate(1, 1, 1).unwrap()).collect();
        runs.iter().step_by(2).for_each(|run| space.give_back(*run));
        assert_eq!(space.allocate(1, 2, 2).map(|run| run.page), Some(8), "no two pages lie together");
        let punched = space.punch_excess(1);
        assert_eq!(punched.iter().map(|run| run.pages).sum::<u64>(), 2);
        assert_eq!(space.punch_excess(1), vec![]);
        let reused: Vec<u64> = (0..2).map(|_| space.allocate(1, 1, 1).unwrap().page).collect();
        assert!(reused.iter().all(|page| *page < 8), "{reused:?}");
    }

    #[test]
    fn freed_neighbours_merge_into_one_run() {
        let mut space = FlashSpace::new(8 * PAGE_BYTES);
        space.add_data_file(1, true);
        let runs: Vec<Run> = (0..4).map(|_| space.allocate(1, 2, 2).unwrap()).collect();
        for k in [2, 0, 3, 1] {
            space.give_back(runs[k]);
        }
        assert_eq!(space.longest_free(1), 8);
    }
}
