//! The FUSE filesystem: metadata at once, data through the models.
//!
//! The tree is the backing directory's own; inode numbers are the backing ones, except that the root is 1.
//! Data bypasses the page cache (FOPEN_DIRECT_IO), writes to one file run in parallel
//! (FOPEN_PARALLEL_DIRECT_WRITES) unless they extend it, which the kernel serialises. Locks are left to the
//! kernel, which keeps them per mount. Shared mappings work (FUSE_DIRECT_IO_ALLOW_MMAP); their pages are read
//! and written back through the models like any request.
//!
//! Nobody but this process may change the backing directory: sizes and attributes are cached.
//!
//! Times: a read takes its modelled time for the bytes below the end of the file, holes included, and none
//! beyond; metadata takes none.
//!
//! Every inode the kernel remembers costs one open file here; with a limit of 20,000 open files that is the
//! number of files in use.

mod attributes;
mod directory;
mod inode;
mod path;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use crate::filesystem::attributes::Change;
pub(crate) use crate::filesystem::attributes::file_attributes;
use crate::filesystem::directory::Listing;
use crate::filesystem::inode::{Handles, Inode, Inodes, OpenFile};
use crate::placement::{Allocator, Region};
use crate::runtime::{Engine, Spot};
use crate::system::{check, check_size};

/// Largest request asked of the kernel. Twice the largest request that must pay one start-up, because an
/// unaligned buffer of that size touches one page more.
pub const REQUEST_BYTES_MAX: u32 = 8 << 20;

/// How long the kernel may keep names and attributes. Nobody else changes them, so this is as good as for ever.
pub(crate) const CACHED: Duration = Duration::from_secs(3600);

/// How many asynchronous requests the kernel keeps in flight; its default of 16 would hide the servers' queues.
const BACKGROUND_REQUESTS: u16 = 1024;

/// How every file is opened.
pub(crate) const OPEN_FLAGS: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES).union(FopenFlags::FOPEN_NOFLUSH);

/// One directory of emulated servers over a backing directory.
pub struct TestbedFilesystem {
    engine: Arc<Engine>,
    mount: usize,
    inodes: Inodes,
    files: Handles<OpenFile>,
    directories: Handles<Mutex<Listing>>,
}

/// The only place where an I/O error becomes an errno.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

/// Agrees with the kernel on what every mount of this crate needs.
pub(crate) fn negotiate(config: &mut KernelConfig) {
    for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP, InitFlags::FUSE_PARALLEL_DIROPS] {
        if config.add_capabilities(flag).is_err() {
            tracing::warn!(?flag, "the kernel does not offer this FUSE feature");
        }
    }
    // All three are within the ranges that fuser accepts.
    let _ = config.set_max_write(REQUEST_BYTES_MAX);
    let _ = config.set_max_background(BACKGROUND_REQUESTS);
    let _ = config.set_congestion_threshold(BACKGROUND_REQUESTS);
}

impl TestbedFilesystem {
    /// Serves `backing` as directory `mount` of the engine.
    ///
    /// # Errors
    /// When the backing directory cannot be opened.
    pub fn over(
        backing: &Path,
        engine: Arc<Engine>,
        mount: usize,
        allocator: Allocator,
    ) -> io::Result<TestbedFilesystem> {
        let inodes = Inodes::rooted_at(backing, allocator)?;
        Ok(TestbedFilesystem { engine, mount, inodes, files: Handles::default(), directories: Handles::default() })
    }

    /// Where the bytes below `end` of the file lie.
    fn place(&self, file: &OpenFile, end: u64) -> Region {
        self.inodes.place(file.inode.number, end.max(file.inode.size()))
    }

    fn open_file(&self, number: INodeNo, flags: i32) -> io::Result<u64> {
        let inode = self.inodes.get(number)?;
        let file = Arc::new(inode.open(flags)?);
        Ok(self.files.insert(OpenFile { file, inode }))
    }

    fn change_size(&self, inode: &Inode, handle: Option<FileHandle>, size: u64) -> io::Result<()> {
        match handle.and_then(|handle| self.files.get(handle.0).ok()) {
            Some(open) => open.file.set_len(size)?,
            None => inode.open(libc::O_WRONLY)?.set_len(size)?,
        }
        inode.set_size(size);
        // Sized files get their place now, so that timed writes find it settled.
        self.inodes.place(inode.number, size);
        Ok(())
    }
}

/// Answers with the value, or with the error's errno.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $then:expr) => {
        match $result {
            Ok($value) => $then,
            Err(error) => $reply.error(errno(&error)),
        }
    };
}

