//! Streams. What stdio reads and writes inside libc the library does not see. So when a stream gets a managed
//! file the agent is told: it writes back what flash holds and puts nothing of the file on flash until the
//! process ends. A file that a stream would truncate is truncated through the agent.

pub(crate) mod input;
pub(crate) mod output;

use std::ffi::CStr;

use libc::{FILE, c_char, c_int};

use crate::calls::resizing;
use crate::files::descriptors::{self, Closing};
use crate::files::opening;
use crate::kernel::{self, Errno};
use crate::location::{self, Link, Probe};
use crate::settings;

mod libcs {
    use libc::{FILE, c_int};

    crate::hooks::next::real! { fclose(stream: *mut FILE) -> c_int }
}

unsafe extern "C-unwind" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
}

/// A stream's lock, which is recursive. Another thread that holds it may use the stream, and would wait for
/// whoever closes the descriptor, which libc does under the same lock: so it is taken before the descriptor
/// is marked.
struct Locked(*mut FILE);

impl Locked {
    /// Waits for the lock; nothing for a null pointer.
    fn wait(stream: *mut FILE) -> Option<Locked> {
        if stream.is_null() {
            return None;
        }
        // SAFETY: the program passed an open stream.
        unsafe { flockfile(stream) };
        Some(Locked(stream))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the stream was open when it was locked, and is not closed before.
        unsafe { funlockfile(self.0) };
    }
}

/// Called when the library is loaded, before the program can read its standard input, which another program may have
/// opened.
pub(crate) fn inherited() {
    if !settings::served() {
        return;
    }
    let saved = kernel::errno();
    // A refusal has been said on stderr; the reads that libc makes cannot be failed.
    let _ = opening::bypass(libc::STDIN_FILENO, false);
    kernel::set_errno(saved);
}

/// A stream's mode without what glibc takes behind a comma.
///
/// # Safety
/// `mode` is a string or null.
unsafe fn letters<'m>(mode: *const c_char) -> &'m [u8] {
    if mode.is_null() {
        return b"";
    }
    // SAFETY: the caller's contract.
    let mode = unsafe { CStr::from_ptr(mode) }.to_bytes();
    mode.split(|&byte| byte == b',').next().unwrap_or(b"")
}

/// Whether a stream of this mode may write.
///
/// # Safety
/// `mode` is a string or null.
unsafe fn writes(mode: *const c_char) -> bool {
    // SAFETY: the caller's contract.
    let mode = unsafe { letters(mode) };
    !mode.starts_with(b"r") || mode.contains(&b'+')
}

/// Cuts a managed file that `mode` says to cut.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT; `mode` is a string or null.
unsafe fn cut(path: *const c_char, mode: *const c_char) -> Result<(), Errno> {
    if mode.is_null() || !settings::served() {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    let mode = unsafe { letters(mode) };
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
fn begun(stream: *mut FILE, writes: bool, saved: c_int) -> *mut FILE {
    if stream.is_null() {
        return stream;
    }
    let fd = number(stream);
    if fd >= 0 {
        descriptors::forget(fd);
    }
    if fd >= 0
        && let Err(errno) = opening::bypass(fd, writes)
    {
        // SAFETY: the stream is open; nobody else has it yet.
        unsafe { libcs::fclose(stream) };
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
pub(crate) unsafe fn fopen(path: *const c_char, mode: *const c_char, pass: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Err(errno) = unsafe { cut(path, mode) } {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    kernel::set_errno(saved);
    // SAFETY: the caller's contract.
    begun(pass(), unsafe { writes(mode) }, saved)
}

/// `freopen`: the stream's old descriptor is closed within libc.
///
/// # Safety
/// `path` and `mode` are strings or null, `stream` is open.
pub(crate) unsafe fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
    pass: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let saved = kernel::errno();
    // Before the file is cut, which is undone by whoever writes to it before libc has the stream. Let go of
    // before the stream may have to be closed.
    let locked = Locked::wait(stream);
    // Without a path it is the stream's own file, which libc opens by this name.
    let link = (path.is_null() && !stream.is_null()).then(|| Link::of(number(stream)));
    let path = link.as_ref().map_or(path, |link| link.path().as_ptr());
    // SAFETY: the caller's contract.
    if let Err(errno) = unsafe { cut(path, mode) } {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    let old = if stream.is_null() { -1 } else { number(stream) };
    kernel::set_errno(saved);
    let closing = Closing::begin_reopening(old);
    let reopened = pass();
    drop(closing);
    drop(locked);
    // SAFETY: the caller's contract.
    begun(reopened, unsafe { writes(mode) }, saved)
}

/// `fdopen`.
///
/// # Safety
/// `mode` is a string.
pub(crate) unsafe fn fdopen(fd: c_int, mode: *const c_char, pass: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Err(errno) = opening::bypass(fd, unsafe { writes(mode) }) {
        kernel::set_errno(errno);
        return std::ptr::null_mut();
    }
    kernel::set_errno(saved);
    let stream = pass();
    // SAFETY: the caller's contract.
    if unsafe { letters(mode) }.starts_with(b"a") {
        // libc set O_APPEND by itself.
        descriptors::flags_changed(fd);
    }
    stream
}

/// `tmpfile`, and `popen`: libc opens a file without a name, or a pipe.
pub(crate) fn made(pass: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let saved = kernel::errno();
    let stream = pass();
    if stream.is_null() { stream } else { begun(stream, true, saved) }
}

/// `vdprintf`: libc writes by itself.
pub(crate) fn printed(fd: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    if may_print(fd) { pass() } else { -1 }
}

/// `backtrace_symbols_fd`, which cannot fail.
pub(crate) fn traced(fd: c_int, pass: impl FnOnce()) {
    let saved = kernel::errno();
    let _ = opening::bypass(fd, true);
    kernel::set_errno(saved);
    pass();
}

/// Before libc prints to a descriptor; if it may not, errno says why.
pub(crate) fn may_print(fd: c_int) -> bool {
    let saved = kernel::errno();
    let told = opening::bypass(fd, true);
    kernel::set_errno(told.err().unwrap_or(saved));
    told.is_ok()
}

/// `fclose`, `endmntent`, `pclose`.
pub(crate) fn fclose(stream: *mut FILE, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // Only waited for: nobody may begin to use the stream any more. libc takes the lock of its list of
    // streams before this one, and so does a flush of all streams, for which a thread that held this one
    // would wait.
    drop(Locked::wait(stream));
    let fd = if stream.is_null() { -1 } else { number(stream) };
    let _closing = Closing::begin(fd);
    kernel::set_errno(saved);
    pass()
}

/// Before libc reads from or writes to a stream that it may have opened before the library saw a file behind
/// it; if it may not, errno says why.
///
/// # Safety
/// `stream` is open, or null.
pub(crate) unsafe fn may_use(stream: *mut FILE, writes: bool) -> bool {
    if stream.is_null() {
        return true;
    }
    let saved = kernel::errno();
    // SAFETY: the caller's contract: a stream is open.
    let fd = unsafe { libc::fileno(stream) };
    let told = if fd < 0 { Ok(()) } else { opening::bypass(fd, writes) };
    kernel::set_errno(told.err().unwrap_or(saved));
    told.is_ok()
}
