//! Removing and renaming: the kernel does it, then the agent is told, so that it forgets what nobody can read any more
//! and knows files by the names people see.

use libc::{c_char, c_int, c_uint};

use crate::descriptors;
use crate::kernel::{self, Errno, Facts};
use crate::location;
use crate::session;
use headstart_core::protocol::message::Request;

/// The regular file under the managed directory whose last name `path` is.
///
/// # Safety
/// `path` is a string.
unsafe fn last_name(dir: c_int, path: *const c_char) -> Option<Facts> {
    // SAFETY: the caller's contract.
    let facts = unsafe { kernel::facts_at(dir, path, libc::AT_SYMLINK_NOFOLLOW) }.ok()?;
    let last = facts.regular && facts.links == 1;
    // SAFETY: the caller's contract.
    (last && location::is_managed(&unsafe { location::name_of(dir, path) }?)).then_some(facts)
}

/// Before names change of which the agent must hear: an error if this thread lacks a descriptor to tell it.
fn may_tell() -> Result<(), Errno> {
    let begun = session::with(|_| Ok(()));
    begun.or_else(|errno| if matches!(errno, libc::EMFILE | libc::ENFILE) { Err(errno) } else { Ok(()) })
}

fn tell(request: &Request) {
    // The names have changed already; an agent that is gone finds that out by itself.
    if let Err(errno) = session::with(|session| session.call(request)) {
        session::complain(format_args!("the agent was not told that a name changed or is gone (error {errno})"));
    }
}

/// `unlink`, `unlinkat`, `remove`.
///
/// # Safety
/// The arguments are those of unlinkat(2).
pub unsafe fn unlink(dir: c_int, path: *const c_char, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let removed = unsafe { last_name(dir, path) };
    if removed.is_some()
        && let Err(errno) = may_tell()
    {
        return kernel::answer(Err(errno), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    if let (0, Some(facts)) = (result, removed) {
        tell(&Request::Unlinked { device: facts.device, inode: facts.inode });
        kernel::set_errno(saved);
    }
    result
}

/// `link`, `linkat`. A file has all its names under the managed directory, or none: across its border a link fails with
/// EXDEV, as between file systems, so that the bytes are copied. A file without a name that gets its first one there
/// becomes managed.
///
/// # Safety
/// The arguments are those of linkat(2).
pub unsafe fn link(
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: c_int,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let saved = kernel::errno();
    let follow = if flags & libc::AT_SYMLINK_FOLLOW == 0 { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
    // SAFETY: the kernel checks the addresses.
    let facts = unsafe { kernel::facts_at(old_dir, old, follow | flags & libc::AT_EMPTY_PATH) };
    // SAFETY: the kernel checks the addresses.
    let readable = unsafe { kernel::facts_at(new_dir, new, libc::AT_SYMLINK_NOFOLLOW) } != Err(libc::EFAULT);
    let Some(facts) = facts.ok().filter(|facts| readable && facts.regular) else {
        kernel::set_errno(saved);
        return pass();
    };
    // SAFETY: the caller's contract, and the kernel could read it.
    let to = unsafe { location::name_of(new_dir, new) }.is_some_and(|name| location::is_managed(&name));
    // SAFETY: the caller's contract.
    let from = unsafe { location::lies_managed(old_dir, old, follow, flags) };
    if facts.links > 0 && from != to {
        return kernel::answer(Err(libc::EXDEV), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    if result == 0 && to && facts.links == 0 {
        descriptors::look_again(&facts);
        kernel::set_errno(saved);
    }
    result
}

/// `rename`, `renameat`, `renameat2`. Out of the managed directory it fails with EXDEV, as between file systems, so
/// that the bytes are copied; an exchange is refused.
///
/// # Safety
/// The arguments are those of renameat2(2).
pub unsafe fn rename(
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: c_uint,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the kernel checks the addresses.
    let facts = |dir, path| unsafe { kernel::facts_at(dir, path, libc::AT_SYMLINK_NOFOLLOW) };
    let (moved, there) = (facts(old_dir, old), facts(new_dir, new));
    if moved.is_err() || there.is_err_and(|errno| errno == libc::EFAULT) {
        // The kernel will say so.
        kernel::set_errno(saved);
        return pass();
    }
    // SAFETY: the caller's contract, and the kernel could read both.
    let names = unsafe { (location::name_of(old_dir, old), location::name_of(new_dir, new)) };
    let (Some(old_name), Some(new_name)) = names else {
        kernel::set_errno(saved);
        return pass();
    };
    let (from, to) = (location::is_managed(&old_name), location::is_managed(&new_name));
    if !from && !to {
        kernel::set_errno(saved);
        return pass();
    }
    if flags & libc::RENAME_EXCHANGE != 0 {
        return kernel::answer(Err(libc::EINVAL), saved) as c_int;
    }
    if from && !to {
        return kernel::answer(Err(libc::EXDEV), saved) as c_int;
    }
    // SAFETY: the caller's contract.
    let replaced = unsafe { last_name(new_dir, new) };
    if (from || replaced.is_some())
        && let Err(errno) = may_tell()
    {
        return kernel::answer(Err(errno), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    if result != 0 {
        return result;
    }
    let same = matches!((&replaced, &moved), (Some(a), Ok(b)) if (a.device, a.inode) == (b.device, b.inode));
    if let Some(facts) = replaced.filter(|_| !same) {
        tell(&Request::Unlinked { device: facts.device, inode: facts.inode });
    }
    if from {
        let paths = [old_name.as_slice(), &new_name].concat();
        tell(&Request::Renamed { old_length: old_name.len() as u32, paths: &paths });
    } else if let Some(facts) = moved.ok().filter(|facts| facts.regular) {
        // It came from outside: descriptors on it are managed from now on.
        descriptors::look_again(&facts);
    }
    kernel::set_errno(saved);
    result
}
