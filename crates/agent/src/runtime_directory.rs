//! Where an agent meets its processes: a private directory on a tmpfs, one per user and managed directory.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The runtime directory for the managed directory `slow`. `HEADSTART_RUNTIME_BASE` moves it; it must be on a
/// tmpfs, because what lies there must vanish with the machine's memory.
pub fn path(slow: &Path) -> PathBuf {
    base().join(format!("{:016x}", hash(slow.as_os_str().as_bytes())))
}

/// The same where runtime directories are unless `HEADSTART_RUNTIME_BASE` says otherwise.
pub fn default_path(of: &Path) -> PathBuf {
    default_base().join(format!("{:016x}", hash(of.as_os_str().as_bytes())))
}

fn default_base() -> PathBuf {
    PathBuf::from(format!("/dev/shm/headstart-{}", nix::unistd::getuid()))
}

/// Environment: where runtime directories are.
pub const ENVIRONMENT_BASE: &str = "HEADSTART_RUNTIME_BASE";

/// Where runtime directories are; absolute, as programs change their directory.
pub fn base() -> PathBuf {
    let base = std::env::var_os(ENVIRONMENT_BASE).map_or_else(default_base, PathBuf::from);
    std::path::absolute(&base).unwrap_or(base)
}

/// FNV-1a: names must be the same in every process of every version.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Creates the directory, readable by its owner alone; refuses one that belongs to somebody else.
pub fn create(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::file("create the runtime directory", path, error))?;
    for directory in [path.parent().unwrap_or(path), path] {
        let found = std::fs::metadata(directory).map_err(|error| Error::file("look at", directory, error))?;
        if found.uid() != nix::unistd::getuid().as_raw() {
            return Err(Error::file("use", directory, std::io::Error::other("it belongs to another user")));
        }
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|error| Error::file("protect", path, error))
}

/// The agent's log.
pub fn log(runtime: &Path) -> PathBuf {
    runtime.join("log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_directories_never_share_a_runtime() {
        assert_ne!(path(Path::new("/a")), path(Path::new("/b")));
    }
}
