//! Reads: each piece from where its newest bytes are. A read pins what it reads on flash, and checks every block.
//!
//! A read is made of segments. What is planned for one is final, but for what staging or a fetch was to
//! bring: if that fails or a write has come between, the segment is planned anew, without them. A read that
//! waits for the disk reads what is there when its turn comes: something that was newest at some time since
//! it began. So a write whose answer came before that is waited for, if the disk does not have it yet, and
//! then the read is planned; writes that are answered later it need not see.

use super::Engine;
use super::orders::Purpose;
use super::payload::Payload;
use super::reads::{Devices, Source};
use super::waiter::{Begun, Joined, Waiter};
use crate::devices::Device;
use crate::log_map::{Content, Piece};
use crate::order::{Action, Error, OrderId, Part, Tag};
use crate::record::blocks_of;
use crate::staging::Taken;
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

impl<P: Policy> Engine<P> {
    pub(super) fn add_read(&mut self, tag: Tag, range: Range) {
        self.reads.add(tag);
        let begun = self.touch_segments(range);
        let (mut at, mut asked) = (range.offset, false);
        for piece in self.map.pieces(range).into_iter().filter(|piece| piece.dirty) {
            self.plan_gap(tag, Range::between(at, piece.range.offset), range, &mut asked, begun);
            at = piece.range.end();
            let segment = self.reads.of(tag).add_segment();
            self.plan_piece(tag, segment, piece);
        }
        self.plan_gap(tag, Range::between(at, range.end()), range, &mut asked, begun);
        match self.reads.of(tag).devices() {
            Devices::None => self.counters.placeless_reads_total += 1,
            Devices::Disk => self.counters.disk_reads_total += 1,
            Devices::Flash => self.counters.flash_reads_total += 1,
            Devices::Both => self.counters.mixed_reads_total += 1,
        }
        self.end_read(tag);
    }

    /// A piece that the log holds.
    fn plan_piece(&mut self, tag: Tag, segment: usize, piece: Piece) {
        match piece.content {
            Content::Payload { place } => {
                let mut payloads = Vec::new();
                let order = self.read_payload(piece, place, Purpose::Read(tag), &mut payloads);
                let read = self.reads.of(tag);
                payloads.into_iter().for_each(|(order, payload)| read.expect(order, payload));
                read.note(Device::Flash);
                let (offset, length) = (place % BLOCK_BYTES, piece.range.length);
                read.push_missing(segment, Part::Buffer { order, offset, length });
            }
            Content::Zeros => self.reads.of(tag).push(segment, Part::Zeros(piece.range.length)),
            Content::Damaged => self.reads.of(tag).fail(),
        }
    }

    /// What the disk holds as well: from staging, the buffer, a head, with a fetch, or from the disk itself.
    fn plan_gap(&mut self, tag: Tag, gap: Range, whole: Range, asked: &mut bool, begun: Begun) {
        if gap.is_empty() {
            return;
        }
        if !std::mem::replace(asked, true) {
            let load = self.load();
            if let Some(wanted) = self.policy.on_read(whole, &load) {
                self.add_fetch(wanted);
            }
        }
        let mut at = gap.offset;
        for taken in self.copies.staging.take(gap) {
            self.plan_unstaged(tag, Range::between(at, taken.range.offset), begun);
            at = taken.range.end();
            self.plan_staged(tag, taken);
        }
        self.plan_unstaged(tag, Range::between(at, gap.end()), begun);
    }

    fn plan_staged(&mut self, tag: Tag, taken: Taken) {
        let Taken { range, place, slot } = taken;
        let block = (place / BLOCK_BYTES) as u32;
        let crcs = self.copies.staging.crcs(place, range.length).to_vec();
        let at = self.in_force.layout().staging_offset(block);
        self.counters.staged_read_bytes_total += range.length;
        self.plan_copy(tag, range, at, Source::Staging(slot), crcs);
    }

    /// Reads a part from the blocks of a clean copy that hold it, from this byte of flash on.
    pub(super) fn plan_copy(&mut self, tag: Tag, range: Range, at: u64, source: Source, crcs: Vec<u32>) {
        let blocks = Range::new(at, crcs.len() as u64 * BLOCK_BYTES);
        let order = self.order(Device::Flash, Action::Read, blocks, Purpose::CopyRead(tag));
        self.reads.of(tag).push_copy(order, range, range.offset % BLOCK_BYTES, source, crcs);
    }

