//! Orders that are under way, and what the caller is to do since he last asked.
//!
//! A buffer that an order has filled may be needed by several; the last who lets go of it releases it.
//! Whoever changes something that others may wait for *moves*: `pump` goes round until nothing does.

use std::collections::BTreeMap;

use crate::order::{Error, Order, OrderId, Output, Part, Tag};
use headstart_units::request::Range;

/// What an order is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Record(u64),
    /// Parts of writes, one behind the other on the disk.
    Bypass(Vec<(u64, Range)>),
    /// A part of a write of zeros, which the disk makes.
    Zeroing(u64, Range),
    Read(Tag),
    DiskRead(Tag),
    CopyRead(Tag),
    LoadFromDisk(u64),
    LoadFromFlash(u64),
    LiftRead(u64),
    LiftWrite(u64),
    Fetch(u64),
    Stage(u64),
    WriteBackRead(u64),
    WriteBackWrite(u64),
    DiskFlush,
    FlashFlush,
    CheckpointArea,
    Superblock,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    under_way: BTreeMap<OrderId, Purpose>,
    names: OrderId,
    outputs: Vec<Output>,
    moves: u64,
    /// Buffers that more than one needs, and how many do.
    shared: BTreeMap<OrderId, u32>,
}

impl Orders {
    /// A name for an order that will be given.
    pub(super) fn name(&mut self) -> OrderId {
        self.names += 1;
        self.names
    }

    /// Gives an order.
    pub(super) fn give(&mut self, order: Order, purpose: Purpose) {
        self.moves += 1;
        self.under_way.insert(order.id, purpose);
        self.outputs.push(Output::Order(order));
    }

    /// An order has been carried out, or has failed: what it was for, unless it was answered before.
    pub(super) fn end(&mut self, order: OrderId) -> Option<Purpose> {
        self.under_way.remove(&order)
    }

    /// Whether none is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Ends a request.
    pub(super) fn reply(&mut self, tag: Tag, result: Result<Vec<Part>, Error>) {
        self.moves += 1;
        self.outputs.push(Output::Reply { tag, result });
    }

    /// Something has changed that others may wait for, so many times.
    pub(super) fn note_moves(&mut self, count: u64) {
        self.moves += count;
    }

    /// How many times something has.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// A buffer has a first holder, and may have others.
    pub(super) fn hold(&mut self, order: OrderId) {
        self.shared.insert(order, 1);
    }

    /// One more needs a buffer that is held.
    pub(super) fn share(&mut self, order: OrderId) {
        *self.shared.get_mut(&order).expect("the buffer is held") += 1;
    }

    /// Somebody needs a buffer no more.
    pub(super) fn release(&mut self, order: OrderId) {
        if let Some(holders) = self.shared.get_mut(&order) {
            *holders -= 1;
            if *holders > 0 {
                return;
            }
            self.shared.remove(&order);
        }
        self.outputs.push(Output::Release(order));
    }

    /// What is to be done since the last call, in order.
    pub(super) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Device;
    use crate::order::Action;

    #[test]
    fn a_shared_buffer_is_released_once_by_the_last_who_needs_it() {
        let mut orders = Orders::default();
        let id = orders.name();
        orders.hold(id);
        orders.share(id);
        orders.release(id);
        assert_eq!(orders.take_outputs(), []);
        orders.release(id);
        assert_eq!(orders.take_outputs(), [Output::Release(id)]);
        orders.release(7);
        assert_eq!(orders.take_outputs(), [Output::Release(7)], "one that nobody shares has one holder");
    }

    #[test]
    fn an_order_ends_once_and_whatever_is_given_or_answered_moves() {
        let mut orders = Orders::default();
        let id = orders.name();
        let order = Order { id, device: Device::Disk, action: Action::Flush, offset: 0, length: 0, session: None };
        orders.give(order, Purpose::DiskFlush);
        orders.reply(3, Ok(Vec::new()));
        assert_eq!((orders.moves(), orders.is_empty()), (2, false));
        assert!(matches!(orders.end(id), Some(Purpose::DiskFlush)) && orders.end(id).is_none() && orders.is_empty());
    }
}
