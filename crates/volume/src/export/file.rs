//! A volume as a file: `losetup --direct-io=on -f --show FILE` makes it a disk that can be mounted.
//!
//! The file is the root of a FUSE file system of its own, mounted on an empty regular file, so that the path
//! the user names is the disk and nothing beside it is covered. Requests are submitted as the kernel hands
//! them over, and answered from whatever thread completes them: as many are in flight as the kernel allows.
//!
//! | of the file | of the volume |
//! |---|---|
//! | read, write | the same; a write with O_DSYNC, O_SYNC or RWF_DSYNC is FUA |
//! | fsync, fdatasync | FLUSH; a loop device sends it for its own FLUSH and FUA |
//! | fallocate PUNCH_HOLE | DISCARD; EOPNOTSUPP where the volume's disk does not discard |
//! | fallocate ZERO_RANGE | WRITE_ZEROES; other modes EOPNOTSUPP |
//! | truncate to another size | EINVAL, as on a disk |
//!
//! A file opened with O_DIRECT bypasses the page cache. Without it reads may be unaligned, since the kernel
//! reads whole pages; writes go through at once, and one that is no multiple of 512 bytes gets EINVAL.

mod attributes;
mod mount;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyStatfs, ReplyWrite, Request as Asked,
    Session, TimeOrNow, WriteFlags,
};
use headstart_units::request::Range;

use self::attributes::{BLOCK_BYTES, attributes};
pub use self::mount::{MountError, Unmounted, is_stale, loop_devices};
use crate::block::{Block, Buffer, Done, Request};

/// The largest request asked of the kernel, which splits what is larger; a loop device sends none larger than this.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// What every request is a multiple of.
const SECTOR_BYTES: u64 = 512;

/// How many asynchronous requests the kernel keeps in flight; its default of 16 would leave a queue of 32 to
/// wait in the kernel.
const BACKGROUND_REQUESTS: u16 = 1024;

/// How long the kernel may keep attributes. They never change.
const CACHED: Duration = Duration::from_secs(3600);

/// Threads that take requests from the kernel: while one copies a large write another takes the next.
const THREADS: usize = 2;

/// A mounted file.
#[derive(Debug)]
pub struct FileExport {
    path: PathBuf,
    session: Option<BackgroundSession>,
}

impl FileExport {
    /// Makes sure that a volume can appear at `path`, a file that is empty or absent, and removes a mount
    /// that a killed server left there; its absolute path.
    pub fn prepare(path: &Path) -> Result<PathBuf, MountError> {
        mount::prepare(path)
    }

    /// Makes the volume appear at `path`, which is prepared first.
    pub fn mount(block: Arc<dyn Block>, path: &Path) -> Result<FileExport, MountError> {
        let path = mount::prepare(path)?;
        let disk = Disk { block, since: SystemTime::now() };
        let refused = |source| MountError::Refused { path: path.clone(), source };
        let session = Session::new(disk, &path, &mount::options(&path)).map_err(refused)?;
        let session = session.spawn().map_err(refused)?;
        Ok(FileExport { path, session: Some(session) })
    }

    /// Where it is mounted: absolute, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file away, unless somebody has it open.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        mount::unmount(&self.path)
    }

    /// Takes the file away from whoever has it open, too: their requests fail once this process ends.
    pub fn detach(&self) -> io::Result<()> {
        mount::detach(&self.path)
    }

    /// Waits until the kernel has no use for the mount: all its requests are answered.
    pub fn join(mut self) -> io::Result<()> {
        match self.session.take() {
            Some(session) => session.join(),
            None => Ok(()),
        }
    }

    /// Whether somebody else unmounted it.
    pub fn is_gone(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }
}

/// The file system: its root is the disk.
struct Disk {
    block: Arc<dyn Block>,
    since: SystemTime,
}

/// The only place where an I/O error becomes an errno.
fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

fn is_aligned(offset: u64, length: u64) -> bool {
    (offset | length).is_multiple_of(SECTOR_BYTES)
}

