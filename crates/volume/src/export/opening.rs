//! A volume from its names to its server, as `volume serve` and the plugin of nbdkit start it.

use std::time::Duration;

use headstart_block::superblock::Serving;

use crate::device::DeviceName;
use crate::pair::{OpenError, Pair};
use crate::server::{Server, StartError};
use crate::settings::{Mode, PolicyName, Settings};

/// What a user asked for. What he did not say is as the volume was created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// When a write is acknowledged.
    pub mode: Option<Mode>,
    /// What goes to flash.
    pub policy: Option<PolicyName>,
    /// The most that the policy adds to a foreground request.
    pub delay_max: Option<Duration>,
    /// Percent of a segment from which on LiU lifts and loads it, 1 to 100.
    pub threshold_percent: Option<u32>,
}

/// Why a volume is not served.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// A device cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// LiU is asked for.
    #[error(
        "{0}: the volume was created without room for heads; detach it and create it with --policy liu, \
         liu,itransformer or auto"
    )]
    NoHeads(String),
    /// What is on them.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Wishes {
    fn settings(self, created: Option<Serving>) -> Settings {
        // Where there is no volume the start says so.
        let settings = Settings::default();
        let created = created.unwrap_or_default();
        let mode = if created.write_through { Mode::WriteThrough } else { Mode::WriteBack };
        Settings {
            mode: self.mode.unwrap_or(mode),
            policy: self.policy.unwrap_or(PolicyName::of_number(created.policy)),
            delay_max: self.delay_max.unwrap_or(settings.delay_max),
            threshold_percent: self.threshold_percent.unwrap_or(settings.threshold_percent),
            ..settings
        }
    }
}

/// Opens both devices for this process alone, recovers the volume and serves it.
pub fn open(disk: &DeviceName, flash: &DeviceName, wishes: Wishes) -> Result<Server, OpeningError> {
    let mut pair = Pair::open(disk, flash)?;
    let created = pair.serving().map_err(|failed| OpeningError::Unreadable(pair.describe(failed)))?;
    let settings = wishes.settings(created);
    let has_heads = created.is_none_or(|serving| !serving.segments.is_none());
    if settings.mode == Mode::WriteBack && settings.policy.needs_heads() && !has_heads {
        return Err(OpeningError::NoHeads(pair.flash.name.to_string()));
    }
    Ok(Server::start(pair, settings)?)
}
