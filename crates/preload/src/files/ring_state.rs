//! Whether the process uses an io_uring: then every managed file it has open, or opens later, bypasses flash.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{session, settings};

const UNUSED: u32 = 0;
/// What is open is about to bypass flash.
const BEGUN: u32 = 1;
const USED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNUSED);
static SAID: AtomicBool = AtomicBool::new(false);

/// Whether this process, or one it was forked from, uses a ring.
pub(crate) fn in_use() -> bool {
    STATE.load(Ordering::Relaxed) != UNUSED
}

/// A managed file bypasses flash because of the process's ring: said once.
pub(crate) fn say() {
    if settings::served() && !SAID.swap(true, Ordering::Relaxed) {
        session::complain(format_args!(
            "this program uses io_uring, whose requests cannot be seen: its files bypass flash until it ends. \
             Where it lets you choose, choose another way of doing I/O"
        ));
    }
}

/// Whether a ring is used, and what was open bypasses flash already.
#[inline]
pub(crate) fn is_settled() -> bool {
    STATE.load(Ordering::Acquire) == USED
}

/// A ring is used: the calling thread is the first that sees to it, or another one is at it.
pub(crate) fn begin() -> bool {
    STATE.compare_exchange(UNUSED, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// What was open bypasses flash; or it could not be done.
pub(crate) fn end(is_done: bool) {
    STATE.store(if is_done { USED } else { UNUSED }, Ordering::Release);
}

/// In a forked child: no other thread is at it any more.
pub(crate) fn abandon() {
    let _ = STATE.compare_exchange(BEGUN, UNUSED, Ordering::Relaxed, Ordering::Relaxed);
}
