//! The two devices of a volume, opened, and driven one operation after the other: what a start, a stop and
//! the offline commands use.
//!
//! Who has a pair open has the volume: nobody else opens either device for writing until it is closed
//! ([`owner`]), the two are not the same bytes ([`place`]), and nothing else was found that uses them
//! ([`usage`]).

mod identity;
mod open_device;
mod owner;
mod place;
mod problem;
mod streams;
mod usage;
mod zeroing;

use std::io;
use std::os::unix::fs::FileExt;

use aligned_vec::AVec;
use headstart_block::devices::{Device, Devices, Failed};
use headstart_block::recovery;
use headstart_block::recovery::{Given, Refusal, Superblocks};
use headstart_block::superblock::{Serving, Uuid};
use headstart_units::request::Range;

use crate::block::Buffer;
use crate::device::DeviceName;
use crate::storage::positioned;
pub use identity::text as identity_text;
pub use open_device::{OpenDevice, flash_bytes_min};
pub use problem::{Access, OpenError, Problem};
use streams::{ReadAhead, WriteBehind};

/// A disk and its flash.
#[derive(Debug)]
pub struct Pair {
    /// The slow one.
    pub disk: OpenDevice,
    /// The fast one.
    pub flash: OpenDevice,
    /// Why the last operation failed.
    failure: Option<io::Error>,
    ahead: Option<ReadAhead>,
    behind: Option<WriteBehind>,
}

impl Pair {
    /// Opens both for writing, for one process alone.
    pub fn open(disk: &DeviceName, flash: &DeviceName) -> Result<Pair, OpenError> {
        Pair::open_for(Access::Serve, disk, flash)
    }

    /// Opens both.
    pub fn open_for(access: Access, disk: &DeviceName, flash: &DeviceName) -> Result<Pair, OpenError> {
        place::refuse_same(disk, flash)?;
        let disk = OpenDevice::open(disk, Device::Disk, access)?;
        let flash = OpenDevice::open(flash, Device::Flash, access)?;
        Ok(Pair { disk, flash, failure: None, ahead: None, behind: None })
    }

    /// What a start is told of them. `absorbs`: writes may go to flash.
    pub fn given(&self, absorbs: bool, uuid: Option<Uuid>) -> Given {
        Given { disk: self.disk.identity, disk_bytes: self.disk.bytes, flash_bytes: self.flash.bytes, uuid, absorbs }
    }

    /// What failed, in words that name the device.
    pub fn describe(&self, failed: Failed) -> String {
        let Failed { device, action, offset } = failed;
        let cause = self.failure.as_ref().map_or_else(|| "it failed".into(), io::Error::to_string);
        format!("{}: cannot {action} at byte {offset}: {cause}", self.device(device).name)
    }

    /// How the volume on flash is served unless its server is told otherwise; none: there is no volume.
    pub fn serving(&mut self) -> Result<Option<Serving>, Failed> {
        let [first, second] = recovery::superblocks(self)?;
        Ok(Superblocks::observe(first, second).newest().map(|superblock| superblock.serving))
    }

    /// Why a volume is not served, in words that name the devices.
    pub fn explain(&self, refusal: &Refusal) -> String {
        let (disk, flash) = (&self.disk.name, &self.flash.name);
        match refusal {
            Refusal::Device(failed) => self.describe(*failed),
            Refusal::OtherDisk => format!(
                "{flash}: {refusal}, not to {disk} ({}); name the disk it was created for ('headstart \
                 volume inspect' says which)",
                self.disk.identity_text()
            ),
            Refusal::DiskSize { .. } => {
                format!("{disk}: {refusal}; the size of a volume's disk cannot change while it is attached")
            }
            Refusal::FlashSize { .. } => format!("{flash}: {refusal}; name the device it was created on"),
            Refusal::GuardDiffers => format!(
                "{disk}: {refusal}. If the flash is gone for good, 'headstart volume detach --force --hdd \
                 {disk}' gives the disk back without it"
            ),
            _ => format!("{flash}: {refusal}"),
        }
    }

    fn device(&self, device: Device) -> &OpenDevice {
        match device {
            Device::Disk => &self.disk,
            Device::Flash => &self.flash,
        }
    }

