//! `stat` and its kin: sizes are right on the slow file; only the time of the last write may be newer than the slow
//! file says.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::files;

/// Sets the time of the last write of a `stat` that succeeded.
///
/// # Safety
/// `found` is what the call just wrote, if it succeeded.
#[inline]
pub unsafe fn dated(found: *mut libc::stat, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        let found = unsafe { &mut *found };
        if let Some((seconds, nanoseconds)) = modified(found.st_dev, found.st_ino)
            && (seconds, nanoseconds) > (found.st_mtime, found.st_mtime_nsec)
        {
            (found.st_mtime, found.st_mtime_nsec) = (seconds, nanoseconds);
        }
    }
    result
}

/// The same for `statx`.
///
/// # Safety
/// `found` is what the call just wrote, if it succeeded.
pub unsafe fn dated_x(found: *mut libc::statx, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        let found = unsafe { &mut *found };
        let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
        let time = &mut found.stx_mtime;
        if let Some((seconds, nanoseconds)) = modified(device, found.stx_ino)
            && (seconds, nanoseconds) > (time.tv_sec, time.tv_nsec.into())
        {
            (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
        }
    }
    result
}

fn modified(device: u64, inode: u64) -> Option<(i64, i64)> {
    let modified_ns = files::entry_of(device, inode)?.modified_ns.load(Ordering::Relaxed) as i64;
    (modified_ns != 0).then_some((modified_ns / 1_000_000_000, modified_ns % 1_000_000_000))
}
