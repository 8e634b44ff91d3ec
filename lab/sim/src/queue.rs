//! Events to come, by time and then by the order in which they were announced.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use headstart_units::Nanos;

/// What happens. Numbers are indices of whoever announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rank goes on with its program, or begins the request it was held up with.
    Rank(u32),
    /// A message has left its node and is at the server's card.
    Depart(u32),
    /// A server has something to do, by its number over both tiers.
    Server(u32),
    /// A reply has reached its node whole.
    Arrive(u32),
    /// A rank's message reaches the agent.
    Ask(u32),
    /// The agent's answer reaches a rank.
    Answer(u32),
    /// An agent looks around.
    Poll(u32),
    /// A copy of an agent's begins.
    Copy(u32),
    /// An agent looks at the register, or is answered.
    Look(u32),
    /// An agent says again what was not answered.
    Again(u32),
    /// A packet between agents goes on.
    Packet(u32),
    /// An agent reads the packets that wait.
    Turn(u32),
    /// A job begins.
    Job(u32),
    /// No rank begins anything from here on.
    Limit,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Nanos,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The heap gives the greatest first: that is the earliest.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    sequence: u64,
}

impl EventQueue {
    /// Announces an event.
    pub fn push(&mut self, at: Nanos, event: Event) {
        self.heap.push(Entry { at, sequence: self.sequence, event });
        self.sequence += 1;
    }

    /// Takes the next one.
    pub fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_those_of_one_time_as_announced() {
        let mut queue = EventQueue::default();
        for (at, rank) in [(5, 0), (3, 1), (5, 2), (0, 3), (3, 4)] {
            queue.push(Nanos(at), Event::Rank(rank));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(at, event)| (at.0, event)).collect();
        assert_eq!(order, [(0, 3), (3, 1), (3, 4), (5, 0), (5, 2)].map(|(at, rank)| (at, Event::Rank(rank))));
    }
}
