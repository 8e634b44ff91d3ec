//! Files that `posix_spawn` truncates. libc opens them in the child, past every hook. So the library remembers
//! the file actions with O_TRUNC, and asks the agent for leave to truncate before the child is made.
//!
//! The child truncates, as an earlier action may end it; the parent tells the agent whether it happened. A file
//! that another process creates between the look at its name and the child's `open` is truncated without the
//! agent's knowledge.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_void};

use libc::{c_char, c_int};

use crate::calls::resizing;
use crate::files::records;
use crate::gate::gate;
use crate::kernel::{self, Errno};
use crate::location::{self, PathBuffer};
use crate::{process, session, settings};

/// What a program added to file actions, as far as it matters to files that are cut.
#[derive(Clone, Debug)]
enum Step {
    /// Opens a file with these flags, O_TRUNC among them.
    Cut(CString, c_int),
    /// Changes the directory.
    Enter(CString),
    /// Changes it to that of a descriptor, which the parent has too: one that the child opens is no directory
    /// of a managed file that could be found.
    EnterOpen(c_int),
}

/// The steps of all file actions of the process, each with the address of its actions, in order. Only touched
/// under the gate.
struct Steps(UnsafeCell<Vec<(usize, Step)>>);

// SAFETY: `with` takes the gate.
unsafe impl Sync for Steps {}

static STEPS: Steps = Steps(UnsafeCell::new(Vec::new()));

impl Steps {
    fn with<R>(&self, work: impl FnOnce(&mut Vec<(usize, Step)>) -> R) -> R {
        let _gate = gate();
        // SAFETY: the gate is held, and signals are blocked while it is.
        work(unsafe { &mut *self.0.get() })
    }

    fn add(&self, actions: *const c_void, step: Step) {
        self.with(|steps| steps.push((actions.addr(), step)));
    }

    fn of(&self, actions: *const c_void) -> Vec<Step> {
        self.with(|steps| {
            let mine = steps.iter().filter(|(owner, _)| *owner == actions.addr());
            mine.map(|(_, step)| step.clone()).collect()
        })
    }
}

/// A path that libc has just copied.
///
/// # Safety
/// `path` is a string.
unsafe fn copied(path: *const c_char) -> CString {
    // SAFETY: the caller's contract.
    unsafe { CStr::from_ptr(path) }.to_owned()
}

/// `posix_spawn_file_actions_init` and `_destroy`: what lay at this address is no more.
pub(crate) fn forget(actions: *const c_void) {
    STEPS.with(|steps| steps.retain(|(owner, _)| *owner != actions.addr()));
}

/// `posix_spawn_file_actions_addopen`.
///
/// # Safety
/// The arguments are those of posix_spawn_file_actions_addopen(3).
pub(crate) unsafe fn opens(
    actions: *const c_void,
    path: *const c_char,
    flags: c_int,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let result = pass();
    let creates = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    if result == 0 && flags & libc::O_TRUNC != 0 && flags & libc::O_PATH == 0 && !creates {
        // SAFETY: the caller's contract.
        STEPS.add(actions, Step::Cut(unsafe { copied(path) }, flags));
    }
    result
}

/// `posix_spawn_file_actions_addchdir_np`.
///
/// # Safety
/// The arguments are those of posix_spawn_file_actions_addchdir_np(3).
pub(crate) unsafe fn enters(actions: *const c_void, path: *const c_char, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        // SAFETY: the caller's contract.
        STEPS.add(actions, Step::Enter(unsafe { copied(path) }));
    }
    result
}

/// `posix_spawn_file_actions_addfchdir_np`.
pub(crate) fn enters_open(actions: *const c_void, fd: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    if result == 0 {
        STEPS.add(actions, Step::EnterOpen(fd));
    }
    result
}

/// A managed file that a child is to cut; it counts as open.
struct Cut {
    /// An address only.
    fd: c_int,
    path: Vec<u8>,
    record: u32,
}

impl Cut {
    /// Takes over an address; nothing if the file is not managed.
    fn of(fd: c_int) -> Result<Option<Cut>, Errno> {
        let mut buffer = PathBuffer::empty();
        let found = kernel::facts(fd).and_then(|facts| Ok((facts, location::path_of(fd, &mut buffer)?)));
        let record = match found {
            Ok((facts, path)) if facts.regular && location::is_managed_file(&facts, path) => {
                match records::acquire(&gate(), &facts, true, path) {
                    // Nothing of it is on flash, and the child finds no agent either.
                    Err(libc::ENOTCONN) if session::shared().is_none() => Ok(None),
                    acquired => acquired.map(|record| Some((record, path.to_vec()))),
                }
            }
            _ => Ok(None),
        };
        match record {
            Ok(Some((record, path))) => Ok(Some(Cut { fd, path, record })),
            unmanaged => {
                let _ = kernel::close(fd);
                unmanaged.map(|_| None)
            }
        }
    }

