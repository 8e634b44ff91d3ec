//! Bytes of flash that are being read, and what they have to be.

use headstart_units::BLOCK_BYTES;

/// A read of payload: what has to come back, and who holds it.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    /// Checksums of its blocks.
    pub crcs: Vec<u32>,
    /// The record, pinned.
    pub seq: u64,
}

/// Whether blocks have these checksums.
pub(super) fn matches(data: &[u8], crcs: &[u32]) -> bool {
    let blocks = data.chunks(BLOCK_BYTES as usize);
    data.len() == crcs.len() * BLOCK_BYTES as usize
        && blocks.zip(crcs).all(|(block, crc)| crc32c::crc32c(block) == *crc)
}

impl Payload {
    /// Whether these are the blocks.
    pub(super) fn matches(&self, data: &[u8]) -> bool {
        matches(data, &self.crcs)
    }
}
