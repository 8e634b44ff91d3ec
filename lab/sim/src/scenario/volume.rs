//! What lies between disk servers and their disks.

use headstart_block::layout::{GUARD_BLOCKS_MAX, Layout};
use headstart_model::device::config::DeviceConfig;
use headstart_model::profile::Profile;
use headstart_model::server::probe::sizes;
use headstart_model::server::{ServerConfig, VolumeConfig};
use headstart_policy::server::chain;
use headstart_policy::server::chain::Names;
use headstart_policy::server::itransformer;
use headstart_policy::server::liu;
use headstart_policy::server::liu::Sizes;
use headstart_units::BLOCK_BYTES;
use headstart_units::Capacity;
use headstart_units::Nanos;
use serde::{Deserialize, Serialize};

use super::{ScenarioError, Size};

/// The policy of disk servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ServerPolicy {
    /// The disk alone.
    #[default]
    Stock,
    /// A volume with these policies.
    Volume(Names),
}

impl ServerPolicy {
    /// A volume with iTransformer.
    pub const ITRANSFORMER: ServerPolicy = ServerPolicy::Volume(Names::ITransformer);

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ServerPolicy::Stock => "stock",
            ServerPolicy::Volume(names) => names.name(),
        }
    }
}

impl std::str::FromStr for ServerPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerPolicy, String> {
        let known = || format!("there is no server policy '{text}' to simulate; there are stock|{}", Names::KNOWN);
        if text == "stock" {
            Ok(ServerPolicy::Stock)
        } else {
            text.parse().map(ServerPolicy::Volume).map_err(|_| known())
        }
    }
}

impl TryFrom<String> for ServerPolicy {
    type Error = String;

    fn try_from(text: String) -> Result<ServerPolicy, String> {
        text.parse()
    }
}

impl From<ServerPolicy> for String {
    fn from(policy: ServerPolicy) -> String {
        policy.name().into()
    }
}

/// The volume of a disk server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Volume {
    /// Its flash, by the name of a profile.
    pub flash: String,
    /// The slice of each server: a size, or a share of its part of all files.
    pub slice: String,
    /// What iTransformer may add to a foreground request.
    pub delay_max_ms: f64,
    /// Length of LiU's heads; without it as measured on disk and flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Size>,
    /// Length of LiU's segments, heads included; without it as measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<Size>,
    /// Memory for LiU's segments.
    pub buffer: Size,
    /// Percent of a segment that is asked for while it is in LiU's stack, from which on it is lifted and loaded.
    pub threshold_percent: u32,
    /// Percent of the slice that is for heads; without it as much as the policies want.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads_percent: Option<u64>,
}

impl Default for Volume {
    fn default() -> Volume {
        let liu = liu::Settings::default();
        Volume {
            flash: Profile::Pm9a3.name().into(),
            slice: "20%".into(),
            delay_max_ms: 50.0,
            head: None,
            segment: None,
            buffer: Size(liu.buffer_bytes),
            threshold_percent: liu.threshold_percent,
            heads_percent: None,
        }
    }
}

/// Least slice that has room for a volume, and a little log.
const SLICE_BYTES_MIN: u64 = 8 << 20;

impl Volume {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let error = |key: &str, problem: String| Err(ScenarioError::new(format!("[volume] {key}"), problem));
        match self.flash.parse::<Profile>().map(Profile::device) {
            Err(unknown) => return error("flash", unknown.to_string()),
            Ok(DeviceConfig::Hdd(_)) => return error("flash", format!("{} is a hard disk", self.flash)),
            Ok(_) => {}
        }
        match self.slice.parse::<Capacity>() {
            Err(problem) => return error("slice", problem),
            Ok(Capacity::Bytes(bytes)) if Layout::new(bytes, GUARD_BLOCKS_MAX).is_none() => {
                return error("slice", format!("{bytes} bytes have no room for a volume; {SLICE_BYTES_MIN} have"));
            }
            Ok(_) => {}
        }
        if !(1.0..1e6).contains(&self.delay_max_ms) {
            return error("delay_max_ms", format!("{} is not milliseconds from 1 on", self.delay_max_ms));
        }
        if !(1..=100).contains(&self.threshold_percent) {
            return error("threshold_percent", format!("{} is not a number from 1 to 100", self.threshold_percent));
        }
        if self.heads_percent.is_some_and(|percent| percent > 95) {
            return error("heads_percent", "a log needs room too: at most 95".into());
        }
        if let (Some(head), Some(segment)) = (self.head, self.segment)
            && !(Sizes { segment_bytes: segment.0, head_bytes: head.0 }).are_sound()
        {
            return error("head", "it is at least 4 KiB, at most 4,096,000 bytes and less than the segment".into());
        }
        if self.head.is_some() != self.segment.is_some() {
            return error("segment", "head and segment are given together".into());
        }
        Ok(())
    }

    /// The volume of a server that holds so many bytes of files.
    pub fn config(&self, names: Names, disk: &ServerConfig, file_bytes: u64) -> VolumeConfig {
        let flash_bytes = match self.slice.parse().expect("a checked scenario has a slice") {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(share) => ((file_bytes as f64 * share) as u64).max(SLICE_BYTES_MIN),
        };
        let flash: Profile = self.flash.parse().expect("a checked scenario names a profile");
        let sizes = match (self.head, self.segment) {
            (Some(head), Some(segment)) => Sizes { segment_bytes: segment.0, head_bytes: head.0 },
            _ => sizes(names, disk, flash.device()),
        };
        let delay_max = Nanos::from_millis(self.delay_max_ms);
        let liu = liu::Settings {
            buffer_bytes: self.buffer.0,
            threshold_percent: self.threshold_percent,
            ..liu::Settings::default()
        };
        VolumeConfig {
            flash: flash.device(),
            flash_bytes: flash_bytes / BLOCK_BYTES * BLOCK_BYTES,
            names,
            settings: chain::Settings {
                liu,
                itransformer: itransformer::Settings { delay_max, ..itransformer::Settings::default() },
            },
            sizes,
            heads_percent: self.heads_percent,
        }
    }
}
