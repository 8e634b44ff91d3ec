//! The devices of a volume while it serves: operations go in, completions come out, in any order.
//!
//! One thread owns a storage. `submit` takes an operation with its buffers, `wait` begins what was submitted
//! and waits for completions or for the [`Bell`], `reap` takes what has completed, with the buffers of reads.
//!
//! | implementation | for |
//! |---|---|
//! | [`uring`] | files and block devices |
//! | [`threads`] | the same, where the kernel or a sandbox refuses io_uring |
//! | [`memory`] | tests |
//! | [`emulated`] | devices that a model answers for, in front of another storage |
//! | [`faulty`] | failures and power cuts, in front of another storage |
//!
//! Buffers are shared: an operation holds what it reads from or writes into until it has completed, whatever
//! its owner does meanwhile.

pub mod bell;
pub mod buffers;
pub mod emulated;
pub mod faulty;
pub mod memory;
pub mod positioned;
pub mod threads;
pub mod uring;

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use headstart_block::devices::Device;
use headstart_model::profile::Profile;

use crate::block::Buffer;
use crate::device::DeviceName;
use crate::pair::Pair;
use bell::Bell;
use buffers::Slice;
use emulated::{Emulated, Emulation};

/// What a device is to do.
#[derive(Debug)]
pub enum Action {
    /// Fill the buffer.
    Read(Buffer),
    /// Write these, one behind the other.
    Write(Vec<Slice>),
    /// Make so many bytes zeros and give up the room they take; an error if the device does not by itself.
    Zero(u64),
    /// Make durable what had completed before this was submitted.
    Flush,
}

/// An operation of a device.
#[derive(Debug)]
pub struct Operation {
    /// The caller's name of it.
    pub id: u64,
    /// Which device.
    pub device: Device,
    /// First byte.
    pub offset: u64,
    /// What.
    pub action: Action,
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// Which.
    pub id: u64,
    /// A read's bytes; otherwise nothing.
    pub result: io::Result<Buffer>,
}

/// Both devices.
pub trait Storage {
    /// Takes an operation. It begins at the next `wait` at the latest.
    fn submit(&mut self, operation: Operation);

    /// Begins what was submitted, and returns when something has completed, the bell has rung or `timeout` is
    /// over; perhaps sooner.
    fn wait(&mut self, timeout: Option<Duration>);

    /// Takes what has completed.
    fn reap(&mut self, completions: &mut Vec<Completion>);

    /// How it works, in words.
    fn description(&self) -> String;
}

/// Opens a storage on the thread that will own it.
pub type Opener = Box<dyn FnOnce(Arc<Bell>) -> io::Result<Box<dyn Storage>> + Send>;

/// The two files of a volume's devices.
#[derive(Debug)]
pub struct Files {
    /// The slow one.
    pub disk: File,
    /// The fast one.
    pub flash: File,
}

impl Files {
    /// One of them.
    pub fn of(&self, device: Device) -> &File {
        match device {
            Device::Disk => &self.disk,
            Device::Flash => &self.flash,
        }
    }
}

/// How the devices of an open pair are driven: by what their names say.
pub fn opener(pair: &Pair) -> io::Result<Opener> {
    let files = Files { disk: pair.disk.file.try_clone()?, flash: pair.flash.file.try_clone()? };
    let profile = |name: &DeviceName| match name {
        DeviceName::Emulated { profile, .. } => Some(*profile),
        DeviceName::Path(_) => None,
    };
    let profiles = [profile(&pair.disk.name), profile(&pair.flash.name)];
    Ok(Box::new(move |bell| open(files, profiles, bell)))
}

fn open(files: Files, profiles: [Option<Profile>; 2], bell: Arc<Bell>) -> io::Result<Box<dyn Storage>> {
    if profiles == [None, None] {
        return open_files(files, bell);
    }
    let emulation = |profile: Option<Profile>, file: &File| -> io::Result<Option<Emulation>> {
        profile.map(|profile| Emulation::new(profile, file.try_clone()?)).transpose()
    };
    let devices = [emulation(profiles[0], &files.disk)?, emulation(profiles[1], &files.flash)?];
    Ok(Box::new(Emulated::new(open_files(files, bell)?, devices)))
}

/// Files by io_uring, or by threads where that is refused, which is said once.
pub fn open_files(files: Files, bell: Arc<Bell>) -> io::Result<Box<dyn Storage>> {
    match uring::Uring::open(&files, Arc::clone(&bell)) {
        Ok(uring) => Ok(Box::new(uring)),
        Err(refused) if matches!(refused.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EINVAL)) => {
            tracing::warn!(%refused, "io_uring cannot be used here; threads do the I/O, which costs speed alone");
            Ok(Box::new(threads::Threads::start(files, bell, &refused)?))
        }
        Err(error) => Err(error),
    }
}
