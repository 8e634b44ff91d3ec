//! Streams: what stdio reads and writes inside libc is not seen, so a managed file is written back when a stream gets
//! it, and cut through the agent when a stream would cut it. Bytes that a stream *writes* bypass flash.

use std::ffi::CStr;

use libc::{FILE, c_char, c_int};

use crate::descriptors::{self, Closing};
use crate::kernel;
use crate::location::{self, Probe};
use crate::{opening, resizing};

/// Cuts a managed file that `mode` says to cut.
///
/// # Safety
/// `path` and `mode` are strings or null.
unsafe fn cut(path: *const c_char, mode: *const c_char) -> Result<(), kernel::Errno> {
    if path.is_null() || mode.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let mode = mode.split(|&byte| byte == b',').next().unwrap_or(b"");
    if !mode.starts_with(b"w") || mode.contains(&b'x') {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    match unsafe { location::probe(libc::AT_FDCWD, path, 0) } {
        // SAFETY: the caller's contract.
        Probe::Managed => unsafe { resizing::truncate_managed(path) },
        Probe::Missing | Probe::Other => Ok(()),
    }
}

fn number(stream: *mut FILE) -> c_int {
    // SAFETY: a stream that libc just returned, or that the program passed.
    unsafe { libc::fileno(stream) }
}

/// A stream has a descriptor the library has not seen.
fn begun(stream: *mut FILE, saved: c_int) -> *mut FILE {
    if stream.is_null() {
        return stream;
    }
    let fd = number(stream);
    if fd >= 0
        && let Err(errno) = opening::seen_by_others(fd)
    {
        // SAFETY: the stream is open; nobody else has it yet.
        unsafe { crate::symbols::real::fclose(stream) };
        descriptors::forget(fd);
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    kernel::set_errno(saved);
    stream
}

/// `fopen`.
///
/// # Safety
/// `path` and `mode` are strings.
pub unsafe fn fopen(path: *const c_char, mode: *const c_char, pass: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Err(errno) = unsafe { cut(path, mode) } {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    kernel::set_errno(saved);
    begun(pass(), saved)
}

/// `freopen`: the stream's old descriptor is closed within libc.
///
/// # Safety
/// `path` and `mode` are strings or null, `stream` is open.
pub unsafe fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
    pass: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Err(errno) = unsafe { cut(path, mode) } {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    let old = if stream.is_null() { -1 } else { number(stream) };
    kernel::set_errno(saved);
    let closing = Closing::begin(old);
    let reopened = pass();
    drop(closing);
    begun(reopened, saved)
}

/// `fdopen`.
pub fn fdopen(fd: c_int, pass: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let saved = kernel::errno();
    let checked = descriptors::managed(fd).and_then(|target| match target {
        Some(target) => crate::data_path::write_back(&target, crate::data_path::WHOLE),
        None => Ok(()),
    });
    if let Err(errno) = checked {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    kernel::set_errno(saved);
    pass()
}

/// `fclose`.
pub fn fclose(stream: *mut FILE, pass: impl FnOnce() -> c_int) -> c_int {
    let fd = if stream.is_null() { -1 } else { number(stream) };
    let _closing = Closing::begin(fd);
    pass()
}
