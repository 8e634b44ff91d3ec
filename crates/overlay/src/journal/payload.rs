//! Records as bytes: docs/reference/format.md has the table.

use super::encoding::{Reader, Writer};
use super::{Extent, Identity, Record};
use crate::flash_space::PAGES_MAX;
use headstart_cluster::{MemberId, Order, Stamp};
use headstart_policy::client::carl::Wanted;
use headstart_units::PAGE_BYTES;
use headstart_units::request::Range;

const CHECKSUM_BYTES: usize = 4;
/// Longest payload.
const PAYLOAD_BYTES_MAX: u64 = 65535;

impl Record {
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Record::File { .. } => 1,
            Record::DataFile { .. } => 2,
            Record::Map { .. } => 3,
            Record::Fetched { .. } => 4,
            Record::Clean { .. } => 5,
            Record::Drop { .. } => 6,
            Record::Truncate { .. } => 7,
            Record::Intent { .. } => 8,
            Record::Closed { .. } => 9,
            Record::Remove { .. } => 10,
            Record::Barrier { .. } => 11,
            Record::LastCommit { .. } => 12,
            Record::Fingerprint { .. } => 13,
            Record::Extents { .. } => 14,
            Record::Unlinked { .. } => 15,
            Record::Untrusted { .. } => 16,
            Record::Wanted { .. } => 17,
            Record::Unwanted { .. } => 18,
            Record::Epoch { .. } => 19,
            Record::Ordered { .. } => 20,
            Record::Copying { .. } => 21,
            Record::Copied { .. } => 22,
            Record::Origin { .. } => 23,
            Record::Gone { .. } => 24,
        }
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            Record::File { file, identity, path } => {
                out.number(*file);
                out.number(identity.inode);
                out.number(identity.birth_ns);
                out.bytes(path);
            }
            Record::DataFile { file, data_file } => {
                out.number(*file);
                out.number(*data_file);
            }
            Record::Map { file, offset, length, data_file, place, slot, seq } => {
                write_placed(out, *file, *data_file, *offset, *length, *place);
                out.number(*slot);
                out.number(*seq);
            }
            Record::Fetched { file, offset, length, data_file, place }
            | Record::Clean { file, offset, length, data_file, place } => {
                write_placed(out, *file, *data_file, *offset, *length, *place);
            }
            Record::Drop { file, offset, length } | Record::Unwanted { file, offset, length } => {
                out.number(*file);
                out.position(*offset);
                out.position(*length);
            }
            Record::Truncate { file, size } => {
                out.number(*file);
                out.number(*size);
            }
            Record::Intent { file } | Record::Closed { file } | Record::Remove { file } | Record::Unlinked { file } => {
                out.number(*file)
            }
            Record::Barrier { end } => out.number(*end),
            Record::LastCommit { slot, seq } => {
                out.number(*slot);
                out.number(*seq);
            }
            Record::Fingerprint { file, size, modified_ns } => {
                out.number(*file);
                out.number(*size);
                out.number(*modified_ns);
            }
            Record::Untrusted { data_file, page, pages } => {
                out.number(*data_file);
                out.number(*page);
                out.number(*pages);
            }
            Record::Wanted { file, region: Wanted { range, benefit_ns, gain_ns } } => {
                out.number(*file);
                out.position(range.offset);
                out.position(range.length);
                out.number(*benefit_ns);
                out.number(*gain_ns);
            }
            Record::Extents { file, data_file, extents } => {
                out.number(*file);
                out.number(*data_file);
                write_extents(out, extents);
            }
            Record::Epoch { .. }
            | Record::Ordered { .. }
            | Record::Copying { .. }
            | Record::Copied { .. }
            | Record::Gone { .. }
            | Record::Origin { .. } => self.write_shared(out),
        }
    }

    /// What other members have a part in.
    fn write_shared(&self, out: &mut Writer<'_>) {
        match self {
            Record::Epoch { file, epoch } => {
                out.number(*file);
                write_stamp(out, *epoch);
            }
            Record::Ordered { seq } => out.number(*seq),
            Record::Copying { file, copy, order, range } => {
                out.number(*file);
                write_order(out, *copy);
                write_order(out, *order);
                out.position(range.offset);
                out.position(range.length);
            }
            Record::Copied { file, copy: order } | Record::Gone { file, order } => {
                out.number(*file);
                write_order(out, *order);
            }
            Record::Origin { member, before } => {
                out.number(member.node);
                out.number(member.life);
                out.number(*before);
            }
            _ => unreachable!("all others are this member's alone"),
        }
    }

    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(self.kind());
        let mut payload = Vec::new();
        self.write(&mut Writer(&mut payload));
        let length = payload.len() as u64;
        assert!(length <= PAYLOAD_BYTES_MAX, "a path is at most 4096 bytes long, and a record's extents are few");
        Writer(out).number(length);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[start..]), &payload);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&payload);
    }

    pub(crate) fn parse(kind: u8, payload: &[u8]) -> Option<Record> {
        let mut from = Reader(payload);
        let record = match kind {
            1 => {
                let file = from.word()?;
                let identity = Identity { inode: from.number()?, birth_ns: from.number()? };
                Record::File { file, identity, path: from.rest().to_vec() }
            }
            2 => Record::DataFile { file: from.word()?, data_file: from.word()? },
            3 => {
                let (file, data_file, Extent { offset, length, place, .. }) = read_placed(&mut from)?;
                Record::Map { file, offset, length, data_file, place, slot: from.word()?, seq: from.number()? }
            }
            4 => {
                let (file, data_file, Extent { offset, length, place, .. }) = read_placed(&mut from)?;
                Record::Fetched { file, offset, length, data_file, place }
            }
            5 => {
                let (file, data_file, Extent { offset, length, place, .. }) = read_placed(&mut from)?;
                Record::Clean { file, offset, length, data_file, place }
            }
            6 => Record::Drop { file: from.word()?, offset: from.position()?, length: from.position()? },
            7 => Record::Truncate { file: from.word()?, size: from.number()? },
            8 => Record::Intent { file: from.word()? },
            9 => Record::Closed { file: from.word()? },
            10 => Record::Remove { file: from.word()? },
            11 => Record::Barrier { end: from.number()? },
            12 => Record::LastCommit { slot: from.word()?, seq: from.number()? },
            15 => Record::Unlinked { file: from.word()? },
            13 => Record::Fingerprint { file: from.word()?, size: from.number()?, modified_ns: from.number()? },
            14 => Record::Extents { file: from.word()?, data_file: from.word()?, extents: read_extents(&mut from)? },
            16 => {
                let (data_file, page, pages) = (from.word()?, from.number()?, from.number()?);
                page.checked_add(pages).filter(|end| *end <= PAGES_MAX)?;
                Record::Untrusted { data_file, page, pages }
            }
            17 => {
                let (file, offset, length) = (from.word()?, from.position()?, from.position()?);
                offset.checked_add(length).filter(|_| length > 0)?;
                let (benefit_ns, gain_ns) = (from.number()?, from.number()?);
                Record::Wanted { file, region: Wanted { range: Range::new(offset, length), benefit_ns, gain_ns } }
            }
            18 => Record::Unwanted { file: from.word()?, offset: from.position()?, length: from.position()? },
            19 => Record::Epoch { file: from.word()?, epoch: read_stamp(&mut from)? },
            20 => Record::Ordered { seq: from.number()? },
            21 => {
                let (file, copy, order) = (from.word()?, read_order(&mut from)?, read_order(&mut from)?);
                let (offset, length) = (from.position()?, from.position()?);
                offset.checked_add(length).filter(|_| length > 0)?;
                Record::Copying { file, copy, order, range: Range::new(offset, length) }
            }
            22 => Record::Copied { file: from.word()?, copy: read_order(&mut from)? },
            24 => Record::Gone { file: from.word()?, order: read_order(&mut from)? },
            23 => {
                let (node, life) = (u16::try_from(from.word()?).ok()?, u16::try_from(from.word()?).ok()?);
                Record::Origin { member: MemberId { node, life }, before: from.number()? }
            }
            _ => return None,
        };
        from.rest().is_empty().then_some(record)
    }

    /// Reads the record at the start of `bytes` and its length; none if it is cut or damaged.
    pub fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
        let (kind, payload, length) = frame(bytes)?;
        Some((Record::parse(kind, payload)?, length))
    }
}

