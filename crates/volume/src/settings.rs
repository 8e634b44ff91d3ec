//! What may be chosen when a volume is served.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use headstart_block::engine;
use headstart_block::superblock::Uuid;
pub use headstart_policy::server::chain::Names as PolicyName;
use headstart_policy::server::{itransformer, liu};
use serde::{Deserialize, Serialize};

use crate::control::directory;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As soon as it is on flash or on disk, as the policy wants.
    #[default]
    WriteBack,
    /// When it is on disk: flash never holds the only copy, and the disk is not guarded.
    WriteThrough,
}

/// A word that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is not one of {known}")]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

impl FromStr for Mode {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Mode, UnknownWord> {
        match text {
            "write-back" => Ok(Mode::WriteBack),
            "write-through" => Ok(Mode::WriteThrough),
            _ => Err(UnknownWord { word: text.to_owned(), known: "write-back, write-through" }),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::WriteBack => "write-back",
            Mode::WriteThrough => "write-through",
        })
    }
}

/// How a volume is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When a write is acknowledged.
    pub mode: Mode,
    /// What goes to flash.
    pub policy: PolicyName,
    /// The most that iTransformer adds to a foreground request.
    pub delay_max: Duration,
    /// Percent of a segment that is asked for while it is in LiU's stack, from which on it is lifted and loaded.
    pub threshold_percent: u32,
    /// The volume that is meant; another one is refused.
    pub uuid: Option<Uuid>,
    /// The engine's own.
    pub engine: engine::Settings,
    /// After so long without a request the log gets a checkpoint (assumed: short beside the minutes in which bits rot).
    pub idle: Duration,
    /// The directory of the volume's control socket; none: it has none.
    pub control: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::default(),
            policy: PolicyName::default(),
            delay_max: Duration::from_nanos(itransformer::Settings::default().delay_max.0),
            threshold_percent: liu::Settings::default().threshold_percent,
            uuid: None,
            engine: engine::Settings::default(),
            idle: Duration::from_secs(1),
            control: Some(directory::path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_policies_are_read_as_they_are_written() {
        for mode in [Mode::WriteBack, Mode::WriteThrough] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
        }
        for policy in PolicyName::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{policy}\""));
        }
        assert_eq!("fast".parse::<Mode>().unwrap_err().to_string(), "'fast' is not one of write-back, write-through");
    }
}
