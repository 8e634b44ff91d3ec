//! The two devices of a volume, opened, and driven one operation after the other: what a start, a stop and the offline commands use.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use aligned_vec::AVec;
use headstart_core::volume::devices::{Device, Devices, Failed};
use headstart_core::volume::superblock::DiskIdentity;

use crate::block::Buffer;
use crate::device::DeviceName;

/// Sectors and memory are aligned to it: what every device with O_DIRECT accepts.
const ALIGNMENT: u64 = 4096;

/// A device that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {source}")]
pub struct OpenError {
    /// Which.
    pub name: DeviceName,
    /// Why.
    pub source: io::Error,
}

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
}

impl OpenDevice {
    /// Opens a device without the page cache, where its file system knows O_DIRECT.
    pub fn open(name: &DeviceName) -> Result<OpenDevice, OpenError> {
        let error = |source| OpenError { name: name.clone(), source };
        let path = match name {
            DeviceName::Path(path) => path,
            DeviceName::Emulated { file, .. } => file,
        };
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let mut file = match open(libc::O_DIRECT) {
            Err(refused) if refused.raw_os_error() == Some(libc::EINVAL) => open(0),
            opened => opened,
        }
        .map_err(error)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(error)?;
        Ok(OpenDevice { name: name.clone(), file, bytes, identity: [0; 32] })
    }
}

/// A disk and its flash.
#[derive(Debug)]
pub struct Pair {
    /// The slow one.
    pub disk: OpenDevice,
    /// The fast one.
    pub flash: OpenDevice,
}

impl Pair {
    /// Opens both.
    pub fn open(disk: &DeviceName, flash: &DeviceName) -> Result<Pair, OpenError> {
        Ok(Pair { disk: OpenDevice::open(disk)?, flash: OpenDevice::open(flash)? })
    }

    fn file(&self, device: Device) -> &File {
        match device {
            Device::Disk => &self.disk.file,
            Device::Flash => &self.flash.file,
        }
    }
}

fn aligned(bytes: usize) -> Buffer {
    let mut buffer = AVec::with_capacity(ALIGNMENT as usize, bytes);
    buffer.resize(bytes, 0);
    buffer
}

impl Devices for Pair {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        let mut buffer = aligned(bytes.len());
        let read = self.file(device).read_exact_at(&mut buffer, offset);
        read.map_err(|_| Failed { device, action: "read", offset })?;
        bytes.copy_from_slice(&buffer);
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        let mut buffer = aligned(bytes.len());
        buffer.copy_from_slice(bytes);
        self.file(device).write_all_at(&buffer, offset).map_err(|_| Failed { device, action: "write", offset })
    }

    fn flush(&mut self, device: Device) -> Result<(), Failed> {
        self.file(device).sync_data().map_err(|_| Failed { device, action: "flush", offset: 0 })
    }
}
