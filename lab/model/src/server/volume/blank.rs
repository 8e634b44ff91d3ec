//! Devices that hold nothing but what a start has written.

use std::collections::BTreeMap;

use headstart_block::devices::{Device, Devices, Failed};
use headstart_units::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Blocks that are not zero, by device and number.
#[derive(Default)]
pub struct Blank {
    blocks: BTreeMap<(Device, u64), Vec<u8>>,
}

impl Blank {
    /// Goes through the parts of a range of bytes, block by block: number, first byte within it, place in the
    /// range, length.
    fn parts(offset: u64, length: usize, mut each: impl FnMut(u64, usize, usize, usize)) {
        let mut at = 0;
        while at < length {
            let byte = offset + at as u64;
            let within = (byte % BLOCK_BYTES) as usize;
            let part = (BLOCK - within).min(length - at);
            each(byte / BLOCK_BYTES, within, at, part);
            at += part;
        }
    }
}

impl Devices for Blank {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        Blank::parts(offset, bytes.len(), |block, within, at, part| match self.blocks.get(&(device, block)) {
            Some(held) => bytes[at..at + part].copy_from_slice(&held[within..within + part]),
            None => bytes[at..at + part].fill(0),
        });
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        Blank::parts(offset, bytes.len(), |block, within, at, part| {
            let held = self.blocks.entry((device, block)).or_insert_with(|| vec![0; BLOCK]);
            held[within..within + part].copy_from_slice(&bytes[at..at + part]);
        });
        Ok(())
    }

    fn flush(&mut self, _device: Device) -> Result<(), Failed> {
        Ok(())
    }
}
