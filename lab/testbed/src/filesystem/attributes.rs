//! Attributes of inodes: stat, chmod, chown, utimens, and extended attributes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyXattr, TimeOrNow};

use super::inode::Inode;
use super::path::{c_name, magic_link};
use crate::system::{check, check_size};

/// Block size reported by stat: what programs use as their buffer size.
const BLOCK_BYTES: u32 = 4096;

/// Changes of attributes other than the size.
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
}

/// The attributes of an open file, under the number the kernel knows.
pub(crate) fn file_attributes(file: &File, number: u64) -> io::Result<FileAttr> {
    status(file).map(|status| attributes_of(&status, number))
}

/// The status of an open inode.
pub(super) fn status(fd: &impl AsRawFd) -> io::Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid stat, which the call overwrites.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure valid for writing.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &mut status) })?;
    Ok(status)
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    start.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(nanoseconds as u64)
}

fn kind(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The status as FUSE wants it, under the number the kernel knows.
pub(super) fn attributes_of(status: &libc::stat, number: u64) -> FileAttr {
    let ctime = time(status.st_ctime, status.st_ctime_nsec);
    FileAttr {
        ino: INodeNo(number),
        size: status.st_size as u64,
        blocks: status.st_blocks as u64,
        atime: time(status.st_atime, status.st_atime_nsec),
        mtime: time(status.st_mtime, status.st_mtime_nsec),
        ctime,
        crtime: ctime,
        kind: kind(status.st_mode),
        perm: (status.st_mode & 0o7777) as u16,
        nlink: status.st_nlink as u32,
        uid: status.st_uid,
        gid: status.st_gid,
        rdev: status.st_rdev as u32,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn timespec(time: Option<TimeOrNow>) -> libc::timespec {
    match time {
        None => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        Some(TimeOrNow::Now) => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => libc::timespec { tv_sec: since.as_secs() as i64, tv_nsec: i64::from(since.subsec_nanos()) },
            Err(before) => {
                let before = before.duration();
                let borrow = i64::from(before.subsec_nanos() > 0);
                let tv_nsec = borrow * 1_000_000_000 - i64::from(before.subsec_nanos());
                libc::timespec { tv_sec: -(before.as_secs() as i64) - borrow, tv_nsec }
            }
        },
    }
}

impl Inode {
    pub(super) fn attributes(&self) -> io::Result<FileAttr> {
        let status = status(&self.fd)?;
        let number = if self.is_root { INodeNo::ROOT.0 } else { self.number };
        Ok(attributes_of(&status, number))
    }

    pub(super) fn change(&self, change: &Change) -> io::Result<()> {
        if change.uid.is_some() || change.gid.is_some() {
            self.change_owner(change.uid, change.gid)?;
        }
        if let Some(mode) = change.mode {
            self.change_mode(mode)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            self.change_times(change.atime, change.mtime)?;
        }
        Ok(())
    }

    pub(super) fn change_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: the path is a C string that lives across the call.
        check(unsafe { libc::chmod(magic_link(&self.fd).as_ptr(), mode & 0o7777) }).map(|_| ())
    }

    pub(super) fn change_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
        // SAFETY: the empty path names the open inode itself.
        check(unsafe { libc::fchownat(self.fd.as_raw_fd(), c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH) }).map(|_| ())
    }

    fn change_times(&self, atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>) -> io::Result<()> {
        let times = [timespec(atime), timespec(mtime)];
        let is_link = status(&self.fd)?.st_mode & libc::S_IFMT == libc::S_IFLNK;
        let path = magic_link(&self.fd);
        let (directory, path, flags) = match is_link {
            true => (self.fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH),
            false => (libc::AT_FDCWD, path.as_c_str(), 0),
        };
        // SAFETY: path and times live across the call.
        check(unsafe { libc::utimensat(directory, path.as_ptr(), times.as_ptr(), flags) }).map(|_| ())
    }

    pub(super) fn set_xattr(&self, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
        let (path, name) = (magic_link(&self.fd), c_name(name)?);
        let (data, length) = (value.as_ptr().cast(), value.len());
        // SAFETY: both strings and the value live across the call.
        check(unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), data, length, flags) }).map(|_| ())
    }

    /// The value of an extended attribute, or with `size` 0 as many zero bytes as it is long.
    pub(super) fn xattr(&self, name: &OsStr, size: u32) -> io::Result<Vec<u8>> {
        let (path, name) = (magic_link(&self.fd), c_name(name)?);
        fetch(size, |data, length| {
            // SAFETY: both strings live across the call and the buffer is valid for its length.
            unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), data.cast(), length) }
        })
    }

    /// The names of all extended attributes; `size` as in [`Inode::xattr`].
    pub(super) fn xattr_names(&self, size: u32) -> io::Result<Vec<u8>> {
        let path = magic_link(&self.fd);
        fetch(size, |data, length| {
            // SAFETY: the path lives across the call and the buffer is valid for its length.
            unsafe { libc::listxattr(path.as_ptr(), data.cast(), length) }
        })
    }

    pub(super) fn remove_xattr(&self, name: &OsStr) -> io::Result<()> {
        let (path, name) = (magic_link(&self.fd), c_name(name)?);
        // SAFETY: both strings live across the call.
        check(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }).map(|_| ())
    }
}

fn fetch(size: u32, call: impl Fn(*mut u8, usize) -> libc::ssize_t) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; size as usize];
    let length = check_size(call(buffer.as_mut_ptr(), buffer.len()))?;
    buffer.resize(length, 0);
    Ok(buffer)
}

/// Answers a question for the value, or with `size` 0 for its length.
pub(super) fn reply_xattr(reply: ReplyXattr, size: u32, value: Vec<u8>) {
    if size == 0 {
        reply.size(value.len() as u32);
    } else if value.len() > size as usize {
        reply.error(Errno::ERANGE);
    } else {
        reply.data(&value);
    }
}
