//! Programs and libraries that the kernel or the dynamic linker is about to read: their slow file is made whole first.
//! And programs that the library will not be in: one line on stderr names each.
//!
//! What a call of the exec family that fails changes nothing. In a `vfork` child the tables are left alone.

use std::ffi::{CStr, c_void};

use headstart_core::image::{HEAD_BYTES, Image};
use libc::{c_char, c_int, c_uint};

use crate::environment::{self, Strings};
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::{files, libraries, process, session, settings};

/// What `fsconfig` is told (linux/mount.h).
const FSCONFIG_SET_STRING: c_uint = 1;
const FSCONFIG_SET_PATH: c_uint = 3;
const FSCONFIG_SET_FD: c_uint = 5;

/// Interpreters of interpreters that the kernel follows.
const SCRIPTS_MAX: usize = 5;

/// `execve` and its kin: looks at the program, then makes the call with an environment that brings the library into it.
///
/// # Safety
/// The arguments are those of execveat(2).
pub unsafe fn by_path(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    environment: Strings,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    let saved = kernel::errno();
    process::bequeath();
    // SAFETY: the caller's contract.
    libraries::with_environment(environment, || unsafe { look(dir, path, flags) });
    kernel::set_errno(saved);
    // SAFETY: the caller's contract.
    unsafe { environment::completed(environment, call) }
}

/// `execvp` and its kin: the program is searched for as a shell does.
///
/// # Safety
/// `name` is a string, `environment` one of execve(2).
pub unsafe fn by_name(name: *const c_char, environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        libraries::with_environment(environment, || look_for(name));
        environment::completed(environment, call)
    }
}

/// # Safety
/// `name` is a string.
unsafe fn look_for(name: *const c_char) {
    if name.is_null() {
        return;
    }
    let saved = kernel::errno();
    process::bequeath();
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    if text.contains(&b'/') {
        // SAFETY: the caller's contract.
        unsafe { look(libc::AT_FDCWD, name, 0) };
        return kernel::set_errno(saved);
    }
    // SAFETY: the name ends with NUL.
    let variable = unsafe { libc::getenv(c"PATH".as_ptr()) };
    // SAFETY: getenv returns a string.
    let path = if variable.is_null() { b"/bin:/usr/bin" } else { unsafe { CStr::from_ptr(variable) }.to_bytes() };
    for directory in path.split(|&byte| byte == b':') {
        let mut buffer = PathBuffer::empty();
        let directory = if directory.is_empty() { b"." } else { directory };
        let Some(found) = buffer.fill(&[directory, b"/", text]) else { continue };
        // SAFETY: a string.
        if unsafe { look(libc::AT_FDCWD, found.as_ptr(), 0) } {
            break;
        }
    }
    kernel::set_errno(saved);
}

/// `dlopen`: a library named by a path, or by a name that directories are searched for.
///
/// # Safety
/// `path` is a string or null.
pub unsafe fn loaded(path: *const c_char, flags: c_int) -> bool {
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
pub unsafe fn seen_by_kernel(dir: c_int, path: *const c_char) {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    if let Ok(fd) = unsafe { location::address(dir, path, 0) } {
        if let Ok(facts) = kernel::facts(fd) {
            let _ = make_whole(fd, &facts);
        }
        let _ = kernel::close(fd);
    }
    kernel::set_errno(saved);
}

/// `fsconfig`: a mount's source, or another of its parameters, may be a path, or a descriptor.
///
/// # Safety
/// The arguments are those of fsconfig(2).
pub unsafe fn configures(command: c_uint, value: *const c_void, other: c_int) {
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
pub fn shared_flags(flags: usize) -> usize {
    if settings::served() { flags & !(libc::RTLD_DEEPBIND as usize) } else { flags }
}

/// Looks at a program; whether there is one.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
unsafe fn look(dir: c_int, path: *const c_char, flags: c_int) -> bool {
    if !settings::served() {
        return false;
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
    let Ok(fd) = opened else { return false };
    let found = examine(fd, SCRIPTS_MAX);
    let _ = kernel::close(fd);
    found
}

/// The same of what `fd` addresses.
fn examine(fd: c_int, scripts_left: usize) -> bool {
    let Ok(facts) = kernel::facts(fd) else { return false };
    if !facts.regular || facts.mode & 0o111 == 0 {
        return false;
    }
    let _ = make_whole(fd, &facts);
    let privileged = facts.mode & libc::S_ISUID != 0 && facts.owner.0 != kernel::real_user()
        || facts.mode & libc::S_ISGID != 0 && facts.owner.1 != kernel::real_group();
    if privileged {
        complain(fd, &facts, "runs with the rights of another user, so that the system keeps the library out of it");
        return true;
    }
    // Closing a second descriptor of a file would drop the process's locks on it.
    if files::entry_of(facts.device, facts.inode).is_some() {
        return true;
    }
    let mut buffer = PathBuffer::empty();
    let head = &mut buffer.room()[..HEAD_BYTES];
    let length = read_head(fd, head);
    match Image::of(&mut head[..length]) {
        Image::Static if !is_dynamic_linker(fd) => {
            complain(fd, &facts, "is statically linked, so that the library cannot be in it")
        }
        Image::Script(interpreter) if scripts_left > 0 => {
            if let Ok(interpreter) = kernel::openat(libc::AT_FDCWD, interpreter, libc::O_PATH | libc::O_CLOEXEC, 0) {
                examine(interpreter, scripts_left - 1);
                let _ = kernel::close(interpreter);
            }
        }
        Image::Dynamic => libraries::of_program(fd),
        Image::Static | Image::Unknown | Image::Script(_) => {}
    }
    true
}

/// Reads the beginning of what `fd` addresses; nothing where it cannot be read.
fn read_head(fd: c_int, buffer: &mut [u8]) -> usize {
    let link = location::Link::of(fd);
    let Ok(readable) = kernel::openat(libc::AT_FDCWD, link.path(), libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return 0;
    };
    let length = kernel::read(readable, buffer).unwrap_or(0);
    let _ = kernel::close(readable);
    length
}

/// A dynamic linker names none itself, and obeys LD_PRELOAD.
fn is_dynamic_linker(fd: c_int) -> bool {
    let mut buffer = PathBuffer::empty();
    let path = location::path_of(fd, &mut buffer).unwrap_or(b"");
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.starts_with(b"ld-") || name.starts_with(b"ld.so")
}

/// Makes the slow file whole, if it is managed.
pub fn make_whole(fd: c_int, facts: &Facts) -> Result<(), Errno> {
    let mut buffer = PathBuffer::empty();
    let path = location::path_of(fd, &mut buffer)?;
    if facts.regular && location::is_managed(path) { files::write_back(facts, path) } else { Ok(()) }
}

/// One line for each such program of a run: a file in the runtime directory tells that it was said.
fn complain(fd: c_int, facts: &Facts, why: &str) {
    if !session::say_once(facts) {
        return;
    }
    let mut buffer = PathBuffer::empty();
    let path = location::path_of(fd, &mut buffer).unwrap_or(b"a program");
    session::complain(format_args!(
        "{} {why}: it sees only what was written back, and what it writes is not seen. Use a dynamically linked build, or \
         run it after `headstart run` has ended",
        path.escape_ascii()
    ));
}
