//! The owner lock: one process has a volume.
//!
//! Both devices are locked with `flock`, which holds until the last descriptor of them is closed, however the
//! process ends. Block devices are opened with O_EXCL besides.
//!
//! | covers | by |
//! |---|---|
//! | two servers on the same files, also through hard links, bind mounts and containers of one machine | `flock`: it belongs to the inode |
//! | two servers on the same block device, also through other device nodes and from containers; mounts, swap, md, dm | O_EXCL: the kernel counts it per device |
//! | a file on NFS, from two machines | `flock`, if the server has locks and the mount does not say `local_lock` |
//!
//! **Not covered**: a disk that two machines reach (SAS, iSCSI, a parallel file system without locks).
//! Attached there twice, the superblock says so too late. Programs that open a device for writing and ask for
//! no lock, `dd` for one, are not seen either.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use super::problem::{Access, Problem};

/// udev locks a block device while it looks at it, some milliseconds after each time it was closed.
const TRIES_BLOCK_DEVICE: u32 = 40;
/// A program that the holder of a file starts has it too, until its `exec` closes it.
const TRIES_FILE: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// A killed process that used io_uring lets go of its devices only when the kernel has ended its requests,
/// some milliseconds after the process is gone; on a disk that does not answer, later than anybody would
/// wait.
const TRIES_AFTER_KILL: u32 = 200;

/// Takes the lock, for as long as the file is open.
pub(super) fn lock(file: &File, access: Access) -> Result<(), Problem> {
    let metadata = file.metadata().map_err(|source| Problem::Io { action: "lock", source })?;
    let tries = if metadata.file_type().is_block_device() { TRIES_BLOCK_DEVICE } else { TRIES_FILE };
    for attempt in 1..TRIES_AFTER_KILL {
        match try_lock(file, access) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && (attempt < tries || is_gone(&metadata)) => {
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            locked => return locked.map_err(|source| Problem::Io { action: "lock", source }),
        }
    }
    match try_lock(file, access) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(holder(&metadata).unwrap_or(Problem::OwnedElsewhere))
        }
        Err(source) => Err(Problem::Io { action: "lock", source }),
    }
}

fn try_lock(file: &File, access: Access) -> io::Result<()> {
    let kind = match access {
        Access::Serve => libc::LOCK_EX,
        Access::Look => libc::LOCK_SH,
    };
    // SAFETY: `flock` is given a descriptor, which `file` keeps open during the call, and no memory.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a device is still locked by a process that has ended.
fn is_gone(metadata: &Metadata) -> bool {
    let Some(Problem::Owned { pid, .. }) = holder(metadata) else { return false };
    // A zombie has no program any more, either.
    std::fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Waits while an open for this process alone fails because of one that has ended.
pub(super) fn outwait_killed(metadata: &Metadata) {
    for _ in 1..TRIES_AFTER_KILL {
        if !is_gone(metadata) {
            return;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// Who has locked a device as a volume, if it is a process that can be seen from here.
pub(super) fn holder(metadata: &Metadata) -> Option<Problem> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| locker(line, metadata))?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(Problem::Owned { pid, name: name.trim().into() })
}

/// The process of a line of /proc/locks, if it holds a `flock` of this inode:
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:9977894 0 EOF`.
fn locker(line: &str, metadata: &Metadata) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, place, ..] = words[..] else { return None };
    let mut numbers = place.split(':');
    let mut next = |radix| u64::from_str_radix(numbers.next()?, radix).ok();
    let device = libc::makedev(next(16)? as u32, next(16)? as u32);
    let inode = next(10)?;
    // btrfs says another device here than `stat` does.
    let same_device = device == metadata.dev() || libc::major(metadata.dev()) == 0;
    let pid: u32 = pid.parse().ok().filter(|pid| *pid > 0)?;
    (same_device && inode == metadata.ino()).then_some(pid)
}
