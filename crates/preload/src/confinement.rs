//! Calls after which a process reaches other things than before, or the same by other paths: another root directory, other mounts.

use libc::c_int;

use crate::location::mounts;

/// `unshare`, `setns`, `chroot`, `pivot_root`: which mounts there are, and what numbers they have, is asked anew.
pub fn moved(pass: impl FnOnce() -> c_int) -> c_int {
    let result = pass();
    mounts::forget();
    result
}
