//! Who uses a device already: mounts, swap, device mapper and md, loop devices.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use super::identity::{attribute, sysfs};

/// Who uses it, and how to end that; none: nobody that can be seen.
pub(super) fn of(metadata: &Metadata) -> Option<String> {
    if metadata.file_type().is_block_device() { of_block_device(metadata.rdev()) } else { of_file(metadata) }
}

fn of_block_device(device: u64) -> Option<String> {
    if let Some(place) = mount_of(device) {
        return Some(format!("it is mounted at {place}; 'umount {place}' first"));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let names = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if let Some(name) = names.into_iter().find(|name| number_of(name) == Some(device)) {
        return Some(format!("the kernel swaps to it; 'swapoff {name}' first"));
    }
    let directory = sysfs(device);
    let partitions = fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for partition in partitions.filter(|path| path.join("partition").exists()) {
        let name = partition.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(place) = number_of(&format!("/dev/{name}")).and_then(mount_of) {
            return Some(format!("its partition {name} is mounted at {place}; 'umount {place}' first"));
        }
    }
    let holders = fs::read_dir(directory.join("holders")).into_iter().flatten().flatten();
    let holders: Vec<String> = holders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    (!holders.is_empty()).then(|| format!("it is a part of {}; take that apart first", holders.join(", ")))
}

/// A loop device that was told to go goes when the last program that looks at it has closed it: udev and
/// `pvs` do so for some milliseconds.
const TRIES_WHILE_GOING: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// A file that a loop device shows, and goes on showing.
fn of_file(metadata: &Metadata) -> Option<String> {
    for _ in 1..TRIES_WHILE_GOING {
        let shown = shown_by(metadata)?;
        if !shown.is_going {
            return Some(shown.text());
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    shown_by(metadata).map(|shown| shown.text())
}

/// A loop device.
struct Shown {
    name: String,
    mounted_at: Option<String>,
    /// `losetup -d` was called.
    is_going: bool,
}

impl Shown {
    fn text(&self) -> String {
        let name = &self.name;
        match &self.mounted_at {
            Some(place) => format!(
                "loop device {name} shows it, mounted at {place}; 'umount {place}' and 'losetup -d {name}' first"
            ),
            None => format!("loop device {name} shows it; name that one, or 'losetup -d {name}' first"),
        }
    }
}

fn shown_by(metadata: &Metadata) -> Option<Shown> {
    for entry in fs::read_dir("/sys/block").ok()?.flatten() {
        let directory = entry.path();
        let Some(backing) = attribute(&directory, "loop/backing_file") else { continue };
        let same = fs::metadata(&backing).is_ok_and(|of| of.dev() == metadata.dev() && of.ino() == metadata.ino());
        if same {
            let name = PathBuf::from("/dev").join(entry.file_name()).display().to_string();
            let mounted_at = number_of(&name).and_then(mount_of);
            // `mount -o loop` sets it as well.
            let goes_when_closed = attribute(&directory, "loop/autoclear").as_deref() == Some("1");
            return Some(Shown { name, is_going: goes_when_closed && mounted_at.is_none(), mounted_at });
        }
    }
    None
}

fn number_of(path: &str) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

/// Where a device is mounted. btrfs has numbers of its own there, and is known by its source.
fn mount_of(device: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let front: Vec<&str> = front.split(' ').collect();
        let source = back.split(' ').nth(1)?;
        let is_this = front.get(2)? == &number || number_of(source) == Some(device);
        is_this.then(|| front.get(4).map(|place| (*place).to_owned()))?
    })
}
