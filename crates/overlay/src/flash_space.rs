//! The flash space: pages of the data files, who holds them, and when they may be used again.
//!
//! ```text
//! free ---allocate---> slab ---commit---> mapped ---unmap---> removed ---barrier, nobody holds it---> free
//!  |                     '------give back-----------------------------------------------------------------^
//!  '--punch (another file needs the room)--> hollow: an address without storage behind it
//! ```
//!
//! A page is 4 KiB. An extent holds every page it touches; a page is removed when the last extent on it is
//! gone, and free only after a barrier made the superseding or removing record durable. `charged` pages (all
//! but free and hollow) never exceed the capacity; neither do charged and free pages together, as far as the
//! file system can punch holes. A page costs two bytes of memory, the number of its holders, and each free or
//! hollow run of a writable file some 30.

mod run_set;

use std::collections::{BTreeMap, BTreeSet};

use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;
use run_set::RunSet;

/// More than any flash has: 1 EiB. Sums of a few such numbers do not overflow.
const CAPACITY_BYTES_MAX: u64 = 1 << 60;

/// Pages of a data file at most (16 TiB): what the extent map and the journal have words for.
pub(crate) const PAGES_MAX: u64 = 1 << 32;

/// Pages of one data file, by their byte range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

    fn end(self) -> u64 {
        self.page + self.pages
    }

    /// Whether the two share a page.
    pub fn overlaps(self, other: Run) -> bool {
        self.data_file == other.data_file && self.page < other.end() && other.page < self.end()
    }
}

/// Runs without an order, as a set of pages that finds an overlap by bisection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Union(Vec<Run>);

impl FromIterator<Run> for Union {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Union {
        let mut runs: Vec<Run> = runs.into_iter().collect();
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let touches = last.data_file == next.data_file && next.page <= last.end();
            if touches {
                last.pages = last.end().max(next.end()) - last.page;
            }
            touches
        });
        Union(runs)
    }
}

impl Union {
    /// Whether it has a page of `run`.
    pub(crate) fn overlaps(&self, run: Run) -> bool {
        let until = self.0.partition_point(|one| (one.data_file, one.page) < (run.data_file, run.end()));
        self.0[..until].last().is_some_and(|last| last.overlaps(run))
    }
}

/// Takes the pages of `run` out of the list; how many it had.
fn take_out(list: &mut Vec<Run>, run: Run) -> u64 {
    let mut taken = 0;
    let touched: Vec<Run> = list.extract_if(.., |one| one.overlaps(run)).collect();
    for one in touched {
        let before = Run { pages: run.page.saturating_sub(one.page), ..one };
        let after = Run { page: run.end(), pages: one.end().saturating_sub(run.end()), ..one };
        taken += one.pages - before.pages - after.pages;
        list.extend([before, after].into_iter().filter(|rest| rest.pages > 0));
    }
    taken
}

#[derive(Clone, Debug, Default)]
struct DataFile {
    writable: bool,
    /// Extents on each page.
    holders: Vec<u16>,
    free: RunSet,
    /// Hollow pages that may be allocated; in a data file that is only read they are counted and not kept.
    hollow: RunSet,
    hollow_pages: u64,
    /// Slabs that threads hold from an agent of before: first page and number.
    adopted: Vec<(u64, u64)>,
}

impl DataFile {
    /// Makes room for the count of holders of every page before `end`.
    fn grow(&mut self, end: u64) {
        let end = end as usize;
        let missing = end.saturating_sub(self.holders.capacity());
        if missing > 0 {
            // An eighth more than there is: twice as much would cost each page two bytes more.
            self.holders.reserve_exact((end - self.holders.len()).max(self.holders.len() / 8));
        }
        if self.holders.len() < end {
            self.holders.resize(end, 0);
        }
    }

    /// Pages with storage behind them.
    fn stored_pages(&self) -> u64 {
        self.holders.len() as u64 - self.hollow_pages
    }
}

