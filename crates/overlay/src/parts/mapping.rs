//! Accounts of what is mapped: how much, how much of it is dirty, when it was used, and what was evicted whose place
//! is not free yet.
//!
//! No list names extents one by one. Which files have dirty or clean extents is known, each file's map finds the
//! dirty ones in address order, and the next to be evicted is found by a hand that goes round all files in address
//! order and takes the clean extents of the oldest generation ([`crate::recency`]) as it comes by.

use std::collections::{BTreeMap, BTreeSet};

use headstart_units::request::Range;

use super::evicted::Evicted;
use crate::extent_map::Mapped;
use crate::recency::{Access, Recency, Stamp};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping {
    extents: u64,
    dirty_bytes: u64,
    /// Those of extents that are kept.
    kept_dirty_bytes: u64,
    dirty_files: BTreeSet<u32>,
    clean_files: BTreeSet<u32>,
    recency: Recency,
    /// Where the search for the next extent to evict goes on: file, offset.
    hand: (u32, u64),
    evicted: Evicted,
    /// Where the last commit of each thread ended: file, offset.
    last_commits: BTreeMap<u32, (u32, u64)>,
}

/// The extent's bytes if that stamp keeps it.
fn kept_bytes(mapped: &Mapped, stamp: Stamp) -> u64 {
    if stamp.is_kept() { mapped.range.length } else { 0 }
}

impl Mapping {
    /// Number of extents.
    pub(crate) fn extents(&self) -> u64 {
        self.extents
    }

    /// Bytes on flash that the disk does not have.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Those of regions, which are kept.
    pub(crate) fn kept_dirty_bytes(&self) -> u64 {
        self.kept_dirty_bytes
    }

    /// Files with dirty extents, from this one on.
    pub(crate) fn dirty_files(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        self.dirty_files.range(from..).copied()
    }

    /// Whether any extent is clean that is not kept.
    pub(crate) fn has_clean(&self) -> bool {
        self.recency.has_clean()
    }

    /// Whether any is that is.
    pub(crate) fn has_kept_clean(&self) -> bool {
        self.recency.kept_clean > 0
    }

    /// An extent is in the file's map now.
    pub(crate) fn enlist(&mut self, file: u32, mapped: &Mapped) {
        self.extents += 1;
        if mapped.dirty {
            self.dirty_bytes += mapped.range.length;
            self.kept_dirty_bytes += kept_bytes(mapped, mapped.stamp);
            self.dirty_files.insert(file);
        } else {
            self.recency.enlist(mapped.stamp);
            self.clean_files.insert(file);
        }
    }

    /// An extent is no longer in the file's map, in which so many are left, and so many of them dirty.
    pub(crate) fn delist(&mut self, file: u32, mapped: &Mapped, left: usize, left_dirty: usize) {
        self.extents -= 1;
        if mapped.dirty {
            self.dirty_bytes -= mapped.range.length;
            self.kept_dirty_bytes -= kept_bytes(mapped, mapped.stamp);
            if left_dirty == 0 {
                self.dirty_files.remove(&file);
            }
        } else {
            self.recency.delist(mapped.stamp);
            if left_dirty == left {
                self.clean_files.remove(&file);
            }
        }
    }

    /// An extent gets another stamp.
    pub(crate) fn restamp(&mut self, mapped: &Mapped, stamp: Stamp) {
        if mapped.dirty {
            self.kept_dirty_bytes -= kept_bytes(mapped, mapped.stamp);
            self.kept_dirty_bytes += kept_bytes(mapped, stamp);
        } else {
            self.recency.delist(mapped.stamp);
            self.recency.enlist(stamp);
        }
    }

    /// The stamp of a use just now.
    pub(crate) fn stamp_use(&mut self, access: Access) -> Stamp {
        self.recency.stamp_use(self.extents, access)
    }

    /// The stamp of an extent that was never used.
    pub(crate) fn oldest_stamp(&self) -> Stamp {
        Stamp { folds: self.recency.folds(), ..Stamp::default() }
    }

    /// How a commit of a thread follows its last one, which it becomes.
    pub(crate) fn access_of_commit(&mut self, slot: u32, file: u32, range: Range) -> Access {
        let before = self.last_commits.insert(slot, (file, range.end()));
        Access::of(before == Some((file, range.offset)))
    }

    /// Another thread has the slot.
    pub(crate) fn forget_commit(&mut self, slot: u32) {
        self.last_commits.remove(&slot);
    }

    /// The clean extent to evict next, one of those least recently used; `oldest` finds the first one in a file from
    /// an offset on that is no younger than a stamp.
    pub(crate) fn least_recently_used(
        &mut self,
        mut oldest: impl FnMut(u32, u64, Stamp) -> Option<Mapped>,
    ) -> Option<(u32, Mapped)> {
        let limit = self.recency.oldest()?;
        let (first, offset) = self.hand;
        let mut search = |file: u32, offset: u64| Some((file, oldest(file, offset, limit)?));
        let files = &self.clean_files;
        let mut round = files.range(first + 1..).chain(files.range(..=first));
        let found = search(first, offset).or_else(|| round.find_map(|file| search(*file, 0)));
        let (file, mapped) = found.expect("the oldest generation has a clean extent");
        self.hand = (file, mapped.range.offset);
        Some((file, mapped))
    }

    /// What was evicted and may be needed again.
    pub(crate) fn evicted(&mut self) -> &mut Evicted {
        &mut self.evicted
    }

    /// Whether no file has a clean extent.
    #[cfg(test)]
    pub(crate) fn nothing_is_clean(&self) -> bool {
        self.clean_files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent_map::Benefit;

    fn extent(offset: u64, dirty: bool, stamp: Stamp) -> Mapped {
        let benefit = Benefit::default();
        Mapped { range: Range::new(offset, 100), data_file: 1, place: offset, dirty, stamp, benefit }
    }

    #[test]
    fn dirty_bytes_are_counted_apart_from_those_that_are_kept() {
        let mut mapping = Mapping::default();
        let (one, kept) = (extent(0, true, Stamp::default()), extent(100, true, Stamp::KEPT));
        mapping.enlist(1, &one);
        mapping.enlist(1, &kept);
        assert_eq!((mapping.dirty_bytes(), mapping.kept_dirty_bytes()), (200, 100));
        mapping.restamp(&one, Stamp::KEPT);
        assert_eq!(mapping.kept_dirty_bytes(), 200);
        mapping.delist(1, &kept, 1, 1);
        assert!(mapping.dirty_files(0).eq([1]) && mapping.dirty_files(2).next().is_none());
        mapping.delist(1, &Mapped { stamp: Stamp::KEPT, ..one }, 0, 0);
        assert_eq!((mapping.extents(), mapping.dirty_bytes(), mapping.kept_dirty_bytes()), (0, 0, 0));
        assert!(mapping.dirty_files(0).next().is_none());
    }

    #[test]
    fn a_commit_is_sequential_where_the_threads_last_one_ended() {
        let mut mapping = Mapping::default();
        assert_eq!(mapping.access_of_commit(0, 1, Range::new(0, 10)), Access::Random);
        assert_eq!(mapping.access_of_commit(0, 1, Range::new(10, 10)), Access::Sequential);
        assert_eq!(mapping.access_of_commit(1, 1, Range::new(20, 10)), Access::Random, "it is another thread's");
        assert_eq!(mapping.access_of_commit(0, 2, Range::new(20, 10)), Access::Random, "it is another file");
        mapping.forget_commit(0);
        assert_eq!(mapping.access_of_commit(0, 2, Range::new(30, 10)), Access::Random);
    }
}
