//! A device, opened: how large it is, who it is, and that nobody else uses it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use headstart_block::devices::Device;
use headstart_block::layout::{GUARD_BLOCKS_MAX, Layout};
use headstart_block::superblock::DiskIdentity;
use headstart_units::{BLOCK_BYTES, SECTOR_BYTES};

use super::problem::{Access, OpenError, Problem};
use super::{aligned, identity, owner, usage};
use crate::device::DeviceName;

/// An open device.
#[derive(Debug)]
pub struct OpenDevice {
    /// As the user named it.
    pub name: DeviceName,
    /// The device, or the file that holds an emulated one's bytes.
    pub file: File,
    /// Its size.
    pub bytes: u64,
    /// What tells it from others.
    pub identity: DiskIdentity,
    /// Past the page cache (O_DIRECT). Requests of sectors, on flash of blocks, are then aligned enough;
    /// memory has to be as well.
    pub is_direct: bool,
    /// Of its reads and writes: the sector or block where it is direct, one byte where it is not.
    pub(super) unit_bytes: u64,
}

impl OpenDevice {
    /// Opens a device as disk or flash, without the page cache where it can read and write what volumes ask
    /// of it like that.
    pub fn open(name: &DeviceName, role: Device, access: Access) -> Result<OpenDevice, OpenError> {
        let error = |problem| OpenError { name: name.clone(), problem };
        let mut device = OpenDevice::open_path(name, role, access).map_err(error)?;
        let (what, least) = match role {
            Device::Disk => ("disk", 2 * GUARD_BLOCKS_MAX * BLOCK_BYTES),
            Device::Flash => ("slice of flash", flash_bytes_min()),
        };
        let bytes = device.file.seek(SeekFrom::End(0));
        device.bytes = bytes.map_err(|source| error(Problem::Io { action: "find the size of", source }))?;
        if device.bytes < least {
            return Err(error(Problem::TooSmall { bytes: device.bytes, what, least }));
        }
        if !device.bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(error(Problem::Ragged(device.bytes)));
        }
        Ok(device)
    }

    fn open_path(name: &DeviceName, role: Device, access: Access) -> Result<OpenDevice, Problem> {
        let path = name.path();
        let metadata = std::fs::metadata(path).map_err(|error| problem(error, access))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(Problem::Directory);
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Problem::NoStorage);
        }
        let exclusive = if kind.is_block_device() && access == Access::Serve { libc::O_EXCL } else { 0 };
        let unit_bytes = match role {
            Device::Disk => SECTOR_BYTES,
            Device::Flash => BLOCK_BYTES,
        };
        let open = |flags| open_or_say_who(path, &metadata, access, exclusive | flags);
        let direct = match open(libc::O_DIRECT) {
            Ok(file) => reads_units(&file, unit_bytes).then_some(file),
            Err(Problem::Io { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => None,
            Err(problem) => return Err(problem),
        };
        let (file, is_direct) = match direct {
            Some(file) => (file, true),
            None => (open(0)?, false),
        };
        owner::lock(&file, access)?;
        if access == Access::Serve
            && let Some(user) = usage::of(&metadata)
        {
            return Err(Problem::InUse(user));
        }
        let identity = identity::of(path, &metadata);
        let unit_bytes = if is_direct { unit_bytes } else { 1 };
        Ok(OpenDevice { name: name.clone(), file, bytes: 0, identity, is_direct, unit_bytes })
    }

    /// The same, for another thread; the lock is held until both are closed.
    pub(super) fn try_clone(&self) -> io::Result<OpenDevice> {
        Ok(OpenDevice { name: self.name.clone(), file: self.file.try_clone()?, ..*self })
    }

    /// Its identity as people read it.
    pub fn identity_text(&self) -> String {
        identity::text(&self.identity)
    }
}

/// The least slice that has a layout.
pub fn flash_bytes_min() -> u64 {
    let least =
        (2 + 2 * GUARD_BLOCKS_MAX..).find(|blocks| Layout::new(blocks * BLOCK_BYTES, GUARD_BLOCKS_MAX).is_some());
    least.expect("some slice is large enough") * BLOCK_BYTES
}

fn problem(error: io::Error, access: Access) -> Problem {
    let verb = if access == Access::Serve { "write" } else { "read" };
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENXIO | libc::ENODEV) => Problem::Missing,
        Some(libc::EROFS) => Problem::ReadOnly,
        Some(libc::EACCES | libc::EPERM) => Problem::Denied(verb),
        _ => Problem::Io { action: "open", source: error },
    }
}

fn open_or_say_who(path: &Path, metadata: &Metadata, access: Access, flags: i32) -> Result<File, Problem> {
    let open = || OpenOptions::new().read(true).write(access == Access::Serve).custom_flags(flags).open(path);
    let opened = match open() {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            owner::outwait_killed(metadata);
            open()
        }
        opened => opened,
    };
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => owner::holder(metadata).unwrap_or_else(|| {
            let unknown = || "a program or the kernel holds it, which is not visible from here".into();
            Problem::InUse(usage::of(metadata).unwrap_or_else(unknown))
        }),
        _ => problem(error, access),
    })
}

/// Whether the file reads what lies at a place that is a multiple of a unit and no more: 4Kn disks and some
/// file systems refuse sectors.
fn reads_units(file: &File, unit_bytes: u64) -> bool {
    let read = file.read_at(&mut aligned(unit_bytes as usize), unit_bytes);
    !read.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
}
