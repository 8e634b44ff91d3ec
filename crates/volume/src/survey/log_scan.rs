//! The records of a log: those that follow each other from S on, and those that lie anywhere. What cannot be
//! read is none, or bad payload.

use headstart_block::devices::{Device, Devices};
use headstart_block::record::{Header, Kind};
use headstart_block::superblock::Superblock;
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;

use super::report::RecordReport;
use crate::pair::Pair;

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// The records from S on, while each header is what follows the one before.
pub(super) fn chain(pair: &mut Pair, superblock: &Superblock) -> Vec<RecordReport> {
    let layout = superblock.layout();
    let mut records = Vec::new();
    let (mut block, mut seq, mut passed) = (superblock.start_block, superblock.start_seq, 0);
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    while passed < layout.ring_blocks {
        pair.read_what_can_be(Device::Flash, layout.ring_offset(block), &mut bytes);
        let expected =
            |header: &Header| (header.uuid, header.epoch, header.seq) == (superblock.uuid, superblock.epoch, seq);
        let Some(header) = Header::decode(&bytes).filter(expected) else { break };
        let blocks = header.blocks();
        if u64::from(block) + blocks > layout.ring_blocks {
            break;
        }
        let mut payload = vec![0; (header.payload_blocks() * BLOCK_BYTES) as usize];
        pair.read_what_can_be(Device::Flash, layout.ring_offset(block + 1), &mut payload);
        let bad = payload
            .chunks(BLOCK_BYTES as usize)
            .zip(&header.crcs)
            .filter(|(bytes, crc)| crc32c::crc32c(bytes) != **crc);
        records.push(RecordReport::of(block, &header, bad.count() as u64));
        passed += blocks;
        block = ((u64::from(block) + blocks) % layout.ring_blocks) as u32;
        seq += 1;
    }
    records
}

/// What records of this volume say of the disk, wherever in the log they lie.
pub(super) fn named(pair: &mut Pair, superblock: &Superblock, wanted: impl Fn(&Header) -> bool) -> Ranges<()> {
    let layout = superblock.layout();
    let ring_bytes = layout.ring_blocks * BLOCK_BYTES;
    let mut found = Ranges::default();
    let mut at = 0;
    while at < ring_bytes {
        let mut chunk = vec![0; CHUNK_BYTES.min(ring_bytes - at) as usize];
        pair.read_what_can_be(Device::Flash, layout.ring_offset(0) + at, &mut chunk);
        for header in chunk.chunks(BLOCK_BYTES as usize).filter_map(Header::decode) {
            if header.uuid == superblock.uuid && wanted(&header) {
                let changes = header.entries.iter().filter(|entry| matches!(entry.kind, Kind::Data | Kind::Zero));
                changes.for_each(|entry| found.insert(entry.range, ()));
            }
        }
        at += CHUNK_BYTES;
    }
    found
}
