//! `stat` and its kin: sizes are right on the slow file; only the time of the last write may be newer than the slow
//! file says.

use std::sync::atomic::Ordering;

use headstart_core::protocol::message::Request;
use libc::{c_char, c_int};

use crate::{files, kernel, location, session};

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

/// `utimensat` and its kin: tells the agent, so that the time is taken neither for a stranger's change nor for that of a
/// write-back.
///
/// # Safety
/// `path` is a string, or none for the descriptor `dir` itself.
pub unsafe fn times_set(dir: c_int, path: *const c_char, flags: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result != 0 {
        return result;
    }
    let saved = kernel::errno();
    let facts = if path.is_null() {
        kernel::facts(dir)
    } else {
        // SAFETY: the caller's contract; the kernel has just read it.
        unsafe { kernel::facts_at(dir, path, flags & (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH)) }
    };
    if let Ok(facts) = facts
        && facts.regular
        // SAFETY: the caller's contract.
        && (files::entry_of(facts.device, facts.inode).is_some() || unsafe { is_managed(dir, path) })
    {
        let (device, inode, birth_ns) = (facts.device, facts.inode, facts.birth_ns);
        let _ = session::with(|session| session.call(&Request::TimesSet { device, inode, birth_ns }));
    }
    kernel::set_errno(saved);
    result
}

/// # Safety
/// As [`times_set`].
unsafe fn is_managed(dir: c_int, path: *const c_char) -> bool {
    // SAFETY: the caller's contract.
    !path.is_null() && unsafe { location::name_of(dir, path) }.is_some_and(|name| location::is_managed(&name))
}

fn modified(device: u64, inode: u64) -> Option<(i64, i64)> {
    let modified_ns = files::entry_of(device, inode)?.modified_ns.load(Ordering::Relaxed) as i64;
    (modified_ns != 0).then_some((modified_ns / 1_000_000_000, modified_ns % 1_000_000_000))
}