/// Kind and payload of the record at the start of `bytes`, and the record's length; none if it is cut or damaged.
pub(super) fn frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (&kind, rest) = bytes.split_first()?;
    let mut from = Reader(rest);
    let length = from.number().filter(|length| *length <= PAYLOAD_BYTES_MAX)?;
    let header = bytes.len() - from.0.len();
    let (crc, rest) = from.0.split_first_chunk::<CHECKSUM_BYTES>()?;
    let payload = rest.get(..length as usize)?;
    let is_whole = crc32c::crc32c_append(crc32c::crc32c(&bytes[..header]), payload).to_le_bytes() == *crc;
    is_whole.then_some((kind, payload, header + CHECKSUM_BYTES + payload.len()))
}

/// A place is said by its page: within the page it lies as the offset does in its own.
fn page_of(offset: u64, place: u64) -> u64 {
    assert!(offset % PAGE_BYTES == place % PAGE_BYTES, "place and offset are equal modulo the page");
    place / PAGE_BYTES
}

/// The extent, if its bytes lie within a file and within the 2^32 pages of a data file.
fn extent(offset: u64, length: u64, page: u64, dirty: bool) -> Option<Extent> {
    let end = offset.checked_add(length)?;
    let pages = end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
    let fits = length > 0 && page.checked_add(pages)? <= PAGES_MAX;
    fits.then(|| Extent { offset, length, place: page * PAGE_BYTES + offset % PAGE_BYTES, dirty })
}

