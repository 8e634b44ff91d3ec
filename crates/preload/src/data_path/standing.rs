//! Whether what a call did counts, where the managed directory has several nodes: [`headstart_protocol::deadline`].
//!
//! The last thing that a managed call does. One that failed fails; of any other, what it read, wrote, synced or found
//! the file's end to be is the program's only if this node was not given up meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use headstart_protocol::deadline::{Deadline, Standing};

use crate::kernel::{self, Errno};
use crate::session;

/// How long it sleeps between two looks; assumed: longer than a look takes, and nothing beside the time that the
/// membership service was out of reach.
const PAUSE_MS: u64 = 10;
/// How often the user is told.
const TELL_PERIOD_MS: u64 = 60_000;

/// When the user was last told that this process waits; zero: never.
static TOLD_MS: AtomicU64 = AtomicU64::new(0);

/// What the call came to, once it is known whether it counts.
#[inline]
pub(super) fn confirmed<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    match session::region() {
        Some(region) if region.header().deadline.is_set() && result.is_ok() => {
            wait(&region.header().deadline).and(result)
        }
        _ => result,
    }
}

/// Waits until it is known that this node is a member, or is none any more.
#[cold]
#[inline(never)]
fn wait(deadline: &Deadline) -> Result<(), Errno> {
    let errno = kernel::errno();
    let standing = loop {
        match deadline.standing(kernel::monotonic_coarse_ns()) {
            Standing::Unknown => {}
            standing => break standing,
        }
        tell();
        kernel::sleep_ms(PAUSE_MS);
    };
    kernel::set_errno(errno);
    if standing == Standing::Expelled { Err(libc::EIO) } else { Ok(()) }
}

fn tell() {
    let (now_ms, told_ms) = (kernel::monotonic_ms(), TOLD_MS.load(Ordering::Relaxed));
    let is_due = told_ms == 0 || now_ms >= told_ms + TELL_PERIOD_MS;
    if is_due && TOLD_MS.compare_exchange(told_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        session::complain(format_args!(
            "this node has not been seen as a member of its cluster for too long, and waits until it is: see \
             'headstart cluster status', and whether the fast directory or etcd answers"
        ));
    }
}
