//! Which devices there are.

use super::hdd::HddConfig;
use super::ssd::SsdConfig;

/// Which device a server has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceConfig {
    /// A hard disk.
    Hdd(HddConfig),
    /// A solid-state device.
    Ssd(SsdConfig),
    /// A device that takes no time.
    Null,
}
