//! The two devices of a volume, as a start and a stop use them: one operation after the other.
//!
//! While a volume serves, `Engine` gives orders and hears of their completion. Before and after that nothing else goes on and the order
//! of the steps is all that matters, so there the caller lends its devices and the steps stand one below the other.

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
    /// "read", "write" or "flush".
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
}
