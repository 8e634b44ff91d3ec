//! A set of pages of data files, in as few runs as there can be.

use std::collections::BTreeMap;

use crate::flash_space::Run;

/// Pages by data file and number; runs that touch or overlap are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSet(BTreeMap<(u32, u64), u64>);

impl PageSet {
    pub(crate) fn insert(&mut self, run: Run) {
        let (mut page, mut end) = (run.page, run.page + run.pages);
        // What begins within the new run, or right behind it, and at most one run from before it.
        while let Some((&(_, first), &pages)) = self.0.range((run.data_file, 0)..=(run.data_file, end)).next_back() {
            if first + pages < page {
                break;
            }
            self.0.remove(&(run.data_file, first));
            (page, end) = (page.min(first), end.max(first + pages));
        }
        self.0.insert((run.data_file, page), end - page);
    }

    pub(crate) fn extend(&mut self, runs: impl IntoIterator<Item = Run>) {
        runs.into_iter().for_each(|run| self.insert(run));
    }

    pub(crate) fn remove_data_file(&mut self, data_file: u32) {
        self.0.retain(|(of, _), _| *of != data_file);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.0.iter().map(|(&(data_file, page), &pages)| Run { data_file, page, pages })
    }

    pub(crate) fn of_data_file(&self, data_file: u32) -> impl Iterator<Item = Run> + '_ {
        let runs = self.0.range((data_file, 0)..=(data_file, u64::MAX));
        runs.map(|(&(data_file, page), &pages)| Run { data_file, page, pages })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_the_pages_put_in_and_no_two_runs_touch(runs in prop::collection::vec((0..3u32, 0..60u64, 1..9u64), 0..40)) {
            let mut set = PageSet::default();
            let mut pages = BTreeSet::new();
            for (data_file, page, count) in runs {
                set.insert(Run { data_file, page, pages: count });
                pages.extend((page..page + count).map(|page| (data_file, page)));
            }
            let found: Vec<Run> = set.iter().collect();
            let listed = found.iter().flat_map(|run| (run.page..run.page + run.pages).map(|page| (run.data_file, page)));
            prop_assert!(listed.eq(pages.iter().copied()));
            prop_assert!(found.windows(2).all(|pair| pair[0].data_file < pair[1].data_file || pair[0].page + pair[0].pages < pair[1].page));
            prop_assert!(set.of_data_file(1).eq(found.iter().copied().filter(|run| run.data_file == 1)));
            set.remove_data_file(1);
            prop_assert!(set.iter().eq(found.into_iter().filter(|run| run.data_file != 1)));
        }
    }
}
