//! The kernel's own asynchronous interfaces: io_uring, and Linux aio as libaio offers it. Their data calls cannot be
//! carried out here, so that the files they move bytes of bypass flash until the process ends.
//!
//! Linux aio names its descriptors at every submission. A ring takes its requests from shared memory, so that once a
//! process has one, every managed file it has open or opens later is bypassed. A ring is seen if it is set up through
//! libc's `syscall` or by liburing as a shared library.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_long};

use crate::kernel::{self, Errno};
use crate::{files, opening, session, settings};

static IN_USE: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

/// Whether this process, or one it was forked from, has a ring.
pub fn in_use() -> bool {
    IN_USE.load(Ordering::Relaxed)
}

/// A managed file bypasses flash because of the process's ring: said once.
pub fn say() {
    if settings::served() && !SAID.swap(true, Ordering::Relaxed) {
        session::complain(format_args!(
            "this program uses io_uring, whose requests cannot be seen: its files bypass flash until it ends. \
             Where it lets you choose, choose another way of doing I/O"
        ));
    }
}

/// A ring is set up; what is open bypasses flash before any request can reach it.
fn noticed() -> Result<(), Errno> {
    if IN_USE.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    if files::bypass_all()? {
        say();
    }
    Ok(())
}

/// `io_uring_queue_init` and its kin, which return an error as a negative number.
pub fn set_up(pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let told = noticed();
    kernel::set_errno(saved);
    match told {
        Ok(()) => pass(),
        Err(errno) => -errno,
    }
}

/// `syscall(SYS_io_uring_setup)`.
pub fn set_up_raw(pass: impl FnOnce() -> c_long) -> c_long {
    let saved = kernel::errno();
    let told = noticed();
    kernel::set_errno(told.err().unwrap_or(saved));
    if told.is_ok() { pass() } else { -1 }
}

/// The kernel's `struct iocb`, as far as it matters here.
#[repr(C)]
pub struct Submission {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
}

/// libaio's `io_submit`, which returns an error as a negative number.
///
/// # Safety
/// `blocks` are `count` control blocks.
pub unsafe fn submit(count: c_long, blocks: *const *const Submission, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let told = unsafe { named(count, blocks) };
    kernel::set_errno(saved);
    match told {
        Ok(()) => pass(),
        Err(errno) => -errno,
    }
}

/// `syscall(SYS_io_submit)`.
///
/// # Safety
/// `blocks` are `count` control blocks.
pub unsafe fn submit_raw(count: c_long, blocks: *const *const Submission, pass: impl FnOnce() -> c_long) -> c_long {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let told = unsafe { named(count, blocks) };
    kernel::set_errno(told.err().unwrap_or(saved));
    if told.is_ok() { pass() } else { -1 }
}

/// Files that a submission names bypass flash.
///
/// # Safety
/// `blocks` are `count` control blocks.
unsafe fn named(count: c_long, blocks: *const *const Submission) -> Result<(), Errno> {
    for k in 0..count.max(0) as usize {
        // SAFETY: the caller's contract.
        let block = unsafe { *blocks.add(k) };
        if !block.is_null() {
            // SAFETY: the caller's contract.
            opening::bypass(unsafe { (*block).fd } as c_int, true)?;
        }
    }
    Ok(())
}
