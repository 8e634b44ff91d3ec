//! The inodes the kernel knows, and the files it has open.
//!
//! Each inode holds one O_PATH descriptor, which keeps its number from being reused while the kernel
//! remembers it. When the last reference to an inode without names goes, its place on the devices is freed.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::{FileAttr, INodeNo, Request};

use super::attributes::{attributes_of, status};
use super::path::{c_name, magic_link};
use crate::placement::{Allocator, Region};
use crate::system::check;

/// Flags of an open that concern the backing file.
const BACKING_FLAGS: i32 = libc::O_ACCMODE | libc::O_TRUNC | libc::O_EXCL | libc::O_NOATIME;

/// A file, directory or link of the backing directory.
pub(super) struct Inode {
    pub(super) number: u64,
    pub(super) fd: OwnedFd,
    pub(super) is_root: bool,
    size: AtomicU64,
    places: Arc<Mutex<Allocator>>,
}

/// A file the kernel has open.
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) inode: Arc<Inode>,
}

impl Inode {
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// The file ends at `end` or later.
    pub(super) fn grow(&self, end: u64) {
        self.size.fetch_max(end, Ordering::AcqRel);
    }

    /// Opens the backing file anew, which works without a name, too.
    pub(super) fn open(&self, flags: i32) -> io::Result<File> {
        let flags = (flags & BACKING_FLAGS & !libc::O_EXCL) | libc::O_CLOEXEC;
        // SAFETY: the path is a C string that lives across the call.
        let fd = check(unsafe { libc::open(magic_link(&self.fd).as_ptr(), flags) })?;
        if flags & libc::O_TRUNC != 0 {
            self.set_size(0);
        }
        // SAFETY: the call above returned this descriptor to us alone.
        Ok(unsafe { File::from_raw_fd(fd) })
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        if status(&self.fd).is_ok_and(|status| status.st_nlink == 0) {
            lock(&self.places).remove(self.number);
        }
    }
}

/// All inodes the kernel knows by number.
pub(super) struct Inodes {
    root: Arc<Inode>,
    places: Arc<Mutex<Allocator>>,
    known: Mutex<HashMap<u64, (Arc<Inode>, u64)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while holding the lock")
}

impl Inodes {
    pub(super) fn rooted_at(backing: &Path, allocator: Allocator) -> io::Result<Inodes> {
        let places = Arc::new(Mutex::new(allocator));
        let fd = OwnedFd::from(File::open(backing)?);
        let number = status(&fd)?.st_ino;
        let root = Arc::new(Inode { number, fd, is_root: true, size: AtomicU64::new(0), places: Arc::clone(&places) });
        Ok(Inodes { root, places, known: Mutex::default() })
    }

    /// Where file `number` lies, with room for `bytes`.
    pub(super) fn place(&self, number: u64, bytes: u64) -> Region {
        lock(&self.places).region(number, bytes)
    }

    /// The number under which the kernel knows a backing inode.
    pub(super) fn presented(&self, number: u64) -> INodeNo {
        if number == self.root.number { INodeNo::ROOT } else { INodeNo(number) }
    }

    pub(super) fn get(&self, number: INodeNo) -> io::Result<Arc<Inode>> {
        if number == INodeNo::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let known = lock(&self.known);
        known
            .get(&number.0)
            .map(|(inode, _)| Arc::clone(inode))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    pub(super) fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        self.enter(&*self.get(parent)?, &c_name(name)?).map(|(_, attr)| attr)
    }

    pub(super) fn forget(&self, number: INodeNo, lookups: u64) {
        let mut known = lock(&self.known);
        let mut dropped = None;
        if let Some((_, count)) = known.get_mut(&number.0) {
            *count = count.saturating_sub(lookups);
            if *count == 0 {
                dropped = known.remove(&number.0);
            }
        }
        drop(known);
        drop(dropped);
    }

