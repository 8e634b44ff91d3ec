//! The agent's log: bounded, with the one before it kept as `log.1`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::EventLoop;
use crate::runtime_directory;

/// A log longer than this is put aside, unless the site file says otherwise: it lies in memory.
const LOG_BYTES_MAX: u64 = 1 << 20;
/// How often its length is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

impl EventLoop<'_> {
    /// Puts the log aside when it has grown too long.
    pub(super) fn rotate_log(&mut self) {
        if self.last_log_look.elapsed() < LOOK_PERIOD {
            return;
        }
        self.last_log_look = Instant::now();
        let own = self.options.site.agent.as_ref().and_then(|agent| agent.log_bytes_max);
        let bytes_max = own.unwrap_or(LOG_BYTES_MAX);
        let path = runtime_directory::log(&runtime_directory::path(&self.options.site.slow));
        match rotate(&path, bytes_max) {
            Ok(false) => {}
            Ok(true) => {
                self.service.log_rotations_total += 1;
                tracing::info!(bytes_max, "the log before this one is log.1");
            }
            Err(error) => tracing::warn!(%error, path = %path.display(), "the log could not be put aside"),
        }
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
