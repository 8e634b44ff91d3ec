//! Executing programs. The kernel reads a program past every hook, so its slow file is made whole first (bytes
//! on flash are written back); so are its libraries ([`crate::programs::libraries`]).
//! Programs that the library will not be in are announced to the agent ([`crate::programs::strangers`]).
//!
//! An exec that fails has changed nothing. In a `vfork` child the tables are left alone.

use std::ffi::{CStr, c_void};

use headstart_program::image;
use headstart_program::image::{HEAD_BYTES, Image, Stranger};
use libc::{c_char, c_int, c_uint};

use crate::files::records;
use crate::files::write_back;
use crate::kernel::{self, Facts};
use crate::location::{self, PathBuffer};
use crate::programs::environment::{self, Needs, Strings};
use crate::programs::libraries;
use crate::programs::strangers::{self, Met, Token};
use crate::{fork, settings};

/// What `fsconfig` is told (linux/mount.h).
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_SET_PATH: c_uint = 3;
const FSCONFIG_SET_FD: c_uint = 5;

/// Interpreters of interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;

/// How a program is started.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// In the place of this one; the call returns -1 if it is not.
    Here,
    /// As a child whose number is put there; the call returns an error if there is none.
    Child(*const c_int),
}

/// What is known of a program that is there.
#[derive(Default)]
struct Seen {
    /// It is not to start.
    is_refused: bool,
    /// The library will not be in it: what tells that it lives.
    token: Option<Token>,
    needs: Needs,
}

/// `execve` and its kin: looks at the program, then makes the call with an environment that brings the library into it.
///
/// # Safety
/// The arguments are those of execveat(2).
pub(crate) unsafe fn by_path(
    start: Start,
    (dir, path, flags): (c_int, *const c_char, c_int),
    environment: Strings,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    let saved = kernel::errno();
    fork::bequeath();
    // SAFETY: the caller's contract.
    let seen = libraries::with_environment(environment, || unsafe { look(start, dir, path, flags) });
    kernel::set_errno(saved);
    // SAFETY: the caller's contract.
    unsafe { go(start, seen.unwrap_or_default(), environment, call) }
}

/// `execvp` and its kin: the program is searched for as a shell does.
///
/// # Safety
/// `name` is a string, `environment` one of execve(2).
pub(crate) unsafe fn by_name(
    start: Start,
    name: *const c_char,
    environment: Strings,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    if name.is_null() || unsafe { CStr::from_ptr(name) }.to_bytes().contains(&b'/') {
        // SAFETY: the caller's contract.
        return unsafe { by_path(start, (libc::AT_FDCWD, name, 0), environment, call) };
    }
    let saved = kernel::errno();
    fork::bequeath();
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // SAFETY: the bytes are a string's.
    let seen = libraries::with_environment(environment, || unsafe { look_for(start, name) });
    kernel::set_errno(saved);
    // SAFETY: the caller's contract.
    unsafe { go(start, seen.unwrap_or_default(), environment, call) }
}

/// Makes the call.
///
/// # Safety
/// `environment` is one of execve(2).
unsafe fn go(start: Start, seen: Seen, environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    if seen.is_refused {
        if let Start::Child(_) = start {
            return libc::EACCES;
        }
        kernel::set_errno(libc::EACCES);
        return -1;
    }
    // SAFETY: the caller's contract.
    let result = unsafe { environment::completed(environment, &seen.needs, call) };
    if let Some(token) = seen.token {
        let saved = kernel::errno();
        match start {
            Start::Here => token.give_back(),
            Start::Child(number) => {
                let has_started = result == 0 && !number.is_null();
                // SAFETY: the program's variable, into which the call has put the child's number.
                token.hand_over(has_started.then(|| unsafe { number.read() } as u32));
            }
        }
        kernel::set_errno(saved);
    }
    result
}

/// Looks at the program that a shell would find.
unsafe fn look_for(start: Start, name: &[u8]) -> Option<Seen> {
    // SAFETY: the name ends with NUL.
    let variable = unsafe { libc::getenv(c"PATH".as_ptr()) };
    // SAFETY: getenv returns a string.
    let path = if variable.is_null() { b"/bin:/usr/bin" } else { unsafe { CStr::from_ptr(variable) }.to_bytes() };
    path.split(|&byte| byte == b':').find_map(|directory| {
        let mut buffer = PathBuffer::empty();
        let directory = if directory.is_empty() { b"." } else { directory };
        let found = buffer.fill(&[directory, b"/", name])?;
        // SAFETY: a string.
        unsafe { look(start, libc::AT_FDCWD, found.as_ptr(), 0) }
    })
}

/// `dlopen`: a library named by a path, or by a name that directories are searched for.
///
/// # Safety
/// `path` is a string or null.
pub(crate) unsafe fn loaded(path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the caller's contract.
    if path.is_null() || !settings::served() || flags & libc::RTLD_NOLOAD != 0 || unsafe { *path } == 0 {
        return true;
    }
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    unsafe { libraries::loaded(path) };
    kernel::set_errno(saved);
    true
}

