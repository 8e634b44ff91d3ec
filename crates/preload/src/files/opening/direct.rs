//! Opening without asking where the file lies. openat2(2) opens an absolute name without following symbolic
//! links; such a file lies where its name says. If that is outside of the managed directory nothing more has to
//! be asked; asking takes twice as long as opening. A mount on the way may show the managed directory under
//! another name: on the root directory's mount the kernel refuses to cross it (RESOLVE_NO_XDEV), elsewhere the
//! library asks the kernel for the mount.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use libc::{c_char, c_int};

use super::How;
use crate::hooks::next;
use crate::kernel::raw;
use crate::kernel::{self, Errno};
use crate::location::{PathBuffer, mounts};
use crate::process;
use crate::settings::settings;

unsafe extern "C-unwind" {
    /// Says when the thread may be cancelled; acts on a cancellation that waits.
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// Opens that are left to libc after one that met a symbolic link, and for which a mount is expected after
/// one that met one: names of one program are much alike.
const PAUSE_OPENS: u32 = 64;

/// How many of the next opens are left to libc; the largest number: all.
static PAUSE: AtomicU32 = AtomicU32::new(0);
/// How many of the next opens may leave the root directory's mount, as one before did.
static CROSSING: AtomicU32 = AtomicU32::new(0);

/// What was opened, and whether it lies outside of the managed directory for sure.
pub(crate) struct Opened {
    pub fd: c_int,
    pub is_outside: bool,
}

/// Opens `path` in libc's stead; nothing if libc has to do it. As libc's it is a cancellation point.
///
/// # Safety
/// The arguments are those of openat(2).
pub(crate) unsafe fn open(dir: c_int, path: *const c_char, flags: c_int) -> Option<Result<Opened, Errno>> {
    // What is created has a mode, of which libc makes sure.
    let creates = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    if creates
        || flags & (libc::O_TRUNC | libc::O_PATH) != 0
        || is_put_off(&PAUSE)
        || !is_as_libc()
        || !process::is_own_thread()
    {
        return None;
    }
    let stays = mounts::is_root_plain() && !is_put_off(&CROSSING);
    let resolve = libc::RESOLVE_NO_SYMLINKS | if stays { libc::RESOLVE_NO_XDEV } else { 0 };
    let how = How { flags: u64::from(flags as u32), mode: 0, resolve };
    // SAFETY: the caller's contract.
    match unsafe { open_by(dir, path, &how) } {
        Ok(fd) => {
            // SAFETY: it is a string, as the kernel could read it.
            let is_outside = lies_outside(unsafe { CStr::from_ptr(path) }.to_bytes(), &settings().slow)
                && (stays || !mounts::may_mislead_open(fd));
            Some(Ok(Opened { fd, is_outside }))
        }
        Err(libc::ENOSYS) => {
            leave_to_libc();
            None
        }
        Err(libc::EXDEV) if stays => {
            CROSSING.store(PAUSE_OPENS, Ordering::Relaxed);
            // SAFETY: the caller's contract.
            unsafe { open(dir, path, flags) }
        }
        // A link on the way, or a last name that was not to be followed; no right, or none to this call.
        Err(libc::ELOOP | libc::EPERM) => {
            PAUSE.fetch_max(PAUSE_OPENS, Ordering::Relaxed);
            None
        }
        // Flags that only the older call takes, and names that the kernel could not be sure of.
        Err(libc::EINVAL | libc::EAGAIN | libc::EXDEV) => None,
        Err(errno) => Some(Err(errno)),
    }
}

/// From now on libc opens everything: calls of the process are filtered.
pub(crate) fn leave_to_libc() {
    PAUSE.store(u32::MAX, Ordering::Relaxed);
}

/// Whether this open is one of those that `pause` counts.
fn is_put_off(pause: &AtomicU32) -> bool {
    let left = pause.load(Ordering::Relaxed);
    if !(1..u32::MAX).contains(&left) {
        return left != 0;
    }
    // Where another thread has counted meanwhile this open does not count.
    let _ = pause.compare_exchange(left, left - 1, Ordering::Relaxed, Ordering::Relaxed);
    true
}

/// Whether a call by its number does what libc's does: no other library comes after this one that sees files
/// opened, no filter ends the process for a call that it does not know, and nobody traces the process who may
/// lead its names elsewhere.
fn is_as_libc() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let is_so = next::opens_by_libc() && is_unwatched();
            ANSWER.store(if is_so { YES } else { NO }, Ordering::Relaxed);
            is_so
        }
        answer => answer == YES,
    }
}

