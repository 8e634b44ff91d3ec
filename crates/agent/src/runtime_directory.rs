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

/// Start time of a process in clock ticks since boot; none if there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 2..];
    after_name.split(' ').nth(19)?.parse().ok()
}

/// Whether a process is stopped, by a signal or a debugger; of a freezer its state does not tell.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with(['T', 't']))
}

/// Whether a process has ended with all its threads, and only waits for somebody to ask for its exit status.
pub fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or("").split(' ');
    let (state, threads) = (fields.next(), fields.nth(16).and_then(|count| count.parse::<u32>().ok()));
    state == Some("Z") && threads.is_none_or(|count| count <= 1)
}

/// The kernel's boot id.
pub fn boot_id() -> Result<[u8; 16]> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(path).map_err(|error| Error::file("read", path, error))?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or("0");
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_a_dead_one_has_none() {
        assert!(start_time(std::process::id()).is_some());
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn two_directories_never_share_a_runtime() {
        assert_ne!(path(Path::new("/a")), path(Path::new("/b")));
        assert_ne!(boot_id().unwrap(), [0; 16]);
    }
}
