//! The place where the file appears, and mounts that a killed server left there.
//!
//! A mount without its server is stale: every use fails with ENOTCONN until it is unmounted. A loop device
//! that was made of it keeps failing, too, until it is detached.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fuser::{Config, MountOption, SessionACL};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

use super::THREADS;

/// Why a volume cannot appear at a path.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No path to it, or no right.
    #[error("{path}: {source}; name a file that is empty or absent in a directory that exists", path = path.display())]
    NoPlace {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, a device.
    #[error("{path} is no regular file; name a file that is empty or absent", path = .0.display())]
    NoFile(PathBuf),
    /// It holds something, which the mount would hide.
    #[error("{path} is not empty; the volume appears only in place of an empty file", path = .0.display())]
    NotEmpty(PathBuf),
    /// A living mount.
    #[error("{path} is mounted already; stop its server, or name another file", path = .0.display())]
    Mounted(PathBuf),
    /// A stale mount that stays.
    #[error("{path} is a mount whose server is gone, and it cannot be unmounted: {source}", path = path.display())]
    Stale {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel or fusermount3 refused.
    #[error("cannot mount on {path}: {source}; this needs /dev/fuse and, but for root, \
        fusermount3", path = path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How taking a file away ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// Somebody has it open, as a loop device has.
    InUse,
}

/// Everybody who may use the file may use it through the mount; a loop device is the kernel's, whoever makes it.
pub(super) fn options(path: &Path) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("headstart:{}", path.display())),
        MountOption::Subtype("headstart".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    config.acl = if nix::unistd::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

/// Makes sure that an empty regular file is there, after removing a stale mount from it; returns its absolute path.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, MountError> {
    let path = std::path::absolute(path).map_err(|source| MountError::NoPlace { path: path.to_owned(), source })?;
    if is_stale(&path) {
        detach(&path).map_err(|source| MountError::Stale { path: path.clone(), source })?;
    }
    let no_place = |source| MountError::NoPlace { path: path.clone(), source };
    if is_mounted(&path) {
        return Err(MountError::Mounted(path));
    }
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => return Err(MountError::NoFile(path)),
        Ok(found) if found.len() > 0 => return Err(MountError::NotEmpty(path)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(no_place)?;
        }
        Err(error) => return Err(no_place(error)),
    }
    path.canonicalize().map_err(no_place)
}

/// Whether the server behind a mount is gone.
pub fn is_stale(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)))
}

/// Whether something is mounted at exactly this path.
fn is_mounted(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid statx, which the call overwrites.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string that lives across the call, and the structure is valid for writing.
    let result = unsafe { libc::statx(libc::AT_FDCWD, name.as_ptr(), 0, 0, &mut status) };
    result == 0 && status.stx_attributes & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0
}

/// Unmounts, unless somebody has the file open.
pub(super) fn unmount(path: &Path) -> io::Result<Unmounted> {
    match umount2(path, MntFlags::UMOUNT_NOFOLLOW) {
        // EINVAL: nothing is mounted there, since somebody else was faster.
        Ok(()) | Err(Errno::EINVAL) => Ok(Unmounted::Gone),
        Err(Errno::EBUSY) => Ok(Unmounted::InUse),
        Err(Errno::EPERM) => match with_fusermount(path, "-u") {
            Ok(()) => Ok(Unmounted::Gone),
            Err(_) if is_mounted(path) => Ok(Unmounted::InUse),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

/// Unmounts, whoever has the file open.
pub(super) fn detach(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL) => Ok(()),
        Err(Errno::EPERM) => with_fusermount(path, "-uz"),
        Err(error) => Err(error.into()),
    }
}

/// For users other than root.
fn with_fusermount(path: &Path, how: &str) -> io::Result<()> {
    let output = Command::new("fusermount3").arg(how).arg("--").arg(path).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The loop devices made of the file at this path, as /sys names their backing files.
pub fn loop_devices(path: &Path) -> Vec<PathBuf> {
    let Ok(blocks) = fs::read_dir("/sys/block") else { return Vec::new() };
    let is_of_file = |entry: &fs::DirEntry| {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        Path::new(backing.trim_end_matches('\n')) == path
    };
    let mut devices: Vec<_> =
        blocks.flatten().filter(is_of_file).map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    devices.sort();
    devices
}