/// Whether the kernel says that the process has neither filter nor tracer.
fn is_unwatched() -> bool {
    let Ok(fd) = kernel::openat(libc::AT_FDCWD, c"/proc/self/status", libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return false;
    };
    let mut buffer = PathBuffer::empty();
    let length = kernel::read(fd, buffer.room());
    let _ = kernel::close(fd);
    let text = &buffer.room()[..length.unwrap_or(0)];
    let says = |line: &[u8]| text.split(|byte| *byte == b'\n').any(|found| found == line);
    says(b"TracerPid:\t0") && says(b"Seccomp:\t0")
}

/// Whether an absolute path without symbolic links leads elsewhere than into `slow`, also where case is
/// nothing. Not so of one that goes up, says a thing twice or is not plain enough to be told apart: the
/// kernel is asked where it lies.
fn lies_outside(path: &[u8], slow: &[u8]) -> bool {
    let is_plain = |name: &&[u8]| !matches!(*name, b"" | b"." | b"..");
    let Some(path) = path.strip_prefix(b"/") else { return false };
    let names = || path.split(|byte| *byte == b'/');
    let managed = slow.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    // A short name, as vfat has them, has a tilde.
    let are_apart =
        |a: &[u8], b: &[u8]| a.is_ascii() && b.is_ascii() && !a.contains(&b'~') && !a.eq_ignore_ascii_case(b);
    let differing = names().zip(managed).find(|(a, b)| a != b);
    names().all(|name| is_plain(&name)) && differing.is_some_and(|(a, b)| are_apart(a, b))
}

/// openat2(2). A thread can be cancelled in it, as a fifo may make it wait for ever: as in libc up to 2.40. A
/// function of its own without anything to clean up, so that unwinding from any of its instructions passes it
/// by.
///
/// # Safety
/// As openat2(2).
#[inline(never)]
unsafe fn open_by(dir: c_int, path: *const c_char, how: &How) -> Result<c_int, Errno> {
    let mut before = 0;
    let arguments = [dir as usize, path as usize, std::ptr::from_ref(how) as usize, size_of::<How>()];
    // SAFETY: the caller's contract; the kind of before is put back.
    unsafe {
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &mut before);
        let result = raw::call(libc::SYS_openat2, raw::padded(arguments));
        pthread_setcanceltype(before, &mut before);
        result.map(|fd| fd as c_int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_and_apart_is_outside_for_sure() {
        let slow = b"/mnt/disk/slow";
        for path in ["/etc/passwd", "/mnt/disk/slower", "/mnt/disk/slow.old/a", "/mnt/other/slow/a", "/mn/disk/slow/a"]
        {
            assert!(lies_outside(path.as_bytes(), slow), "{path}");
            assert!(!lies_outside(path.as_bytes(), b"/"), "{path}");
        }
        let inside = ["/mnt/disk/slow/a", "/mnt/disk/slow", "/mnt/disk", "/mnt/disk/SLOW/a", "/MNT/disk/slow/a"];
        let unsure =
            ["relative", "", "/", "//a", "/a/", "/a//b", "/a/./b", "/a/../b", "/..", "/a/..", "/mnt/disk/SLO~1/a"];
        for path in inside.into_iter().chain(unsure).chain(["/mnt/disk/slöw/a"]) {
            assert!(!lies_outside(path.as_bytes(), slow), "{path}");
        }
    }
}
