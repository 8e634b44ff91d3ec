//! The kernel's own asynchronous interfaces: io_uring, and Linux aio as libaio offers it. Their data calls cannot be
//! carried out here, so that the files they move bytes of bypass flash until the process ends.
//!
//! Linux aio names its descriptors at every submission. A ring takes its requests from shared memory, so that once a
//! process uses one, every managed file it has open or opens later is bypassed. A ring is seen if it is set up through
//! libc's `syscall` or by liburing as a shared library.
//!
//! Many programs set a ring up to see whether there are any, and for what. So it counts as used not before
//! requests can come to the kernel: with liburing from the first call that submits; else from when the
//! program maps the memory for requests, as it may hand them over by a call that nobody sees; in any case
//! from the set-up on where the kernel looks for requests by itself, or takes them from memory that was the
//! program's before.

use libc::{c_int, c_long, c_uint, c_void, off64_t};

use crate::files::bypass;
use crate::files::opening;
use crate::files::ring_state;
use crate::kernel::{self, Errno};
use crate::location::{self, PathBuffer};
use crate::session;

/// Where the memory for requests is mapped from (`IORING_OFF_SQES`).
pub(crate) const REQUESTS_AT: off64_t = 0x1000_0000;
/// The kernel looks for requests by itself.
const IORING_SETUP_SQPOLL: c_uint = 1 << 1;
/// The program gives the memory.
const IORING_SETUP_NO_MMAP: c_uint = 1 << 14;

/// A ring is used; what is open bypasses flash before any request can reach it.
#[inline]
fn noticed() -> Result<(), Errno> {
    if ring_state::is_settled() { Ok(()) } else { notice() }
}

#[cold]
fn notice() -> Result<(), Errno> {
    // A handler that interrupted the thread that is at it cannot wait for it.
    while !ring_state::begin() {
        if ring_state::is_settled() || session::is_interrupted() {
            return Ok(());
        }
        kernel::sleep_ms(1);
    }
    let told = bypass::bypass_all();
    ring_state::end(told.is_ok());
    if told? {
        ring_state::say();
    }
    Ok(())
}

/// The flags in `io_uring_params`.
///
/// # Safety
/// `parameters` are such, or an address where no program has memory.
pub(crate) unsafe fn flags_of(parameters: *const c_void) -> c_uint {
    if parameters.addr() < 65536 {
        return 0;
    }
    // SAFETY: the caller's contract; they stand behind two numbers.
    unsafe { parameters.cast::<c_uint>().add(2).read_unaligned() }
}

/// `io_uring_queue_init` and its kin, which return an error as a negative number.
pub(crate) fn set_up(flags: c_uint, pass: impl FnOnce() -> c_int) -> c_int {
    if flags & IORING_SETUP_SQPOLL == 0 { pass() } else { submits(pass) }
}

/// A call of liburing's that may submit requests.
#[inline]
pub(crate) fn submits(pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let told = noticed();
    kernel::set_errno(saved);
    match told {
        Ok(()) => pass(),
        Err(errno) => -errno,
    }
}

/// `syscall(SYS_io_uring_setup)`.
pub(crate) fn set_up_raw(flags: c_uint, pass: impl FnOnce() -> c_long) -> c_long {
    if flags & (IORING_SETUP_SQPOLL | IORING_SETUP_NO_MMAP) == 0 { pass() } else { submits_raw(pass) }
}

/// A descriptor's memory for requests is about to be mapped, if it is a ring's.
#[cold]
pub(crate) fn mapped(fd: c_int) -> Result<(), Errno> {
    let saved = kernel::errno();
    let mut buffer = PathBuffer::empty();
    let is_ring = location::path_of(fd, &mut buffer).is_ok_and(|name| name == b"anon_inode:[io_uring]");
    let told = if is_ring { noticed() } else { Ok(()) };
    kernel::set_errno(saved);
    told
}

/// `syscall(SYS_io_uring_enter)` with requests.
pub(crate) fn submits_raw(pass: impl FnOnce() -> c_long) -> c_long {
    let saved = kernel::errno();
    let told = noticed();
    kernel::set_errno(told.err().unwrap_or(saved));
    if told.is_ok() { pass() } else { -1 }
}

/// The kernel's `struct iocb`, as far as it matters here.
#[repr(C)]
pub(crate) struct Submission {
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
pub(crate) unsafe fn submit(count: c_long, blocks: *const *const Submission, pass: impl FnOnce() -> c_int) -> c_int {
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
pub(crate) unsafe fn submit_raw(
    count: c_long,
    blocks: *const *const Submission,
    pass: impl FnOnce() -> c_long,
) -> c_long {
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
