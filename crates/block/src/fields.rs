//! Little-endian fields at fixed places of a block, and the checksum that covers it.

use headstart_units::BLOCK_BYTES;

/// One block.
pub(crate) type Block = [u8; BLOCK_BYTES as usize];

/// An empty one.
pub(crate) const EMPTY: Block = [0; BLOCK_BYTES as usize];

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// CRC32C of a block, the four bytes at `crc_at` taken as zero.
pub(crate) fn crc_of(block: &[u8], crc_at: usize) -> u32 {
    let crc = crc32c::crc32c(&block[..crc_at]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &block[crc_at + 4..])
}