/// Who uses removed pages still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// A thread that reads them: no message tells when it has done so.
    Reader,
    /// A copy.
    Copy,
}

/// All data files of one agent.
#[derive(Clone, Debug)]
pub(crate) struct FlashSpace {
    capacity_pages: u64,
    charged_pages: u64,
    mapped_pages: u64,
    /// Pages with storage behind them, of all data files.
    stored_pages: u64,
    files: BTreeMap<u32, DataFile>,
    /// Data files with free pages.
    with_free: BTreeSet<u32>,
    removed: Vec<Run>,
    in_barrier: Vec<Run>,
    /// Covered by a durable barrier, but read, or copied, when last looked at.
    read: Vec<Run>,
    copied: Vec<Run>,
    /// Of all four.
    removed_pages: u64,
    /// Of the first.
    awaiting_pages: u64,
}

impl FlashSpace {
    /// An empty space of `capacity_bytes`, rounded down to pages.
    pub(crate) fn new(capacity_bytes: u64) -> FlashSpace {
        FlashSpace {
            capacity_pages: capacity_bytes.min(CAPACITY_BYTES_MAX) / PAGE_BYTES,
            charged_pages: 0,
            mapped_pages: 0,
            stored_pages: 0,
            files: BTreeMap::new(),
            with_free: BTreeSet::new(),
            removed: Vec::new(),
            in_barrier: Vec::new(),
            read: Vec::new(),
            copied: Vec::new(),
            removed_pages: 0,
            awaiting_pages: 0,
        }
    }

    /// Changes the capacity; what is charged above it stays until it is removed.
    pub(crate) fn set_capacity(&mut self, capacity_bytes: u64) {
        self.capacity_pages = capacity_bytes.min(CAPACITY_BYTES_MAX) / PAGE_BYTES;
    }

