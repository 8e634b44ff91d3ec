//! Where the control sockets of served volumes are: one directory per user, on a tmpfs, 0700.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use headstart_core::volume::superblock::Uuid;

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

/// The socket of a volume.
pub fn socket(uuid: &Uuid) -> PathBuf {
    path().join(format!("{}.sock", name(uuid)))
}

/// A volume's name in words.
pub fn name(uuid: &Uuid) -> String {
    uuid::Uuid::from_bytes(*uuid).hyphenated().to_string()
}

/// Makes the directory, readable by its owner alone; refuses one that belongs to somebody else.
pub fn create() -> io::Result<PathBuf> {
    let path = path();
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    if std::fs::metadata(&path)?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"));
    }
    Ok(path)
}

/// The sockets of all volumes, also of those whose server was killed.
pub fn sockets() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path()).into_iter().flatten().flatten();
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
