//! Where a file really lies: only that decides whether it is managed, not the name it was opened by, nor the
//! mount ([`mounts`]).

pub(crate) mod mounts;

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use headstart_protocol::{DIRTY_LIST_FILE, OWNER_FILE};
use libc::{c_char, c_int};

use crate::kernel::{self, Errno, Facts};
use crate::settings::settings;

/// Longest path the library handles; longer ones are not managed.
pub(crate) const PATH_MAX: usize = 4224;

/// Paths that are looked at at the same time without memory from the kernel.
const ROOMS: usize = 32;

/// Memory of one path.
struct Room(UnsafeCell<[u8; PATH_MAX]>);

// SAFETY: whoever took a room has it alone until its bit is cleared.
unsafe impl Sync for Room {}

static POOL: [Room; ROOMS] = [const { Room(UnsafeCell::new([0; PATH_MAX])) }; ROOMS];
/// A bit for each room that is in use. A handler that jumps away and a thread that is in one while another
/// forks leave theirs set.
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// Room for a path, which does not lie on the stack: a thread or a handler may have one that a path alone would fill.
pub(crate) struct PathBuffer {
    bytes: NonNull<[u8; PATH_MAX]>,
    /// Its number in the pool; none: it is the kernel's.
    room: Option<u32>,
}

impl PathBuffer {
    /// One that nothing is in yet.
    pub(crate) fn empty() -> PathBuffer {
        let mut in_use = IN_USE.load(Ordering::Relaxed);
        while in_use != u32::MAX {
            let room = in_use.trailing_ones();
            match IN_USE.compare_exchange_weak(in_use, in_use | 1 << room, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    let bytes = NonNull::new(POOL[room as usize].0.get()).expect("a static has an address");
                    return PathBuffer { bytes, room: Some(room) };
                }
                Err(now) => in_use = now,
            }
        }
        // Not `Box::new`, which may have it on the stack first.
        let bytes: Box<[u8; PATH_MAX]> = vec![0; PATH_MAX].try_into().expect("it is this long");
        PathBuffer { bytes: NonNull::from(Box::leak(bytes)), room: None }
    }

    /// All of it.
    pub(crate) fn room(&mut self) -> &mut [u8; PATH_MAX] {
        // SAFETY: it lives as long as this, which alone has it.
        unsafe { self.bytes.as_mut() }
    }

    /// All of it, to be read.
    pub(crate) fn bytes(&self) -> &[u8; PATH_MAX] {
        // SAFETY: as in `room`.
        unsafe { self.bytes.as_ref() }
    }

    /// What it holds up to the first NUL.
    fn text(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(self.bytes()).ok()
    }

    /// Puts the parts there, one behind the other, and a NUL; nothing if they are too long or hold one.
    pub(crate) fn fill(&mut self, parts: &[&[u8]]) -> Option<&CStr> {
        let mut rest = &mut self.room()[..];
        for part in parts.iter().chain([&&b"\0"[..]]) {
            let (to, behind) = rest.split_at_mut_checked(part.len())?;
            to.copy_from_slice(part);
            rest = behind;
        }
        self.text()
    }
}

impl Drop for PathBuffer {
    fn drop(&mut self) {
        match self.room {
            Some(room) => {
                IN_USE.fetch_and(!(1 << room), Ordering::Release);
            }
            // SAFETY: it came from a box, and nobody else has it.
            None => drop(unsafe { Box::from_raw(self.bytes.as_ptr()) }),
        }
    }
}

/// `/proc/self/fd/N`.
pub(crate) struct Link([u8; 32]);

impl Link {
    /// The link of a descriptor.
    pub(crate) fn of(fd: c_int) -> Link {
        let mut text = [0; 32];
        write!(&mut text[..31], "/proc/self/fd/{fd}").expect("the longest name has 26 bytes");
        Link(text)
    }

    /// As a path.
    pub(crate) fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).expect("the last byte is NUL")
    }
}