impl Filesystem for TestbedFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.inodes.lookup(parent, name), attr => reply.entry(&CACHED, &attr, Generation(0)))
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.inodes.forget(number, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.inodes.get(number).and_then(|inode| inode.attributes()), attr => reply.attr(&CACHED, &attr))
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let result = self.inodes.get(number).and_then(|inode| {
            if let Some(size) = size {
                self.change_size(&inode, handle, size)?;
            }
            inode.change(&Change { mode, uid, gid, atime, mtime })?;
            inode.attributes()
        });
        answer!(reply, result, attr => reply.attr(&CACHED, &attr))
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        answer!(reply, self.inodes.get(number).and_then(|inode| inode.link_target()), target => reply.data(&target))
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        answer!(reply, self.inodes.make_node(req, parent, name, mode, device), attr => reply.entry(&CACHED, &attr, Generation(0)))
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        answer!(reply, self.inodes.make_directory(request, parent, name, mode), attr => reply.entry(&CACHED, &attr, Generation(0)))
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        answer!(reply, self.inodes.make_symlink(request, parent, name, target), attr => reply.entry(&CACHED, &attr, Generation(0)))
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.inodes.link(number, parent, name), attr => reply.entry(&CACHED, &attr, Generation(0)))
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.inodes.remove(parent, name, 0), () => reply.ok())
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.inodes.remove(parent, name, libc::AT_REMOVEDIR), () => reply.ok())
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.inodes.rename(parent, name, new_parent, new_name, flags.bits()), () => reply.ok())
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_file(number, flags.0), handle => reply.opened(FileHandle(handle), OPEN_FLAGS))
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let result =
            self.inodes.create(request, parent, name, mode, flags).map(|(file, attr)| (self.files.insert(file), attr));
        answer!(reply, result, (handle, attr) =>
            reply.created(&CACHED, &attr, Generation(0), FileHandle(handle), OPEN_FLAGS))
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.files.get(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(&error)),
        };
        let length = file.inode.size().saturating_sub(offset).min(u64::from(size.min(REQUEST_BYTES_MAX))) as u32;
        if length == 0 {
            return reply.data(&[]);
        }
        let place = self.place(&file, 0);
        self.engine.read(&file.file, Spot { mount: self.mount, place, offset }, length, reply);
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.files.get(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(errno(&error)),
        };
        if data.is_empty() {
            return reply.written(0);
        }
        let end = offset + data.len() as u64;
        let place = self.place(&file, end);
        file.inode.grow(end);
        self.engine.write(&file.file, Spot { mount: self.mount, place, offset }, data, reply);
    }

    fn flush(&self, _request: &Request, _number: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(handle.0);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _number: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        answer!(reply, self.files.get(handle.0), file => {
            let place = self.place(&file, 0);
            self.engine.flush(self.mount, place, reply);
        })
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let listing = self.inodes.get(number).map(|inode| self.directories.insert(Mutex::new(Listing::of(inode))));
        answer!(reply, listing, handle => reply.opened(FileHandle(handle), FopenFlags::empty()))
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let filled = self.directories.get(handle.0).and_then(|listing| {
            let mut listing = listing.lock().expect("no panic while holding the lock");
            listing.fill(offset, &mut reply, |number| self.inodes.presented(number))
        });
        answer!(reply, filled, () => reply.ok())
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _number: INodeNo, _handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        answer!(reply, self.inodes.statfs(), s => reply.statfs(
            s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, s.f_bsize as u32, s.f_namemax as u32, s.f_frsize as u32,
        ))
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.inodes.get(number).and_then(|inode| inode.set_xattr(name, value, flags)), () => reply.ok())
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.inodes.get(number).and_then(|inode| inode.xattr(name, size));
        answer!(reply, value, value => attributes::reply_xattr(reply, size, value))
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.inodes.get(number).and_then(|inode| inode.xattr_names(size));
        answer!(reply, names, names => attributes::reply_xattr(reply, size, names))
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.inodes.get(number).and_then(|inode| inode.remove_xattr(name)), () => reply.ok())
    }

    fn fallocate(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let result = self.files.get(handle.0).and_then(|open| {
            allocate(&open.file, offset, length, mode)?;
            if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
                open.inode.set_size(open.file.metadata()?.len());
                self.place(&open, 0);
            }
            Ok(())
        });
        answer!(reply, result, () => reply.ok())
    }

    fn lseek(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let result = self.files.get(handle.0).and_then(|open| {
            // SAFETY: the handle's file is open for the duration of the call.
            check_size(unsafe { libc::lseek64(open.file.as_raw_fd(), offset, whence) } as libc::ssize_t)
        });
        answer!(reply, result, offset => reply.offset(offset as i64))
    }

    fn ioctl(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        _to: INodeNo,
        _to_handle: FileHandle,
        _to_offset: u64,
        _length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then copies with reads and writes, which take their time.
        reply.error(Errno::ENOSYS);
    }
}

/// Reserves or punches a range of the backing file.
pub(crate) fn allocate(file: &File, offset: u64, length: u64, mode: i32) -> io::Result<()> {
    // SAFETY: the file is open for the duration of the call.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, length as libc::off_t) }).map(|_| ())
}
