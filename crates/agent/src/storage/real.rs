//! The kernel's files.

use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, OFlag, fallocate, fcntl};
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use nix::sys::uio::preadv;
use xattr::FileExt as _;

use headstart_overlay::journal::Identity;

use crate::error::Result;
use crate::held_file;
use crate::identity::{ManagedDevice, birth_ns};

use super::{Access, Attributes, File, FileRef, Scope, Storage};

/// More parts a call may not have (UIO_MAXIOV).
const PARTS_MAX: usize = 1024;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealStorage {
    device: ManagedDevice,
}

impl RealStorage {
    /// With slow files below the directory `slow`.
    pub(crate) fn below(slow: &Path) -> Result<RealStorage> {
        Ok(RealStorage { device: ManagedDevice::of(slow)? })
    }
}

impl Storage for RealStorage {
    fn open(&self, path: &Path, access: Access) -> io::Result<FileRef> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = match access {
            Access::Create => options.create(true).truncate(false).mode(0o600).open(path)?,
            Access::Existing => options.open(path)?,
            Access::Slow => {
                options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
                options.open(path).or_else(|error| match error.raw_os_error() {
                    Some(libc::EACCES | libc::EROFS | libc::EPERM | libc::ETXTBSY) => options.write(false).open(path),
                    _ => Err(error),
                })?
            }
            Access::SlowRead => options.write(false).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?,
        };
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        std::fs::File::open(directory)?.sync_all()
    }

    fn open_held(&self, identity: Identity, pids: &[u32]) -> Option<FileRef> {
        held_file::open(self.device, identity, pids).map(|file| Arc::new(file) as FileRef)
    }

    fn holders(&self, identity: Identity) -> Vec<u32> {
        held_file::holders(self.device, identity)
    }

    fn is_managed(&self, device: u64) -> bool {
        self.device.is(device)
    }

    fn sync_file_system(&self, path: &Path) -> io::Result<()> {
        let existing = path.ancestors().find_map(|ancestor| std::fs::File::open(ancestor).ok());
        Ok(nix::unistd::syncfs(existing.ok_or(io::ErrorKind::NotFound)?)?)
    }
}

/// Time of last write in nanoseconds since 1970; before that a negative number, in two's complement.
pub(crate) fn modified_ns(found: &std::fs::Metadata) -> u64 {
    (found.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec() as u64)
}

impl File for std::fs::File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn read_vectored_at(&self, mut parts: &mut [IoSliceMut<'_>], mut offset: u64) -> io::Result<()> {
        while !parts.is_empty() {
            let few = parts.len().min(PARTS_MAX);
            match preadv(self, &mut parts[..few], offset as i64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    offset += read as u64;
                    IoSliceMut::advance_slices(&mut parts, read);
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&self, scope: Scope) -> io::Result<()> {
        match scope {
            Scope::Data => self.sync_data(),
            Scope::All => self.sync_all(),
        }
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        match fallocate(self, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset as i64, length as i64) {
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(self, flags, offset as i64, length as i64)?)
    }

    fn is_writable(&self) -> bool {
        let flags = fcntl(self, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
        flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE != OFlag::O_RDONLY)
    }

    fn reopen(&self, writable: bool) -> io::Result<FileRef> {
        let link = format!("/proc/self/fd/{}", self.as_raw_fd());
        let opened = OpenOptions::new().read(true).write(writable).custom_flags(libc::O_NONBLOCK).open(link)?;
        Ok(Arc::new(opened))
    }

    fn attributes(&self) -> io::Result<Attributes> {
        let found = self.metadata()?;
        let (device, inode, links, size) = (found.dev(), found.ino(), found.nlink(), found.len());
        let (modified_ns, birth_ns) = (modified_ns(&found), birth_ns(&found));
        Ok(Attributes { device, inode, links, size, modified_ns, birth_ns })
    }

    fn set_modified(&self, modified_ns: u64) -> io::Result<()> {
        let (ns, second_ns) = (modified_ns as i64, 1_000_000_000);
        let time = TimeSpec::new(ns.div_euclid(second_ns), ns.rem_euclid(second_ns));
        Ok(futimens(self, &TimeSpec::UTIME_OMIT, &time)?)
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.set_xattr(name, value)
    }

    fn remove_extended(&self, name: &str) -> io::Result<()> {
        self.remove_xattr(name)
    }
}
