//! Directories that are there after a power failure.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::libc;

use crate::error::{Error, Result};

/// Makes the directory for this user alone where it is missing, durably; its parent must be there.
pub(crate) fn make(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::file("make", path, error)),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync(path: &Path) -> Result<()> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        // Some file systems sync directories without being told, and refuse to be.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
        synced => synced.map_err(|error| Error::file("sync", path, error)),
    }
}
