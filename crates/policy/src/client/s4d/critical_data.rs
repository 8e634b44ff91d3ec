//! The critical data table (S4D §III-C, Fig 5): critical reads that missed, waiting for the Rebuilder's lazy fetch.
//!
//! Every entry here has its C flag set; clearing the flag removes it. Writes need no entry: a critical write
//! is known as such from the request itself. The table is bounded: the oldest entry makes room.
//!
//! What is fetched next the paper leaves open. Here a fetch of the oldest entry is followed by the entries of
//! its granule, upwards: the disk moves less, and reads of granules that nothing was fetched of need not ask
//! the agent.

use std::collections::BTreeMap;

use crate::client::FetchTurn;
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// One range worth fetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The file.
    pub file: u32,
    /// The bytes.
    pub range: Range,
    /// What one access saves, nanoseconds.
    pub benefit_ns: u64,
    /// When it is worth a fetch.
    pub turn: FetchTurn,
}

/// A file and an offset in it.
type Key = (u32, u64);

/// Whether it is for idle disks, and its number.
type Place = (bool, u64);

/// Ranges to fetch, at most `entries_max` of them: those of the granule of the oldest, by address, and so on;
/// what is for idle disks comes behind all others.
#[derive(Clone, Debug)]
pub struct CriticalData {
    entries_max: usize,
    /// Entries so far.
    count: u64,
    order: BTreeMap<Place, Key>,
    entries: BTreeMap<Key, (Critical, Place)>,
    /// What is left of the granule from which the last entry was taken, upwards.
    ahead: std::ops::Range<Key>,
}

impl CriticalData {
    /// An empty table that holds at most `entries_max`, at least one.
    pub fn new(entries_max: usize) -> CriticalData {
        CriticalData {
            entries_max: entries_max.max(1),
            count: 0,
            order: BTreeMap::new(),
            entries: BTreeMap::new(),
            ahead: (0, 0)..(0, 0),
        }
    }

    /// Records a critical read; a range recorded before keeps its place, unless it was for idle disks and no longer is.
    pub fn insert(&mut self, critical: Critical) {
        let key = (critical.file, critical.range.offset);
        if let Some((known, _)) = self.entries.get(&key) {
            let range = Range::new(known.range.offset, known.range.length.max(critical.range.length));
            let benefit_ns = known.benefit_ns.max(critical.benefit_ns);
            let (was, turn) = (known.turn, known.turn.min(critical.turn));
            self.entries.get_mut(&key).expect("it is there").0 = Critical { range, benefit_ns, ..*known };
            if turn < was {
                self.hasten(key);
            }
            return;
        }
        if self.entries.len() >= self.entries_max {
            let oldest_for_idle = self.order.range((true, 0)..).next();
            let oldest = oldest_for_idle.or_else(|| self.order.first_key_value()).map(|(place, _)| *place);
            oldest.map(|place| self.take(place));
        }
        let place = self.new_place(critical.turn);
        self.order.insert(place, key);
        self.entries.insert(key, (critical, place));
    }

    fn new_place(&mut self, turn: FetchTurn) -> Place {
        self.count += 1;
        (turn == FetchTurn::Idle, self.count)
    }

    /// It is no longer for idle disks, and so comes before all that are.
    fn hasten(&mut self, key: Key) {
        let new_place = self.new_place(FetchTurn::Soon);
        let (critical, place) = self.entries.get_mut(&key).expect("the caller has it");
        critical.turn = FetchTurn::Soon;
        self.order.remove(place);
        self.order.insert(new_place, key);
        *place = new_place;
    }

    fn take(&mut self, place: Place) -> Critical {
        let key = self.order.remove(&place).expect("the caller found it");
        self.entries.remove(&key).expect("each place is an entry's").0
    }

    /// Takes the next entry and clears its C flag: of those for idle disks only if they are.
    pub fn pop(&mut self, is_idle: bool) -> Option<Critical> {
        let ((for_idle, _), (file, oldest)) = self.order.first_key_value().map(|(place, key)| (*place, *key))?;
        if for_idle && !is_idle {
            return None;
        }
        let place = self.next_ahead(for_idle).or_else(|| {
            let begin = oldest - oldest % GRANULE_BYTES;
            self.ahead = (file, begin)..(file, begin.saturating_add(GRANULE_BYTES));
            self.next_ahead(for_idle)
        });
        let critical = self.take(place.expect("the oldest is in its granule"));
        self.ahead.start = (critical.file, critical.range.offset + 1);
        Some(critical)
    }

    fn next_ahead(&self, for_idle: bool) -> Option<Place> {
        let mut places = self.entries.range(self.ahead.clone()).map(|(_, (_, place))| *place);
        places.find(|place| place.0 == for_idle)
    }

    /// Forgets a file.
    pub fn remove_file(&mut self, file: u32) {
        self.entries.retain(|key, _| key.0 != file);
        self.order.retain(|_, key| key.0 != file);
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
        Critical { file: 1, range: Range::new(offset, 8), benefit_ns: 5, turn: FetchTurn::Soon }
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_makes_room() {
        let mut table = CriticalData::new(2);
        for offset in [10, 20, 30, 20] {
            table.insert(critical(offset));
        }
        assert_eq!(table.entries.len(), 2);
        assert_eq!(table.pop(true), Some(critical(20)));
        assert_eq!(table.pop(true), Some(critical(30)));
        assert_eq!(table.pop(true), None);
    }

    #[test]
    fn the_granule_of_the_oldest_goes_first_upwards_and_what_comes_behind_waits_for_its_turn() {
        let mut table = CriticalData::new(9);
        let at = |granule: u64, offset| critical(granule * GRANULE_BYTES + offset);
        let order = [at(5, 90), at(2, 0), at(5, 30), at(2, 700), at(6, 0)];
        order.into_iter().for_each(|critical| table.insert(critical));
        table.insert(Critical { turn: FetchTurn::Idle, ..at(5, 50) });
        let taken: Vec<_> = (0..2).filter_map(|_| table.pop(true)).collect();
        assert_eq!(taken, [at(5, 30), at(5, 90)]);
        [at(5, 40), at(5, 95)].into_iter().for_each(|critical| table.insert(critical));
        let taken: Vec<_> = std::iter::from_fn(|| table.pop(false)).collect();
        assert_eq!(taken, [at(5, 95), at(2, 0), at(2, 700), at(6, 0), at(5, 40)]);
        assert_eq!(table.entries.len(), 1, "for idle disks");
    }

    #[test]
    fn what_is_for_idle_disks_comes_last_and_makes_room_first() {
        let mut table = CriticalData::new(3);
        let idle = |offset| Critical { turn: FetchTurn::Idle, ..critical(offset) };
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