    fn size(&self) -> Option<u64> {
        kernel::facts(self.fd).ok().map(|facts| facts.size)
    }

    /// Whether the child cut it, given what became of the spawn and how long it was when the agent let it be
    /// cut: from then on nobody else changes its size. What the child wrote since is nothing that was there
    /// before; it or another may have renamed the file.
    fn happened(&self, status: c_int, before: Option<u64>) -> bool {
        let mut buffer = PathBuffer::empty();
        let shrank = self.size().is_some_and(|size| size == 0 || before.is_some_and(|before| size < before));
        shrank || status == 0 && location::path_of(self.fd, &mut buffer).is_ok_and(|path| path == self.path)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        records::release(&gate(), self.record);
        let _ = kernel::close(self.fd);
    }
}

/// The directory in which a child is, until it is dropped.
struct Directory {
    fd: c_int,
    opened: bool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.opened {
            let _ = kernel::close(self.fd);
        }
    }
}

/// The managed files that a child cuts, each once; an error if they cannot be looked at.
fn to_cut(steps: &[Step]) -> Result<Vec<Cut>, Errno> {
    let mut directory = Directory { fd: libc::AT_FDCWD, opened: false };
    let mut cuts: Vec<Cut> = Vec::new();
    for step in steps {
        let (path, flags) = match step {
            Step::Cut(path, flags) => (path, flags & libc::O_NOFOLLOW),
            Step::Enter(path) => (path, libc::O_DIRECTORY),
            Step::EnterOpen(fd) => {
                directory = Directory { fd: *fd, opened: false };
                continue;
            }
        };
        // SAFETY: a string.
        let fd = match unsafe { location::address(directory.fd, path.as_ptr(), flags) } {
            Ok(fd) => fd,
            Err(errno @ (libc::EMFILE | libc::ENFILE)) => return Err(errno),
            Err(_) if matches!(step, Step::Enter(_)) => break,
            // There is nothing to cut, or the child fails at it.
            Err(_) => continue,
        };
        if matches!(step, Step::Enter(_)) {
            directory = Directory { fd, opened: true };
        } else if let Some(cut) = Cut::of(fd)?
            && cuts.iter().all(|other| other.record != cut.record)
        {
            cuts.push(cut);
        }
    }
    // Each is held while the next is asked for: in the order that all processes have, so that no two wait for
    // each other.
    cuts.sort_by_key(|cut| records::record(cut.record).file());
    Ok(cuts)
}

/// Spawns while the agent lets the files be cut; what the spawn returned, or the error that kept it from being tried.
fn cutting(cuts: &[Cut], spawn: &mut dyn FnMut() -> c_int) -> c_int {
    let Some((cut, others)) = cuts.split_first() else { return spawn() };
    let mut status = None;
    let cut_it = || {
        let before = cut.size();
        let spawned = *status.insert(cutting(others, spawn));
        if cut.happened(spawned, before) { Ok(0) } else { Err(libc::ECANCELED) }
    };
    let told = resizing::resize(records::record(cut.record).file(), 0, cut_it);
    status.unwrap_or_else(|| told.err().unwrap_or(libc::EIO))
}

/// `posix_spawn` and `posix_spawnp`, which return their error.
pub(crate) fn spawn(actions: *const c_void, pass: impl FnOnce() -> c_int) -> c_int {
    if !settings::served() || !process::is_own() {
        return pass();
    }
    let steps = STEPS.of(actions);
    if !steps.iter().any(|step| matches!(step, Step::Cut(..))) {
        return pass();
    }
    let saved = kernel::errno();
    let mut pass = Some(pass);
    let mut once = || pass.take().map_or(libc::EIO, |pass| kernel::uncancelled(pass));
    let status = match to_cut(&steps) {
        // The child gets the mask of signals, which are blocked while a session is on loan.
        Ok(cuts) if !cuts.is_empty() => session::begin_own().map_or_else(|errno| errno, |()| cutting(&cuts, &mut once)),
        Ok(_) => once(),
        Err(errno) => errno,
    };
    kernel::set_errno(saved);
    status
}
