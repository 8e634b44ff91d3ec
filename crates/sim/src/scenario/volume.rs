//! What lies between disk servers and their disks.

use headstart_core::overlay::Capacity;
use headstart_core::units::Nanos;
use headstart_core::volume::layout::{BLOCK_BYTES, GUARD_BLOCKS_MAX, Layout};
use headstart_model::profile::Profile;
use headstart_model::server::{DeviceConfig, VolumeConfig};
use serde::{Deserialize, Serialize};

use super::ScenarioError;

/// The policy of disk servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerPolicy {
    /// The disk alone.
    #[default]
    Stock,
    /// A volume with iTransformer.
    ITransformer,
}

impl ServerPolicy {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ServerPolicy::Stock => "stock",
            ServerPolicy::ITransformer => "itransformer",
        }
    }
}

impl std::str::FromStr for ServerPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerPolicy, String> {
        let all = [ServerPolicy::Stock, ServerPolicy::ITransformer];
        let found = all.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| format!("there is no server policy '{text}' to simulate; there are stock | itransformer"))
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
}

impl Default for Volume {
    fn default() -> Volume {
        Volume { flash: Profile::Pm9a3.name().into(), slice: "20%".into(), delay_max_ms: 50.0 }
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
        Ok(())
    }

    /// The volume of a server that holds so many bytes of files.
    pub fn config(&self, file_bytes: u64) -> VolumeConfig {
        let flash_bytes = match self.slice.parse().expect("a checked scenario has a slice") {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(share) => ((file_bytes as f64 * share) as u64).max(SLICE_BYTES_MIN),
        };
        let flash: Profile = self.flash.parse().expect("a checked scenario names a profile");
        VolumeConfig {
            flash: flash.device(),
            flash_bytes: flash_bytes / BLOCK_BYTES * BLOCK_BYTES,
            delay_max: Nanos::from_millis(self.delay_max_ms),
        }
    }
}
