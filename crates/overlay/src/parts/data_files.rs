//! The data files on flash: whose bytes each holds, which are only read, and of which the bytes may not be what was
//! written. What they have room for is told by [`crate::flash_space`].

use std::collections::{BTreeMap, BTreeSet};

use crate::flash_space::Run;
use crate::journal::Record;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct DataFiles {
    /// The file that each belongs to.
    owners: BTreeMap<u32, u32>,
    next: u32,
    /// Numbers from here on are another node's.
    end: u32,
    /// Those of earlier epochs and of files forgotten: to be deleted when nothing of them is in use.
    unwritten: BTreeSet<u32>,
    /// Runs of pages whose bytes may not be what was written.
    untrusted: BTreeMap<u32, Vec<Run>>,
}

/// The record that says that pages are not trusted.
fn untrusted_record(run: &Run) -> Record {
    Record::Untrusted { data_file: run.data_file, page: run.page, pages: run.pages }
}

/// Says that a sync of the data file failed, even where that lost nothing.
pub(crate) fn nothing_of(data_file: u32) -> Run {
    Run { data_file, page: 0, pages: 0 }
}

impl DataFiles {
    /// None; the first gets the number `next`, and none one from `end` on.
    pub(crate) fn new(next: u32, end: u32) -> DataFiles {
        DataFiles { owners: BTreeMap::new(), next, end, unwritten: BTreeSet::new(), untrusted: BTreeMap::new() }
    }

    /// A new one for the file, if a number is left: none is used again while threads live that knew it.
    pub(crate) fn create(&mut self, file: u32) -> Option<u32> {
        if self.are_used_up() {
            return None;
        }
        let data_file = self.next;
        self.next += 1;
        self.owners.insert(data_file, file);
        Some(data_file)
    }

    /// Whether no number is left.
    pub(crate) fn are_used_up(&self) -> bool {
        self.next >= self.end
    }

    /// The number of the next one.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// One of an agent before: it is only read.
    pub(crate) fn adopt(&mut self, data_file: u32, owner: u32, untrusted: Vec<Run>) {
        self.owners.insert(data_file, owner);
        self.unwritten.insert(data_file);
        if !untrusted.is_empty() {
            self.untrusted.insert(data_file, untrusted);
        }
    }

    /// The file it belongs to.
    pub(crate) fn owner(&self, data_file: u32) -> Option<u32> {
        self.owners.get(&data_file).copied()
    }

    /// All of them, with their files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.owners.iter().map(|(&data_file, &owner)| (data_file, owner))
    }

    /// Nothing new goes to it.
    pub(crate) fn retire(&mut self, data_file: u32) {
        self.unwritten.insert(data_file);
    }

    /// Those that nothing new goes to.
    pub(crate) fn retired(&self) -> Vec<u32> {
        self.unwritten.iter().copied().collect()
    }

    /// It is deleted.
    pub(crate) fn remove(&mut self, data_file: u32) {
        self.unwritten.remove(&data_file);
        self.owners.remove(&data_file);
        self.untrusted.remove(&data_file);
    }

    /// A sync of it failed: these pages may not hold what was written, and nothing more is written to it. The records
    /// that say so.
    pub(crate) fn distrust(&mut self, data_file: u32, pages: Vec<Run>) -> Vec<Record> {
        let lost: Vec<Run> = [nothing_of(data_file)].into_iter().chain(pages).collect();
        let records = lost.iter().map(untrusted_record).collect();
        self.untrusted.entry(data_file).or_default().extend(lost);
        records
    }

    /// Whether a sync of it failed.
    pub(crate) fn has_failed(&self, data_file: u32) -> bool {
        self.untrusted.contains_key(&data_file)
    }

    /// Whether a sync of any failed.
    pub(crate) fn any_failed(&self) -> bool {
        !self.untrusted.is_empty()
    }

    /// Whether a page of `run` may not hold what was written.
    pub(crate) fn is_untrusted(&self, run: Run) -> bool {
        let Some(lost) = self.untrusted.get(&run.data_file) else { return false };
        lost.iter().any(|lost| lost.page < run.page + run.pages && run.page < lost.page + lost.pages)
    }

    /// What a journal has to say of pages that are not trusted.
    pub(crate) fn untrusted_records(&self) -> impl Iterator<Item = Record> + '_ {
        self.untrusted.values().flatten().map(untrusted_record)
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.owners.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_failed_sync_are_not_trusted_until_the_data_file_is_gone() {
        let mut data_files = DataFiles::new(7, 8);
        let data_file = data_files.create(3).unwrap();
        assert_eq!(data_files.create(3), None, "the next number is another node's");
        assert_eq!((data_file, data_files.next(), data_files.owner(7)), (7, 8, Some(3)));
        let run = |page, pages| Run { data_file, page, pages };
        assert_eq!(data_files.distrust(data_file, vec![run(4, 2)]).len(), 2, "that a sync failed is said by itself");
        assert!(data_files.has_failed(data_file) && data_files.any_failed());
        assert!(data_files.is_untrusted(run(5, 1)) && !data_files.is_untrusted(run(6, 9)));
        assert!(!data_files.is_untrusted(run(0, 1)), "the run that says so has no pages");
        assert_eq!(data_files.untrusted_records().count(), 2);
        data_files.remove(data_file);
        assert!(!data_files.any_failed() && data_files.owner(data_file).is_none());
    }

    #[test]
    fn one_of_an_agent_before_is_only_read() {
        let mut data_files = DataFiles::new(3, 9);
        data_files.adopt(1, 9, vec![]);
        data_files.create(9);
        assert_eq!(data_files.retired(), [1]);
        assert!(data_files.iter().eq([(1, 9), (3, 9)]) && !data_files.has_failed(1));
    }
}
