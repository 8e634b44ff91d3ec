//! What a testbed is made of: two directories, their servers, and how fast time runs.
//!
//! The same structure goes from the command line through a JSON file to the server process, and into the site file.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use headstart_units::{KIB, MIB};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The network between the clients and the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Gigabit Ethernet at every server: 117 MB/s each way.
    #[default]
    Gbe,
    /// No network: requests reach the elevator at once.
    None,
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Network> {
        match text {
            "gbe" => Ok(Network::Gbe),
            "none" => Ok(Network::None),
            _ => Err(Error::Invalid { option: "--network", reason: format!("'{text}' is unknown; use gbe or none") }),
        }
    }
}

/// Which I/O scheduler the servers run above their drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Elevator {
    /// Sorted, with expiry.
    #[default]
    Deadline,
    /// First in, first out.
    Noop,
}

impl FromStr for Elevator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Elevator> {
        match text {
            "deadline" => Ok(Elevator::Deadline),
            "noop" => Ok(Elevator::Noop),
            _ => Err(Error::Invalid {
                option: "--elevator",
                reason: format!("'{text}' is unknown; use deadline or noop"),
            }),
        }
    }
}

/// The drives' own read-ahead: so many segments of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveReadAhead {
    /// Streams the drive can follow.
    pub segment_count: u32,
    /// Bytes of each.
    pub segment_bytes: u64,
}

impl DriveReadAhead {
    /// Parses `off` or `16x1MiB`.
    pub fn parse(text: &str) -> Result<Option<DriveReadAhead>> {
        let bad = || Error::Invalid {
            option: "--drive-read-ahead",
            reason: format!("'{text}' is neither off nor COUNTxSIZE, such as 16x1MiB"),
        };
        if text == "off" {
            return Ok(None);
        }
        let (count, size) = text.split_once('x').ok_or_else(bad)?;
        let segment_count = count.trim().parse().map_err(|_| bad())?;
        let size: headstart_units::ByteSize = size.parse().map_err(|_| bad())?;
        if segment_count == 0 || size.0 == 0 {
            return Err(bad());
        }
        Ok(Some(DriveReadAhead { segment_count, segment_bytes: size.0 }))
    }
}

/// A whole testbed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestbedConfig {
    /// Distinguishes testbeds that run at the same time; also the name of the runtime directory.
    pub name: String,
    /// Mount point of the directory served by disks.
    pub slow: PathBuf,
    /// Mount point of the directory served by flash.
    pub fast: PathBuf,
    /// Where the bytes live, in the subdirectories `slow` and `fast`; by default on tmpfs,
    /// `/dev/shm/headstart-testbed-UID/NAME`.
    pub backing: Option<PathBuf>,
    /// Number of disk servers.
    pub hdd_servers: u32,
    /// Their device profile.
    pub hdd_profile: String,
    /// Number of flash servers.
    pub ssd_servers: u32,
    /// Their device profile.
    pub ssd_profile: String,
    /// Bytes of a stripe, the same in both directories.
    pub stripe_bytes: u64,
    /// The network at every server.
    pub network: Network,
    /// Write-back cache of each server in bytes, 0 for none.
    pub server_cache_bytes: u64,
    /// Whether drives acknowledge writes from their own cache.
    pub drive_write_cache: bool,
    /// The disks' read-ahead.
    pub drive_read_ahead: Option<DriveReadAhead>,
    /// The servers' I/O scheduler.
    pub elevator: Elevator,
    /// What lies between each disk server and its disk: `stock`, or the policies of a volume.
    pub server_policy: String,
    /// Device profile of the volumes' flash.
    pub server_flash_profile: String,
    /// Each volume's slice of it.
    pub server_slice_bytes: u64,
    /// The most that a volume's policy may add to a request.
    pub server_delay_max_ms: f64,
    /// Real time over modelled time; 0 means that no time passes between events (for correctness tests).
    pub time_scale: f64,
    /// Whether to ask for SCHED_FIFO and locked memory; refused requests are reported, never fatal.
    pub real_time: bool,
}

impl Default for TestbedConfig {
    fn default() -> TestbedConfig {
        TestbedConfig {
            name: "default".to_string(),
            slow: PathBuf::new(),
            fast: PathBuf::new(),
            backing: None,
            hdd_servers: 8,
            hdd_profile: "seagate-250".to_string(),
            ssd_servers: 4,
            ssd_profile: "revodrive-x2".to_string(),
            stripe_bytes: 64 * KIB,
            network: Network::Gbe,
            server_cache_bytes: 8 * MIB,
            drive_write_cache: false,
            drive_read_ahead: Some(DriveReadAhead { segment_count: 16, segment_bytes: MIB }),
            elevator: Elevator::Deadline,
            server_policy: "stock".to_string(),
            server_flash_profile: "pm9a3".to_string(),
            server_slice_bytes: 1 << 30,
            server_delay_max_ms: 50.0,
            time_scale: 1.0,
            real_time: true,
        }
    }
}

impl TestbedConfig {
    /// Where the bytes live.
    pub fn backing_directory(&self) -> PathBuf {
        match &self.backing {
            Some(path) => path.clone(),
            None => {
                Path::new("/dev/shm").join(format!("headstart-testbed-{}", crate::system::user_id())).join(&self.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_read_ahead_reads_off_and_count_by_size() {
        assert_eq!(DriveReadAhead::parse("off").unwrap(), None);
        let segments = DriveReadAhead { segment_count: 16, segment_bytes: MIB };
        assert_eq!(DriveReadAhead::parse("16x1MiB").unwrap(), Some(segments));
        for text in ["", "16", "x1MiB", "0x1MiB", "16x", "16x0"] {
            assert!(DriveReadAhead::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn configuration_survives_json() {
        let config = TestbedConfig { slow: "/slow".into(), fast: "/fast".into(), ..TestbedConfig::default() };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TestbedConfig>(&text).unwrap(), config);
    }
}
