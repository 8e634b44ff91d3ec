//! First come first served; neighbours of the same direction merge.

use headstart_units::Nanos;

use super::batch_list::BatchList;
use super::part::{Batch, Part, direction};
use super::pool::Order;

/// Commands by age, one list per direction for merging.
#[derive(Debug)]
pub(super) struct Noop<T> {
    lists: [BatchList<T>; 2],
}

impl<T> Default for Noop<T> {
    fn default() -> Noop<T> {
        Noop { lists: Default::default() }
    }
}

impl<T: Copy + std::fmt::Debug + Send> Order<T> for Noop<T> {
    fn merge(&mut self, part: &Part<T>, bytes_max: u64) -> bool {
        self.lists[direction(part.operation)].merge(part, bytes_max)
    }

    fn insert(&mut self, batch: Batch<T>) {
        self.lists[direction(batch.operation)].insert(batch);
    }

    fn len(&self) -> usize {
        self.lists[0].len() + self.lists[1].len()
    }

    fn next(&mut self, _now: Nanos) -> Option<Batch<T>> {
        let age = |list: &BatchList<T>| list.oldest().map_or(u64::MAX, |batch| batch.sequence);
        let direction = usize::from(age(&self.lists[1]) < age(&self.lists[0]));
        self.lists[direction].take_oldest()
    }

    fn pass(&mut self, _batch: &Batch<T>) {}
}
