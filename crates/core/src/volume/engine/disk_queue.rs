//! Foreground orders of the disk that wait for their turn: sorted, as the disk's own scheduler would if its queue were long enough.
//!
//! While something else has the disk, or the scheduler below has enough, orders wait here. They leave upwards from where the last
//! one was and around. When the gate is closed those that come wait behind it, so that a turn ends.

use std::collections::BTreeMap;

use super::Purpose;
use crate::request::Range;
use crate::units::Nanos;
use crate::volume::order::{Action, Order, OrderId};

/// To an order that has waited so long the sweep jumps (what the deadline elevator gives reads),
const AGE_MAX: Nanos = Nanos(500_000_000);
/// unless it has jumped so few orders ago (assumed; four batches of the deadline elevator).
const JUMP_ORDERS_MIN: u32 = 64;

/// An order that waits.
#[derive(Clone, Debug)]
pub struct Queued {
    pub order: Order,
    pub purpose: Purpose,
    pub since: Nanos,
    /// Time that background work had had the disk when it came.
    pub background: Nanos,
    /// Never made one with another.
    pub is_single: bool,
}

/// An order that the disk has.
#[derive(Clone, Copy, Debug)]
struct Given {
    range: Range,
    since: Nanos,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DiskQueue {
    waiting: BTreeMap<(u64, OrderId), Queued>,
    by_age: BTreeMap<OrderId, u64>,
    /// Those that came after the gate was closed.
    behind: Vec<Queued>,
    is_closed: bool,
    cursor: u64,
    /// Orders since the sweep has jumped.
    since_jump: u32,
    in_flight: BTreeMap<OrderId, Given>,
    in_flight_bytes: u64,
    /// When the last of them was done.
    last_done: Nanos,
}

impl DiskQueue {
    /// Adds an order.
    pub fn push(&mut self, queued: Queued) {
        if self.is_closed {
            self.behind.push(queued);
        } else {
            self.insert(queued);
        }
    }

    fn insert(&mut self, queued: Queued) {
        self.by_age.insert(queued.order.id, queued.order.offset);
        self.waiting.insert((queued.order.offset, queued.order.id), queued);
    }

    /// Opens the gate for those behind it; `is_closed`: and closes it again.
    pub fn open(&mut self, is_closed: bool) {
        for queued in std::mem::take(&mut self.behind) {
            self.insert(queued);
        }
        self.is_closed = is_closed;
    }

    /// Whoever comes from now on waits behind the gate.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// The next order, which the disk has then.
    pub fn pop(&mut self, now: Nanos) -> Option<Queued> {
        let (id, offset) = self.by_age.first_key_value().map(|(id, offset)| (*id, *offset))?;
        let oldest = (offset, id);
        self.since_jump = self.since_jump.saturating_add(1);
        let key = if self.since_jump > JUMP_ORDERS_MIN && now.since(self.waiting[&oldest].since) >= AGE_MAX {
            self.since_jump = 0;
            oldest
        } else {
            let upwards = self.waiting.range((self.cursor, 0)..).next();
            *upwards.or_else(|| self.waiting.first_key_value()).expect("one waits").0
        };
        let queued = self.take(key);
        let range = Range::new(queued.order.offset, queued.order.length);
        self.in_flight.insert(key.1, Given { range, since: now });
        Some(queued)
    }

    /// The next of the orders that waits, if it can be one with this: a write that begins where this ends, if both together are no longer than so many bytes.
    pub fn pop_following(&mut self, order: &Order, bytes_max: u64) -> Option<Queued> {
        let (key, next) = self.waiting.range((order.offset + order.length, 0)..).next()?;
        let are_writes = matches!((&order.action, &next.order.action), (Action::Write(_), Action::Write(_)));
        let continues = next.order.offset == order.offset + order.length && next.order.session == order.session;
        if !are_writes || !continues || next.is_single || order.length + next.order.length > bytes_max {
            return None;
        }
        let key = *key;
        let queued = self.take(key);
        self.in_flight.get_mut(&order.id).expect("the disk has it").range.length += queued.order.length;
        Some(queued)
    }

    /// One that waits is the disk's.
    fn take(&mut self, key: (u64, OrderId)) -> Queued {
        self.by_age.remove(&key.1);
        let queued = self.waiting.remove(&key).expect("it waits");
        self.cursor = queued.order.offset + queued.order.length;
        self.in_flight_bytes += queued.order.length;
        queued
    }

    /// The disk is done with an order: where that was, and what it took since the disk had it or was done with the one before.
    pub fn complete(&mut self, order: OrderId, now: Nanos) -> (Range, Nanos) {
        let Given { range, since } = self.in_flight.remove(&order).expect("the disk has it");
        self.in_flight_bytes -= range.length;
        let took = now.since(self.last_done.max(since));
        self.last_done = now;
        (range, took)
    }

    /// How many orders the disk has.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many bytes they are of.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Orders in front of the gate.
    pub fn admitted(&self) -> usize {
        self.waiting.len()
    }

    /// All that wait.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.behind.len()
    }

    /// When the one that waits longest came.
    pub fn oldest(&self) -> Option<Nanos> {
        let admitted = self.by_age.first_key_value().map(|(id, offset)| self.waiting[&(*offset, *id)].since);
        admitted.or_else(|| self.behind.first().map(|queued| queued.since))
    }
}
