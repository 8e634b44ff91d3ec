//! Calls after which a process reaches less than before, or the same by other paths: another user, fewer
//! capabilities, Landlock's rules, another root directory, other mounts.
//!
//! What the library opens later it opens by paths, as long as that goes: data files, and the agent's socket
//! for a thread's connection. So before such a call a *door* is made ([`door`]) by which connections come all
//! the same, and descriptors that this process has, and has not used yet, are made known. Data files come
//! from the agent then. A filter of system calls is another matter ([`filter`]).

mod filter;

use libc::c_int;

use crate::files::descriptors;
use crate::location::mounts;
use crate::session::{self, door};
use crate::{process, settings};

pub(crate) use filter::{by_prctl, by_seccomp};

/// Calls by their numbers that leave a process less than it had.
pub(crate) fn restricts(number: i64) -> bool {
    const LANDLOCK_RESTRICT_SELF: i64 = 446;
    const CALLS: [i64; 10] = [
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_capset,
        LANDLOCK_RESTRICT_SELF,
    ];
    CALLS.contains(&number)
}

/// `setuid` and its kin, `capset`, Landlock: what the library will need is at hand before.
pub(crate) fn restricted<R>(pass: impl FnOnce() -> R) -> R {
    prepare();
    pass()
}

/// `unshare`, `setns`, `chroot`, `pivot_root`: the same, and which mounts there are, and what numbers they
/// have, is asked anew.
pub(crate) fn moved(pass: impl FnOnce() -> c_int) -> c_int {
    prepare();
    let result = pass();
    mounts::forget();
    result
}

fn prepare() {
    if !settings::served() || door::is_there() || !process::is_own() {
        return;
    }
    let saved = crate::kernel::errno();
    know_inherited();
    // A process that uses no managed file needs none.
    if session::shared().is_some() {
        process::start_time();
        door::make();
    }
    crate::kernel::set_errno(saved);
}

/// Finds out what the first descriptors are. One that is refused is refused again when it is used.
fn know_inherited() {
    (0..descriptors::FIRST_MAX).for_each(|fd| drop(descriptors::managed(fd)));
}
