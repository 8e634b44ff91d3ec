//! Whether a disk makes zeros by itself and gives up the room they take: a discard is passed on to it then, and
//! refused otherwise.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::identity::{attribute, sysfs};
use super::open_device::OpenDevice;
use crate::device::DeviceName;
use crate::storage::positioned;

/// What a file system that knows holes is asked for to find that out: a block behind the end of the file, where there
/// is nothing.
const TRIED_BYTES: u64 = 4096;

impl OpenDevice {
    /// Whether the device makes zeros of a range by itself. A block device has to discard, and to promise zeros; the
    /// kernel says both. An emulated one is a device that has to be written.
    pub fn makes_zeros(&self) -> bool {
        if let DeviceName::Emulated { .. } = self.name {
            return false;
        }
        let Ok(metadata) = self.file.metadata() else { return false };
        if metadata.file_type().is_block_device() {
            return queue_makes_zeros(&sysfs(metadata.rdev()));
        }
        positioned::zero(&self.file, self.bytes.next_multiple_of(TRIED_BYTES), TRIED_BYTES).is_ok()
    }
}

/// A partition has the queue of its disk.
fn queue_makes_zeros(directory: &Path) -> bool {
    let of = |directory: &Path, name: &str| attribute(&directory.join("queue"), name)?.parse::<u64>().ok();
    let limit = |name| of(directory, name).or_else(|| of(directory.parent()?, name)).unwrap_or(0);
    limit("discard_max_bytes") > 0 && limit("write_zeroes_max_bytes") > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_device_makes_zeros_if_it_discards_and_promises_them() {
        let directory = tempfile::tempdir().unwrap();
        let partition = directory.path().join("sda1");
        std::fs::create_dir_all(directory.path().join("queue")).unwrap();
        std::fs::create_dir(&partition).unwrap();
        for (discards, zeros, expected) in
            [("0", "0", false), ("0", "8192", false), ("8192", "0", false), ("8192", "512", true)]
        {
            std::fs::write(directory.path().join("queue/discard_max_bytes"), format!("{discards}\n")).unwrap();
            std::fs::write(directory.path().join("queue/write_zeroes_max_bytes"), format!("{zeros}\n")).unwrap();
            assert_eq!(queue_makes_zeros(directory.path()), expected, "{discards}, {zeros}");
            assert_eq!(queue_makes_zeros(&partition), expected, "{discards}, {zeros}");
        }
        assert!(!queue_makes_zeros(Path::new("/none")));
    }
}
