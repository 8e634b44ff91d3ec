//! How a served volume stands: what `volume status --json` prints.
//!
//! Names follow Prometheus: `_total` never falls while the server lives, `_bytes` and `_seconds` are units.

use headstart_block::counters::Counters;
use headstart_policy::server::liu::Basis;
use serde::{Deserialize, Serialize};

use crate::settings::{Mode, PolicyName};

/// A volume and its server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the volume.
    pub uuid: String,
    /// The server's process.
    pub pid: u32,
    /// What it is doing.
    pub state: State,
    /// The slow device.
    pub disk: DeviceStatus,
    /// The fast device.
    pub flash: DeviceStatus,
    /// How devices are driven: "io_uring", or what instead and why.
    pub storage: String,
    /// When writes are acknowledged.
    pub mode: Mode,
    /// What says what goes to flash.
    pub policy: PolicyName,
    /// Since the start.
    pub uptime_seconds: f64,
    /// Both ends of the disk are XORed.
    pub guard: bool,
    /// Bytes that only flash holds.
    pub dirty_bytes: u64,
    /// Size of the log.
    pub log_bytes: u64,
    /// Of which may be written.
    pub log_free_bytes: u64,
    /// Requests that have no answer yet.
    pub requests_waiting: u64,
    /// Requests by kind.
    pub requests: Requests,
    /// What became of them.
    pub counters: Counters,
    /// LiU's segments; none without heads.
    #[serde(default)]
    pub segments: Option<SegmentStatus>,
}

/// Segments of the disk, where a volume has heads of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStatus {
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Length of its head.
    pub head_bytes: u64,
    /// Slots for heads.
    pub slots: u64,
    /// Those that hold one.
    pub lifted: u64,
    /// Segments in memory.
    pub loaded: u64,
    /// Segments that are measured without being there.
    pub ghosts: u64,
    /// Segments that are to be lifted.
    pub lifts_waiting: u64,
    /// Where their lengths come from.
    #[serde(default)]
    pub basis: Basis,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Serves.
    Serving,
    /// Serves, and writes everything back.
    Draining,
    /// Ends.
    Stopping,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// As the user named it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// It failed in a way that counts until the volume is served anew.
    pub failed: bool,
    /// Operations by what they did.
    pub reads_total: u64,
    /// Bytes of them.
    pub read_bytes_total: u64,
    /// Writes.
    pub writes_total: u64,
    /// Bytes of them.
    pub written_bytes_total: u64,
    /// Ranges that it made zeros by itself.
    #[serde(default)]
    pub zeros_total: u64,
    /// Bytes of them.
    #[serde(default)]
    pub zeroed_bytes_total: u64,
    /// Flushes.
    pub flushes_total: u64,
    /// Operations that failed.
    pub errors_total: u64,
}

/// Requests by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// READ.
    pub read: RequestStatus,
    /// WRITE.
    pub write: RequestStatus,
    /// DISCARD and WRITE_ZEROES.
    pub zero: RequestStatus,
    /// FLUSH.
    pub flush: RequestStatus,
}

/// Requests of a kind that were answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestStatus {
    /// How many.
    pub requests_total: u64,
    /// Their bytes.
    pub bytes_total: u64,
    /// Those of them that failed.
    pub failed_total: u64,
    /// Time of half of them at most.
    pub p50_seconds: f64,
    /// Time of 99 in a hundred at most.
    pub p99_seconds: f64,
    /// Time of the slowest.
    pub max_seconds: f64,
}