    fn plan_unstaged(&mut self, tag: Tag, range: Range, begun: Begun) {
        if range.is_empty() {
            return;
        }
        if self.in_force.segments().is_none() {
            self.plan_disk(tag, range);
        } else {
            self.plan_segments(tag, range, begun);
        }
    }

    /// Of a part that is in no segment's buffer or head: with a fetch, or from the disk.
    pub(super) fn plan_disk(&mut self, tag: Tag, range: Range) {
        self.reads.of(tag).note(Device::Disk);
        let segment = self.reads.of(tag).add_segment();
        let waiter = Waiter { tag, segment, range, since: self.condition.now() };
        match self.copies.fetches.join(waiter) {
            Joined::Waits => self.reads.of(tag).wait(),
            Joined::Has(order, part) => {
                self.orders.share(order);
                self.reads.of(tag).push(segment, part);
            }
            Joined::No => self.read_disk(tag, segment, range),
        }
    }

    /// A part waits for a fetch or a load.
    pub(super) fn wait(&mut self, tag: Tag, range: Range) -> Waiter {
        let segment = self.reads.of(tag).add_segment();
        self.reads.of(tag).wait();
        Waiter { tag, segment, range, since: self.condition.now() }
    }

    /// The end of a wait for a fetch or a load: with these bytes, or none.
    pub(super) fn on_fetched(&mut self, waiter: Waiter, part: Option<Part>) {
        let Waiter { tag, segment, range, .. } = waiter;
        match part {
            Some(part) => self.reads.of(tag).push(segment, part),
            None => self.plan_again(tag, segment, range),
        }
        self.reads.of(tag).end_wait();
        self.end_read(tag);
    }

    /// Plans a segment from what log and disk hold now.
    fn plan_again(&mut self, tag: Tag, segment: usize, range: Range) {
        let mut at = range.offset;
        for piece in self.map.pieces(range).into_iter().filter(|piece| piece.dirty) {
            self.read_disk(tag, segment, Range::between(at, piece.range.offset));
            at = piece.range.end();
            self.plan_piece(tag, segment, piece);
        }
        self.read_disk(tag, segment, Range::between(at, range.end()));
    }

    fn read_disk(&mut self, tag: Tag, segment: usize, range: Range) {
        if range.is_empty() {
            return;
        }
        for part in self.in_force.cuts(range) {
            let order = self.queue_disk(Action::Read, part, Purpose::DiskRead(tag));
            self.reads.of(tag).push_missing(segment, Part::Buffer { order, offset: 0, length: part.length });
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
        let blocks = Range::new(self.in_force.layout().ring_offset(block), blocks_of(piece.range) * BLOCK_BYTES);
        let payload = Payload { crcs: self.map.crcs(piece.range, place).to_vec(), seq: self.map.ring.pin(block) };
        let order = self.order(Device::Flash, Action::Read, blocks, purpose);
        payloads.push((order, payload));
        order
    }

    pub(super) fn on_read(&mut self, tag: Tag, order: OrderId, result: Result<&[u8], ()>) {
        let (seq, is_damaged) = self.reads.of(tag).end_order(order, result);
        self.counters.damaged_reads_total += u64::from(is_damaged);
        seq.into_iter().for_each(|seq| self.map.ring.unpin(seq));
        self.end_read(tag);
    }

    pub(super) fn on_copy_read(&mut self, tag: Tag, order: OrderId, result: Result<&[u8], ()>) {
        let copied = self.reads.of(tag).end_copy(order);
        match copied.source {
            Source::Staging(slot) => self.copies.staging.unpin(slot),
            Source::Head(slot) => self.copies.slots.unpin(slot),
        }
        if !copied.is_good(result) {
            // The disk has it too, or what is newer.
            self.reads.of(tag).clear(copied.segment);
            if let Source::Head(slot) = copied.source {
                self.drop_bad_head(copied.range, slot);
            }
            self.orders.release(order);
            self.plan_again(tag, copied.segment, copied.range);
        }
        self.reads.of(tag).end_wait();
        self.end_read(tag);
    }

    fn end_read(&mut self, tag: Tag) {
        let Some(read) = self.reads.take_complete(tag) else { return };
        let (failed, parts) = read.into_parts();
        let buffers = parts.iter().filter_map(|part| match part {
            Part::Buffer { order, .. } => Some(*order),
            _ => None,
        });
        let buffers: Vec<OrderId> = buffers.collect();
        self.orders.reply(tag, if failed { Err(Error::Io) } else { Ok(parts) });
        buffers.into_iter().for_each(|order| self.orders.release(order));
    }
}
