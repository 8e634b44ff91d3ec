//! Links, removing and renaming. The agent hears of new, changed and removed names, so that it finds files by
//! names that exist, and forgets files that nobody can read any more. It hears before the call that one of
//! several names goes, and after the call of everything else.
//!
//! To programs the managed directory is a file system of its own: links and renames across its border fail with
//! EXDEV, and programs copy instead. (Another process might have a file open that comes in, and take it for
//! unmanaged.) Two names within the directory can be exchanged.

use libc::{c_char, c_int, c_uint};

use crate::files::descriptors;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, mounts};
use crate::session::{self, Answer};
use headstart_protocol::message::Request;

/// A name of a regular file under the managed directory that is about to go.
struct Going {
    facts: Facts,
    name: Vec<u8>,
}

impl Going {
    /// What `path` names.
    ///
    /// # Safety
    /// `path` is a string, or the kernel answers EFAULT.
    unsafe fn find(dir: c_int, path: *const c_char) -> Option<Going> {
        // SAFETY: the caller's contract.
        let facts = unsafe { kernel::facts_at(dir, path, libc::AT_SYMLINK_NOFOLLOW) }.ok()?;
        // SAFETY: the caller's contract, and the kernel could read it.
        let name = facts.regular.then(|| unsafe { location::name_of(dir, path) })??;
        location::is_managed_file(&facts, &name).then_some(Going { facts, name })
    }

    fn is_last(&self) -> bool {
        self.facts.links == 1
    }

    /// Before it goes: an error if its bytes could not be found afterwards, or the agent not be told.
    fn begin(&self) -> Result<(), Errno> {
        may_tell()?;
        if self.is_last() { Ok(()) } else { tell_name(&self.facts, false, &self.name) }
    }

    /// After the call; whether it is gone.
    fn end(&self, gone: bool) {
        match (gone, self.is_last()) {
            (true, true) => tell(&Request::Unlinked { inode: self.facts.inode }),
            (false, false) => {
                let _ = tell_name(&self.facts, true, &self.name);
            }
            _ => {}
        }
    }
}

/// Tells the agent, if there is one, of one of several names.
fn tell_name(facts: &Facts, stays: bool, path: &[u8]) -> Result<(), Errno> {
    let inode = facts.inode;
    let told = session::with(|session| match session.call(&Request::Name { inode, stays, path })? {
        Answer::Done => Ok(()),
        other => Err(session.unexpected(other)),
    });
    told.or_else(|errno| if session::shared().is_none() { Ok(()) } else { Err(errno) })
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
pub(crate) unsafe fn unlink(dir: c_int, path: *const c_char, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let going = unsafe { Going::find(dir, path) };
    if let Some(Err(errno)) = going.as_ref().map(Going::begin) {
        return kernel::answer(Err(errno), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    if let Some(going) = going {
        let now = kernel::errno();
        going.end(result == 0);
        kernel::set_errno(now);
    }
    result
}

/// `link`, `linkat`. A file has all its names under the managed directory, or none: across its border a link fails with
/// EXDEV, as between file systems, so that the bytes are copied. A file without a name that gets its first one there
/// becomes managed.
///
/// # Safety
/// The arguments are those of linkat(2).
pub(crate) unsafe fn link(
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
    let to = unsafe { location::name_of(new_dir, new) }.filter(|name| location::is_managed(name));
    // SAFETY: the caller's contract.
    let from = unsafe { location::lies_managed(old_dir, old, follow, flags) };
    if facts.links > 0 && from != to.is_some() {
        return kernel::answer(Err(libc::EXDEV), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    if let Some(name) = to.filter(|_| result == 0) {
        if facts.links == 0 {
            descriptors::look_again(&facts);
        } else if mounts::is_own(&facts) {
            // The kernel has made it; the agent has an older one.
            let _ = tell_name(&facts, true, &name);
        }
        kernel::set_errno(saved);
    }
    result
}

/// `rename`, `renameat`, `renameat2`. Across the border of the managed directory it fails with EXDEV, as
/// between file systems.
///
/// # Safety
/// The arguments are those of renameat2(2).
pub(crate) unsafe fn rename(
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
    match (location::is_managed(&old_name), location::is_managed(&new_name)) {
        (false, false) => {
            kernel::set_errno(saved);
            return pass();
        }
        (from, to) if from != to => return kernel::answer(Err(libc::EXDEV), saved) as c_int,
        _ => {}
    }
    let exchanged = flags & libc::RENAME_EXCHANGE != 0;
    let identity = |facts: &Facts| (facts.device, facts.inode);
    let is_moved = |facts: &Facts| moved.as_ref().map(identity) == Ok(identity(facts));
    let replaced = there.ok().filter(|facts| facts.regular && !is_moved(facts) && !exchanged);
    let replaced = replaced.filter(mounts::is_own).map(|facts| Going { facts, name: new_name.clone() });
    if let Err(errno) = replaced.as_ref().map_or_else(may_tell, Going::begin) {
        return kernel::answer(Err(errno), saved) as c_int;
    }
    kernel::set_errno(saved);
    let result = pass();
    let now = kernel::errno();
    if let Some(going) = replaced {
        going.end(result == 0);
    }
    if result == 0 {
        let paths = [old_name.as_slice(), &new_name].concat();
        tell(&Request::Renamed { old_length: old_name.len() as u32, exchanged, paths: &paths });
    }
    kernel::set_errno(now);
    result
}
