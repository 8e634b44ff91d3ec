//! The testbed: the models of `headstart-model` in real time, as two mounted directories of emulated file servers.
//!
//! `up` starts a server process that mounts a slow directory (disk servers) and a fast one (flash servers).
//! Files in them are real and live in a backing directory; every data request takes the time the models say.
//! `stats` tells what the servers did and whether the times can be trusted, `down` ends it, `disk` serves a
//! single emulated disk as a file, `profile` measures in virtual time what a site's cost model needs, and
//! `figures` are a device's own, for a calibration to find.
//!
//! Nothing here decides anything; the decisions under test live in other crates and see two ordinary directories.

pub mod config;
pub mod control;
pub mod disk;
pub mod error;
pub mod figures;
pub mod filesystem;
pub mod lifecycle;
mod mounts;
pub mod placement;
pub mod profile;
pub mod runtime;
pub mod serve;
pub mod servers;
pub mod stats;
pub mod system;
mod validation;

pub use config::TestbedConfig;
pub use error::{Error, Result};
pub use lifecycle::{Down, RunningInfo, down, stats, up};
pub use serve::serve;
pub use stats::TestbedStats;
