//! What tells a disk from others, in 32 bytes that a superblock keeps.
//!
//! | device | identity |
//! |---|---|
//! | block device | `wwid:` or `serial:` as sysfs has it (`dm:`, the UUID of a mapped device), else `name:` and the kernel's name |
//! | partition | that of its disk, `+` and the sector where it begins |
//! | loop device | that of the file behind it, `+` and the sector where it begins if it is not the first |
//! | file | `file:`, its inode, `@` and its time of birth in ns, both hexadecimal |
//!
//! A file's identity has no number of its file system: XFS makes that of the device's number, which changes
//! from boot to boot. Inode and time of birth are not the same for any two files, nor for a file and its
//! copy, unless a whole file system is copied block by block; nothing in the file system tells that from its
//! original. A text longer than 32 bytes is cut, and ends in `~` and a checksum of all of it.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use headstart_block::superblock::DiskIdentity;

/// The identity of a device.
pub(super) fn of(path: &Path, metadata: &Metadata) -> DiskIdentity {
    let text = if metadata.file_type().is_block_device() {
        of_block_device(&sysfs(metadata.rdev())).unwrap_or_else(|| format!("name:{}", path.display()))
    } else {
        of_file(metadata)
    };
    pack(&text)
}

/// An identity as people read it.
pub fn text(identity: &DiskIdentity) -> String {
    let end = identity.iter().position(|byte| *byte == 0).unwrap_or(identity.len());
    identity[..end].escape_ascii().to_string()
}

fn pack(text: &str) -> DiskIdentity {
    let mut identity = [0; 32];
    let bytes = text.as_bytes();
    if bytes.len() <= identity.len() {
        identity[..bytes.len()].copy_from_slice(bytes);
    } else {
        identity[..15].copy_from_slice(&bytes[..15]);
        identity[15..].copy_from_slice(format!("~{:016x}", checksum(bytes)).as_bytes());
    }
    identity
}

/// FNV-1a of 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A block device's directory in sysfs.
pub(super) fn sysfs(device: u64) -> PathBuf {
    let path = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device)));
    path.canonicalize().unwrap_or(path)
}

/// A file of sysfs, if it says anything.
pub(super) fn attribute(directory: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(name)).ok()?;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}

fn of_block_device(directory: &Path) -> Option<String> {
    if attribute(directory, "partition").is_some() {
        let start = attribute(directory, "start")?;
        return Some(format!("{}+{start}", of_block_device(directory.parent()?)?));
    }
    if let Some(backing) = attribute(directory, "loop/backing_file")
        && let Ok(metadata) = fs::metadata(&backing)
    {
        let start: u64 = attribute(directory, "loop/offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let whole = if metadata.file_type().is_block_device() {
            of_block_device(&sysfs(metadata.rdev()))?
        } else {
            of_file(&metadata)
        };
        return Some(if start == 0 { whole } else { format!("{whole}+{}", start / 512) });
    }
    let places = [
        ("wwid", "wwid"),
        ("wwid", "device/wwid"),
        ("dm", "dm/uuid"),
        ("serial", "serial"),
        ("serial", "device/serial"),
    ];
    let said = places.iter().find_map(|(kind, place)| Some(format!("{kind}:{}", attribute(directory, place)?)));
    said.or_else(|| Some(format!("name:{}", directory.file_name()?.to_str()?)))
}

fn of_file(metadata: &Metadata) -> String {
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("file:{:x}@{:x}", metadata.ino(), born.map_or(0, |time| time.as_nanos()))
}
