//! Disjoint runs of pages of one data file, merged where they touch, by address and by length.

use std::collections::{BTreeMap, BTreeSet};

/// The runs. Pages are numbers below 2^32, so that a run takes 16 bytes in two trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunSet {
    runs: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
    pages: u64,
}

fn page(number: u64) -> u32 {
    u32::try_from(number).expect("a data file has fewer than 2^32 pages")
}

impl RunSet {
    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    fn put(&mut self, page: u32, pages: u32) {
        self.runs.insert(page, pages);
        self.by_length.insert((pages, page));
        self.pages += u64::from(pages);
    }

    fn remove(&mut self, page: u32) -> Option<u32> {
        let pages = self.runs.remove(&page)?;
        self.by_length.remove(&(pages, page));
        self.pages -= u64::from(pages);
        Some(pages)
    }

    /// Adds pages that are not in it.
    pub(crate) fn insert(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (page(first), page(count));
        if let Some((&before, &length)) = self.runs.range(..first).next_back()
            && before + length == first
        {
            self.remove(before);
            first = before;
            count += length;
        }
        if let Some(length) = self.remove(first + count) {
            count += length;
        }
        self.put(first, count);
    }

    /// Takes up to `most` pages, at least `least`: from the shortest run that has `most`, else from the longest.
    pub(crate) fn take(&mut self, least: u64, most: u64) -> Option<(u64, u64)> {
        let wanted = u32::try_from(most).unwrap_or(u32::MAX);
        let fitting = self.by_length.range((wanted, 0)..).next().or_else(|| self.by_length.last());
        let &(pages, first) = fitting.filter(|(pages, _)| u64::from(*pages) >= least)?;
        let taken = pages.min(wanted);
        self.remove(first);
        if taken < pages {
            self.put(first + taken, pages - taken);
        }
        Some((first.into(), taken.into()))
    }

    /// The longest run.
    pub(crate) fn longest(&self) -> u64 {
        self.by_length.last().map_or(0, |(pages, _)| u64::from(*pages))
    }
}
