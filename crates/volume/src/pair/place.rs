//! Where the bytes of a device really lie, as far as it can be told: two names may mean the same bytes.
//!
//! A partition lies in its disk, a loop device in a file or in another device. What device mapper and md make
//! of others needs no look: the kernel refuses to open those others with O_EXCL.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use headstart_units::request::Range;

use super::identity::{attribute, sysfs};
use super::problem::{OpenError, Problem};
use crate::device::DeviceName;

/// What holds the bytes in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Root {
    /// A whole disk, by its number.
    Disk(u64),
    /// A file, by file system and inode.
    File(u64, u64),
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    root: Root,
    range: Range,
}

/// Refuses two names of the same bytes. What cannot be looked at is for whoever opens it.
pub(super) fn refuse_same(disk: &DeviceName, flash: &DeviceName) -> Result<(), OpenError> {
    let (Some(one), Some(other)) = (place(disk.path()), place(flash.path())) else { return Ok(()) };
    if one.root != other.root || !one.range.overlaps(other.range) {
        return Ok(());
    }
    let why = match (&one.root, one == other) {
        (_, true) if disk.path() == flash.path() => "it is the same".into(),
        (Root::File(..), true) => "both names lead to the same file".into(),
        (Root::Disk(_), true) => "both names lead to the same disk".into(),
        (_, false) => "one is a part of the other".into(),
    };
    Err(OpenError { name: flash.clone(), problem: Problem::Same { other: disk.clone(), why } })
}

fn place(path: &Path) -> Option<Place> {
    of(&fs::metadata(path).ok()?)
}

/// Offset and length of a partition or loop device within what holds it, in sysfs's units.
fn number(directory: &Path, name: &str) -> Option<u64> {
    attribute(directory, name)?.parse().ok()
}

fn of(metadata: &Metadata) -> Option<Place> {
    if !metadata.file_type().is_block_device() {
        let root = Root::File(metadata.dev(), metadata.ino());
        return Some(Place { root, range: Range::new(0, u64::MAX) });
    }
    let directory = sysfs(metadata.rdev());
    let bytes = number(&directory, "size").map_or(u64::MAX, |sectors| sectors.saturating_mul(512));
    of_block_device(&directory, metadata.rdev(), bytes)
}

fn of_block_device(directory: &Path, device: u64, bytes: u64) -> Option<Place> {
    if attribute(directory, "partition").is_some() {
        let parent = directory.parent()?;
        let whole = of_block_device(parent, device_number(parent)?, u64::MAX)?;
        return Some(whole.part(number(directory, "start")?.saturating_mul(512), bytes));
    }
    if let Some(backing) = attribute(directory, "loop/backing_file")
        && let Ok(metadata) = fs::metadata(backing)
    {
        return Some(of(&metadata)?.part(number(directory, "loop/offset").unwrap_or(0), bytes));
    }
    Some(Place { root: Root::Disk(device), range: Range::new(0, bytes) })
}

fn device_number(directory: &Path) -> Option<u64> {
    let text = attribute(directory, "dev")?;
    let (major, minor) = text.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

impl Place {
    fn part(self, offset: u64, bytes: u64) -> Place {
        let start = self.range.offset.saturating_add(offset);
        Place { range: Range::new(start, bytes), ..self }
    }
}
