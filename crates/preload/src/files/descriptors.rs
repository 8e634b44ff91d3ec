//! What each descriptor of the process is: a static table of atomics, read without a lock.
//!
//! ```text
//! UNKNOWN --first data call--> UNMANAGED --close--> CLOSING --kernel--> UNKNOWN
//!                          \-> MANAGED(description) --close--> CLOSING_MANAGED --kernel--> UNKNOWN
//! OWN_*: the library's own sockets and data files; the program can neither close nor replace them.
//! OWN_CLOSING: until the library has closed it
//! ```
//!
//! Several descriptors share a *description* (dup), several descriptions a file record. Every hooked call that makes
//! or closes a descriptor keeps the table true. Descriptors that appear otherwise (inherited over exec, received over
//! a socket, opened by stdio) are UNKNOWN, and classified at their first data call. A managed descriptor that is
//! closed by a raw system call, or inside libc other than by `fclose` and `freopen`, leaves a stale entry until a
//! hooked call makes that number anew; checking (device, inode) at every call would cost a system call each.
//!
//! A call on a managed descriptor that another thread is closing or replacing waits for that to happen (`closing`):
//! passed through, it would use the slow file without a slot. Who closes or replaces one waits for the calls
//! under way on its number ([`uses`]), so that no call ends on another file than it began on; meanwhile the
//! entry is WANTED.

mod closing;
mod descriptions;
mod duplicates;
mod offset;
pub(crate) mod own;
pub(crate) mod table;
pub(crate) mod target;

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::files::{records, ring_state, untold};
use crate::gate::gate;
use crate::kernel::{self, Errno, Facts};
use crate::location::{self, PathBuffer};
use crate::session::uses::{self, Use};
use crate::settings::{retire, settings};
use crate::{process, recording, session};

pub(crate) use closing::{Closing, Undisturbed};
pub(crate) use descriptions::any_of;
pub(crate) use duplicates::Duplicate;
pub(crate) use own::{close_own, is_own, make_room};
pub(crate) use table::{DESCRIPTORS_MAX, FIRST_MAX, known, known_managed, known_unmanaged, leave_alone};
pub(crate) use target::{CHANGED, Target};

use descriptions::{DESCRIPTIONS, all_of, describe, description_of, record_of};
use offset::HeldOffset;
use table::{
    CLOSING, CLOSING_MANAGED, MANAGED, OWN_CLOSING, OWN_FILE, OWN_SOCKET, TABLE, TABLE_USED, UNKNOWN, UNMANAGED,
    WANTED, forget_unmanaged, raise_used,
};
use target::{can_write, learn_flags, target};

/// The managed file behind a descriptor of a data call; nothing if it is not managed. An error is the call's result:
/// the file is managed, but the agent refused it or cannot be reached. Always inlined: a target handed over
/// in memory costs more than all that is done here.
#[inline(always)]
pub(crate) fn managed(fd: c_int) -> Result<Option<Target>, Errno> {
    let Some(cell) = TABLE.get(fd as usize) else { return Ok(None) };
    let entry = match cell.load(Ordering::Acquire) {
        entry @ MANAGED..WANTED if record_of(entry).1.is_current() => Some(entry),
        UNKNOWN | CLOSING_MANAGED | MANAGED.. => settled(fd)?,
        _ => None,
    };
    Ok(entry.map(|entry| target(fd, entry)))
}

/// Runs `work` on the managed file behind a descriptor; nothing if it is not managed.
#[inline]
pub(crate) fn on_managed<R>(fd: c_int, mut work: impl FnMut(&Target) -> Result<R, Errno>) -> Result<Option<R>, Errno> {
    loop {
        let Some(mut target) = managed(fd)? else { return Ok(None) };
        let using = Use::begin(fd);
        target.noted = using.is_noted();
        match work(&target) {
            Err(CHANGED) => {}
            result => return result.map(Some),
        }
    }
}

/// Keeps other threads from using the offset of a descriptor that is known to be managed.
#[inline]
pub(crate) fn hold_offset(fd: c_int) -> Option<HeldOffset> {
    let description = description_of(TABLE.get(fd as usize)?.load(Ordering::Acquire))?;
    DESCRIPTIONS[description as usize].offset.hold()
}