/// Answers with nothing but success.
fn acknowledge(reply: ReplyEmpty) -> Done {
    Box::new(move |result| match result {
        Ok(_) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    })
}

/// The range of the volume that a call of fallocate turns into zeros.
fn zeroed(offset: u64, length: u64, mode: i32, size_bytes: u64) -> Result<Range, Errno> {
    let range = Range::new(offset, length);
    match mode & !libc::FALLOC_FL_KEEP_SIZE {
        // A hole may reach beyond the end, where nothing is.
        libc::FALLOC_FL_PUNCH_HOLE => {
            let range = range.intersection(Range::new(0, size_bytes));
            is_aligned(range.offset, range.length).then_some(range).ok_or(Errno::EINVAL)
        }
        libc::FALLOC_FL_ZERO_RANGE if !is_aligned(offset, length) => Err(Errno::EINVAL),
        libc::FALLOC_FL_ZERO_RANGE if range.end() > size_bytes => Err(Errno::ENOSPC),
        libc::FALLOC_FL_ZERO_RANGE => Ok(range),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _request: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_ASYNC_READ, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            // A kernel without them serves the file all the same.
            let _ = config.add_capabilities(flag);
        }
        // All three are within the ranges that fuser accepts.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_REQUESTS);
        let _ = config.set_congestion_threshold(BACKGROUND_REQUESTS);
        Ok(())
    }

    fn getattr(&self, _request: &Asked, _number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&CACHED, &attributes(self.block.size_bytes(), self.since));
    }

    fn setattr(
        &self,
        _request: &Asked,
        _number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
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
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        if size.is_some_and(|size| size != self.block.size_bytes()) {
            return reply.error(Errno::EINVAL);
        }
        // Times are nobody's concern here, and whoever writes sets them.
        reply.attr(&CACHED, &attributes(self.block.size_bytes(), self.since));
    }

    fn open(&self, _request: &Asked, _number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut open = FopenFlags::FOPEN_NOFLUSH;
        if flags.0 & libc::O_DIRECT != 0 {
            open |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        }
        reply.opened(FileHandle(0), open);
    }

    fn read(
        &self,
        _request: &Asked,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = self.block.size_bytes().saturating_sub(offset).min(u64::from(size));
        if length == 0 {
            return reply.data(&[]);
        }
        if !is_aligned(offset, length) {
            return reply.error(Errno::EINVAL);
        }
        let done = move |result: io::Result<Buffer>| match result {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno(&error)),
        };
        self.block.submit(Request::Read(Range::new(offset, length)), Box::new(done));
    }

    fn write(
        &self,
        _request: &Asked,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u32;
        if length == 0 {
            return reply.written(0);
        }
        if !is_aligned(offset, u64::from(length)) {
            return reply.error(Errno::EINVAL);
        }
        if offset.saturating_add(u64::from(length)) > self.block.size_bytes() {
            return reply.error(Errno::ENOSPC);
        }
        let done = move |result: io::Result<Buffer>| match result {
            Ok(_) => reply.written(length),
            Err(error) => reply.error(errno(&error)),
        };
        // The kernel passes the flags of the file and of the call.
        let fua = flags.0 & libc::O_DSYNC != 0;
        self.block.submit(Request::Write { offset, data: Buffer::from_slice(4096, data), fua }, Box::new(done));
    }

    fn fsync(&self, _request: &Asked, _number: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.block.submit(Request::Flush, acknowledge(reply));
    }

    fn fallocate(
        &self,
        _request: &Asked,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 && !self.block.discards() {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match zeroed(offset, length, mode, self.block.size_bytes()) {
            Ok(range) if range.is_empty() => reply.ok(),
            Ok(range) => self.block.submit(Request::Zero { range, fua: false }, acknowledge(reply)),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _request: &Asked, _number: INodeNo, reply: ReplyStatfs) {
        // A loop device takes its granularity of discards from the block size.
        let blocks = self.block.size_bytes() / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
