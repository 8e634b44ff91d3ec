//! The buffers of a serving volume: requests' data, what orders have read, and how parts of them become what
//! is written or answered.
//!
//! A write's data stay where the caller put them until its reply, and go to the devices from there. A read
//! whose reply is one whole buffer that nobody else needs hands that over. Bytes are copied where a device
//! would not take them from where they lie (a sector within a block), where the guard's keystream goes over
//! them, and where a reply has several parts.

use std::collections::HashMap;
use std::sync::Arc;

use headstart_block::order::{Order, OrderId, Part, Tag};

use crate::block::Buffer;
use crate::storage::buffers::{Pool, Slice, empty, zeroed};
use crate::storage::positioned::SLICES_MAX;

/// Zeros are taken from one buffer, so long.
const ZEROS_BYTES: u64 = 1 << 20;

/// A buffer that belongs to the loop alone until an operation holds it too.
#[derive(Debug)]
enum Held {
    Own(Buffer),
    Shared(Arc<Buffer>),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Own(buffer) => buffer,
            Held::Shared(buffer) => buffer,
        }
    }

    fn share(&mut self) -> Arc<Buffer> {
        if let Held::Own(buffer) = self {
            *self = Held::Shared(Arc::new(std::mem::replace(buffer, empty())));
        }
        match self {
            Held::Shared(buffer) => Arc::clone(buffer),
            Held::Own(_) => unreachable!("it has just been shared"),
        }
    }
}

/// Where requests' data are found.
pub(super) trait Data {
    /// Those of a write.
    fn data(&self, tag: Tag) -> &Arc<Buffer>;
}

/// The buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    pool: Arc<Pool>,
    zeros: Arc<Buffer>,
    /// What orders have read, until it is released.
    read: HashMap<OrderId, Held>,
}

impl Buffers {
    /// None yet.
    pub(super) fn new(pool: Arc<Pool>) -> Buffers {
        Buffers { pool, zeros: Arc::new(zeroed(ZEROS_BYTES as usize)), read: HashMap::new() }
    }

    /// A buffer for a read.
    pub(super) fn for_read(&self, length: u64) -> Buffer {
        self.pool.take(length as usize)
    }

    /// An order has read this.
    pub(super) fn insert(&mut self, order: OrderId, buffer: Buffer) {
        self.read.insert(order, Held::Own(buffer));
    }

    /// What an order has read.
    pub(super) fn read(&self, order: OrderId) -> &[u8] {
        self.read[&order].bytes()
    }

    /// What an order has read is not needed any more.
    pub(super) fn release(&mut self, order: OrderId) {
        if let Some(Held::Own(buffer)) = self.read.remove(&order) {
            self.pool.put(buffer);
        }
    }

    /// What an order writes, as a device takes it.
    pub(super) fn gather(&mut self, order: &Order, parts: &[Part], requests: &impl Data) -> Vec<Slice> {
        let mut slices = Vec::with_capacity(parts.len());
        for part in parts {
            self.slice(part, requests, &mut slices);
        }
        // A single part's alignment is that of the order; parts of one transfer each have to be of whole
        // sectors of the device.
        let whole = slices.len() == 1 || (slices.len() <= SLICES_MAX && slices.iter().all(Slice::is_aligned));
        if whole && order.session.is_none() {
            return slices;
        }
        let mut bytes = self.pool.take(order.length as usize);
        let mut at = 0;
        for slice in &slices {
            bytes[at..at + slice.bytes().len()].copy_from_slice(slice.bytes());
            at += slice.bytes().len();
        }
        assert_eq!(at as u64, order.length, "parts make what is to be written");
        order.transform(&mut bytes);
        vec![Slice::new(Arc::new(bytes), 0, order.length)]
    }

    fn slice(&mut self, part: &Part, requests: &impl Data, slices: &mut Vec<Slice>) {
        match part {
            Part::Bytes(own) => {
                let mut bytes = self.pool.take(own.len());
                bytes.copy_from_slice(own);
                slices.push(Slice::new(Arc::new(bytes), 0, own.len() as u64));
            }
            Part::Request { tag, offset, length } => {
                slices.push(Slice::new(Arc::clone(requests.data(*tag)), *offset, *length));
            }
            Part::Buffer { order, offset, length } => {
                let held = self.read.get_mut(order).expect("a part is of what has been read");
                slices.push(Slice::new(held.share(), *offset, *length));
            }
            Part::Zeros(length) => {
                let mut left = *length;
                while left > 0 {
                    let bytes = left.min(ZEROS_BYTES);
                    slices.push(Slice::new(Arc::clone(&self.zeros), 0, bytes));
                    left -= bytes;
                }
            }
        }
    }

    /// The bytes of a reply. The buffer of `released` may be given away: nobody needs it afterwards.
    pub(super) fn reply(&mut self, parts: &[Part], requests: &impl Data, released: Option<OrderId>) -> Buffer {
        match parts {
            [] => return empty(),
            [Part::Buffer { order, offset: 0, length }] if released == Some(*order) => {
                if let Some(Held::Own(buffer)) = self.read.get_mut(order)
                    && buffer.len() as u64 == *length
                {
                    return std::mem::replace(buffer, empty());
                }
            }
            _ => {}
        }
        let length = |part: &Part| match part {
            Part::Bytes(own) => own.len() as u64,
            Part::Request { length, .. } | Part::Buffer { length, .. } | Part::Zeros(length) => *length,
        };
        let mut bytes = self.pool.take(parts.iter().map(length).sum::<u64>() as usize);
        let mut at = 0;
        for part in parts {
            let target = &mut bytes[at..at + length(part) as usize];
            match part {
                Part::Bytes(own) => target.copy_from_slice(own),
                Part::Request { tag, offset, .. } => {
                    target.copy_from_slice(&requests.data(*tag)[*offset as usize..*offset as usize + target.len()]);
                }
                Part::Buffer { order, offset, .. } => {
                    let held = self.read[order].bytes();
                    target.copy_from_slice(&held[*offset as usize..*offset as usize + target.len()]);
                }
                Part::Zeros(_) => target.fill(0),
            }
            at += length(part) as usize;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoData;

    impl Data for NoData {
        fn data(&self, _: Tag) -> &Arc<Buffer> {
            unreachable!("no part is of a request")
        }
    }

    #[test]
    fn a_buffer_is_handed_over_to_the_last_who_needs_it_and_copied_for_the_others() {
        let mut buffers = Buffers::new(Arc::new(Pool::default()));
        let mut buffer = buffers.for_read(8192);
        buffer.fill(7);
        let place = buffer.as_ptr();
        buffers.insert(3, buffer);
        let whole = [Part::Buffer { order: 3, offset: 0, length: 8192 }];
        let half = [Part::Buffer { order: 3, offset: 4096, length: 4096 }, Part::Zeros(512)];
        let first = buffers.reply(&whole, &NoData, None);
        let second = buffers.reply(&half, &NoData, Some(9));
        assert!(first.as_ptr() != place && first.iter().all(|byte| *byte == 7));
        assert!(second.len() == 4608 && second[..4096].iter().all(|byte| *byte == 7) && second[4096..] == [0; 512]);
        assert_eq!(buffers.reply(&whole, &NoData, Some(3)).as_ptr(), place);
        buffers.release(3);
    }
}
