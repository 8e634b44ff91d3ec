//! Where the control sockets of served volumes are: one directory per user, on a tmpfs, 0700.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use headstart_block::superblock::Uuid;

/// Environment: where runtime directories are, the client side's too.
pub const ENVIRONMENT_BASE: &str = "HEADSTART_RUNTIME_BASE";

/// The directory.
pub fn path() -> PathBuf {
    if let Some(base) = std::env::var_os(ENVIRONMENT_BASE) {
        return PathBuf::from(base).join("volume");
    }
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/run/headstart/volume");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(base) => PathBuf::from(base).join("headstart/volume"),
        None => PathBuf::from(format!("/dev/shm/headstart-{}/volume", nix::unistd::geteuid())),
    }
}

/// The socket of a volume in a directory.
pub fn socket(directory: &Path, uuid: &Uuid) -> PathBuf {
    directory.join(format!("{}.sock", name(uuid)))
}

/// A volume's name in words.
pub fn name(uuid: &Uuid) -> String {
    uuid::Uuid::from_bytes(*uuid).hyphenated().to_string()
}

/// Makes the directory, readable by its owner alone; refuses one that belongs to somebody else.
pub fn create(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if std::fs::metadata(directory)?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"));
    }
    Ok(())
}

/// The sockets of all volumes, also of those whose server was killed.
pub fn sockets() -> Vec<PathBuf> {
    sockets_in(&path())
}

/// Those in a directory.
pub fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut sockets: Vec<PathBuf> = paths.filter(|path| path.extension() == Some(OsStr::new("sock"))).collect();
    sockets.sort();
    sockets
}

/// A device's name, so that different ways of writing it are equal.
pub fn canonical(device: &str) -> PathBuf {
    let file = match device.strip_prefix("emulated:").and_then(|rest| rest.split_once(':')) {
        Some((_, file)) => file,
        None => device,
    };
    Path::new(file).canonicalize().unwrap_or_else(|_| PathBuf::from(file))
}
