//! What is to happen at a server, in order: by time, then by kind, then in the order in which it was announced.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headstart_units::Nanos;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    Reply,
    Arrival,
    Hit,
    Delivery,
}

/// When, what, the how manieth of its kind, and the request's slot.
type Event = (Nanos, EventKind, u64, u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    /// Numbers of the next event of each kind; apart, so that a late caller does not change the order.
    sequence: [u64; 4],
}

impl Events {
    /// Announces an event.
    pub(super) fn push(&mut self, at: Nanos, kind: EventKind, slot: u32) {
        let sequence = &mut self.sequence[kind as usize];
        self.heap.push(Reverse((at, kind, *sequence, slot)));
        *sequence += 1;
    }

    /// The next one.
    pub(super) fn peek(&self) -> Option<(Nanos, EventKind, u32)> {
        self.heap.peek().map(|Reverse((at, kind, _, slot))| (*at, *kind, *slot))
    }

    /// Takes the next one.
    pub(super) fn pop(&mut self) {
        self.heap.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_before_arrivals_of_the_same_time_and_equals_as_they_were_announced() {
        let mut events = Events::default();
        for (at, kind, slot) in [(5, EventKind::Arrival, 1), (5, EventKind::Reply, 2), (5, EventKind::Arrival, 0)] {
            events.push(Nanos(at), kind, slot);
        }
        let slots = std::iter::from_fn(|| events.peek().inspect(|_| events.pop()).map(|(.., slot)| slot));
        assert_eq!(slots.collect::<Vec<_>>(), [2, 1, 0]);
    }
}
