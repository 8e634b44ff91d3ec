//! How a server is built.

use headstart_units::Nanos;

use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::liu::Sizes;

use crate::device::Device;
use crate::device::config::DeviceConfig;
use crate::device::hdd::{Hdd, HddConfig};
use crate::device::null::Null;
use crate::device::ssd::Ssd;
use crate::elevator::{COMMAND_BYTES_MAX, CfqConfig, ElevatorKind, NR_REQUESTS};
use crate::file_cache::FileReadAhead;
use crate::nic::NicConfig;
use crate::profile::Profile;

/// How a volume is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VolumeConfig {
    /// Its flash.
    pub flash: DeviceConfig,
    /// Size of the slice.
    pub flash_bytes: u64,
    /// Its policies.
    pub names: Names,
    /// Their settings.
    pub settings: chain::Settings,
    /// LiU's segments.
    pub sizes: Sizes,
    /// Of a hundred parts of the slice, how many are heads'; none: as many as the policies want.
    pub heads_percent: Option<u64>,
}

/// How a server is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerConfig {
    /// Its device. A hard disk's own `read_ahead` is replaced by `drive_read_ahead`.
    pub device: DeviceConfig,
    /// Its network card.
    pub nic: NicConfig,
    /// The elevator in front of the device, unless a volume is there, which sorts by itself.
    pub elevator: ElevatorKind,
    /// CFQ's settings, if it is the elevator.
    pub cfq: CfqConfig,
    /// Commands in the elevator.
    pub nr_requests: usize,
    /// Largest command to the device, merged or not.
    pub command_bytes_max: u64,
    /// Requests that may use the disk at once, in order of arrival; `None` is any number. PVFS2 has 16 by default.
    pub disk_operations_max: Option<usize>,
    /// Reading files ahead into a page cache; `None` is not at all.
    pub file_read_ahead: Option<FileReadAhead>,
    /// Room of the write-back cache; zero turns it off.
    pub server_cache_bytes: u64,
    /// Whether a hard disk may acknowledge writes from its own cache.
    pub drive_write_cache: bool,
    /// A hard disk's read-ahead: segments and bytes of each.
    pub drive_read_ahead: Option<(usize, u64)>,
    /// Commands the host sends to the drive at once; `None` is as many as the drive takes. 1 leaves the order to the
    /// elevator.
    pub drive_queue_depth: Option<usize>,
    /// Where the spindle stands at time zero, scrambled, and the seed of the network's jitter; should differ
    /// from server to server.
    pub phase_seed: u64,
    /// CPU time of a request, one request at a time.
    pub request_cpu: Nanos,
    /// A volume between the server and its device.
    pub volume: Option<VolumeConfig>,
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
            cfq: CfqConfig::default(),
            nr_requests: NR_REQUESTS,
            command_bytes_max: COMMAND_BYTES_MAX,
            disk_operations_max: None,
            file_read_ahead: None,
            server_cache_bytes: 0,
            drive_write_cache: false,
            drive_read_ahead,
            drive_queue_depth: None,
            phase_seed: 0,
            request_cpu: Nanos::ZERO,
            volume: None,
        }
    }

    /// A device as its profile has it.
    pub(super) fn bare_device(device: DeviceConfig) -> Box<dyn Device> {
        ServerConfig { device, ..ServerConfig::new(Profile::Null) }.build_device()
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
