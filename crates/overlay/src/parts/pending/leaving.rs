//! Files that leave flash as other members ask for them, and which of them may get further.
//!
//! Thousands may leave at once, and each waits for copies and barriers. So one is tried when something has become of it
//! ([`LeavingFiles::stir`]), and not at every event; what is missed there, all of them now and then.

use std::collections::{BTreeMap, BTreeSet};

/// So often all are tried (assumed: others ask for what has not left again as often).
const TRIED_NS: u64 = 100_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeavingFiles {
    /// Since when each is known to wait.
    since_ns: BTreeMap<u32, Option<u64>>,
    /// Those of which something has become since they were last tried.
    stirred: BTreeSet<u32>,
    /// Those of which a write-back may begin.
    unwritten: BTreeSet<u32>,
    /// When all were last tried.
    tried_ns: u64,
}

impl LeavingFiles {
    /// A file is to leave, or somebody asks again.
    pub(crate) fn insert(&mut self, file: u32) {
        self.since_ns.entry(file).or_insert(None);
        self.stir(file);
    }

    /// Whether it leaves.
    pub(crate) fn has(&self, file: u32) -> bool {
        self.since_ns.contains_key(&file)
    }

    /// Something has become of a file.
    pub(crate) fn stir(&mut self, file: u32) {
        if self.has(file) {
            self.stirred.insert(file);
            self.unwritten.insert(file);
        }
    }

    /// Something has become of what all wait for.
    pub(crate) fn stir_all(&mut self) {
        self.stirred.extend(self.since_ns.keys());
        self.unwritten.extend(self.since_ns.keys());
    }

    /// Time has passed.
    pub(crate) fn stir_now_and_then(&mut self, now_ns: u64) {
        if now_ns >= self.tried_ns.saturating_add(TRIED_NS) {
            self.tried_ns = now_ns;
            self.stir_all();
        }
    }

    /// Those that may get further, each with since when it waits. Each leaves, or is [kept](LeavingFiles::keep).
    pub(crate) fn take(&mut self) -> Vec<(u32, Option<u64>)> {
        let stirred = std::mem::take(&mut self.stirred);
        stirred.into_iter().filter_map(|file| Some((file, self.since_ns.remove(&file)?))).collect()
    }

    /// It waits on.
    pub(crate) fn keep(&mut self, file: u32, since_ns: Option<u64>) {
        self.since_ns.insert(file, since_ns);
    }

    /// The next of which a write-back may begin.
    pub(crate) fn next_unwritten(&mut self) -> Option<u32> {
        while let Some(file) = self.unwritten.first().copied() {
            if self.has(file) {
                return Some(file);
            }
            self.unwritten.remove(&file);
        }
        None
    }

    /// None can begin of it before something becomes of it.
    pub(crate) fn is_written(&mut self, file: u32) {
        self.unwritten.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_leaves_is_tried_when_something_has_become_of_it_and_else_now_and_then() {
        let mut leaving = LeavingFiles::default();
        let tried = |leaving: &mut LeavingFiles| {
            let taken = leaving.take();
            taken.iter().for_each(|(file, _)| leaving.keep(*file, Some(7)));
            taken.into_iter().map(|(file, _)| file).collect::<Vec<u32>>()
        };
        leaving.stir_now_and_then(TRIED_NS);
        (0..1000).for_each(|file| leaving.insert(file));
        assert_eq!(tried(&mut leaving).len(), 1000);
        assert!(tried(&mut leaving).is_empty(), "nothing has become of them");
        leaving.stir(5);
        leaving.stir(1000);
        assert_eq!(tried(&mut leaving), [5]);
        leaving.stir_now_and_then(2 * TRIED_NS - 1);
        assert!(tried(&mut leaving).is_empty());
        leaving.stir_now_and_then(2 * TRIED_NS);
        assert_eq!(tried(&mut leaving).len(), 1000);
        leaving.insert(6);
        assert_eq!(leaving.take(), [(6, Some(7))]);
        assert!(!leaving.has(6) && leaving.has(7), "it has left");
    }

    #[test]
    fn write_backs_begin_of_each_until_none_can_and_again_when_something_has_become_of_it() {
        let mut leaving = LeavingFiles::default();
        (1..4).for_each(|file| leaving.insert(file));
        leaving.is_written(1);
        assert_eq!(leaving.next_unwritten(), Some(2));
        leaving.take();
        leaving.keep(3, None);
        assert_eq!(leaving.next_unwritten(), Some(3), "the second has left");
        leaving.is_written(3);
        assert_eq!(leaving.next_unwritten(), None);
        leaving.stir(3);
        assert_eq!(leaving.next_unwritten(), Some(3));
    }
}