fn write_placed(out: &mut Writer<'_>, file: u32, data_file: u32, offset: u64, length: u64, place: u64) {
    out.number(file);
    out.number(data_file);
    out.position(offset);
    out.position(length);
    out.number(page_of(offset, place));
}

fn read_placed(from: &mut Reader<'_>) -> Option<(u32, u32, Extent)> {
    let (file, data_file) = (from.word()?, from.word()?);
    Some((file, data_file, extent(from.position()?, from.position()?, from.number()?, false)?))
}

fn write_stamp(out: &mut Writer<'_>, Stamp { view, count }: Stamp) {
    out.number(view);
    out.number(count);
}

fn read_stamp(from: &mut Reader<'_>) -> Option<Stamp> {
    Some(Stamp { view: from.number()?, count: from.number()? })
}

fn write_order(out: &mut Writer<'_>, Order { epoch, seq }: Order) {
    write_stamp(out, epoch);
    out.number(seq);
}

fn read_order(from: &mut Reader<'_>) -> Option<Order> {
    Some(Order { epoch: read_stamp(from)?, seq: from.number()? })
}

fn write_extents(out: &mut Writer<'_>, extents: &[Extent]) {
    let (mut end, mut page_end) = (0, 0);
    for &Extent { offset, length, place, dirty } in extents {
        out.position(offset - end);
        out.position_and(length, dirty);
        let page = page_of(offset, place);
        out.step(page as i64 - page_end);
        end = offset + length;
        page_end = (place + length).div_ceil(PAGE_BYTES) as i64;
    }
}

fn read_extents(from: &mut Reader<'_>) -> Option<Vec<Extent>> {
    let (mut end, mut page_end) = (0u64, 0i64);
    let mut extents = Vec::new();
    while !from.0.is_empty() {
        let offset = end.checked_add(from.position()?)?;
        let (length, dirty) = from.position_and()?;
        let page = u64::try_from(page_end.checked_add(from.step()?)?).ok()?;
        let found = extent(offset, length, page, dirty)?;
        end = offset + length;
        page_end = (found.place + length).div_ceil(PAGE_BYTES) as i64;
        extents.push(found);
    }
    Some(extents)
}
