//! How a server is built.

use headstart_core::units::Nanos;

use crate::device::Device;
use crate::device::hdd::{Hdd, HddConfig};
use crate::device::null::Null;
use crate::device::ssd::{Ssd, SsdConfig};
use crate::elevator::{ElevatorKind, NR_REQUESTS};
use crate::nic::NicConfig;
use crate::profile::Profile;

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

/// How a server is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerConfig {
    /// Its device. A hard disk's own `read_ahead` is replaced by `drive_read_ahead`.
    pub device: DeviceConfig,
    /// Its network card.
    pub nic: NicConfig,
    /// The elevator in front of the device.
    pub elevator: ElevatorKind,
    /// Commands in the elevator.
    pub nr_requests: usize,
    /// Room of the write-back cache; zero turns it off.
    pub server_cache_bytes: u64,
    /// Whether a hard disk may acknowledge writes from its own cache.
    pub drive_write_cache: bool,
    /// A hard disk's read-ahead: segments and bytes of each.
    pub drive_read_ahead: Option<(usize, u64)>,
    /// Commands the host sends to the drive at once; `None` is as many as the drive takes. 1 leaves the order to the
    /// elevator.
    pub drive_queue_depth: Option<usize>,
    /// Where the spindle stands at time zero, scrambled; should differ from server to server.
    pub phase_seed: u64,
    /// CPU time of a request, one request at a time.
    pub request_cpu: Nanos,
}

impl ServerConfig {
    /// A server with this device, gigabit Ethernet, deadline, no caches but the drive's read-ahead, and no CPU cost.
    pub fn new(profile: Profile) -> ServerConfig {
        let device = profile.device();
        let drive_read_ahead = match device {
            DeviceConfig::Hdd(hdd) => hdd.read_ahead,
            DeviceConfig::Ssd(_) | DeviceConfig::Null => None,
        };
        ServerConfig {
            device,
            nic: NicConfig::GIGABIT,
            elevator: ElevatorKind::Deadline,
            nr_requests: NR_REQUESTS,
            server_cache_bytes: 0,
            drive_write_cache: false,
            drive_read_ahead,
            drive_queue_depth: None,
            phase_seed: 0,
            request_cpu: Nanos::ZERO,
        }
    }

    pub(super) fn build_device(&self) -> Box<dyn Device> {
        match self.device {
            DeviceConfig::Null => Box::new(Null::default()),
            DeviceConfig::Ssd(ssd) => Box::new(Ssd::new(ssd)),
            DeviceConfig::Hdd(hdd) => {
                let write_cache_bytes = if self.drive_write_cache { hdd.write_cache_bytes } else { 0 };
                let hdd = HddConfig { read_ahead: self.drive_read_ahead, write_cache_bytes, ..hdd };
                // Fibonacci hashing spreads small seeds over the turn.
                Box::new(Hdd::new(hdd, self.phase_seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16))
            }
        }
    }
}
