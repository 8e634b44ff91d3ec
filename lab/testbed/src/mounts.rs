//! Mount points: whether they can be used, and getting rid of mounts, live or stale.
//!
//! A mount whose server was killed is stale: every use of it fails with ENOTCONN until it is unmounted.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use fuser::{Config, MountOption, SessionACL};

use crate::error::{Error, Result};
use crate::system::{check, user_id};

/// The device behind every FUSE mount.
const FUSE_DEVICE: &str = "/dev/fuse";

/// How the source of our mounts begins in /proc/self/mountinfo.
const SOURCE: &str = "headstart:";

/// How a mount was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    /// Nothing was mounted there.
    Nothing,
    /// Gone.
    Clean,
    /// Detached; processes that still have files open there get errors from now on.
    Lazily,
}

/// How this crate mounts: everybody may use a mount of root's.
pub(crate) fn options(point: &Path) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE}{}", point.display())),
        MountOption::Subtype("headstart".to_string()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    config.acl = if user_id() == 0 { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(1);
    config
}

/// Checks that FUSE can be used at all.
pub(crate) fn check_fuse() -> Result<()> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(FUSE_DEVICE);
    opened.map(|_| ()).map_err(|source| Error::NoFuse { device: FUSE_DEVICE.into(), source })
}

/// Makes sure that `path` is an empty directory, after removing a stale mount from it; returns its absolute path.
pub(crate) fn prepare(what: &'static str, path: &Path) -> Result<PathBuf> {
    let missing = |source| Error::MissingDirectory { what, path: path.to_path_buf(), source };
    if is_stale(path) {
        unmount(path).map_err(Error::io("unmount the stale mount", path))?;
    }
    let absolute = fs::canonicalize(path).map_err(missing)?;
    if is_mounted(&absolute) {
        let reason =
            format!("{} is a testbed's mount already; use: headstart-lab testbed down {0}", absolute.display());
        return Err(Error::Invalid { option: if what == "slow" { "--slow" } else { "--fast" }, reason });
    }
    let mut entries = fs::read_dir(&absolute).map_err(missing)?;
    if entries.next().is_some() {
        return Err(Error::NotEmpty { what, path: absolute });
    }
    Ok(absolute)
}

/// Whether the server behind a mount is gone.
pub(crate) fn is_stale(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)))
}

/// Whether one of our mounts is at exactly this absolute path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let Ok(table) = fs::read("/proc/self/mountinfo") else { return false };
    let table = String::from_utf8_lossy(&table);
    table.lines().any(|line| {
        let (mount, origin) = line.split_once(" - ").unwrap_or((line, ""));
        let point = mount.split(' ').nth(4).map(unescape);
        let source = origin.split(' ').nth(1).unwrap_or("");
        source.starts_with(SOURCE) && point.as_deref() == Some(path)
    })
}

/// mountinfo writes space, tab, newline and backslash in octal.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Removes our mount at `path`, lazily if it is busy.
///
/// # Errors
/// What the kernel or fusermount3 said.
pub(crate) fn unmount(path: &Path) -> io::Result<Unmounted> {
    if !is_mounted(path) {
        return Ok(Unmounted::Nothing);
    }
    match try_unmount(path, 0) {
        Ok(()) => Ok(Unmounted::Clean),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            try_unmount(path, libc::MNT_DETACH).map(|()| Unmounted::Lazily)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => with_fusermount(path),
        Err(error) => Err(error),
    }
}

fn try_unmount(path: &Path, flags: i32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string that lives across the call.
    check(unsafe { libc::umount2(path.as_ptr(), flags | libc::UMOUNT_NOFOLLOW) }).map(|_| ())
}

/// For users other than root.
fn with_fusermount(path: &Path) -> io::Result<Unmounted> {
    for (arguments, outcome) in [(&["-u"][..], Unmounted::Clean), (&["-u", "-z"], Unmounted::Lazily)] {
        let output = Command::new("fusermount3").args(arguments).arg("--").arg(path).output()?;
        if output.status.success() {
            return Ok(outcome);
        }
    }
    Err(io::Error::other("fusermount3 -u refused"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape(r"/a\040b\134c"), PathBuf::from(r"/a b\c"));
        assert_eq!(unescape(r"/plain\9"), PathBuf::from(r"/plain\9"));
    }
}
