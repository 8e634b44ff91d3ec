//! The deadline elevator: batches in address order, reads before writes, nobody waits for ever.
//!
//! A batch is up to 16 commands of one direction in rising address order. A new batch starts with the oldest command if
//! that has expired or the sweep has reached the last address, else where the direction's sweep stands. Reads go first
//! unless writes have been passed over twice. (Linux, block/deadline-iosched: same constants, same order of tests.)

use headstart_units::Nanos;

use super::batch_list::BatchList;
use super::part::{Batch, Part, direction};
use super::pool::Order;

/// Commands of a batch (fifo_batch).
const BATCH: usize = 16;
/// Wait after which a read, a write starts the next batch (read_expire, write_expire).
const EXPIRE: [Nanos; 2] = [Nanos(500_000_000), Nanos(5_000_000_000)];
/// Batches of reads while writes wait (writes_starved).
const WRITES_STARVED: usize = 2;

const READ: usize = 0;
const WRITE: usize = 1;

/// Sorted lists and the state of the sweep.
#[derive(Debug)]
pub(super) struct Deadline<T> {
    lists: [BatchList<T>; 2],
    /// Commands in both.
    count: usize,
    /// Where each direction's sweep stands.
    sweep: [u64; 2],
    current: usize,
    served: usize,
    starved: usize,
}

impl<T> Default for Deadline<T> {
    fn default() -> Deadline<T> {
        Deadline { lists: Default::default(), count: 0, sweep: [0; 2], current: READ, served: BATCH, starved: 0 }
    }
}

impl<T: Copy> Deadline<T> {
    fn choose_direction(&mut self) -> usize {
        let (reads, writes) = (self.lists[READ].len() > 0, self.lists[WRITE].len() > 0);
        if reads && writes && self.starved < WRITES_STARVED {
            self.starved += 1;
            return READ;
        }
        if writes {
            self.starved = 0;
            return WRITE;
        }
        READ
    }

    fn take(&mut self, direction: usize, batch: Option<Batch<T>>) -> Option<Batch<T>> {
        self.sweep[direction] = batch.as_ref()?.end;
        self.count -= 1;
        self.served += 1;
        batch
    }
}

impl<T: Copy + std::fmt::Debug + Send> Order<T> for Deadline<T> {
    fn merge(&mut self, part: &Part<T>, bytes_max: u64) -> bool {
        self.lists[direction(part.operation)].merge(part, bytes_max)
    }

    fn insert(&mut self, batch: Batch<T>) {
        self.count += 1;
        self.lists[direction(batch.operation)].insert(batch);
    }

    fn len(&self) -> usize {
        self.count
    }

    fn next(&mut self, now: Nanos) -> Option<Batch<T>> {
        if self.count == 0 {
            // A batch of reads, with none to serve.
            (self.current, self.served) = (READ, 0);
            return None;
        }
        if self.served < BATCH {
            let next = self.lists[self.current].take_from(self.sweep[self.current]);
            if next.is_some() {
                return self.take(self.current, next);
            }
        }
        let direction = self.choose_direction();
        self.current = direction;
        self.served = 0;
        let list = &mut self.lists[direction];
        let expired = list.oldest().is_some_and(|oldest| now.since(oldest.arrived) >= EXPIRE[direction]);
        let next = if expired { None } else { list.take_from(self.sweep[direction]) };
        let next = next.or_else(|| list.take_oldest());
        self.take(direction, next)
    }

    fn pass(&mut self, batch: &Batch<T>) {
        let direction = direction(batch.operation);
        let goes_on = self.served < BATCH && self.current == direction && batch.address >= self.sweep[direction];
        if !goes_on {
            if direction == WRITE {
                self.starved = 0;
            }
            (self.current, self.served) = (direction, 0);
        }
        self.sweep[direction] = batch.end;
        self.served += 1;
    }
}
