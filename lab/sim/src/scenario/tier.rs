//! The servers of a tier, as a scenario describes them.

use headstart_model::device::config::DeviceConfig;
use headstart_model::device::hdd::HddConfig;
use headstart_model::device::ssd::{SsdConfig, SsdForm, StreamCost};
use headstart_model::elevator::{CfqConfig, ElevatorKind, NR_REQUESTS};
use headstart_model::file_cache::FileReadAhead;
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::server::ServerConfig;
use headstart_units::{KIB, MIB, Nanos};
use serde::{Deserialize, Serialize};

use super::{ScenarioError, Size};

/// Equal servers and how files are striped over them. What is absent is as in `headstart_model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TierConfig {
    /// How many.
    pub servers: u32,
    /// Their device, by the name of a profile.
    pub profile: String,
    /// Bytes of a stripe.
    pub stripe: Size,
    /// Rate of a server's card, each way; 0 is none.
    pub bytes_per_s: f64,
    /// One-way latency.
    pub latency_ms: f64,
    /// The most that is added to it at random.
    pub jitter_ms: f64,
    /// The elevator.
    pub elevator: ElevatorKind,
    /// Commands in it.
    pub nr_requests: usize,
    /// CFQ's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfq: Option<Cfq>,
    /// The largest command to a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_max: Option<Size>,
    /// Requests at the disk at once (PVFS2: 16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_operations_max: Option<usize>,
    /// Reading files ahead; not at all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<ReadAhead>,
    /// Write-back cache of a server; 0 is none.
    pub cache: Size,
    /// Whether a drive acknowledges writes from its own cache.
    pub drive_write_cache: bool,
    /// Segments of a drive's own read-ahead; 0 turns it off, absent is what the profile has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_segments: Option<usize>,
    /// Bytes of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_segment: Option<Size>,
    /// Commands at a drive at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_queue_depth: Option<usize>,
    /// What a command takes a hard disk beside positioning and transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_ms: Option<f64>,
    /// What a request takes a server's processor, one at a time.
    pub request_cpu_ms: f64,
    /// A hard disk without positioning: the rate of its outermost track from the moment it is asked (LiU, Fig. 1c).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub latency_free: bool,
}

/// CFQ's settings; see [`CfqConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cfq {
    /// Slice of a queue of reads.
    pub slice_ms: f64,
    /// Slice of all writes.
    pub async_slice_ms: f64,
    /// Writes in one turn.
    pub async_requests_max: usize,
    /// Wait for the next read of a rank.
    pub idle_rank_ms: f64,
    /// Wait for the next read of a file's read-ahead.
    pub idle_read_ahead_ms: f64,
    /// Commands of one queue in the drive.
    pub quantum: usize,
}

impl Default for Cfq {
    fn default() -> Cfq {
        let CfqConfig { slice, async_slice, async_requests_max, idle_rank, idle_read_ahead, quantum } =
            CfqConfig::default();
        Cfq {
            slice_ms: slice.millis(),
            async_slice_ms: async_slice.millis(),
            async_requests_max,
            idle_rank_ms: idle_rank.millis(),
            idle_read_ahead_ms: idle_read_ahead.millis(),
            quantum,
        }
    }
}

impl Cfq {
    fn config(&self) -> CfqConfig {
        CfqConfig {
            slice: Nanos::from_millis(self.slice_ms),
            async_slice: Nanos::from_millis(self.async_slice_ms),
            async_requests_max: self.async_requests_max,
            idle_rank: Nanos::from_millis(self.idle_rank_ms),
            idle_read_ahead: Nanos::from_millis(self.idle_read_ahead_ms),
            quantum: self.quantum,
        }
    }
}

/// Reading files ahead; see [`FileReadAhead`]. A page is a stripe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadAhead {
    /// Stripes of a window.
    pub window: u64,
    /// Stripes of a window under contention.
    pub contended_window: u64,
    /// Reads of others beyond which there is contention.
    pub foreign_reads_max: usize,
    /// Clean bytes kept.
    pub cache: Size,
    /// What a read takes that finds all its bytes.
    pub hit_ms: f64,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        let FileReadAhead { window_pages, contended_window_pages, foreign_reads_max, cache_bytes, hit_cost, .. } =
            FileReadAhead::default();
        ReadAhead {
            window: window_pages,
            contended_window: contended_window_pages,
            foreign_reads_max,
            cache: Size(cache_bytes),
            hit_ms: hit_cost.millis(),
        }
    }
}

impl Default for TierConfig {
    fn default() -> TierConfig {
        TierConfig::disks()
    }
}

impl TierConfig {
    /// The disk servers of CARL and S4D.
    pub fn disks() -> TierConfig {
        TierConfig {
            servers: 8,
            profile: Profile::Seagate250.name().into(),
            stripe: Size(64 * KIB),
            bytes_per_s: 117e6,
            latency_ms: 0.1,
            jitter_ms: 0.0,
            elevator: ElevatorKind::default(),
            nr_requests: NR_REQUESTS,
            cfq: None,
            command_max: None,
            disk_operations_max: None,
            read_ahead: None,
            cache: Size(0),
            drive_write_cache: false,
            drive_segments: None,
            drive_segment: None,
            drive_queue_depth: None,
            command_ms: None,
            request_cpu_ms: 0.0,
            latency_free: false,
        }
    }