    /// Capacity in bytes.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_pages * PAGE_BYTES
    }

    /// Bytes that could be allocated now.
    pub(crate) fn available_bytes(&self) -> u64 {
        self.capacity_pages.saturating_sub(self.charged_pages) * PAGE_BYTES
    }

    /// Bytes removed that are not free yet: they wait for a barrier, or for whoever holds them.
    pub(crate) fn removed_bytes(&self) -> u64 {
        self.removed_pages * PAGE_BYTES
    }

    /// Bytes removed that the next barrier lets be free.
    pub(crate) fn awaiting_bytes(&self) -> u64 {
        self.awaiting_pages * PAGE_BYTES
    }

    /// Whether anything removed waits for the next barrier.
    pub(crate) fn awaits_barrier(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Bytes charged above the capacity.
    pub(crate) fn excess_bytes(&self) -> u64 {
        self.charged_pages.saturating_sub(self.capacity_pages) * PAGE_BYTES
    }

    /// Bytes in slabs, mapped or removed.
    #[cfg(test)]
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_pages * PAGE_BYTES
    }

    /// Bytes of pages that hold extents.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.mapped_pages * PAGE_BYTES
    }

    /// Adds a data file; only a writable one is allocated from.
    pub(crate) fn add_data_file(&mut self, data_file: u32, writable: bool) {
        self.files.entry(data_file).or_insert_with(|| DataFile { writable, ..DataFile::default() });
    }

    /// Nothing is allocated from the data file any more.
    pub(crate) fn retire(&mut self, data_file: u32) {
        if let Some(file) = self.files.get_mut(&data_file) {
            file.writable = false;
        }
    }

    /// Forgets a data file that nothing is mapped in; its free pages need not be punched, the file goes.
    pub(crate) fn remove_data_file(&mut self, data_file: u32) {
        if let Some(file) = self.files.remove(&data_file) {
            self.stored_pages -= file.stored_pages();
            self.with_free.remove(&data_file);
        }
    }

    /// Whether nothing of the data file is charged: it may be deleted.
    pub(crate) fn is_unused(&self, data_file: u32) -> bool {
        self.files.get(&data_file).is_some_and(|file| {
            let size = file.holders.len() as u64;
            file.free.pages() + file.hollow_pages == size
        })
    }

    /// Size the data file must have so that every allocated page lies inside.
    pub(crate) fn size_bytes(&self, data_file: u32) -> u64 {
        self.files.get(&data_file).map_or(0, |file| file.holders.len() as u64 * PAGE_BYTES)
    }

    /// Takes between `least` and `most` pages in one run of `data_file`, if the capacity allows.
    pub(crate) fn allocate(&mut self, data_file: u32, least: u64, most: u64) -> Option<Run> {
        let room = self.capacity_pages.saturating_sub(self.charged_pages);
        let most = most.min(room);
        if least == 0 || least > most {
            return None;
        }
        let file = self.files.get_mut(&data_file).filter(|file| file.writable)?;
        let run = if let Some(run) = file.free.take(least, most) {
            if file.free.pages() == 0 {
                self.with_free.remove(&data_file);
            }
            run
        } else if let Some((page, pages)) = file.hollow.take(least, most) {
            file.hollow_pages -= pages;
            self.stored_pages += pages;
            (page, pages)
        } else {
            let page = file.holders.len() as u64;
            if page + most >= PAGES_MAX {
                return None;
            }
            file.grow(page + most);
            self.stored_pages += most;
            (page, most)
        };
        let (page, pages) = run;
        self.charged_pages += pages;
        Some(Run { data_file, page, pages })
    }

    /// The longest run that `allocate` could take from freed pages of `data_file` without growing it.
    pub(crate) fn longest_free(&self, data_file: u32) -> u64 {
        self.files.get(&data_file).map_or(0, |file| file.free.longest())
    }

    /// Returns pages of a slab that nothing was written to, or whose bytes nobody was told of.
    pub(crate) fn give_back(&mut self, run: Run) {
        if run.pages > 0
            && let Some(file) = self.files.get_mut(&run.data_file)
        {
            file.free.insert(run.page, run.pages);
            self.with_free.insert(run.data_file);
            self.charged_pages -= run.pages;
        }
    }

    /// An extent now holds these pages. They were charged before (a slab), or are adopted from the journal at a start.
    pub(crate) fn hold(&mut self, run: Run) {
        let file = self.files.entry(run.data_file).or_default();
        let end = (run.page + run.pages) as usize;
        self.stored_pages += (end as u64).saturating_sub(file.holders.len() as u64);
        file.grow(end as u64);
        for holders in &mut file.holders[run.page as usize..end] {
            self.mapped_pages += u64::from(*holders == 0);
            *holders += 1;
        }
    }

    /// Charges pages adopted from the journal, once all extents hold theirs; addresses nobody holds are
    /// hollow. Adopted data files are only read.
    pub(crate) fn charge_adopted(&mut self) {
        for file in self.files.values_mut() {
            let held = file.holders.iter().filter(|holders| **holders > 0).count() as u64;
            file.hollow_pages = file.holders.len() as u64 - held;
            self.charged_pages += held;
            self.stored_pages -= file.hollow_pages;
        }
    }

    /// Charges pages of a slab that a living thread holds from an agent of before, after
    /// [`FlashSpace::charge_adopted`]; false if somebody else holds any of them.
    pub(crate) fn adopt_slab(&mut self, run: Run) -> bool {
        let Some(file) = self.files.get_mut(&run.data_file) else { return false };
        let (known, end) = (file.holders.len() as u64, run.page + run.pages);
        let held = file.holders.iter().take(end as usize).skip(run.page as usize).any(|holders| *holders > 0);
        let shared = file.adopted.iter().any(|&(page, pages)| page < end && run.page < page + pages);
        if held || shared || end >= PAGES_MAX {
            return false;
        }
        file.grow(end);
        file.hollow_pages += end.saturating_sub(known);
        file.hollow_pages -= run.pages;
        file.adopted.push((run.page, run.pages));
        self.stored_pages += run.pages;
        self.charged_pages += run.pages;
        true
    }

    /// An extent no longer holds these pages; those nobody holds any more are removed.
    pub(crate) fn release(&mut self, run: Run) {
        let file = self.files.get_mut(&run.data_file).expect("an extent's data file is known");
        for page in run.page..run.page + run.pages {
            let holders = &mut file.holders[page as usize];
            *holders -= 1;
            if *holders > 0 {
                continue;
            }
            self.mapped_pages -= 1;
            self.removed_pages += 1;
            self.awaiting_pages += 1;
            match self.removed.last_mut() {
                Some(last) if last.data_file == run.data_file && last.page + last.pages == page => last.pages += 1,
                _ => self.removed.push(Run { data_file: run.data_file, page, pages: 1 }),
            }
        }
    }

    /// Pages that are not free yet are to hold an extent again: they no longer wait for a barrier.
    pub(crate) fn reclaim(&mut self, run: Run) {
        let removed = take_out(&mut self.removed, run);
        self.awaiting_pages -= removed;
        let others = [&mut self.in_barrier, &mut self.read, &mut self.copied];
        self.removed_pages -= removed + others.map(|list| take_out(list, run)).iter().sum::<u64>();
    }

    /// A barrier begins: what was removed before it can be free after it.
    pub(crate) fn begin_barrier(&mut self) {
        self.in_barrier.append(&mut self.removed);
        self.awaiting_pages = 0;
    }

    /// The barrier is durable: what can be free now, each run to be told to [`FlashSpace::free`].
    pub(crate) fn end_barrier(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.in_barrier)
    }

    /// The same of what was read when last looked at.
    pub(crate) fn take_read(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.read)
    }

    /// The same of what was copied when last looked at and shares a page with one of `places`.
    pub(crate) fn take_copied(&mut self, places: &[Run]) -> Vec<Run> {
        self.copied.extract_if(.., |run| places.iter().any(|place| place.overlaps(*run))).collect()
    }

    /// A durable barrier covers these pages: they are free unless somebody uses them.
    pub(crate) fn free(&mut self, run: Run, user: Option<User>) {
        match user {
            Some(User::Reader) => return self.read.push(run),
            Some(User::Copy) => return self.copied.push(run),
            None => self.removed_pages -= run.pages,
        }
        if let Some(file) = self.files.get_mut(&run.data_file) {
            file.free.insert(run.page, run.pages);
            self.with_free.insert(run.data_file);
            self.charged_pages -= run.pages;
        }
    }

    /// The barrier failed: its pages wait for the next one.
    pub(crate) fn abandon_barrier(&mut self) {
        let mut runs = std::mem::take(&mut self.in_barrier);
        self.awaiting_pages += runs.iter().map(|run| run.pages).sum::<u64>();
        runs.append(&mut self.removed);
        self.removed = runs;
    }

    /// Free runs to punch so that the data files together take no more than the capacity: those of `except`,
    /// which may need them next, last.
    pub(crate) fn punch_excess(&mut self, except: u32) -> Vec<Run> {
        let mut excess = self.stored_pages.saturating_sub(self.capacity_pages);
        let mut punched = Vec::new();
        while excess > 0
            && let Some(&data_file) = self.with_free.iter().find(|file| **file != except).or(self.with_free.first())
        {
            let file = self.files.get_mut(&data_file).expect("a data file with free pages is known");
            while excess > 0
                && let Some((page, pages)) = file.free.take(1, excess)
            {
                excess -= pages;
                self.stored_pages -= pages;
                file.hollow_pages += pages;
                if file.writable {
                    file.hollow.insert(page, pages);
                }
                punched.push(Run { data_file, page, pages });
            }
            if file.free.pages() == 0 {
                self.with_free.remove(&data_file);
            }
        }
        punched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::chance::Random;

    #[test]
    fn a_page_is_free_only_after_a_barrier_begun_since_its_removal() {
        let mut space = FlashSpace::new(4 * PAGE_BYTES);
        space.add_data_file(1, true);
        let run = space.allocate(1, 4, 8).unwrap();
        assert_eq!((run.pages, space.available_bytes()), (4, 0));
        space.hold(run);
        space.begin_barrier();
        space.release(run);
        assert_eq!(
            (space.end_barrier(), space.awaiting_bytes()),
            (vec![], 4 * PAGE_BYTES),
            "it began before the removal"
        );
        space.begin_barrier();
        assert_eq!((space.end_barrier(), space.awaiting_bytes()), (vec![run], 0));
        space.free(run, Some(User::Reader));
        assert_eq!(space.allocate(1, 1, 1), None, "somebody reads it");
        assert_eq!(space.take_read(), vec![run], "no further barrier is needed");
        space.free(run, Some(User::Copy));
        assert_eq!(space.take_copied(&[Run { page: 4, ..run }]), vec![], "another copy ends");
        assert_eq!(space.take_copied(&[Run { page: 3, ..run }]), vec![run]);
        space.free(run, None);
        assert_eq!((space.allocate(1, 4, 4), space.removed_bytes()), (Some(run), 0));
    }

    #[test]
    fn what_is_reclaimed_or_whose_barrier_failed_is_counted_once() {
        let run = |page, pages| Run { data_file: 1, page, pages };
        let mut space = FlashSpace::new(16 * PAGE_BYTES);
        space.add_data_file(1, true);
        let all = space.allocate(1, 12, 12).unwrap();
        space.hold(all);
        for (first, user) in [(0, Some(User::Reader)), (3, Some(User::Copy))] {
            space.release(run(first, 3));
            space.begin_barrier();
            space.end_barrier().into_iter().for_each(|one| space.free(one, user));
        }
        space.release(run(6, 3));
        space.begin_barrier();
        space.release(run(9, 3));
        assert_eq!((space.removed_bytes(), space.awaiting_bytes()), (12 * PAGE_BYTES, 3 * PAGE_BYTES));
        [1, 4, 7, 10].into_iter().for_each(|page| space.reclaim(run(page, 1)));
        assert_eq!((space.removed_bytes(), space.awaiting_bytes()), (8 * PAGE_BYTES, 2 * PAGE_BYTES));
        space.abandon_barrier();
        assert_eq!((space.removed_bytes(), space.awaiting_bytes()), (8 * PAGE_BYTES, 4 * PAGE_BYTES));
    }

    #[test]
    fn a_union_overlaps_what_one_of_its_runs_does() {
        for seed in 0..200 {
            let mut random = Random(seed);
            let mut run =
                || Run { data_file: random.below(2) as u32, page: random.below(40), pages: 1 + random.below(6) };
            let runs: Vec<Run> = (0..12).map(|_| run()).collect();
            let union: Union = runs.iter().copied().collect();
            for _ in 0..40 {
                let asked = run();
                let expected = runs.iter().any(|one| one.overlaps(asked));
                assert_eq!(union.overlaps(asked), expected, "seed {seed}: {asked:?} of {runs:?}");
            }
        }
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
    fn a_slab_of_before_is_nobody_elses_and_is_not_allocated_again() {
        let mut space = FlashSpace::new(8 * PAGE_BYTES);
        space.add_data_file(1, false);
        space.hold(Run { data_file: 1, page: 2, pages: 1 });
        space.charge_adopted();
        let run = |page, pages| Run { data_file: 1, page, pages };
        assert!(!space.adopt_slab(run(1, 3)), "an extent holds a page of it");
        assert!(space.adopt_slab(run(3, 3)) && space.adopt_slab(run(0, 1)));
        assert!(!space.adopt_slab(run(5, 2)), "another slab holds a page of it");
        assert_eq!(space.charged_bytes(), 5 * PAGE_BYTES);
        space.give_back(run(3, 3));
        assert_eq!(space.allocate(1, 1, 1), None);
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
