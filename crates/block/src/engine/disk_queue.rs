//! Foreground orders of the disk that wait for their turn: sorted, as the disk's own scheduler would if its
//! queue were long enough.
//!
//! While something else has the disk, or the scheduler below has enough, orders wait here. They leave upwards
//! from where the last one was and around. When the gate is closed those that come wait behind it, so that a
//! turn ends.

use std::collections::BTreeMap;

use super::orders::Purpose;
use crate::order::{Action, Order, OrderId};
use headstart_units::Nanos;
use headstart_units::request::Range;

/// To an order that has waited so long the sweep jumps (what the deadline elevator gives reads),
const AGE_MAX: Nanos = Nanos(500_000_000);
/// unless it has jumped so few orders ago (assumed; four batches of the deadline elevator).
const JUMP_ORDERS_MIN: u32 = 64;

/// Whether an order may be made one with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may.
    Joined,
    /// Never.
    Single,
}

/// An order that waits.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub order: Order,
    pub purpose: Purpose,
    pub since: Nanos,
    /// Time that background work had had the disk when it came.
    pub background: Nanos,
    pub kind: Kind,
}

impl Queued {
    fn range(&self) -> Range {
        Range::new(self.order.offset, self.order.length)
    }
}

/// By address; of the same one by name.
type Key = (u64, OrderId);

/// Orders of a sweep.
#[derive(Clone, Debug, Default)]
struct Sweep {
    waiting: BTreeMap<Key, Queued>,
    by_age: BTreeMap<OrderId, u64>,
    cursor: u64,
}

impl Sweep {
    fn insert(&mut self, queued: Queued) {
        self.by_age.insert(queued.order.id, queued.order.offset);
        self.waiting.insert((queued.order.offset, queued.order.id), queued);
    }

    fn remove(&mut self, key: Key) -> Queued {
        self.by_age.remove(&key.1);
        self.waiting.remove(&key).expect("it waits")
    }

    fn oldest(&self) -> Option<Key> {
        self.by_age.first_key_value().map(|(id, offset)| (*offset, *id))
    }

    /// The next one upwards and around.
    fn next(&self) -> Option<Key> {
        let upwards = self.waiting.range((self.cursor, 0)..).next();
        upwards.or_else(|| self.waiting.first_key_value()).map(|(key, _)| *key)
    }
}

/// An order that the disk has.
#[derive(Clone, Copy, Debug)]
struct Given {
    range: Range,
    since: Nanos,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskQueue {
    sweep: Sweep,
    /// Those that came after the gate was closed.
    behind: Vec<Queued>,
    is_closed: bool,
    /// Orders since the sweep has jumped.
    since_jump: u32,
    in_flight: BTreeMap<OrderId, Given>,
    in_flight_bytes: u64,
    /// When the last of them was done.
    last_done: Nanos,
}

impl DiskQueue {
    /// Adds an order.
    pub(super) fn push(&mut self, queued: Queued) {
        if self.is_closed {
            self.behind.push(queued);
        } else {
            self.sweep.insert(queued);
        }
    }

    /// Opens the gate for those behind it; `is_closed`: and closes it again.
    pub(super) fn open(&mut self, is_closed: bool) {
        for queued in std::mem::take(&mut self.behind) {
            self.sweep.insert(queued);
        }
        self.is_closed = is_closed;
    }

    /// Whoever comes from now on waits behind the gate.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The next order, which the disk has then.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<Queued> {
        let next = self.sweep.next()?;
        self.since_jump = self.since_jump.saturating_add(1);
        let jump = self.aged(now).filter(|_| self.since_jump > JUMP_ORDERS_MIN);
        if jump.is_some() {
            self.since_jump = 0;
        }
        let key = jump.unwrap_or(next);
        let queued = self.take(key);
        self.in_flight.insert(key.1, Given { range: queued.range(), since: now });
        Some(queued)
    }

    /// The oldest of all, if it has waited for so long that the sweep jumps to it.
    fn aged(&self, now: Nanos) -> Option<Key> {
        self.sweep.oldest().filter(|key| now.since(self.sweep.waiting[key].since) >= AGE_MAX)
    }

    /// The next of the orders that waits, if it can be one with this: a write that begins where this ends, if
    /// both together are no longer than so many bytes.
    pub(super) fn pop_following(&mut self, first: &Queued, bytes_max: u64) -> Option<Queued> {
        let order = &first.order;
        let end = order.offset + order.length;
        let (key, next) = self.sweep.waiting.range((end, 0)..).next()?;
        let are_writes = matches!((&order.action, &next.order.action), (Action::Write(_), Action::Write(_)));
        let continues = next.order.offset == end && next.order.session == order.session;
        let is_single = next.kind == Kind::Single;
        if !are_writes || !continues || is_single || order.length + next.order.length > bytes_max {
            return None;
        }
        let key = *key;
        let queued = self.take(key);
        self.in_flight.get_mut(&order.id).expect("the disk has it").range.length += queued.order.length;
        Some(queued)
    }

    /// One that waits is the disk's.
    fn take(&mut self, key: Key) -> Queued {
        let queued = self.sweep.remove(key);
        self.sweep.cursor = queued.range().end();
        self.in_flight_bytes += queued.order.length;
        queued
    }

    /// The disk is done with an order: where that was, and what it took since the disk had it or was done
    /// with the one before.
    pub(super) fn complete(&mut self, order: OrderId, now: Nanos) -> (Range, Nanos) {
        let Given { range, since } = self.in_flight.remove(&order).expect("the disk has it");
        self.in_flight_bytes -= range.length;
        let took = now.since(self.last_done.max(since));
        self.last_done = now;
        (range, took)
    }

    /// How many orders the disk has.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many bytes they are of.
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Orders in front of the gate.
    pub(super) fn admitted(&self) -> usize {
        self.sweep.waiting.len()
    }

    /// All that wait.
    pub(super) fn len(&self) -> usize {
        self.admitted() + self.behind.len()
    }

    /// When the one that waits longest came.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        let admitted = self.sweep.oldest().map(|key| self.sweep.waiting[&key].since);
        admitted.or_else(|| self.behind.first().map(|queued| queued.since))
    }
}