    /// Finds `name` and counts one lookup, which the kernel will forget one day.
    fn enter(&self, parent: &Inode, name: &CStr) -> io::Result<(Arc<Inode>, FileAttr)> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the parent is open and the name is a C string that lives across the call.
        let fd = check(unsafe { libc::openat(parent.fd.as_raw_fd(), name.as_ptr(), flags) })?;
        // SAFETY: the call above returned this descriptor to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let status = status(&fd)?;
        let mut known = lock(&self.known);
        let (inode, count) = known.entry(status.st_ino).or_insert_with(|| {
            let size = AtomicU64::new(status.st_size as u64);
            let places = Arc::clone(&self.places);
            (Arc::new(Inode { number: status.st_ino, fd, is_root: false, size, places }), 0)
        });
        *count += 1;
        Ok((Arc::clone(inode), attributes_of(&status, status.st_ino)))
    }

    /// Gives a new inode to the user who asked for it, with exactly the wanted mode, and enters it.
    fn adopt(
        &self,
        request: &Request,
        parent: &Inode,
        name: &CStr,
        mode: Option<u32>,
    ) -> io::Result<(Arc<Inode>, FileAttr)> {
        let (inode, _) = self.enter(parent, name)?;
        if crate::system::user_id() == 0 && (request.uid(), request.gid()) != (0, 0) {
            let directory = status(&parent.fd)?;
            let inherits = directory.st_mode & libc::S_ISGID != 0;
            inode.change_owner(Some(request.uid()), (!inherits).then_some(request.gid()))?;
        }
        if let Some(mode) = mode {
            // The server's own umask must not matter; the kernel has applied the caller's.
            let directory_bits = status(&inode.fd)?.st_mode & libc::S_ISGID;
            inode.change_mode((mode & 0o7777) | directory_bits)?;
        }
        let attr = inode.attributes()?;
        Ok((inode, attr))
    }

    pub(super) fn make_node(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u32,
    ) -> io::Result<FileAttr> {
        let (parent, name) = (self.get(parent)?, c_name(name)?);
        // SAFETY: the parent is open and the name is a C string that lives across the call.
        check(unsafe { libc::mknodat(parent.fd.as_raw_fd(), name.as_ptr(), mode, libc::dev_t::from(device)) })?;
        self.adopt(request, &parent, &name, Some(mode)).map(|(_, attr)| attr)
    }

    pub(super) fn make_directory(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
    ) -> io::Result<FileAttr> {
        let (parent, name) = (self.get(parent)?, c_name(name)?);
        // SAFETY: the parent is open and the name is a C string that lives across the call.
        check(unsafe { libc::mkdirat(parent.fd.as_raw_fd(), name.as_ptr(), mode) })?;
        self.adopt(request, &parent, &name, Some(mode)).map(|(_, attr)| attr)
    }

    pub(super) fn make_symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
    ) -> io::Result<FileAttr> {
        let (parent, name, target) = (self.get(parent)?, c_name(name)?, c_name(target.as_os_str())?);
        // SAFETY: the parent is open and both strings live across the call.
        check(unsafe { libc::symlinkat(target.as_ptr(), parent.fd.as_raw_fd(), name.as_ptr()) })?;
        self.adopt(request, &parent, &name, None).map(|(_, attr)| attr)
    }

    pub(super) fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<(OpenFile, FileAttr)> {
        let (parent, name) = (self.get(parent)?, c_name(name)?);
        let flags = (flags & BACKING_FLAGS) | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // Whether the file is new decides about its owner and mode, so first try to be its creator.
        // SAFETY: the parent is open and the name is a C string that lives across the call.
        let open = |flags| check(unsafe { libc::openat(parent.fd.as_raw_fd(), name.as_ptr(), flags, mode) });
        let (fd, is_created) = match open(flags | libc::O_EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && flags & libc::O_EXCL == 0 => {
                (open(flags)?, false)
            }
            result => (result?, true),
        };
        // SAFETY: the call above returned this descriptor to us alone.
        let file = Arc::new(unsafe { File::from_raw_fd(fd) });
        let (inode, attr) = match is_created {
            true => self.adopt(request, &parent, &name, Some(mode))?,
            false => self.enter(&parent, &name)?,
        };
        inode.set_size(file.metadata()?.len());
        self.place(inode.number, inode.size());
        Ok((OpenFile { file, inode }, attr))
    }

    pub(super) fn link(&self, number: INodeNo, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let (inode, parent, name) = (self.get(number)?, self.get(parent)?, c_name(name)?);
        let source = magic_link(&inode.fd);
        let (from, to) = (libc::AT_FDCWD, parent.fd.as_raw_fd());
        // SAFETY: the parent is open and both strings live across the call.
        check(unsafe { libc::linkat(from, source.as_ptr(), to, name.as_ptr(), libc::AT_SYMLINK_FOLLOW) })?;
        self.enter(&parent, &name).map(|(_, attr)| attr)
    }

    pub(super) fn remove(&self, parent: INodeNo, name: &OsStr, flags: i32) -> io::Result<()> {
        let (parent, name) = (self.get(parent)?, c_name(name)?);
        // SAFETY: the parent is open and the name is a C string that lives across the call.
        check(unsafe { libc::unlinkat(parent.fd.as_raw_fd(), name.as_ptr(), flags) }).map(|_| ())
    }

    pub(super) fn rename(
        &self,
        from: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: u32,
    ) -> io::Result<()> {
        let (from, to, name, new_name) = (self.get(from)?, self.get(to)?, c_name(name)?, c_name(new_name)?);
        let (from, to) = (from.fd.as_raw_fd(), to.fd.as_raw_fd());
        // SAFETY: both directories are open and both names live across the call.
        check(unsafe { libc::renameat2(from, name.as_ptr(), to, new_name.as_ptr(), flags) }).map(|_| ())
    }

    pub(super) fn statfs(&self) -> io::Result<libc::statvfs> {
        // SAFETY: all-zero bytes are a valid statvfs, which the call overwrites.
        let mut statistics: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the root is open and the structure valid for writing.
        check(unsafe { libc::fstatvfs(self.root.fd.as_raw_fd(), &mut statistics) })?;
        Ok(statistics)
    }
}