/// The absolute path of an open file now, with ` (deleted)` behind it if it has none any more: that in the
/// managed directory, by whatever path it was reached, else as the kernel knows it.
pub(crate) fn path_of(fd: c_int, buffer: &mut PathBuffer) -> Result<&[u8], Errno> {
    path_of_known(fd, None, buffer)
}

/// The same where it may be known what the file is.
pub(crate) fn path_of_known<'b>(
    fd: c_int,
    known: Option<&Facts>,
    buffer: &'b mut PathBuffer,
) -> Result<&'b [u8], Errno> {
    let length = kernel::readlink(Link::of(fd).path(), buffer.room())?.len();
    let path = &buffer.room()[..length];
    if is_managed(path) || !path.starts_with(b"/") {
        return Ok(&buffer.room()[..length]);
    }
    let facts = known.copied().or_else(|| kernel::facts(fd).ok());
    Ok(really(facts, length, buffer))
}

/// The path of `length` bytes in the buffer, or what takes its place if the file lies in the managed directory.
fn really(facts: Option<Facts>, length: usize, buffer: &mut PathBuffer) -> &[u8] {
    let length = match facts.filter(mounts::may_mislead) {
        Some(facts) => match mounts::real_path(&facts, &buffer.room()[..length]) {
            Some(real) if real.len() < PATH_MAX => {
                buffer.room()[..real.len()].copy_from_slice(&real);
                real.len()
            }
            _ => length,
        },
        None => length,
    };
    &buffer.room()[..length]
}

/// Whether a path, as the kernel tells it of an open file, lies under the managed directory. Not all of them are paths:
/// those of pipes and sockets begin with no slash.
pub(crate) fn is_managed(path: &[u8]) -> bool {
    let slow = settings().slow.as_slice();
    // All paths lie under the root, which alone ends in a slash.
    let below = slow.strip_suffix(b"/").unwrap_or(slow);
    path.strip_prefix(below).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Whether a file at this path is managed: it lies under the managed directory, and on the same file system.
pub(crate) fn is_managed_file(facts: &Facts, path: &[u8]) -> bool {
    is_managed(path) && mounts::is_own(facts)
}

/// Whether no agent owns the managed directory and nothing of it is only on flash: its claim is there as long
/// as an agent lives, and its list of dirty files as long as there are any.
pub(crate) fn is_nobodys() -> bool {
    [OWNER_FILE, DIRTY_LIST_FILE].iter().all(|name| {
        let path = [settings().slow.as_slice(), b"/", name.as_bytes()].concat();
        let Ok(path) = CString::new(path) else { return false };
        match kernel::openat(libc::AT_FDCWD, &path, libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW, 0) {
            Ok(fd) => {
                let _ = kernel::close(fd);
                false
            }
            Err(errno) => errno == libc::ENOENT,
        }
    })
}

/// What a path names before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// A managed file.
    Managed,
    /// Nothing.
    Missing,
    /// Something else, or it cannot be seen.
    Other,
}

/// Opens what a path names as an address only, which has no side effect: closing it does not drop the process's POSIX
/// locks.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn address(dir: c_int, path: *const c_char, flags: c_int) -> Result<c_int, Errno> {
    // SAFETY: the caller's contract.
    unsafe { kernel::openat_raw(dir, path, libc::O_PATH | libc::O_CLOEXEC | flags, 0) }
}

/// Looks at what `path` names. `flags` are those it will be opened with.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn probe(dir: c_int, path: *const c_char, flags: c_int) -> Probe {
    // SAFETY: the caller's contract.
    let fd = match unsafe { address(dir, path, flags & libc::O_NOFOLLOW) } {
        Ok(fd) => fd,
        Err(libc::ENOENT) => return Probe::Missing,
        Err(_) => return Probe::Other,
    };
    let mut buffer = PathBuffer::empty();
    // Where it lies cannot be told if its path is too long: that is found out once it is open.
    let mut lies_there = |facts: &Facts| match path_of_known(fd, Some(facts), &mut buffer) {
        Ok(path) => is_managed_file(facts, path),
        Err(errno) => errno == libc::ENAMETOOLONG,
    };
    let managed = kernel::facts(fd).is_ok_and(|facts| facts.regular && lies_there(&facts));
    let _ = kernel::close(fd);
    if managed { Probe::Managed } else { Probe::Other }
}