    /// Their flash servers.
    pub fn flash() -> TierConfig {
        TierConfig { servers: 4, profile: Profile::RevodriveX2.name().into(), ..TierConfig::disks() }
    }

    pub(super) fn check(&self, table: &str) -> Result<(), ScenarioError> {
        let error = |key: &str, problem: String| Err(ScenarioError::new(format!("[{table}] {key}"), problem));
        if !(1..=1 << 16).contains(&self.servers) {
            return error("servers", format!("{} is not a number from 1 to 65536", self.servers));
        }
        if let Err(unknown) = self.profile.parse::<Profile>() {
            return error("profile", unknown.to_string());
        }
        if self.stripe.0 == 0 {
            return error("stripe", "it must be at least 1".into());
        }
        for (key, value, most) in [
            ("bytes_per_s", self.bytes_per_s, 1e15),
            ("latency_ms", self.latency_ms, 1e6),
            ("jitter_ms", self.jitter_ms, 1e6),
            ("command_ms", self.command_ms.unwrap_or(0.0), 1e6),
            ("request_cpu_ms", self.request_cpu_ms, 1e6),
        ] {
            if !(0.0..most).contains(&value) {
                return error(key, format!("{value} is out of range; it is at least 0"));
            }
        }
        for (key, count) in [
            ("nr_requests", Some(self.nr_requests)),
            ("disk_operations_max", self.disk_operations_max),
            ("drive_queue_depth", self.drive_queue_depth),
        ] {
            if count == Some(0) {
                return error(key, "it must be at least 1".into());
            }
        }
        if self.command_max.is_some_and(|size| size.0 < 4 * KIB) {
            return error("command_max", "it must be at least 4KiB".into());
        }
        Ok(())
    }

    /// One server; `phase_seed` differs from server to server.
    pub fn server(&self, phase_seed: u64) -> ServerConfig {
        let profile: Profile = self.profile.parse().expect("a checked scenario names a profile");
        let mut config = ServerConfig::new(profile);
        let rate = if self.bytes_per_s > 0.0 { self.bytes_per_s } else { f64::INFINITY };
        config.nic = NicConfig {
            bytes_per_s: rate,
            latency: Nanos::from_millis(self.latency_ms),
            jitter: Nanos::from_millis(self.jitter_ms),
        };
        config.elevator = self.elevator;
        config.nr_requests = self.nr_requests;
        config.cfq = self.cfq.as_ref().map(Cfq::config).unwrap_or_default();
        config.command_bytes_max = self.command_max.map_or(config.command_bytes_max, |size| size.0);
        config.disk_operations_max = self.disk_operations_max;
        config.file_read_ahead = self.read_ahead.as_ref().map(|read_ahead| FileReadAhead {
            page_bytes: self.stripe.0,
            window_pages: read_ahead.window,
            contended_window_pages: read_ahead.contended_window,
            foreign_reads_max: read_ahead.foreign_reads_max,
            cache_bytes: read_ahead.cache.0,
            hit_cost: Nanos::from_millis(read_ahead.hit_ms),
        });
        config.server_cache_bytes = self.cache.0;
        config.drive_write_cache = self.drive_write_cache;
        if self.drive_segments.is_some() || self.drive_segment.is_some() {
            let (count, bytes) = config.drive_read_ahead.unwrap_or((16, MIB));
            let count = self.drive_segments.unwrap_or(count);
            config.drive_read_ahead = (count > 0).then(|| (count, self.drive_segment.map_or(bytes, |size| size.0)));
        }
        config.drive_queue_depth = self.drive_queue_depth;
        if let (DeviceConfig::Hdd(hdd), Some(command_ms)) = (config.device, self.command_ms) {
            config.device = DeviceConfig::Hdd(HddConfig { command_overhead: Nanos::from_millis(command_ms), ..hdd });
        }
        if let (DeviceConfig::Hdd(hdd), true) = (config.device, self.latency_free) {
            config.device = DeviceConfig::Ssd(latency_free(&hdd));
        }
        config.request_cpu = Nanos::from_millis(self.request_cpu_ms);
        config.phase_seed = phase_seed;
        config
    }
}

/// A disk of which only the peak rate is left, one command after another.
fn latency_free(hdd: &HddConfig) -> SsdConfig {
    let rate = hdd.mechanics.outer_bytes_per_s;
    let cost = StreamCost { startup: Nanos::ZERO, stream_bytes_per_s: rate, total_bytes_per_s: rate };
    let form = SsdForm::Streams { parallel_count: 1, read: cost, write: cost };
    SsdConfig { form, capacity_bytes: hdd.mechanics.capacity_bytes }
}