    fn checked<T>(
        &mut self,
        result: io::Result<T>,
        device: Device,
        action: &'static str,
        offset: u64,
    ) -> Result<T, Failed> {
        result.map_err(|error| {
            self.failure = Some(error);
            Failed { device, action, offset }
        })
    }
}

/// Memory that every device accepts.
pub fn aligned(bytes: usize) -> Buffer {
    let mut buffer = AVec::with_capacity(4096, bytes);
    buffer.resize(bytes, 0);
    buffer
}

impl OpenDevice {
    /// The range in whole units of what the device reads and writes.
    fn whole(&self, offset: u64, length: usize) -> Range {
        let start = offset / self.unit_bytes * self.unit_bytes;
        Range::between(start, (offset + length as u64).next_multiple_of(self.unit_bytes))
    }

    /// Reads as many bytes as there is room for, from anywhere.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let whole = self.whole(offset, bytes.len());
        let mut buffer = aligned(whole.length as usize);
        self.file.read_exact_at(&mut buffer, whole.offset)?;
        let skip = (offset - whole.offset) as usize;
        bytes.copy_from_slice(&buffer[skip..skip + bytes.len()]);
        Ok(())
    }

    /// Writes bytes anywhere. What shares a unit with them is read first.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let whole = self.whole(offset, bytes.len());
        let mut buffer = aligned(whole.length as usize);
        if whole != Range::new(offset, bytes.len() as u64) {
            self.file.read_exact_at(&mut buffer, whole.offset)?;
        }
        let skip = (offset - whole.offset) as usize;
        buffer[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.file.write_all_at(&buffer, whole.offset)
    }
}

impl Pair {
    /// Waits for what is being written to a device; what was read ahead of it may be older.
    fn end_streams(&mut self, device: Device) -> Result<(), Failed> {
        self.ahead = self.ahead.take().filter(|ahead| ahead.device != device);
        self.end_writes(device)
    }

    fn end_writes(&mut self, device: Device) -> Result<(), Failed> {
        let Some(behind) = self.behind.take_if(|behind| behind.device == device) else { return Ok(()) };
        let (result, offset) = match behind.end() {
            Ok(()) => (Ok(()), 0),
            Err((offset, error)) => (Err(error), offset),
        };
        self.checked(result, device, "write", offset)
    }
}

impl Devices for Pair {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        self.end_writes(device)?;
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.device == device)
            && ahead.read(offset, bytes)
        {
            return Ok(());
        }
        let read = self.device(device).read(offset, bytes);
        self.checked(read, device, "read", offset)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.end_streams(device)?;
        let written = self.device(device).write(offset, bytes);
        self.checked(written, device, "write", offset)
    }

    fn zero(&mut self, device: Device, range: Range) -> Result<(), Failed> {
        self.end_streams(device)?;
        let zeroed = positioned::zero(&self.device(device).file, range.offset, range.length);
        self.checked(zeroed, device, "zero", range.offset)
    }

    fn flush(&mut self, device: Device) -> Result<(), Failed> {
        self.end_writes(device)?;
        let flushed = self.device(device).file.sync_data();
        self.checked(flushed, device, "flush", 0)
    }

    fn read_ahead(&mut self, device: Device, range: Range) {
        // Writes under way would be missed.
        let idle = self.behind.as_ref().is_none_or(|behind| behind.device != device);
        self.ahead = if idle { ReadAhead::begin(self.device(device), device, range) } else { None };
    }

    fn write_behind(&mut self, device: Device, offset: u64, bytes: Vec<u8>) -> Result<(), Failed> {
        self.ahead = self.ahead.take().filter(|ahead| ahead.device != device);
        if self.behind.as_ref().is_none_or(|behind| behind.device != device) {
            let other = self.behind.as_ref().map(|behind| behind.device);
            other.map_or(Ok(()), |other| self.end_writes(other))?;
            self.behind = WriteBehind::begin(self.device(device), device).ok();
        }
        let Some(behind) = &self.behind else { return self.write(device, offset, &bytes) };
        if behind.give(offset, bytes) { Ok(()) } else { self.end_writes(device) }
    }
}

#[cfg(test)]
mod tests;
