//! Parts of writes that wait for a record, by age and by address.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Entry, Kind};
use headstart_units::Nanos;
use headstart_units::request::Range;

/// A part of a write that waits for a record.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub write: u64,
    pub range: Range,
    /// Checksums of its blocks; none: zeros.
    pub crcs: Option<Vec<u32>>,
    /// When it came.
    pub since: Nanos,
}

impl Item {
    /// What a record says of it.
    pub(super) fn entry(&self) -> Entry {
        Entry { kind: if self.crcs.is_some() { Kind::Data } else { Kind::Zero }, range: self.range }
    }

    /// Blocks of its payload.
    pub(super) fn blocks(&self) -> u64 {
        self.crcs.as_ref().map_or(0, |crcs| crcs.len() as u64)
    }
}

/// By address; of what begins at the same one, by turn.
pub(super) type Key = (u64, u64);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct LogQueue {
    items: BTreeMap<Key, Item>,
    by_age: BTreeSet<(Nanos, u64, u64)>,
    turns: u64,
    bytes: u64,
}

impl LogQueue {
    /// Adds an item, as old as it says.
    pub(super) fn push(&mut self, item: Item) {
        self.turns += 1;
        self.bytes += item.range.length;
        self.by_age.insert((item.since, self.turns, item.range.offset));
        self.items.insert((item.range.offset, self.turns), item);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of them all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest first.
    pub(super) fn iter_by_age(&self) -> impl Iterator<Item = &Item> {
        self.by_age.iter().map(|(_, turn, offset)| &self.items[&(*offset, *turn)])
    }

    /// Since when the oldest waits.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.by_age.first().map(|(since, ..)| *since)
    }

    /// Those that came by then, the oldest first, then the others from the lowest address on.
    fn keys_in_turn(&self, came_by: Option<Nanos>) -> impl Iterator<Item = Key> {
        let is_aged = move |since: Nanos| came_by.is_some_and(|came_by| since <= came_by);
        let aged = self.by_age.iter().take_while(move |(since, ..)| is_aged(*since));
        let others = self.items.iter().filter(move |(_, item)| !is_aged(item.since)).map(|(key, _)| *key);
        aged.map(|(_, turn, offset)| (*offset, *turn)).chain(others)
    }

    /// How many came by then.
    pub(super) fn aged(&self, came_by: Nanos) -> usize {
        self.by_age.iter().take_while(|(since, ..)| *since <= came_by).count()
    }

    /// As `take` takes them.
    pub(super) fn iter_in_turn(&self, came_by: Option<Nanos>) -> impl Iterator<Item = &Item> {
        self.keys_in_turn(came_by).map(|key| &self.items[&key])
    }

    /// Takes so many, those that came by then first.
    pub(super) fn take(&mut self, count: usize, came_by: Option<Nanos>) -> Vec<Item> {
        let keys: Vec<Key> = self.keys_in_turn(came_by).take(count).collect();
        keys.into_iter().map(|key| self.remove(key)).collect()
    }

    /// The oldest of those that are wanted.
    pub(super) fn find(&self, is_wanted: impl Fn(&Item) -> bool) -> Option<(Key, &Item)> {
        let mut by_age = self.by_age.iter().map(|(_, turn, offset)| (*offset, *turn));
        by_age.find_map(|key| self.items.get(&key).filter(|item| is_wanted(item)).map(|item| (key, item)))
    }

    /// Parts of a write that wait.
    pub(super) fn count_of(&self, write: u64) -> usize {
        self.items.values().filter(|item| item.write == write).count()
    }

    /// Takes all parts of a write; how many there were.
    pub(super) fn remove_write(&mut self, write: u64) -> usize {
        let of_write = self.items.iter().filter(|(_, item)| item.write == write);
        let keys: Vec<Key> = of_write.map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| drop(self.remove(*key)));
        keys.len()
    }

    /// Takes one that waits.
    pub(super) fn remove(&mut self, key: Key) -> Item {
        let item = self.items.remove(&key).expect("it waits");
        self.by_age.remove(&(item.since, key.1, key.0));
        self.bytes -= item.range.length;
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(items: &[(u64, u64)]) -> LogQueue {
        let mut queue = LogQueue::default();
        for (write, (offset, since)) in items.iter().enumerate() {
            let range = Range::new(*offset, 512);
            queue.push(Item { write: write as u64, range, crcs: None, since: Nanos(*since) });
        }
        queue
    }

    fn offsets(items: &[Item]) -> Vec<u64> {
        items.iter().map(|item| item.range.offset).collect()
    }

    #[test]
    fn the_aged_go_first_and_then_the_lowest() {
        let mut queue = queue(&[(7000, 1), (9000, 2), (1000, 5), (4000, 3), (2000, 4)]);
        assert_eq!(queue.aged(Nanos(2)), 2);
        assert_eq!(queue.iter_in_turn(Some(Nanos(2))).map(|item| item.write).collect::<Vec<_>>(), [0, 1, 2, 4, 3]);
        assert_eq!(offsets(&queue.take(4, Some(Nanos(2)))), [7000, 9000, 1000, 2000]);
        assert_eq!((queue.len(), queue.bytes(), queue.oldest()), (1, 512, Some(Nanos(3))));
        assert_eq!(offsets(&queue.take(9, None)), [4000]);
        assert!(queue.is_empty() && queue.oldest().is_none());
    }

    #[test]
    fn what_comes_back_is_as_old_as_it_was() {
        let mut queue = queue(&[(1000, 8), (2000, 9)]);
        queue.push(Item { write: 7, range: Range::new(3000, 512), crcs: None, since: Nanos(1) });
        assert_eq!(queue.iter_by_age().map(|item| item.write).collect::<Vec<_>>(), [7, 0, 1]);
        assert_eq!(queue.find(|item| item.write != 7).map(|(_, item)| item.write), Some(0));
        assert_eq!((queue.count_of(7), queue.remove_write(7), queue.remove_write(7)), (1, 1, 0));
    }
}
