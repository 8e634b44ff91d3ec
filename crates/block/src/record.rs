//! A record of the log: one block of header, then the payload of its entries, in one write.
//!
//! Writes that wait at the same time share a record, and then a seq and a header. Nothing in a record
//! overlaps anything else in it but CLEAN, which spares what is as new as its own record. So a record counts
//! whole or not at all, and the order of its entries means nothing.

use super::fields::{Block, EMPTY, crc_of, put, u32_at, u64_at};
use super::superblock::Uuid;
use headstart_units::request::Range;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

const MAGIC: &[u8; 8] = b"HSVLOG01";
const CRC_AT: usize = 60;
const ENTRIES_AT: usize = 64;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 24;
/// Payload of one record at most: 2 MiB, a stripe of any flash and a fraction of a millisecond.
pub const PAYLOAD_BLOCKS_MAX: u64 = 512;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The range holds this payload.
    Data,
    /// The range holds zeros.
    Zero,
    /// The disk durably holds something at least as new as every record of the range up to this seq.
    Clean {
        /// That seq.
        upto: u64,
    },
    /// A slot is a clean copy of the disk; the record has the checksum of each block.
    Head {
        /// Which slot.
        slot: u64,
    },
    /// No slot is a copy of any part of the range.
    NoHead,
    /// Nothing; fills the ring up to its end. Stands alone in its record.
    Pad,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it says.
    pub kind: Kind,
    /// Of which bytes of the disk; of a pad, as many bytes as the ring has behind its header.
    pub range: Range,
}

/// Blocks of the disk that a range touches: as many as its payload has.
pub fn blocks_of(range: Range) -> u64 {
    if range.is_empty() { 0 } else { range.end().div_ceil(BLOCK_BYTES) - range.offset / BLOCK_BYTES }
}

impl Entry {
    fn payload_blocks(&self) -> u64 {
        match self.kind {
            Kind::Data => blocks_of(self.range),
            _ => 0,
        }
    }

    /// Checksums that the header has for it.
    pub fn crcs(&self) -> u64 {
        match self.kind {
            Kind::Data | Kind::Head { .. } => blocks_of(self.range),
            Kind::Zero | Kind::Clean { .. } | Kind::NoHead | Kind::Pad => 0,
        }
    }

    fn parse(bytes: &[u8]) -> Option<Entry> {
        let (offset, length, word) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
        let value = word >> 8;
        let kind = match (word as u8, value) {
            (1, 0) => Kind::Data,
            (2, 0) => Kind::Zero,
            (3, upto) => Kind::Clean { upto },
            (4, slot) => Kind::Head { slot },
            (5, 0) => Kind::NoHead,
            (6, 0) => Kind::Pad,
            _ => return None,
        };
        let end = offset.checked_add(length)?;
        let sectors = offset % SECTOR_BYTES == 0 && length % SECTOR_BYTES == 0 && end < 1 << 62;
        let some = length > 0 || kind == Kind::Pad;
        (sectors && some).then_some(Entry { kind, range: Range::new(offset, length) })
    }
}

/// Header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of which volume.
    pub uuid: Uuid,
    /// Of which start of it.
    pub epoch: u64,
    /// One more with each record.
    pub seq: u64,
    /// Every record up to this one was durable when it was written.
    pub durable_to: u64,
    /// Number of the superblock that was in force then.
    pub superblock: u64,
    /// What it says.
    pub entries: Vec<Entry>,
    /// CRC32C of each block of payload, or of a head. A record has payload or heads.
    pub crcs: Vec<u32>,
}

impl Header {
    /// Whether entries and checksums of these numbers have room.
    pub fn fits(entries: usize, crcs: u64) -> bool {
        ENTRIES_AT + entries * ENTRY_BYTES + 4 * crcs as usize <= BLOCK_BYTES as usize
    }

    /// Blocks of payload.
    pub fn payload_blocks(&self) -> u64 {
        self.entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.payload_blocks()))
    }

    /// Blocks of the ring it takes, header included.
    pub fn blocks(&self) -> u64 {
        match self.entries[..] {
            [Entry { kind: Kind::Pad, range }] => 1 + range.length / BLOCK_BYTES,
            _ => 1 + self.payload_blocks(),
        }
    }

    /// The bytes.
    pub fn encode(&self) -> Block {
        assert!(Header::fits(self.entries.len(), self.crcs.len() as u64), "a record's header is one block");
        let mut block = EMPTY;
        put(&mut block, 0, MAGIC);
        put(&mut block, 8, &self.uuid);
        put(&mut block, 24, &self.epoch.to_le_bytes());
        put(&mut block, 32, &self.seq.to_le_bytes());
        put(&mut block, 40, &self.durable_to.to_le_bytes());
        put(&mut block, 48, &self.superblock.to_le_bytes());
        put(&mut block, 56, &(self.entries.len() as u16).to_le_bytes());
        put(&mut block, 58, &(self.crcs.len() as u16).to_le_bytes());
        let mut at = ENTRIES_AT;
        for entry in &self.entries {
            let word = match entry.kind {
                Kind::Data => 1,
                Kind::Zero => 2,
                Kind::Clean { upto } => 3 | upto << 8,
                Kind::Head { slot } => 4 | slot << 8,
                Kind::NoHead => 5,
                Kind::Pad => 6,
            };
            put(&mut block, at, &entry.range.offset.to_le_bytes());
            put(&mut block, at + 8, &entry.range.length.to_le_bytes());
            put(&mut block, at + 16, &word.to_le_bytes());
            at += ENTRY_BYTES;
        }
        for crc in &self.crcs {
            put(&mut block, at, &crc.to_le_bytes());
            at += 4;
        }
        let crc = crc_of(&block, CRC_AT);
        put(&mut block, CRC_AT, &crc.to_le_bytes());
        block
    }

    /// The header in a block, if there is one, whatever its bytes.
    pub fn decode(block: &[u8]) -> Option<Header> {
        if block.len() != BLOCK_BYTES as usize || !block.starts_with(MAGIC) {
            return None;
        }
        let entries = usize::from(u16::from_le_bytes([block[56], block[57]]));
        let crcs = usize::from(u16::from_le_bytes([block[58], block[59]]));
        if !Header::fits(entries, crcs as u64) || u32_at(block, CRC_AT) != crc_of(block, CRC_AT) {
            return None;
        }
        let crcs_at = ENTRIES_AT + entries * ENTRY_BYTES;
        let entries: Option<Vec<Entry>> = block[ENTRIES_AT..crcs_at].chunks(ENTRY_BYTES).map(Entry::parse).collect();
        let header = Header {
            uuid: block[8..24].try_into().expect("sixteen bytes"),
            epoch: u64_at(block, 24),
            seq: u64_at(block, 32),
            durable_to: u64_at(block, 40),
            superblock: u64_at(block, 48),
            entries: entries?,
            crcs: block[crcs_at..crcs_at + 4 * crcs].chunks(4).map(|crc| u32_at(crc, 0)).collect(),
        };
        let payload = header.payload_blocks();
        let of_all = header.entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.crcs()));
        let pads = header.entries.iter().filter(|entry| entry.kind == Kind::Pad);
        let alone = pads.clone().count() == 0 || header.entries.len() == 1;
        let whole = pads.clone().all(|pad| pad.range.length % BLOCK_BYTES == 0);
        let one_kind = payload <= PAYLOAD_BLOCKS_MAX && (payload == 0 || payload == of_all);
        (of_all == crcs as u64 && one_kind && alone && whole).then_some(header)
    }
}
