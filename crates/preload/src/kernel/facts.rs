//! What a file is, and changing its size.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use libc::{c_char, c_int};

use super::errno::Errno;
use super::raw::syscall;

/// What the library wants to know of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Nanoseconds since 1970; zero where the file system keeps no birth time.
    pub birth_ns: u64,
    /// `st_size`.
    pub size: u64,
    /// `st_nlink`.
    pub links: u32,
    /// Whether it is a regular file.
    pub regular: bool,
    /// What it is: `S_IFMT` of its mode.
    pub kind: u32,
    /// Permissions, with the bits that change who a program runs as.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Number of the mount that it was reached by; zero where the kernel does not say.
    pub mount: u64,
}

/// statx(2) of a descriptor.
pub(crate) fn facts(fd: c_int) -> Result<Facts, Errno> {
    // SAFETY: the path is the empty string.
    unsafe { facts_at(fd, c"".as_ptr(), libc::AT_EMPTY_PATH) }
}

/// statx(2).
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn facts_at(dir: c_int, path: *const c_char, flags: c_int) -> Result<Facts, Errno> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
    // SAFETY: `found` is writable, and the kernel checks `path`.
    unsafe { syscall!(libc::SYS_statx, dir, path, flags, mask, found.as_mut_ptr()) }?;
    // SAFETY: it was zeroed, and every bit pattern is a valid `statx`.
    let found = unsafe { found.assume_init() };
    let born = found.stx_mask & libc::STATX_BTIME != 0;
    let birth_ns = (found.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(found.stx_btime.tv_nsec);
    Ok(Facts {
        device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        birth_ns: if born { birth_ns } else { 0 },
        size: found.stx_size,
        links: found.stx_nlink,
        regular: u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG,
        kind: u32::from(found.stx_mode) & libc::S_IFMT,
        mode: u32::from(found.stx_mode) & 0o7777,
        owner: (found.stx_uid, found.stx_gid),
        mount: if found.stx_mask & libc::STATX_MNT_ID != 0 { found.stx_mnt_id } else { 0 },
    })
}

/// What kind of file system a path is in, as statfs(2) numbers them.
pub(crate) fn file_system(path: &CStr) -> Result<i64, Errno> {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` ends with NUL, and `found` is writable.
    unsafe { syscall!(libc::SYS_statfs, path.as_ptr(), found.as_mut_ptr()) }?;
    // SAFETY: it was zeroed, and every bit pattern is a valid `statfs`.
    Ok(unsafe { found.assume_init() }.f_type)
}

/// readlink(2); returns the part of `buffer` that holds the target.
pub(crate) fn readlink<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    // SAFETY: `path` ends with NUL, `buffer` is writable for its length.
    let result =
        unsafe { syscall!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    result.map(|length| &buffer[..length])
}

/// ftruncate(2).
pub(crate) fn ftruncate(fd: c_int, size: u64) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_ftruncate, fd, size) }
}

/// truncate(2).
pub(crate) fn truncate(path: &CStr, size: u64) -> Result<usize, Errno> {
    // SAFETY: `path` ends with NUL.
    unsafe { syscall!(libc::SYS_truncate, path.as_ptr(), size) }
}
