//! Names for the kernel: C strings, and the path under which an O_PATH descriptor can be used by calls that want one.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A file name as a C string.
pub(super) fn c_name(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The magic link to an open file, which reaches it even when it has no name any more.
pub(super) fn magic_link(fd: &OwnedFd) -> CString {
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("digits hold no zero byte")
}
