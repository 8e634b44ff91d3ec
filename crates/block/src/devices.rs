//! The two devices of a volume, as a start and a stop use them: one operation after the other.
//!
//! While a volume serves, `Engine` gives orders and hears of their completion. Before and after that nothing
//! else goes on and the order of the steps is all that matters, so there the caller lends its devices and the
//! steps stand one below the other.

use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// The slow one, with room for everything.
    Disk,
    /// The fast one.
    Flash,
}

/// An operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {device:?} failed to {action} at byte {offset}")]
pub struct Failed {
    /// Of which device.
    pub device: Device,
    /// "read", "write", "zero" or "flush".
    pub action: &'static str,
    /// Where.
    pub offset: u64,
}

/// Devices that do what they are told before they return.
pub trait Devices {
    /// Reads as many bytes as there is room for.
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed>;
    /// Writes; durable after the next `flush`.
    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed>;
    /// Everything written before is durable when it returns.
    fn flush(&mut self, device: Device) -> Result<(), Failed>;
    /// Makes a range of whole blocks zeros; durable after the next `flush`.
    fn zero(&mut self, device: Device, range: Range) -> Result<(), Failed> {
        let zeros = vec![0; range.length.min(1 << 20) as usize];
        let mut offset = range.offset;
        while offset < range.end() {
            let bytes = (range.end() - offset).min(zeros.len() as u64);
            self.write(device, offset, &zeros[..bytes as usize])?;
            offset += bytes;
        }
        Ok(())
    }
    /// Says that a range is about to be read, in the order of its bytes; a device may begin at once. Nothing
    /// else follows from it.
    fn read_ahead(&mut self, device: Device, range: Range) {
        let _ = (device, range);
    }
    /// Reads whole blocks; those that cannot be read are zeros, which are neither superblock nor record.
    fn read_what_can_be(&mut self, device: Device, offset: u64, bytes: &mut [u8]) {
        if self.read(device, offset, bytes).is_ok() {
            return;
        }
        for (index, block) in bytes.chunks_mut(BLOCK_BYTES as usize).enumerate() {
            if self.read(device, offset + index as u64 * BLOCK_BYTES, block).is_err() {
                block.fill(0);
            }
        }
    }
    /// Writes like `write`, but may go on after it has returned, until the next other operation of the
    /// device, which then says that it failed.
    fn write_behind(&mut self, device: Device, offset: u64, bytes: Vec<u8>) -> Result<(), Failed> {
        self.write(device, offset, &bytes)
    }
}
