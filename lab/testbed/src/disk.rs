//! One emulated disk as a file: `losetup --direct-io=on -f --show FILE` makes it a block device, which can be
//! formatted and mounted.
//!
//! The file is mounted over itself: what is served as FILE lives in the FILE beneath, sparse and of the
//! disk's size unless it exists already. Flush and FUA arrive as fsync, discard as a punched hole. Only the
//! device is modelled; queueing and sorting above it are the block layer's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, INodeNo, KernelConfig, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyLseek, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::error::{Error, Result};
use crate::filesystem::{CACHED, OPEN_FLAGS, REQUEST_BYTES_MAX, allocate, errno, file_attributes, negotiate};
use crate::mounts;
use crate::placement::Region;
use crate::runtime::{Engine, RunningEngine, Spot};
use crate::serve::mount_and_serve;
use crate::servers::Servers;
use crate::stats::MountStats;
use crate::system::{Signals, check_size, raise_fuse_request_limit};

/// One emulated disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskConfig {
    /// Device profile.
    pub profile: String,
    /// The file to serve it as.
    pub file: PathBuf,
    /// Its size if the file does not exist; by default the device's capacity.
    pub size_bytes: Option<u64>,
    /// Whether the drive acknowledges writes from its own cache.
    pub drive_write_cache: bool,
    /// Real over modelled time.
    pub time_scale: f64,
    /// Whether to ask for SCHED_FIFO and locked memory.
    pub real_time: bool,
}

impl DiskConfig {
    /// A disk in real time.
    pub fn of(profile: &str, file: &Path) -> DiskConfig {
        let (profile, file) = (profile.to_string(), file.to_path_buf());
        DiskConfig { profile, file, size_bytes: None, drive_write_cache: false, time_scale: 1.0, real_time: true }
    }
}

/// A disk served by this process. Dropping it unmounts.
pub struct Disk {
    engine: RunningEngine,
    session: BackgroundSession,
    file: PathBuf,
}

impl Disk {
    /// Serves the disk from threads of this process.
    ///
    /// # Errors
    /// An unknown profile, no FUSE, or a file that cannot be made.
    pub fn start(config: &DiskConfig) -> Result<Disk> {
        let servers = Servers::single_disk(&config.profile, config.drive_write_cache)?;
        mounts::check_fuse()?;
        if mounts::is_stale(&config.file) {
            mounts::unmount(&config.file).map_err(Error::io("unmount the stale mount", &config.file))?;
        }
        if mounts::is_mounted(&config.file.canonicalize().unwrap_or_default()) {
            let reason =
                format!("{} is served already; interrupt that one first, or take another file", config.file.display());
            return Err(Error::Invalid { option: "--file", reason });
        }
        let size = config.size_bytes.unwrap_or(servers.capacity_bytes());
        if size == 0 || !size.is_multiple_of(SECTOR_BYTES) {
            let reason =
                format!("a disk of {size} bytes has no whole sectors; give a multiple of {SECTOR_BYTES} bytes");
            return Err(Error::Invalid { option: "--size", reason });
        }
        let backing = open_backing(&config.file, size).map_err(Error::io("open the disk's file", &config.file))?;
        let file = config.file.canonicalize().map_err(Error::io("find", &config.file))?;
        raise_fuse_request_limit(u64::from(REQUEST_BYTES_MAX));
        let engine = RunningEngine::start(vec![("disk", servers)], config.time_scale, config.real_time);
        let filesystem = DiskFilesystem { engine: Arc::clone(&engine.engine), backing: Arc::new(backing) };
        let session = mount_and_serve(filesystem, &file, config.real_time)?;
        Ok(Disk { engine, session, file })
    }

    /// What the disk did so far.
    pub fn stats(&self) -> MountStats {
        self.engine.engine.stats(0)
    }

    /// Whether it is still mounted.
    pub fn is_mounted(&self) -> bool {
        !self.session.guard.is_finished()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = mounts::unmount(&self.file) {
            tracing::warn!(%error, file = %self.file.display(), "the disk could not be unmounted");
        }
    }
}

/// Serves a disk in the foreground until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// See [`Disk::start`].
pub fn serve(config: &DiskConfig) -> Result<()> {
    let signals = Signals::block();
    let disk = Disk::start(config)?;
    eprintln!(
        "{} serves {}; attach it with: losetup --direct-io=on -f --show {1}",
        config.profile,
        disk.file.display()
    );
    signals.wait();
    Ok(())
}

fn open_backing(file: &Path, size: u64) -> io::Result<File> {
    let existed = file.exists();
    let backing = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file)?;
    if !existed {
        backing.set_len(size)?;
    }
    Ok(backing)
}

struct DiskFilesystem {
    engine: Arc<Engine>,
    backing: Arc<File>,
}

/// What a block device's size is a multiple of.
const SECTOR_BYTES: u64 = 512;

/// The disk's addresses are the file's offsets.
const WHOLE_DEVICE: Region = Region { first_server: 0, base: 0, bytes: u64::MAX };

impl DiskFilesystem {
    fn attributes(&self) -> io::Result<FileAttr> {
        file_attributes(&self.backing, INodeNo::ROOT.0)
    }

    fn reply_attributes(&self, reply: ReplyAttr) {
        match self.attributes() {
            Ok(attributes) => reply.attr(&CACHED, &attributes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn length(&self) -> u64 {
        self.backing.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl Filesystem for DiskFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config);
        Ok(())
    }

    fn getattr(&self, _request: &Request, _number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(reply);
    }

    fn setattr(
        &self,
        _request: &Request,
        _number: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A disk has one size; times are of no interest.
        match size {
            Some(size) if size != self.length() => reply.error(Errno::EPERM),
            _ => self.reply_attributes(reply),
        }
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), OPEN_FLAGS);
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = self.length().saturating_sub(offset).min(u64::from(size.min(REQUEST_BYTES_MAX))) as u32;
        if length == 0 {
            return reply.data(&[]);
        }
        self.engine.read(&self.backing, Spot { mount: 0, place: WHOLE_DEVICE, offset }, length, reply);
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset + data.len() as u64 > self.length() {
            return reply.error(Errno::ENOSPC);
        }
        self.engine.write(&self.backing, Spot { mount: 0, place: WHOLE_DEVICE, offset }, data, reply);
    }

    fn fsync(&self, _request: &Request, _number: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.engine.flush(0, WHOLE_DEVICE, reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // To the reader a range of zeros and a hole are the same; tmpfs knows holes only.
        let hole = mode & (libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_PUNCH_HOLE) != 0;
        let mode = if hole { libc::FALLOC_FL_PUNCH_HOLE } else { mode };
        match allocate(&self.backing, offset, length, mode | libc::FALLOC_FL_KEEP_SIZE) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // SAFETY: the backing file is open for as long as the disk is served.
        match check_size(unsafe { libc::lseek64(self.backing.as_raw_fd(), offset, whence) } as libc::ssize_t) {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
