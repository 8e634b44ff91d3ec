//! `stat` and its kin: sizes are right on the slow file; the time of the last write may be newer than the
//! slow file says, and the blocks that lie on flash are missing from it.

use std::sync::atomic::Ordering;

use headstart_protocol::message::Request;
use headstart_protocol::shared::FileEntry;
use libc::{c_char, c_int};

use crate::files::{descriptors, records};
use crate::session::{self, Answer};
use crate::{kernel, location};

/// Corrects what a `stat` that succeeded says of a file that this process has open.
///
/// # Safety
/// `found` is what the call just wrote, if it succeeded.
#[inline]
pub(crate) unsafe fn dated(found: *mut libc::stat, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        let found = unsafe { &mut *found };
        if let Some(entry) = records::entry_of(found.st_dev, found.st_ino) {
            (found.st_mtime, found.st_mtime_nsec) = latest((found.st_mtime, found.st_mtime_nsec), modified(entry));
            found.st_blocks = found.st_blocks.max(blocks(entry, found.st_size as u64) as i64);
        }
    }
    result
}

/// The same for `statx`.
///
/// # Safety
/// `found` is what the call just wrote, if it succeeded.
pub(crate) unsafe fn dated_x(found: *mut libc::statx, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        let found = unsafe { &mut *found };
        let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
        if let Some(entry) = records::entry_of(device, found.stx_ino) {
            let time = latest((found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec.into()), modified(entry));
            (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec) = (time.0, time.1 as u32);
            found.stx_blocks = found.stx_blocks.max(blocks(entry, found.stx_size));
        }
    }
    result
}

/// Blocks that the file counts as at least while any of it may be on flash. The slow file has holes there,
/// and `tar --sparse` does not read a file that has no blocks.
fn blocks(entry: &FileEntry, size: u64) -> u64 {
    if entry.set_bits.load(Ordering::Acquire) == 0 { 0 } else { size.div_ceil(512) }
}

/// Whether these times leave that of the last change as it is.
///
/// # Safety
/// Two times, or none.
unsafe fn keeps_modified(times: *const libc::timespec) -> bool {
    // SAFETY: the caller's contract.
    !times.is_null() && unsafe { (*times.add(1)).tv_nsec } == libc::UTIME_OMIT
}

/// `utimensat` and its kin: tells the agent, so that the time is taken neither for a stranger's change nor
/// for that of a write-back.
///
/// # Safety
/// `path` is a string, or none for the descriptor `dir` itself; `times` are those of the call, or none where
/// it sets both.
pub(crate) unsafe fn times_set(
    dir: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    flags: c_int,
    pass: impl Fn() -> c_int,
) -> c_int {
    let result = pass();
    // SAFETY: the caller's contract; the kernel has just read them.
    if result != 0 || unsafe { keeps_modified(times) } {
        return result;
    }
    let saved = kernel::errno();
    let facts = if path.is_null() {
        // A descriptor that was inherited, and not used yet, is made known.
        let _ = descriptors::managed(dir);
        kernel::facts(dir)
    } else {
        // SAFETY: the caller's contract; the kernel has just read it.
        unsafe { kernel::facts_at(dir, path, flags & (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH)) }
    };
    if let Ok(facts) = facts
        && facts.regular
        && (records::entry_of(facts.device, facts.inode).is_some()
            // SAFETY: the caller's contract.
            || unsafe { is_managed(dir, path, flags) } && location::mounts::is_own(&facts))
    {
        let (inode, birth_ns) = (facts.inode, facts.birth_ns);
        let tell = || session::with(|session| session.call(&Request::TimesSet { inode, birth_ns }));
        // The agent has shown the time of the last absorbed write since, and knows now that it is not to.
        if tell() == Ok(Answer::Go) && pass() == 0 {
            let _ = tell();
        }
    }
    kernel::set_errno(saved);
    result
}

/// # Safety
/// As [`times_set`].
unsafe fn is_managed(dir: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the caller's contract.
    !path.is_null() && unsafe { location::lies_managed(dir, path, flags, flags) }
}

/// The later of the slow file's time and the time of the last absorbed write. A time set in the future wins.
fn latest(slow: (i64, i64), absorbed: (i64, i64)) -> (i64, i64) {
    if absorbed == (0, 0) || slow <= absorbed {
        // Times before 1970 are negative.
        return if absorbed == (0, 0) { slow } else { absorbed };
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) } == 0;
    if told && slow > (now.tv_sec, now.tv_nsec) { absorbed } else { slow }
}

/// When bytes were last absorbed, in seconds and nanoseconds; zero if none were.
fn modified(entry: &FileEntry) -> (i64, i64) {
    let modified_ns = entry.modified_ns.load(Ordering::Relaxed) as i64;
    (modified_ns / 1_000_000_000, modified_ns % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_absorbed_write_ends_earlier_ones_and_those_to_come() {
        let (before_1970, to_come) = ((-315_619_200, 5), (i64::from(u32::MAX), 0));
        assert_eq!(latest(before_1970, (0, 0)), before_1970, "nothing was absorbed");
        assert_eq!(latest(before_1970, (7, 0)), (7, 0));
        assert_eq!(latest(to_come, (7, 0)), (7, 0));
        assert_eq!(latest((8, 0), (7, 0)), (8, 0));
    }
}