/// The entry of a descriptor once it is known what it is, nobody is closing it, and the agent knows its file;
/// nothing if it is not managed then.
#[cold]
fn settled(fd: c_int) -> Result<Option<u32>, Errno> {
    match TABLE[fd as usize].load(Ordering::Acquire) {
        UNKNOWN => classify(fd),
        CLOSING_MANAGED | WANTED.. => once_closed(fd),
        entry @ MANAGED.. => renewed(fd, entry),
        _ => Ok(None),
    }
}

/// An entry whose file the agent knows, or else what the descriptor means by now.
fn renewed(fd: c_int, entry: u32) -> Result<Option<u32>, Errno> {
    let (index, record) = record_of(entry);
    let flags = DESCRIPTIONS[(entry - MANAGED) as usize].flags.load(Ordering::Relaxed);
    if record.is_current() || renew(fd, entry, index, flags)? { Ok(Some(entry)) } else { settled(fd) }
}

/// What the descriptor is once the thread that closes or replaces it is done.
// Apart: the look-up of a descriptor that nobody closes takes less of a stack.
#[inline(never)]
fn once_closed(fd: c_int) -> Result<Option<u32>, Errno> {
    if closing::is_reopening(fd) {
        return Err(libc::EBADF);
    }
    let cell = &TABLE[fd as usize];
    let mut tries = 0u32;
    loop {
        match cell.load(Ordering::Acquire) {
            // What the thread that closes it waits for may wait for the call that was interrupted.
            entry @ WANTED.. if uses::is_in_call() => return renewed(fd, entry & !WANTED),
            CLOSING_MANAGED | WANTED.. => {}
            _ => return settled(fd),
        }
        tries += 1;
        if tries < 100 { std::thread::yield_now() } else { kernel::sleep_ms(1) }
    }
}

/// Opens the descriptor's file again; not if the descriptor means something else by now.
fn renew(fd: c_int, entry: u32, index: u32, flags: c_int) -> Result<bool, Errno> {
    let gate = gate();
    if TABLE[fd as usize].load(Ordering::Acquire) & !WANTED != entry {
        return Ok(false);
    }
    records::renew(&gate, index, fd, can_write(flags)).map(|()| true)
}

/// Finds out what an unknown descriptor is, and remembers it.
fn classify(fd: c_int) -> Result<Option<u32>, Errno> {
    let Ok(facts) = kernel::facts(fd) else { return Ok(None) };
    let managed = adopt(fd, &facts)?;
    let now = kernel::facts(fd).map(|now| (now.device, now.inode));
    if now != Ok((facts.device, facts.inode)) {
        // Another thread closed or replaced it meanwhile, of which the table said nothing as long as it was unknown.
        let entry = TABLE[fd as usize].load(Ordering::Acquire) & !WANTED;
        if entry < MANAGED || Ok(record_of(entry).1.identity()) != now {
            forget(fd);
        }
        return if now.is_ok() { settled(fd) } else { Ok(None) };
    }
    if !managed {
        return Ok(None);
    }
    let found = settled(fd)?;
    // Where it came from others may have it.
    found.iter().for_each(|entry| record_of(*entry).1.bequeath());
    Ok(found)
}

