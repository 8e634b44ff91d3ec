//! A pool of places for commands, and an order among those that have one.
//!
//! A command has its place until it goes to the drive. Parts that find none wait outside, first come first served.

use std::collections::VecDeque;
use std::fmt;

use headstart_units::Nanos;

use super::part::{Batch, Part};

/// An order of waiting commands.
pub(super) trait Order<T>: fmt::Debug + Send {
    /// Merges `part` into a waiting command if one lies beside it.
    fn merge(&mut self, part: &Part<T>, bytes_max: u64) -> bool;
    /// Adds a command.
    fn insert(&mut self, batch: Batch<T>);
    /// Commands waiting.
    fn len(&self) -> usize;
    /// Takes the command that goes next at `now`.
    fn next(&mut self, now: Nanos) -> Option<Batch<T>>;
    /// Does what `insert` and `next` would do with a command that comes while none waits.
    fn pass(&mut self, batch: &Batch<T>);
}

/// Places, and who has none.
#[derive(Debug)]
pub(super) struct Pool<T> {
    order: Box<dyn Order<T>>,
    nr_requests: usize,
    bytes_max: u64,
    outside: VecDeque<(Nanos, Part<T>)>,
    sequence: u64,
}

impl<T: Copy> Pool<T> {
    pub(super) fn new(order: Box<dyn Order<T>>, nr_requests: usize, bytes_max: u64) -> Pool<T> {
        Pool { order, nr_requests, bytes_max, outside: VecDeque::new(), sequence: 0 }
    }

    pub(super) fn on_part(&mut self, now: Nanos, part: Part<T>) {
        if !self.outside.is_empty() || !self.place(now, part) {
            self.outside.push_back((now, part));
        }
    }

    fn place(&mut self, now: Nanos, part: Part<T>) -> bool {
        if !part.is_read_ahead && self.order.merge(&part, self.bytes_max) {
            return true;
        }
        if self.order.len() >= self.nr_requests {
            return false;
        }
        let batch = self.batch(now, part);
        self.order.insert(batch);
        true
    }

    fn batch(&mut self, now: Nanos, part: Part<T>) -> Batch<T> {
        self.sequence += 1;
        Batch::new(now, part, self.sequence)
    }

    pub(super) fn pass(&mut self, now: Nanos, part: Part<T>) -> Option<Batch<T>> {
        if self.len() > 0 {
            self.on_part(now, part);
            return self.next_command(now);
        }
        let batch = self.batch(now, part);
        self.order.pass(&batch);
        Some(batch)
    }

    pub(super) fn next_command(&mut self, now: Nanos) -> Option<Batch<T>> {
        let batch = self.order.next(now)?;
        while let Some(&(_, part)) = self.outside.front() {
            if !self.place(now, part) {
                break;
            }
            self.outside.pop_front();
        }
        Some(batch)
    }

    pub(super) fn has_room(&self) -> bool {
        self.outside.is_empty() && self.order.len() < self.nr_requests
    }

    pub(super) fn len(&self) -> usize {
        self.order.len() + self.outside.len()
    }
}
