//! Reads: each piece from where its newest bytes are. A read pins the records it reads, and checks every block.

use super::{Engine, Purpose};
use crate::request::Range;
use crate::volume::devices::Device;
use crate::volume::layout::BLOCK_BYTES;
use crate::volume::log_map::{Content, Piece};
use crate::volume::order::{Action, Error, OrderId, Part, Tag};
use crate::volume::policy::Policy;
use crate::volume::record::blocks_of;

/// A read of payload: what has to come back, and who holds it.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Checksums of its blocks.
    pub crcs: Vec<u32>,
    /// The record, pinned.
    pub seq: u64,
}

impl Payload {
    /// Whether these are the blocks.
    pub fn matches(&self, data: &[u8]) -> bool {
        let blocks = data.chunks(BLOCK_BYTES as usize);
        data.len() == self.crcs.len() * BLOCK_BYTES as usize
            && blocks.zip(&self.crcs).all(|(block, crc)| crc32c::crc32c(block) == *crc)
    }
}

/// A read that is not finished.
#[derive(Clone, Debug, Default)]
pub struct Read {
    parts: Vec<Part>,
    /// Orders that are missing; those of payload with what they have to bring.
    missing: usize,
    payloads: Vec<(OrderId, Payload)>,
    failed: bool,
}

impl<P: Policy> Engine<P> {
    pub(super) fn add_read(&mut self, tag: Tag, range: Range) {
        let mut read = Read::default();
        let mut at = range.offset;
        for piece in self.map.pieces(range).into_iter().filter(|piece| piece.dirty) {
            self.read_disk(tag, &mut read, Range::between(at, piece.range.offset));
            at = piece.range.end();
            match piece.content {
                Content::Payload { place } => {
                    let order = self.read_payload(piece, place, Purpose::Read(tag), &mut read.payloads);
                    let (offset, length) = (place % BLOCK_BYTES, piece.range.length);
                    read.parts.push(Part::Buffer { order, offset, length });
                    read.missing += 1;
                }
                Content::Zeros => read.parts.push(Part::Zeros(piece.range.length)),
                Content::Damaged => read.failed = true,
            }
        }
        self.read_disk(tag, &mut read, Range::between(at, range.end()));
        match (read.payloads.len(), read.missing - read.payloads.len()) {
            (0, 0) => self.counters.placeless_reads_total += 1,
            (0, _) => self.counters.disk_reads_total += 1,
            (_, 0) => self.counters.flash_reads_total += 1,
            (_, _) => self.counters.mixed_reads_total += 1,
        }
        self.reads.insert(tag, read);
        self.end_read(tag);
    }

    fn read_disk(&mut self, tag: Tag, read: &mut Read, range: Range) {
        if range.is_empty() {
            return;
        }
        for part in self.cuts(range) {
            let order = self.order(Device::Disk, Action::Read, part, Purpose::Read(tag));
            read.parts.push(Part::Buffer { order, offset: 0, length: part.length });
            read.missing += 1;
        }
    }

    /// Orders the whole blocks that hold a piece.
    pub(super) fn read_payload(
        &mut self,
        piece: Piece,
        place: u64,
        purpose: Purpose,
        payloads: &mut Vec<(OrderId, Payload)>,
    ) -> OrderId {
        let block = (place / BLOCK_BYTES) as u32;
        let blocks = Range::new(self.superblock.layout().ring_offset(block), blocks_of(piece.range) * BLOCK_BYTES);
        let payload = Payload { crcs: self.map.crcs(piece.range, place).to_vec(), seq: self.map.ring.pin(block) };
        let order = self.order(Device::Flash, Action::Read, blocks, purpose);
        payloads.push((order, payload));
        order
    }

    pub(super) fn on_read(&mut self, tag: Tag, order: OrderId, result: Result<&[u8], ()>) {
        let read = self.reads.get_mut(&tag).expect("it is unfinished");
        read.missing -= 1;
        let payload = read.payloads.iter().find(|(id, _)| *id == order).map(|(_, payload)| payload);
        read.failed |= match (result, payload) {
            (Ok(data), Some(payload)) => {
                let damaged = !payload.matches(data);
                self.counters.damaged_reads_total += u64::from(damaged);
                damaged
            }
            (Ok(_), None) => false,
            (Err(()), _) => true,
        };
        if let Some(payload) = payload {
            self.map.ring.unpin(payload.seq);
        }
        self.end_read(tag);
    }

    fn end_read(&mut self, tag: Tag) {
        if self.reads[&tag].missing > 0 {
            return;
        }
        let read = self.reads.remove(&tag).expect("it was there");
        let buffers = read.parts.iter().filter_map(|part| match part {
            Part::Buffer { order, .. } => Some(*order),
            _ => None,
        });
        let buffers: Vec<OrderId> = buffers.collect();
        self.reply(tag, if read.failed { Err(Error::Io) } else { Ok(read.parts) });
        self.outputs.extend(buffers.into_iter().map(super::Output::Release));
    }
}
