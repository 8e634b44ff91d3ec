//! What a file is: its inode and birth time, below the managed directory.
//!
//! All files that are managed lie on the managed directory's own file system, within which inodes tell files
//! apart. Its device number is looked up at each start and kept in memory alone: another node, or this one
//! after its next boot, gives it another.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use headstart_overlay::journal::Identity;

use crate::error::{Error, Result};

/// The device number that the managed directory's file system has on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ManagedDevice(u64);

impl ManagedDevice {
    /// That of the directory `slow`.
    pub(crate) fn of(slow: &Path) -> Result<ManagedDevice> {
        let found = std::fs::metadata(slow).map_err(|error| Error::file("look at", slow, error))?;
        Ok(ManagedDevice(found.dev()))
    }

    /// Whether it is this one.
    pub(crate) fn is(self, device: u64) -> bool {
        self.0 == device
    }

    /// Who a file is that was found; nobody if it lies on another file system.
    pub(crate) fn identify(self, found: &Metadata) -> Option<Identity> {
        self.is(found.dev()).then(|| Identity { inode: found.ino(), birth_ns: birth_ns(found) })
    }

    /// Whether the file that was found is the one that is meant.
    pub(crate) fn finds(self, found: &Metadata, meant: Identity) -> bool {
        self.identify(found).is_some_and(|found| is_same(found, meant))
    }
}

/// Whether a file that was found is the one that is `meant`. Where the birth time of that is not known the
/// inode decides alone.
pub(crate) fn is_same(found: Identity, meant: Identity) -> bool {
    found.inode == meant.inode && (meant.birth_ns == 0 || found.birth_ns == meant.birth_ns)
}

/// Birth time in nanoseconds since 1970; zero where the file system keeps none.
pub(crate) fn birth_ns(found: &Metadata) -> u64 {
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    born.map_or(0, |born| born.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_file_system_is_nobody_and_a_known_birth_time_has_to_match() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, b"").unwrap();
        let (found, device) = (std::fs::metadata(&path).unwrap(), ManagedDevice::of(directory.path()).unwrap());
        let identity = device.identify(&found).unwrap();
        assert!(device.finds(&found, identity));
        assert!(device.finds(&found, Identity { birth_ns: 0, ..identity }));
        assert!(!device.finds(&found, Identity { birth_ns: identity.birth_ns + 1, ..identity }));
        assert!(!device.finds(&found, Identity { inode: identity.inode + 1, ..identity }));
        let elsewhere = ManagedDevice(found.dev() + 1);
        assert_eq!(elsewhere.identify(&found), None);
        assert!(!elsewhere.finds(&found, identity));
    }
}
