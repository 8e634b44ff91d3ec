//! The critical data table (S4D §III-C, Fig 5): critical reads that missed, waiting for the Rebuilder's lazy fetch.
//!
//! Every entry here has its C flag set; clearing the flag removes it. Writes need no entry: a critical write is known as such
//! from the request itself. The table is bounded: the oldest entry makes room.

use std::collections::BTreeMap;

use crate::request::Range;

/// One range worth fetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The file.
    pub file: u32,
    /// The bytes.
    pub range: Range,
    /// What one access saves, nanoseconds.
    pub benefit_ns: u64,
    /// Not worth the disks' time while programs use them.
    pub when_idle: bool,
}

/// A file and an offset in it.
type Key = (u32, u64);

/// Ranges to fetch, oldest first, at most `entries_max` of them; what is for idle disks comes behind all others.
#[derive(Clone, Debug)]
pub struct CriticalData {
    entries_max: usize,
    /// Entries so far.
    turns: u64,
    /// By whether they are for idle disks, and turn.
    order: BTreeMap<(bool, u64), Key>,
    entries: BTreeMap<Key, (Critical, u64)>,
}

impl CriticalData {
    /// An empty table that holds at most `entries_max`, at least one.
    pub fn new(entries_max: usize) -> CriticalData {
        CriticalData { entries_max: entries_max.max(1), turns: 0, order: BTreeMap::new(), entries: BTreeMap::new() }
    }

    /// Records a critical read; a range recorded before keeps its turn, unless it was for idle disks and no longer is.
    pub fn insert(&mut self, critical: Critical) {
        let key = (critical.file, critical.range.offset);
        self.turns += 1;
        if let Some((known, turn)) = self.entries.get_mut(&key) {
            known.range.length = known.range.length.max(critical.range.length);
            known.benefit_ns = known.benefit_ns.max(critical.benefit_ns);
            if known.when_idle && !critical.when_idle {
                known.when_idle = false;
                self.order.remove(&(true, *turn));
                *turn = self.turns;
                self.order.insert((false, *turn), key);
            }
            return;
        }
        if self.entries.len() >= self.entries_max {
            let oldest_for_idle = self.order.range((true, 0)..).next();
            let oldest = oldest_for_idle.or_else(|| self.order.first_key_value()).map(|(place, _)| *place);
            oldest.map(|place| self.take(place));
        }
        self.order.insert((critical.when_idle, self.turns), key);
        self.entries.insert(key, (critical, self.turns));
    }

    fn take(&mut self, place: (bool, u64)) -> Critical {
        let key = self.order.remove(&place).expect("the caller found it");
        self.entries.remove(&key).expect("each place is an entry's").0
    }

    /// Takes the oldest entry and clears its C flag: of those for idle disks only if they are.
    pub fn pop(&mut self, is_idle: bool) -> Option<Critical> {
        let (place, _) = self.order.first_key_value().filter(|((when_idle, _), _)| is_idle || !when_idle)?;
        let place = *place;
        Some(self.take(place))
    }

    /// Forgets a file.
    pub fn remove_file(&mut self, file: u32) {
        self.entries.retain(|key, _| key.0 != file);
        self.order.retain(|_, key| key.0 != file);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn critical(offset: u64) -> Critical {
        Critical { file: 1, range: Range::new(offset, 8), benefit_ns: 5, when_idle: false }
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_makes_room() {
        let mut table = CriticalData::new(2);
        for offset in [10, 20, 30, 20] {
            table.insert(critical(offset));
        }
        assert_eq!(table.len(), 2);
        assert_eq!(table.pop(true), Some(critical(20)));
        assert_eq!(table.pop(true), Some(critical(30)));
        assert_eq!(table.pop(true), None);
    }

    #[test]
    fn what_is_for_idle_disks_comes_last_and_makes_room_first() {
        let mut table = CriticalData::new(3);
        let idle = |offset| Critical { when_idle: true, ..critical(offset) };
        [idle(10), critical(20), idle(30), idle(40)].into_iter().for_each(|critical| table.insert(critical));
        assert_eq!(table.pop(false), Some(critical(20)));
        assert_eq!(table.pop(false), None);
        table.insert(critical(40));
        assert_eq!(table.pop(false), Some(critical(40)), "wanted more than before");
        assert_eq!((table.pop(true), table.pop(true)), (Some(idle(30)), None));
        assert!(table.is_empty());
    }

    #[test]
    fn forgetting_a_file_leaves_the_others() {
        let mut table = CriticalData::new(9);
        table.insert(critical(1));
        table.insert(Critical { file: 2, ..critical(2) });
        table.remove_file(1);
        assert_eq!(table.pop(true).map(|c| c.file), Some(2));
        assert!(table.is_empty());
    }
}
