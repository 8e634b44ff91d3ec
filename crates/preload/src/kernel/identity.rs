//! Which process and thread this is, whose, its limits, and which boot of a node it runs in.

use super::raw::syscall;
use super::{close, openat, read};

/// getpid(2), never cached.
pub(crate) fn process() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getpid) }.unwrap_or(0) as u32
}

/// gettid(2).
pub(crate) fn thread() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_gettid) }.unwrap_or(0) as u32
}

/// getuid(2).
pub(crate) fn real_user() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getuid) }.unwrap_or(0) as u32
}

/// getgid(2).
pub(crate) fn real_group() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getgid) }.unwrap_or(0) as u32
}

/// The soft limit on the size of files this process writes.
pub(crate) fn file_size_limit() -> u64 {
    limit(libc::RLIMIT_FSIZE).unwrap_or(libc::RLIM_INFINITY)
}

/// The soft limit on descriptor numbers.
pub(crate) fn descriptor_limit() -> u64 {
    limit(libc::RLIMIT_NOFILE).unwrap_or(1024)
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}

/// The id of this boot of this node, if it can be read.
pub(crate) fn boot_id() -> Option<[u8; 16]> {
    let mut text = [0u8; 64];
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let fd = openat(libc::AT_FDCWD, c"/proc/sys/kernel/random/boot_id", flags, 0).ok()?;
    let length = read(fd, &mut text).unwrap_or(0);
    let _ = close(fd);
    id_of(&text[..length])
}

/// An id by its 32 digits, whatever stands between them.
pub(crate) fn id_of(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.iter().filter_map(|byte| (*byte as char).to_digit(16));
    let mut id = [0; 16];
    for byte in &mut id {
        *byte = (digits.next()? << 4 | digits.next()?) as u8;
    }
    Some(id)
}
