//! The servers of one directory: from the configuration to the model, and from the model's figures to statistics.

use std::fmt;

use headstart_block::layout::{GUARD_BLOCKS_MAX, Layout};
use headstart_model::cluster::{Cluster, FileRequest, Placement};
use headstart_model::device::config::DeviceConfig;
use headstart_model::elevator::ElevatorKind;
use headstart_model::nic::NicConfig;
use headstart_model::profile::Profile;
use headstart_model::request::{Completion, Operation, Origin};
use headstart_model::server::probe::sizes;
use headstart_model::server::{self, ServerConfig, VolumeConfig, VolumeStats};
use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::itransformer;
use headstart_policy::server::liu;
use headstart_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::config::{Elevator, Network, TestbedConfig};
use crate::error::{Error, Result};
use crate::placement::Region;

/// Address space of devices without an end.
const ENDLESS_BYTES: u64 = 1 << 50;

/// Commands the elevator of a single disk holds: more than the block layer ever sends.
const DISK_REQUESTS: usize = 1024;

/// What is asked of a file's servers.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// What.
    pub operation: Operation,
    /// Where the file lies.
    pub place: Region,
    /// The first byte, in the file.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// The modelled servers of one directory.
pub struct Servers {
    cluster: Cluster,
    /// Kept between requests so that none allocates.
    placement: Placement,
    /// The figures at the last reset.
    baseline: Vec<server::ServerStats>,
}

/// What one server did since the last reset. Means are zero where nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStats {
    /// Modelled time of these figures, since the start.
    pub at_ns: Nanos,
    /// Reads completed.
    pub read_count: u64,
    /// Writes completed.
    pub write_count: u64,
    /// Flushes completed.
    pub flush_count: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Commands the device served, write-back included.
    pub device_command_count: u64,
    /// Mean distance in bytes from the end of one device command to the start of the next.
    pub seek_distance_bytes_mean: f64,
    /// Time the device was at work.
    pub device_busy_ns: u64,
    /// Requests at the server on average, since its first request.
    pub queue_depth_mean: f64,
    /// Most requests at the server at once, since the start.
    pub queue_depth_max: u64,
    /// Mean time from a request's departure at the client to its reply's arrival there.
    pub service_ns_mean: f64,
    /// Dirty bytes in the server's cache now.
    pub dirty_bytes: u64,
    /// Its volume, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeStats>,
}

impl ServerStats {
    /// What happened between two reports of one server.
    fn between(before: &server::ServerStats, now: &server::ServerStats) -> ServerStats {
        let sum = |stats: &server::ServerStats| stats.seek_distance_bytes_mean * stats.device_commands as f64;
        let served = |stats: &server::ServerStats| (stats.reads + stats.writes) as f64;
        let service = |stats: &server::ServerStats| stats.service_ns_mean * served(stats);
        let mean = |difference: f64, count: f64| if count > 0.0 { difference / count } else { 0.0 };
        let command_count = now.device_commands - before.device_commands;
        ServerStats {
            at_ns: Nanos(now.at_ns),
            read_count: now.reads - before.reads,
            write_count: now.writes - before.writes,
            flush_count: now.flushes - before.flushes,
            read_bytes: now.read_bytes - before.read_bytes,
            write_bytes: now.write_bytes - before.write_bytes,
            device_command_count: command_count,
            seek_distance_bytes_mean: mean(sum(now) - sum(before), command_count as f64),
            device_busy_ns: now.device_busy_ns - before.device_busy_ns,
            queue_depth_mean: now.queue_depth_mean,
            queue_depth_max: now.queue_depth_max,
            service_ns_mean: mean(service(now) - service(before), served(now) - served(before)),
            dirty_bytes: now.dirty_bytes,
            volume: now.volume.map(|volume| volume.since(&before.volume.unwrap_or_default())),
        }
    }
}

