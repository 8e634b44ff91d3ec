//! Which process this is. A forked child is a new process to the agent; a `vfork` child shares this one's
//! memory, and is none yet.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::kernel;

/// The process the tables belong to.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Grows with every fork on the way to this process; never zero once started.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The process's start time in clock ticks since boot; zero until asked for.
static START_TIME: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set before the thread makes a child that shares its memory: the thread's own until that has gone its
    /// way, then the thread again.
    static MAY_BE_CHILD: Cell<bool> = const { Cell::new(false) };
}

/// The number of forks that lead here, from 1.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Whether the caller runs in the process whose descriptors the tables describe. A `vfork` child shares the memory,
/// but not the descriptors; it must leave the tables alone.
pub(crate) fn is_own() -> bool {
    kernel::process() == PROCESS.load(Ordering::Relaxed)
}

/// The same without a system call, but after the thread made a child by `vfork` or its kin.
#[inline]
pub(crate) fn is_own_thread() -> bool {
    if MAY_BE_CHILD.get() && is_own() {
        MAY_BE_CHILD.set(false);
    }
    !MAY_BE_CHILD.get()
}

/// The process's number.
pub(crate) fn number() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Called once, before anything else.
pub(crate) fn start() {
    PROCESS.store(kernel::process(), Ordering::Relaxed);
    GENERATION.store(1, Ordering::Relaxed);
}

/// In a forked child: it is another process.
pub(crate) fn begin_child() {
    PROCESS.store(kernel::process(), Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    START_TIME.store(0, Ordering::Relaxed);
}

/// The calling thread is about to make a child that shares its memory.
pub(crate) fn may_be_child() {
    MAY_BE_CHILD.set(true);
}

/// Above the start time: the namespace of process numbers, so that an agent which sees none of two of them
/// tells a number of one from the same of the other.
const NAMESPACE_SHIFT: u32 = 40;

/// Start time in clock ticks since boot (field 22 of `/proc/self/stat`), zero where it cannot be read, and
/// the namespace.
pub(crate) fn start_time() -> u64 {
    let known = START_TIME.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let found = read_start_time();
    START_TIME.store(found, Ordering::Relaxed);
    found
}

/// The same, of whichever process calls.
#[inline(never)]
pub(crate) fn read_start_time() -> u64 {
    let mut text = [0u8; 1024];
    let Ok(fd) = kernel::openat(libc::AT_FDCWD, c"/proc/self/stat", libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return 0;
    };
    let length = kernel::read(fd, &mut text).unwrap_or(0);
    let _: Result<usize, c_int> = kernel::close(fd);
    let ticks = parse_start_time(&text[..length]).unwrap_or(0) & ((1 << NAMESPACE_SHIFT) - 1);
    // SAFETY: a string.
    let namespace = unsafe { kernel::facts_at(libc::AT_FDCWD, c"/proc/self/ns/pid".as_ptr(), 0) };
    ticks | namespace.map_or(0, |found| found.inode) << NAMESPACE_SHIFT
}

/// The program's name, field 2, may hold spaces and parentheses: fields are counted from the last parenthesis.
fn parse_start_time(text: &[u8]) -> Option<u64> {
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
    let field = text.get(after_name..)?.split(|&byte| byte == b' ').nth(22 - 3)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let rest = (3..=21).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let text = format!("12 (a ) 7 (b) {rest} 4711 23 24");
        assert_eq!(parse_start_time(text.as_bytes()), Some(4711));
        assert_eq!(parse_start_time(b"12 (a"), None);
    }
}
