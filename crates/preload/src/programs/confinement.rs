//! Calls by which a process gives up rights or sees other paths: another user, fewer capabilities, rules of
//! Landlock, another root directory, other mounts.
//!
//! The library opens data files and the agent's socket by their paths, when a thread first needs them. After
//! such a call it may not reach them any more. So it makes a *door* before ([`door`]), a connection by which
//! later connections come, and looks at the descriptors that the process has and has not used yet. The agent
//! then sends data files as descriptors. Filters of system calls are handled apart ([`filter`]).

mod filter;

use libc::c_int;

use crate::files::descriptors;
use crate::location::mounts;
use crate::session::{self, door};
use crate::{process, settings};

pub(crate) use filter::{by_prctl, by_seccomp};

/// Numbers of system calls that take rights from the process.
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

/// `setuid` and its kin, `capset`, Landlock: the library prepares what it will need, then makes the call.
pub(crate) fn restricted<R>(pass: impl FnOnce() -> R) -> R {
    prepare();
    pass()
}

/// `unshare`, `setns`, `chroot`, `pivot_root`: the same; afterwards the library looks at mounts anew.
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
