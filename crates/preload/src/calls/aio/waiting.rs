//! Waiting for asynchronous operations, and cancelling them.

use std::sync::atomic::Ordering;

use libc::{c_int, timespec};

use super::block::ControlBlock;
use super::list;
use super::notice::{ENDED, Notice};
use crate::kernel;

/// How often a wait looks at operations that libc carries out, of which it hears nothing.
const LOOK_MS: u64 = 1;

/// `aio_suspend`: libc knows nothing of this library's operations and would not wait for them.
///
/// # Safety
/// The arguments are those of aio_suspend(3).
pub(crate) unsafe fn suspend(
    list: *const *const ControlBlock,
    count: c_int,
    timeout: *const timespec,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    if list.is_null() || count <= 0 || list::is_empty() {
        return pass();
    }
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let blocks = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let present = || blocks.iter().copied().filter(|block| !block.is_null());
    // SAFETY: the caller's contract.
    let ours = present().filter(|&block| unsafe { ControlBlock::is_under_way(block) }).count();
    if ours == 0 {
        return pass();
    }
    // SAFETY: the caller's contract.
    let limit_ms = (!timeout.is_null()).then(|| unsafe { milliseconds(&*timeout) });
    let (start, mixed) = (kernel::monotonic_ms(), ours < present().count());
    loop {
        let ended = ENDED.load(Ordering::Acquire);
        // SAFETY: the caller's contract.
        if present().any(|block| unsafe { (*block).error.load(Ordering::Acquire) } != libc::EINPROGRESS) {
            return kernel::answer(Ok(0), saved) as c_int;
        }
        let left = limit_ms.map(|limit| limit.saturating_sub(kernel::monotonic_ms() - start));
        if left == Some(0) {
            return kernel::answer(Err(libc::EAGAIN), saved) as c_int;
        }
        let slice = if mixed { Some(left.unwrap_or(LOOK_MS).min(LOOK_MS)) } else { left };
        if kernel::wait(&ENDED, ended, slice) == Err(libc::EINTR) {
            return kernel::answer(Err(libc::EINTR), saved) as c_int;
        }
    }
}

/// A time in whole milliseconds, never too short.
fn milliseconds(time: &timespec) -> u64 {
    let parts = (time.tv_nsec.max(0) as u64).div_ceil(1_000_000);
    (time.tv_sec.max(0) as u64).saturating_mul(1000).saturating_add(parts)
}

/// Waits until all of `blocks` have their outcome.
pub(crate) fn all(blocks: impl Iterator<Item = *mut ControlBlock>) {
    for block in blocks {
        loop {
            let ended = ENDED.load(Ordering::Acquire);
            // SAFETY: whoever submitted the block keeps it.
            if unsafe { (*block).error.load(Ordering::Acquire) } != libc::EINPROGRESS {
                break;
            }
            let _ = kernel::wait(&ENDED, ended, None);
        }
    }
}

/// `aio_cancel`: what has not begun does not begin.
///
/// # Safety
/// The arguments are those of aio_cancel(3).
pub(crate) unsafe fn cancel(fd: c_int, block: *mut ControlBlock, pass: impl FnOnce() -> c_int) -> c_int {
    if list::is_empty() || !block.is_null() && !list::holds(block) {
        return pass();
    }
    // SAFETY: a member of the list is a control block.
    if !block.is_null() && unsafe { (*block).fd } != fd {
        return kernel::answer(Err(libc::EINVAL), 0) as c_int;
    }
    let saved = kernel::errno();
    let cancelled = list::cancel(fd, block);
    let any = !cancelled.notices.is_empty();
    cancelled.notices.into_iter().for_each(Notice::give);
    kernel::set_errno(saved);
    match (cancelled.running, any) {
        (true, _) => AIO_NOTCANCELED,
        (false, true) => AIO_CANCELED,
        (false, false) => pass(),
    }
}

/// glibc's answers of `aio_cancel`.
const AIO_CANCELED: c_int = 0;
const AIO_NOTCANCELED: c_int = 1;