impl Inode {
    /// Where a symbolic link points.
    pub(super) fn link_target(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0u8; libc::PATH_MAX as usize];
        // SAFETY: the empty path names the open link itself; the buffer is valid for its length.
        let length = crate::system::check_size(unsafe {
            libc::readlinkat(self.fd.as_raw_fd(), c"".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
        })?;
        buffer.truncate(length);
        Ok(buffer)
    }
}

/// Things the kernel has open, by the number it was told; numbers are reused.
pub(super) struct Handles<T>(Mutex<Slots<T>>);

struct Slots<T> {
    values: Vec<Option<Arc<T>>>,
    free: Vec<u64>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles(Mutex::new(Slots { values: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Handles<T> {
    pub(super) fn insert(&self, value: T) -> u64 {
        let mut slots = lock(&self.0);
        let value = Some(Arc::new(value));
        match slots.free.pop() {
            Some(handle) => {
                slots.values[handle as usize] = value;
                handle
            }
            None => {
                slots.values.push(value);
                slots.values.len() as u64 - 1
            }
        }
    }

    pub(super) fn get(&self, handle: u64) -> io::Result<Arc<T>> {
        let slots = lock(&self.0);
        slots.values.get(handle as usize).cloned().flatten().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    pub(super) fn remove(&self, handle: u64) {
        let mut slots = lock(&self.0);
        let value = slots.values.get_mut(handle as usize).and_then(Option::take);
        if value.is_some() {
            slots.free.push(handle);
        }
        drop(slots);
        drop(value);
    }
}