/// Whether what a path names lies under the managed directory: its name where it is a symbolic link that is not
/// followed, else the file.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn lies_managed(dir: c_int, path: *const c_char, follow: c_int, flags: c_int) -> bool {
    let no_follow = if follow & libc::AT_SYMLINK_NOFOLLOW == 0 { 0 } else { libc::O_NOFOLLOW };
    let mut buffer = PathBuffer::empty();
    // SAFETY: the caller's contract; an empty path is the directory itself.
    if flags & libc::AT_EMPTY_PATH != 0 && unsafe { *path } == 0 {
        return path_of(dir, &mut buffer).is_ok_and(is_managed);
    }
    // SAFETY: the caller's contract.
    unsafe { place_of(dir, path, no_follow, &mut buffer) }.is_some_and(is_managed)
}

/// The absolute path of what `path` names, opened with `flags`; nothing if it cannot be found out.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
unsafe fn place_of(dir: c_int, path: *const c_char, flags: c_int, buffer: &mut PathBuffer) -> Option<&[u8]> {
    // SAFETY: the caller's contract.
    match unsafe { address(dir, path, flags) } {
        Ok(fd) => {
            let found = path_of(fd, buffer).ok();
            let _ = kernel::close(fd);
            found
        }
        // SAFETY: the caller's contract, and the kernel could read it: it looks for a descriptor later.
        Err(libc::EMFILE | libc::ENFILE) => resolved(dir, unsafe { CStr::from_ptr(path) }, buffer),
        Err(_) => None,
    }
}

/// The same by libc, name by name, for a process that has no descriptor left; a last symbolic link is followed.
pub(crate) fn resolved<'b>(dir: c_int, path: &CStr, buffer: &'b mut PathBuffer) -> Option<&'b [u8]> {
    let from_here = dir == libc::AT_FDCWD || path.to_bytes().starts_with(b"/");
    let link = Link::of(dir);
    let parts = if from_here { [&b""[..], b""] } else { [link.path().to_bytes(), b"/"] };
    let whole = CString::new([parts.as_slice(), &[path.to_bytes()]].concat().concat()).ok()?;
    const { assert!(PATH_MAX > libc::PATH_MAX as usize) };
    // SAFETY: a string, and room for the longest path that libc finds.
    let found = unsafe { libc::realpath(whole.as_ptr(), buffer.room().as_mut_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    let length = buffer.text()?.count_bytes();
    // SAFETY: a string.
    let facts = unsafe { kernel::facts_at(libc::AT_FDCWD, buffer.text()?.as_ptr(), 0) }.ok();
    Some(really(facts, length, buffer))
}

/// The absolute path of the *name* `path`: its directory resolved, its last part as it is. Returns nothing where the
/// directory cannot be resolved, or the path is too long or has no last part.
///
/// # Safety
/// `path` is a string.
pub(crate) unsafe fn name_of(dir: c_int, path: *const c_char) -> Option<Vec<u8>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    let mut path = unsafe { CStr::from_ptr(path) }.to_bytes();
    while path.len() > 1 && path.ends_with(b"/") {
        path = &path[..path.len() - 1];
    }
    let split = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let (parent, last) = path.split_at(split);
    if last.is_empty() || last == b"." || last == b".." {
        return None;
    }
    let (mut terminated, mut buffer) = (PathBuffer::empty(), PathBuffer::empty());
    let parent = terminated.fill(&[if parent.is_empty() { b"." } else { parent }])?;
    // SAFETY: a string.
    let directory = unsafe { place_of(dir, parent.as_ptr(), libc::O_DIRECTORY, &mut buffer) }?;
    let separator: &[u8] = if directory == b"/" { b"" } else { b"/" };
    Some([directory, separator, last].concat())
}
