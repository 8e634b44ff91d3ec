//! Requests at a server, by slot, until their replies have left.

use std::ops::{Index, IndexMut};

use headstart_units::Nanos;

use crate::request::Request;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Free,
    Travelling,
    Queued,
    Started,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) issued: Nanos,
    pub(super) arrived: Nanos,
    pub(super) parts_left: u32,
    pub(super) stage: Stage,
    pub(super) cancelled: bool,
    pub(super) holds_operation: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Pending>,
    free: Vec<u32>,
}

impl Requests {
    /// A request leaves its client; the slot that it has from now on.
    pub(super) fn insert(&mut self, now: Nanos, request: Request) -> u32 {
        let pending = Pending {
            request,
            issued: now,
            arrived: now,
            parts_left: 0,
            stage: Stage::Travelling,
            cancelled: false,
            holds_operation: false,
        };
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = pending;
                slot
            }
            None => {
                self.slots.push(pending);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// It is over.
    pub(super) fn release(&mut self, slot: u32) {
        self.slots[slot as usize].stage = Stage::Free;
        self.free.push(slot);
    }

    /// Withdraws a request that nothing has taken up yet; false if there is none of that id, or it is too late.
    pub(super) fn cancel(&mut self, id: u64) -> bool {
        let live =
            |pending: &&mut Pending| pending.stage != Stage::Free && pending.request.id == id && !pending.cancelled;
        match self.slots.iter_mut().find(live) {
            Some(pending) if pending.stage != Stage::Started => {
                pending.cancelled = true;
                true
            }
            _ => false,
        }
    }
}

impl Index<u32> for Requests {
    type Output = Pending;

    fn index(&self, slot: u32) -> &Pending {
        &self.slots[slot as usize]
    }
}

impl IndexMut<u32> for Requests {
    fn index_mut(&mut self, slot: u32) -> &mut Pending {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Operation, Origin};

    #[test]
    fn a_request_is_withdrawn_once_and_only_before_it_has_started() {
        let request = |id| Request { id, operation: Operation::Read, address: 0, length: 1, origin: Origin::default() };
        let mut requests = Requests::default();
        let (first, second) = (requests.insert(Nanos(1), request(7)), requests.insert(Nanos(1), request(8)));
        requests[second].stage = Stage::Started;
        assert!(requests.cancel(7) && !requests.cancel(7) && !requests.cancel(8) && !requests.cancel(9));
        requests.release(first);
        assert_eq!(requests.insert(Nanos(2), request(7)), first, "a slot is used again");
        assert!(requests.cancel(7), "and what was withdrawn there before is forgotten");
    }
}