/// The kernel is about to use what `path` names, if that is a regular file: always lets the call go on.
///
/// # Safety
/// `path` is a string or null, or the kernel answers EFAULT.
pub(crate) unsafe fn seen_by_kernel(dir: c_int, path: *const c_char) {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Ok(fd) = unsafe { location::address(dir, path, 0) } {
        if let Ok(facts) = kernel::facts(fd) {
            let _ = write_back::make_whole(fd, &facts);
        }
        let _ = kernel::close(fd);
    }
    kernel::set_errno(saved);
}

/// `fsconfig`: a mount's source, or another of its parameters, may be a path, or a descriptor.
///
/// # Safety
/// The arguments are those of fsconfig(2).
pub(crate) unsafe fn configures(command: c_uint, value: *const c_void, other: c_int) {
    match command {
        // SAFETY: the caller's contract.
        FSCONFIG_SET_STRING => unsafe { seen_by_kernel(libc::AT_FDCWD, value.cast()) },
        // SAFETY: the caller's contract.
        FSCONFIG_SET_PATH => unsafe { seen_by_kernel(other, value.cast()) },
        // SAFETY: a string.
        FSCONFIG_SET_FD => unsafe { seen_by_kernel(libc::AT_FDCWD, location::Link::of(other).path().as_ptr()) },
        _ => {}
    }
}

/// The flags of `dlopen` without RTLD_DEEPBIND, by which a library would find libc's functions before the hooks.
pub(crate) fn shared_flags(flags: usize) -> usize {
    if settings::served() { flags & !(libc::RTLD_DEEPBIND as usize) } else { flags }
}

/// Looks at a program; nothing if there is none.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
unsafe fn look(start: Start, dir: c_int, path: *const c_char, flags: c_int) -> Option<Seen> {
    if !settings::active() {
        return None;
    }
    let no_follow = if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { 0 } else { libc::O_NOFOLLOW };
    // SAFETY: the caller's contract.
    let opened = if flags & libc::AT_EMPTY_PATH != 0 && !path.is_null() && unsafe { *path } == 0 {
        // The descriptor itself; a duplicate, so that it can be closed like the others.
        // SAFETY: a string.
        unsafe { location::address(libc::AT_FDCWD, location::Link::of(dir).path().as_ptr(), 0) }
    } else {
        // SAFETY: the caller's contract.
        unsafe { location::address(dir, path, no_follow) }
    };
    let fd = opened.ok()?;
    let found = examine(start, fd, SCRIPTS_MAX);
    let _ = kernel::close(fd);
    found
}

/// The same of what `fd` addresses.
fn examine(start: Start, fd: c_int, scripts_left: usize) -> Option<Seen> {
    let facts = kernel::facts(fd).ok().filter(|facts| facts.regular && facts.mode & 0o111 != 0)?;
    let _ = write_back::make_whole(fd, &facts);
    let mut seen = Seen::default();
    if let Some(why) = strangers::gains_rights(fd, &facts) {
        seen.meet(start, fd, &facts, why);
        return Some(seen);
    }
    // Closing a second descriptor of a file would drop the process's locks on it.
    if records::entry_of(facts.device, facts.inode).is_some() {
        return Some(seen);
    }
    let mut buffer = PathBuffer::empty();
    let head = &mut buffer.room()[..HEAD_BYTES];
    let Some(readable) = readable(fd) else { return Some(seen) };
    let length = kernel::read(readable, head).unwrap_or(0);
    let image = Image::of(&mut head[..length]);
    let why = image.stranger().filter(|why| *why != Stranger::Static || !is_dynamic_linker(fd));
    match image {
        Image::Script(interpreter) if scripts_left > 0 => {
            if let Ok(interpreter) = kernel::openat(libc::AT_FDCWD, interpreter, libc::O_PATH | libc::O_CLOEXEC, 0) {
                seen = examine(start, interpreter, scripts_left - 1).unwrap_or_default();
                let _ = kernel::close(interpreter);
            }
        }
        _ => {
            let is_other_linker = matches!(image, Image::OtherLinker(_));
            if let Some(why) = why.or_else(environment::lost_library) {
                seen.meet(start, fd, &facts, why);
                seen.needs.no_library = is_other_linker;
            } else {
                if settings::served() && matches!(image, Image::Dynamic) {
                    libraries::of_program(fd);
                }
                seen.needs.find_sanitizer(&head[..length], readable);
            }
        }
    }
    let _ = kernel::close(readable);
    Some(seen)
}

impl Seen {
    fn meet(&mut self, start: Start, fd: c_int, facts: &Facts, why: Stranger) {
        if !settings::served() {
            return;
        }
        match strangers::meet(fd, facts, why, matches!(start, Start::Here)) {
            Met::Refused => self.is_refused = true,
            Met::Admitted(token) => self.token = token,
        }
    }
}

/// A descriptor to read what `fd` addresses; none where it cannot be read.
fn readable(fd: c_int) -> Option<c_int> {
    let link = location::Link::of(fd);
    kernel::openat(libc::AT_FDCWD, link.path(), libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()
}

/// A dynamic linker names none itself, and obeys LD_PRELOAD.
fn is_dynamic_linker(fd: c_int) -> bool {
    let mut buffer = PathBuffer::empty();
    location::path_of(fd, &mut buffer).is_ok_and(image::is_linker)
}