/// Makes a descriptor managed if it is a regular file under the managed directory, and says whether it is.
pub(crate) fn adopt(fd: c_int, facts: &Facts) -> Result<bool, Errno> {
    let mut buffer = PathBuffer::empty();
    let path = match facts.regular.then(|| location::path_of_known(fd, Some(facts), &mut buffer)) {
        Some(Ok(path)) => path,
        Some(Err(libc::ENAMETOOLONG)) if process::is_own() => untold::untold(facts).map(|()| &b""[..])?,
        _ => b"",
    };
    let flags =
        if location::is_managed_file(facts, path) { kernel::fcntl(fd, libc::F_GETFL, 0)? } else { libc::O_PATH };
    if !process::is_own() {
        return Ok(false);
    }
    if flags & libc::O_PATH != 0 {
        leave_alone(fd);
        return Ok(false);
    }
    if fd as usize >= DESCRIPTORS_MAX {
        return Err(libc::EMFILE);
    }
    let gate = gate();
    if TABLE[fd as usize].load(Ordering::Acquire) >= MANAGED {
        return Ok(true);
    }
    let record = match records::acquire(&gate, facts, can_write(flags), path) {
        // It has no name, and the agent does not know it: nothing of it is on flash, and nobody else can open it.
        Err(libc::ENOENT) if facts.links == 0 => {
            leave_alone(fd);
            return Ok(false);
        }
        // Under the gate, so that no other thread makes a descriptor managed meanwhile.
        Err(libc::ENOTCONN) if session::shared().is_none() => {
            let slow = settings().slow.escape_ascii();
            session::complain(format_args!(
                "no agent serves {slow}, and nothing of it is only on flash: going on without"
            ));
            retire(recording::is_on());
            if !recording::is_on() {
                leave_alone(fd);
                return Ok(false);
            }
            records::acquire(&gate, facts, can_write(flags), path)?
        }
        acquired => acquired?,
    };
    let description = describe(fd, record, flags);
    raise_used(fd);
    TABLE[fd as usize].store(MANAGED + description, Ordering::Release);
    drop(gate);
    if ring_state::in_use()
        && let Ok(Some(target)) = managed(fd)
    {
        recording::unseen(&target);
    }
    Ok(true)
}

/// A descriptor was made by a call that tells nothing of its file: whatever the table held is out of date.
pub(crate) fn forget(fd: c_int) {
    let Some(cell) = TABLE.get(fd as usize) else { return };
    match cell.load(Ordering::Acquire) {
        UNKNOWN | OWN_SOCKET | OWN_FILE | OWN_CLOSING => {}
        // The kernel gave the number out, so that its close is over, whatever else the thread that closed it waits for.
        entry @ (UNMANAGED | CLOSING) => forget_unmanaged(fd, entry),
        _ => drop(Closing::begin(fd)),
    }
}

/// A file that was not managed became so: descriptors on it are looked at again at their next call.
pub(crate) fn look_again(facts: &Facts) {
    let same = |fd: &c_int| kernel::facts(*fd).is_ok_and(|now| (now.device, now.inode) == (facts.device, facts.inode));
    known(0, u32::MAX).filter(|&fd| known_unmanaged(fd)).filter(same).for_each(|fd| forget_unmanaged(fd, UNMANAGED));
}

/// F_SETFL changed the flags of a managed descriptor. Descriptors that came apart have a description each,
/// though the kernel may have one for all of them; so those of all that are open on the file are asked for
/// again.
pub(crate) fn flags_changed(fd: c_int) {
    let Some(cell) = TABLE.get(fd as usize) else { return };
    // One that came from elsewhere and was not used yet may share what others have.
    let saved = kernel::errno();
    let found = managed(fd);
    kernel::set_errno(saved);
    let Ok(Some(_)) = found else { return };
    let entry = cell.load(Ordering::Acquire) & !WANTED;
    if entry < MANAGED {
        return;
    }
    let (index, record) = record_of(entry);
    if record.is_shared() {
        all_of(index).for_each(|(fd, entry)| learn_flags(fd, entry));
    } else {
        learn_flags(fd, entry);
    }
}

/// In a forked child: the parent's connections are not the child's, and what other threads of the parent were closing
/// stays open. Only stores and system calls happen here.
pub(crate) fn settle_inherited() {
    for fd in 0..TABLE_USED.load(Ordering::Acquire) {
        match TABLE[fd as usize].load(Ordering::Acquire) {
            OWN_SOCKET | OWN_CLOSING => close_own(fd),
            CLOSING | CLOSING_MANAGED => TABLE[fd as usize].store(UNKNOWN, Ordering::Release),
            entry @ WANTED.. => TABLE[fd as usize].store(entry & !WANTED, Ordering::Release),
            _ => {}
        }
        if let Some(description) = description_of(TABLE[fd as usize].load(Ordering::Acquire)) {
            DESCRIPTIONS[description as usize].offset.abandon();
        }
    }
}
