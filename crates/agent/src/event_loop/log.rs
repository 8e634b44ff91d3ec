//! The agent's log: bounded, with the one before it kept as `log.1`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::runtime_directory;

/// A log longer than this is put aside, unless the site file says otherwise: it lies in memory.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// How often its length is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// See the module.
pub(super) struct Log {
    path: PathBuf,
    bytes_max: u64,
    last_look: Instant,
}

impl Log {
    /// The log in the runtime directory; by the site file it may grow to `bytes_max`.
    pub(super) fn of(runtime: &Path, bytes_max: Option<u64>) -> Log {
        let path = runtime_directory::log(runtime);
        Log { path, bytes_max: bytes_max.unwrap_or(LOG_BYTES_MAX), last_look: Instant::now() }
    }

    /// Puts the log aside when it has grown too long; whether it did.
    pub(super) fn rotate(&mut self) -> bool {
        if self.last_look.elapsed() < LOOK_PERIOD {
            return false;
        }
        self.last_look = Instant::now();
        let (path, bytes_max) = (&self.path, self.bytes_max);
        let rotated = rotate(path, bytes_max)
            .inspect_err(|error| tracing::warn!(%error, path = %path.display(), "the log could not be put aside"));
        if matches!(rotated, Ok(true)) {
            tracing::info!(bytes_max, "the log before this one is log.1");
        }
        matches!(rotated, Ok(true))
    }
}

/// Whether stderr is the log at `path` and longer than allowed; then it is another one afterwards.
fn rotate(path: &Path, bytes_max: u64) -> io::Result<bool> {
    let log = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let own = log.metadata()?;
    if own.len() <= bytes_max {
        return Ok(false);
    }
    let Ok(named) = std::fs::metadata(path) else { return Ok(false) };
    if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
        return Ok(false);
    }
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let next = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&fresh)?;
    std::fs::rename(path, path.with_extension("1"))?;
    std::fs::rename(&fresh, path)?;
    nix::unistd::dup2_stderr(&next)?;
    nix::unistd::dup2_stdout(&next)?;
    Ok(true)
}
