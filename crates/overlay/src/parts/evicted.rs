//! Clean extents that were evicted and whose places are not free yet: should the sync of their slow file
//! fail, flash still has the bytes.

use std::collections::BTreeMap;

use crate::extent_map::{ExtentMap, Mapped};
use headstart_units::request::Range;

/// Extents evicted since the last barrier began, and before, by file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evicted {
    recent: BTreeMap<u32, ExtentMap>,
    covering: BTreeMap<u32, ExtentMap>,
}

impl Evicted {
    pub(crate) fn remember(&mut self, file: u32, mapped: Mapped) {
        self.forget(file, mapped.range);
        self.recent.entry(file).or_default().put(mapped);
    }

    /// Somebody wrote the range, or something newer is mapped there.
    pub(crate) fn forget(&mut self, file: u32, range: Range) {
        for known in [&mut self.recent, &mut self.covering] {
            if let Some(map) = known.get_mut(&file) {
                map.carve(range);
            }
        }
    }

    /// The file is forgotten; its number may be another's.
    pub(crate) fn forget_file(&mut self, file: u32) {
        drop(self.take(file));
    }

    /// What is known of the file, forgotten here.
    pub(crate) fn take(&mut self, file: u32) -> Vec<Mapped> {
        let known = [self.recent.remove(&file), self.covering.remove(&file)];
        known.iter().flatten().flat_map(|map| map.iter()).collect()
    }

    pub(crate) fn begin_barrier(&mut self) {
        self.covering = std::mem::take(&mut self.recent);
    }

    /// The barrier is durable: the places are free.
    pub(crate) fn end_barrier(&mut self) {
        self.covering.clear();
    }

    /// The barrier failed: the next one covers them.
    pub(crate) fn abandon_barrier(&mut self) {
        for (file, map) in std::mem::take(&mut self.covering) {
            let known = self.recent.entry(file).or_default();
            map.iter().for_each(|mapped| known.put(mapped));
        }
    }
}
