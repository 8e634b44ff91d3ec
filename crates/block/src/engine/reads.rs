//! Reads that are not finished: segments, each of parts, and what is missing of them.

use std::collections::BTreeMap;

use super::payload::{Payload, matches};
use crate::devices::Device;
use crate::order::{OrderId, Part, Tag};
use headstart_units::request::Range;

/// A clean copy of the disk on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In a slot of staging.
    Staging(u32),
    /// In a slot for heads.
    Head(u32),
}

/// A part of a read that comes from a clean copy.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    order: OrderId,
    pub segment: usize,
    pub range: Range,
    pub source: Source,
    crcs: Vec<u32>,
}

impl Copied {
    /// Whether it has come as it should be.
    pub(super) fn is_good(&self, result: Result<&[u8], ()>) -> bool {
        result.is_ok_and(|data| matches(data, &self.crcs))
    }
}

/// Which devices a read was planned to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Devices {
    /// None: it is of zeros or memory.
    #[default]
    None,
    /// Flash alone.
    Flash,
    /// The disk alone.
    Disk,
    /// Both.
    Both,
}

impl Devices {
    fn with(self, device: Device) -> Devices {
        match (self, device) {
            (Devices::None | Devices::Flash, Device::Flash) => Devices::Flash,
            (Devices::None | Devices::Disk, Device::Disk) => Devices::Disk,
            _ => Devices::Both,
        }
    }
}

/// A read that is not finished.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    segments: Vec<Vec<Part>>,
    /// Orders that are missing; those of payload with what they have to bring.
    missing: usize,
    payloads: Vec<(OrderId, Payload)>,
    copies: Vec<Copied>,
    devices: Devices,
    failed: bool,
}

impl Read {
    /// One more segment, of no parts yet.
    pub(super) fn add_segment(&mut self) -> usize {
        self.segments.push(Vec::new());
        self.segments.len() - 1
    }

    /// A part of a segment, the bytes of which are there.
    pub(super) fn push(&mut self, segment: usize, part: Part) {
        self.segments[segment].push(part);
    }

    /// A part of a segment that an order has to bring.
    pub(super) fn push_missing(&mut self, segment: usize, part: Part) {
        self.segments[segment].push(part);
        self.missing += 1;
    }

    /// Likewise, from a clean copy.
    pub(super) fn push_copy(&mut self, order: OrderId, range: Range, offset: u64, source: Source, crcs: Vec<u32>) {
        let segment = self.add_segment();
        self.push_missing(segment, Part::Buffer { order, offset, length: range.length });
        self.copies.push(Copied { order, segment, range, source, crcs });
        self.note(Device::Flash);
    }

    /// What an order of payload has to bring.
    pub(super) fn expect(&mut self, order: OrderId, payload: Payload) {
        self.payloads.push((order, payload));
    }

    /// It waits for something of others: a fetch, a load.
    pub(super) fn wait(&mut self) {
        self.missing += 1;
    }

    /// Something that was missing is there.
    pub(super) fn end_wait(&mut self) {
        self.missing -= 1;
    }

    /// It was planned to read a device.
    pub(super) fn note(&mut self, device: Device) {
        self.devices = self.devices.with(device);
    }

    /// Which devices it was planned to read.
    pub(super) fn devices(&self) -> Devices {
        self.devices
    }

    /// It fails, once nothing is missing.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// An order has ended that was neither a copy's nor somebody else's: what it had to bring, and whether
    /// that is damaged.
    pub(super) fn end_order(&mut self, order: OrderId, result: Result<&[u8], ()>) -> (Option<u64>, bool) {
        self.missing -= 1;
        let payload = self.payloads.iter().find(|(id, _)| *id == order).map(|(_, payload)| payload);
        let damaged = matches!((result, payload), (Ok(data), Some(payload)) if !payload.matches(data));
        self.failed |= damaged || result.is_err();
        (payload.map(|payload| payload.seq), damaged)
    }

    /// The order of a copy has ended.
    pub(super) fn end_copy(&mut self, order: OrderId) -> Copied {
        let index = self.copies.iter().position(|copied| copied.order == order).expect("it reads this");
        self.copies.swap_remove(index)
    }

    /// A segment is planned anew.
    pub(super) fn clear(&mut self, segment: usize) {
        self.segments[segment].clear();
    }

    /// Whether it failed, and its parts.
    pub(super) fn into_parts(self) -> (bool, Vec<Part>) {
        (self.failed, self.segments.into_iter().flatten().collect())
    }
}

/// All of them, by tag.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(BTreeMap<Tag, Read>);

impl Reads {
    /// One comes.
    pub(super) fn add(&mut self, tag: Tag) {
        self.0.insert(tag, Read::default());
    }

    /// One that is unfinished.
    pub(super) fn of(&mut self, tag: Tag) -> &mut Read {
        self.0.get_mut(&tag).expect("it is unfinished")
    }

    /// Takes one out if nothing of it is missing.
    pub(super) fn take_complete(&mut self, tag: Tag) -> Option<Read> {
        if self.0[&tag].missing > 0 { None } else { self.0.remove(&tag) }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_complete_when_every_order_has_brought_what_it_should_and_fails_if_one_did_not() {
        for is_right in [true, false] {
            let mut reads = Reads::default();
            reads.add(1);
            let read = reads.of(1);
            let segment = read.add_segment();
            read.push(segment, Part::Zeros(512));
            read.push_missing(segment, Part::Buffer { order: 5, offset: 0, length: 4096 });
            read.expect(5, Payload { crcs: vec![crc32c::crc32c(&[1; 4096])], seq: 8 });
            assert!(reads.take_complete(1).is_none());
            let data = if is_right { [1; 4096] } else { [2; 4096] };
            assert_eq!(reads.of(1).end_order(5, Ok(&data)), (Some(8), !is_right));
            let (failed, parts) = reads.take_complete(1).unwrap().into_parts();
            assert_eq!((failed, parts.len(), reads.is_empty()), (!is_right, 2, true));
        }
    }

    #[test]
    fn a_copy_that_is_bad_is_planned_anew_in_its_segment() {
        let mut read = Read::default();
        let range = Range::new(4096, 4096);
        read.push_copy(3, range, 0, Source::Head(2), vec![crc32c::crc32c(&[1; 4096])]);
        read.note(Device::Disk);
        assert_eq!(read.devices(), Devices::Both);
        let copied = read.end_copy(3);
        assert!((copied.range, copied.source, copied.segment) == (range, Source::Head(2), 0));
        assert!(copied.is_good(Ok(&[1; 4096])) && !copied.is_good(Ok(&[1; 512])) && !copied.is_good(Err(())));
        read.clear(0);
        assert_eq!(read.into_parts().1, []);
    }
}