impl fmt::Display for ServerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: f64| bytes / (1u64 << 20) as f64;
        write!(
            f,
            "{:>10} {:>10.1} {:>10} {:>14.2} {:>9.2} {:>11.2} {:>10}",
            self.read_count + self.write_count,
            mib((self.read_bytes + self.write_bytes) as f64),
            self.device_command_count,
            mib(self.seek_distance_bytes_mean),
            self.device_busy_ns as f64 * 1e-9,
            self.queue_depth_mean,
            self.queue_depth_max
        )
    }
}

/// Checks that a profile exists.
///
/// # Errors
/// [`Error::Invalid`], listing the known profiles.
pub fn check_profile(option: &'static str, profile: &str) -> Result<()> {
    parse(option, profile).map(|_| ())
}

fn parse(option: &'static str, profile: &str) -> Result<Profile> {
    profile.parse().map_err(|error| Error::Invalid { option, reason: format!("{error}") })
}

impl Servers {
    /// The disk servers of a testbed.
    ///
    /// # Errors
    /// An unknown profile.
    pub fn slow(config: &TestbedConfig) -> Result<Servers> {
        let profile = parse("--hdd-profile", &config.hdd_profile)?;
        let with_volume = ServerConfig { volume: volume(config)?, ..server_config(config, profile) };
        Ok(Servers::of(config.hdd_servers, with_volume, config.stripe_bytes))
    }

    /// The flash servers of a testbed.
    ///
    /// # Errors
    /// An unknown profile.
    pub fn fast(config: &TestbedConfig) -> Result<Servers> {
        let profile = parse("--ssd-profile", &config.ssd_profile)?;
        Ok(Servers::of(config.ssd_servers, server_config(config, profile), config.stripe_bytes))
    }

    /// One device and nothing in front of it.
    ///
    /// # Errors
    /// An unknown profile.
    pub fn single_disk(profile: &str, drive_write_cache: bool) -> Result<Servers> {
        let config = ServerConfig {
            nic: NicConfig::NONE,
            elevator: ElevatorKind::Noop,
            nr_requests: DISK_REQUESTS,
            drive_write_cache,
            ..ServerConfig::new(parse("--profile", profile)?)
        };
        Ok(Servers::of(1, config, 1 << 20))
    }

    /// One disk that reads nothing but what it is asked for.
    pub(crate) fn without_read_ahead(profile: &str) -> Result<Servers> {
        let config = ServerConfig {
            nic: NicConfig::NONE,
            elevator: ElevatorKind::Noop,
            drive_read_ahead: None,
            ..ServerConfig::new(parse("--hdd-profile", profile)?)
        };
        Ok(Servers::of(1, config, 1 << 20))
    }

    /// One of the disk servers, without what makes a disk seem faster than it is for a while: read-ahead and
    /// write caches.
    pub(crate) fn one_disk(config: &TestbedConfig) -> Result<Servers> {
        let bare = ServerConfig {
            server_cache_bytes: 0,
            drive_write_cache: false,
            drive_read_ahead: None,
            ..server_config(config, parse("--hdd-profile", &config.hdd_profile)?)
        };
        Ok(Servers::of(1, bare, 1 << 20))
    }

    /// One of the flash servers.
    pub(crate) fn one_flash(config: &TestbedConfig) -> Result<Servers> {
        let profile = parse("--ssd-profile", &config.ssd_profile)?;
        Ok(Servers::of(1, server_config(config, profile), 1 << 20))
    }

    fn of(count: u32, config: ServerConfig, stripe_bytes: u64) -> Servers {
        let cluster = Cluster::new((0..count).map(|_| config), stripe_bytes);
        let placement = Placement { first_server: 0, bases: vec![0; count as usize] };
        let baseline = cluster.stats(Nanos::ZERO).servers;
        Servers { cluster, placement, baseline }
    }

    /// Bytes of each device.
    pub fn capacity_bytes(&self) -> u64 {
        self.cluster.servers()[0].capacity_bytes().unwrap_or(ENDLESS_BYTES)
    }

    /// How many servers there are.
    pub fn count(&self) -> u32 {
        self.cluster.servers().len() as u32
    }

