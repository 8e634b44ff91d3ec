//! Devices in memory, whose operations complete at once: for tests.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headstart_block::devices::{Device, Devices, Failed};

use super::bell::Bell;
use super::buffers::empty;
use super::{Action, Completion, Operation, Storage};

/// The bytes of both devices. Clones are the same bytes.
#[derive(Clone, Debug)]
pub struct Media {
    devices: Arc<Mutex<[Vec<u8>; 2]>>,
}

impl Media {
    /// A disk and a flash with these bytes.
    pub fn new(disk: Vec<u8>, flash: Vec<u8>) -> Media {
        Media { devices: Arc::new(Mutex::new([disk, flash])) }
    }

    fn lock(&self) -> MutexGuard<'_, [Vec<u8>; 2]> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a device holds.
    pub fn bytes(&self, device: Device) -> Vec<u8> {
        self.lock()[device as usize].clone()
    }

    /// Lets `change` have the bytes of a range; an error beyond the end.
    fn with<T>(&self, device: Device, offset: u64, length: usize, change: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let mut devices = self.lock();
        let start = usize::try_from(offset).ok()?;
        devices[device as usize].get_mut(start..start.checked_add(length)?).map(change)
    }
}

impl Devices for Media {
    fn read(&mut self, device: Device, offset: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        let read = self.with(device, offset, bytes.len(), |held| bytes.copy_from_slice(held));
        read.ok_or(Failed { device, action: "read", offset })
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        let written = self.with(device, offset, bytes.len(), |held| held.copy_from_slice(bytes));
        written.ok_or(Failed { device, action: "write", offset })
    }

    fn flush(&mut self, _device: Device) -> Result<(), Failed> {
        Ok(())
    }
}

/// Operations on them.
#[derive(Debug)]
pub struct Memory {
    media: Media,
    bell: Arc<Bell>,
    completions: Vec<Completion>,
}

impl Memory {
    /// Operations on these bytes.
    pub fn new(media: Media, bell: Arc<Bell>) -> Memory {
        Memory { media, bell, completions: Vec::new() }
    }
}

impl Storage for Memory {
    fn submit(&mut self, operation: Operation) {
        let Operation { id, device, mut offset, action } = operation;
        let done = match action {
            Action::Read(mut buffer) => {
                let length = buffer.len();
                self.media.with(device, offset, length, |held| buffer.copy_from_slice(held)).map(|()| buffer)
            }
            Action::Write(slices) => slices.iter().try_fold(empty(), |done, slice| {
                let bytes = slice.bytes();
                self.media.with(device, offset, bytes.len(), |held| held.copy_from_slice(bytes))?;
                offset += bytes.len() as u64;
                Some(done)
            }),
            Action::Zero(length) => {
                self.media.with(device, offset, length as usize, |held| held.fill(0)).map(|()| empty())
            }
            Action::Flush => Some(empty()),
        };
        let result = done.ok_or_else(|| io::Error::from_raw_os_error(libc::EIO));
        self.completions.push(Completion { id, result });
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.completions.is_empty() {
            self.bell.sleep(timeout);
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completions);
    }

    fn description(&self) -> String {
        "memory".to_owned()
    }
}
