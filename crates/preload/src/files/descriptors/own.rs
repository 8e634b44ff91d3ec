//! The library's own descriptors, which the program can neither close nor replace.

use std::sync::atomic::Ordering;

use libc::c_int;

use super::table::{DESCRIPTORS_MAX, OWN_CLOSING, OWN_FILE, OWN_SOCKET, TABLE, UNKNOWN, raise_used};
use crate::kernel::{self, Errno};
use crate::process;

/// What of the library's own a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// A connection to the agent.
    Socket,
    /// A data file on flash, or something held for a moment.
    File,
}

/// Whether a descriptor is the library's own.
#[inline]
pub(crate) fn is_own(fd: c_int) -> bool {
    TABLE
        .get(fd as usize)
        .is_some_and(|cell| matches!(cell.load(Ordering::Acquire), OWN_SOCKET | OWN_FILE | OWN_CLOSING))
}

/// The library's own numbers begin here: above those that most programs have, and low enough that a table of 1,024
/// holds them.
const FIRST: i64 = 768;

/// Makes the kernel's table of the process's descriptors reach to the library's own, while the process has one thread.
/// With more threads that waits for everybody who may still use the old table: 10 to 20 ms, which an MPI program, whose
/// threads come before its first file, had in its first open (measured on 2 CPUs; without threads 7 µs).
pub(crate) fn make_room() {
    if FIRST < descriptor_end() {
        let reached = (0..3).find_map(|fd| kernel::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST).ok());
        let _ = reached.map(kernel::close);
    }
}

/// No number is that high.
fn descriptor_end() -> i64 {
    kernel::descriptor_limit().min(DESCRIPTORS_MAX as u64) as i64
}

/// Moves a descriptor of the library out of the program's way, to a high number, and marks it, but not in a
/// `vfork` child, whose numbers are not those of the table. It is closed on exec. Where no number is left a
/// connection stays where it is.
pub(crate) fn make_own(fd: c_int, own: Own) -> Result<c_int, Errno> {
    let end = descriptor_end();
    let wanted = [FIRST.min(end - 256), end / 2, 3];
    let moved = wanted.iter().filter(|&&low| low >= 3).find_map(|&low| {
        kernel::fcntl(fd, libc::F_DUPFD_CLOEXEC, low).ok().filter(|&high| (high as usize) < DESCRIPTORS_MAX)
    });
    let stays = own == Own::Socket && (3..DESCRIPTORS_MAX as c_int).contains(&fd);
    let Some(high) = moved.or(stays.then_some(fd)) else {
        let _ = kernel::close(fd);
        return Err(libc::EMFILE);
    };
    let entry = if own == Own::Socket { OWN_SOCKET } else { OWN_FILE };
    if process::is_own() {
        raise_used(high);
        TABLE[high as usize].store(entry, Ordering::Release);
    }
    if high != fd {
        let _ = kernel::close(fd);
    }
    Ok(high)
}

/// Closes a descriptor of the library. Its number may be another one's own at once, whose mark stays.
pub(crate) fn close_own(fd: c_int) {
    if !process::is_own() {
        let _ = kernel::close(fd);
        return;
    }
    let cell = &TABLE[fd as usize];
    cell.store(OWN_CLOSING, Ordering::Release);
    let _ = kernel::close(fd);
    let _ = cell.compare_exchange(OWN_CLOSING, UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
}