    /// A request to a file that lies at `place`.
    pub fn on_request(&mut self, now: Nanos, id: u64, ask: Ask) {
        let Ask { operation, place, offset, length } = ask;
        self.placement.first_server = place.first_server as usize;
        self.placement.bases.fill(place.base);
        let request =
            FileRequest { id, operation, placement: &self.placement, offset, length, origin: Origin::default() };
        self.cluster.on_request(now, request);
    }

    /// When `on_timer` should be called next.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.cluster.next_timer()
    }

    /// Does what is due by `now` and appends the requests that completed.
    pub fn on_timer(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.cluster.on_timer(now, completions);
    }

    /// From now on what volumes hold is written back.
    pub fn drain(&mut self, now: Nanos) {
        self.cluster.drain(now);
    }

    /// Servers forget what they have read.
    pub fn empty_buffers(&mut self, now: Nanos) {
        self.cluster.empty_buffers(now);
    }

    /// Bytes that servers hold and their disks do not.
    pub fn dirty_bytes(&self) -> u64 {
        self.cluster.dirty_bytes()
    }

    /// What each server did since the last reset.
    pub fn stats(&self, now: Nanos) -> Vec<ServerStats> {
        let servers = self.cluster.stats(now).servers;
        self.baseline.iter().zip(&servers).map(|(before, now)| ServerStats::between(before, now)).collect()
    }

    /// Starts counting anew.
    pub fn reset_stats(&mut self, now: Nanos) {
        self.baseline = self.cluster.stats(now).servers;
    }
}

/// The volume of each disk server; none with `stock`.
///
/// # Errors
/// A policy or profile that is unknown, a slice without room, or a delay that is none.
pub(crate) fn volume(config: &TestbedConfig) -> Result<Option<VolumeConfig>> {
    let invalid = |option, reason: String| Err(Error::Invalid { option, reason });
    if config.server_policy == "stock" {
        return Ok(None);
    }
    let Ok(names) = config.server_policy.parse::<Names>() else {
        let known = Names::KNOWN;
        return invalid("--server-policy", format!("'{}' is not one of stock|{known}", config.server_policy));
    };
    let flash = parse("--server-flash", &config.server_flash_profile)?.device();
    if matches!(flash, DeviceConfig::Hdd(_)) {
        return invalid("--server-flash", format!("{} is a hard disk", config.server_flash_profile));
    }
    if Layout::new(config.server_slice_bytes, GUARD_BLOCKS_MAX).is_none() {
        return invalid("--server-slice", format!("{} bytes have no room for a volume", config.server_slice_bytes));
    }
    if !(1.0..60e3).contains(&config.server_delay_max_ms) {
        return invalid("--server-delay-max-ms", format!("{} is not from 1 to 60000", config.server_delay_max_ms));
    }
    let delay_max = Nanos::from_millis(config.server_delay_max_ms);
    let disk = server_config(config, parse("--hdd-profile", &config.hdd_profile)?);
    Ok(Some(VolumeConfig {
        flash,
        flash_bytes: config.server_slice_bytes,
        names,
        settings: chain::Settings {
            liu: liu::Settings::default(),
            itransformer: itransformer::Settings { delay_max, ..itransformer::Settings::default() },
        },
        sizes: sizes(names, &disk, flash),
        heads_percent: None,
    }))
}

fn server_config(config: &TestbedConfig, profile: Profile) -> ServerConfig {
    let read_ahead = config.drive_read_ahead;
    ServerConfig {
        nic: match config.network {
            Network::Gbe => NicConfig::GIGABIT,
            Network::None => NicConfig::NONE,
        },
        elevator: match config.elevator {
            Elevator::Deadline => ElevatorKind::Deadline,
            Elevator::Noop => ElevatorKind::Noop,
        },
        server_cache_bytes: config.server_cache_bytes,
        drive_write_cache: config.drive_write_cache,
        drive_read_ahead: read_ahead.map(|segments| (segments.segment_count as usize, segments.segment_bytes)),
        ..ServerConfig::new(profile)
    }
}
