//! Requests that wait, in the order of their arrival, and what became of each thread's last one.

use std::collections::BTreeMap;

use crate::message::{Answer, Ask};
use crate::names::{MemberId, Order, RequestId};

/// A request that is not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) from: MemberId,
    pub(crate) id: RequestId,
    pub(crate) ask: Ask,
}

/// What became of a thread's last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Open,
    Ordered(Order),
    Refused,
    /// It was answered so, after the call of that number. What it is not told again is decided anew.
    Told(Answer, u64),
}

type Thread = (MemberId, u32);

/// All of them, of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    arrivals: BTreeMap<Thread, u64>,
    /// An older request of a thread is an echo.
    last: BTreeMap<Thread, (u64, Outcome)>,
}

impl Queue {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A thread's last request: its count, and what became of it.
    pub(crate) fn last(&self, from: MemberId, slot: u32) -> Option<(u64, Outcome)> {
        self.last.get(&(from, slot)).copied()
    }

    pub(crate) fn note(&mut self, from: MemberId, id: RequestId, outcome: Outcome) {
        self.last.insert((from, id.slot), (id.seq, outcome));
    }

    /// It waits behind all others, instead of what its thread waited for; or where it is, if it waits already.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        let thread = (waiting.from, waiting.id.slot);
        if let Some(before) = self.arrivals.get(&thread).copied() {
            if self.waiting.get(&before) == Some(&waiting) {
                return;
            }
            self.waiting.remove(&before);
        }
        let arrival = self.waiting.last_key_value().map_or(0, |(last, _)| last + 1);
        self.arrivals.insert(thread, arrival);
        self.waiting.insert(arrival, waiting);
    }

    /// All that waits, to be tried and put back.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.arrivals.clear();
        std::mem::take(&mut self.waiting).into_values()
    }

    /// A member is out.
    pub(crate) fn out(&mut self, member: MemberId) {
        self.waiting.retain(|_, waiting| waiting.from != member);
        self.arrivals.retain(|(from, _), _| *from != member);
        self.last.retain(|(from, _), _| *from != member);
    }
}
