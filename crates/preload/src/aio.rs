//! POSIX asynchronous I/O (aio(7)) on managed files, where glibc's own threads would read and write past every hook.
//!
//! An operation is carried out by the call that submits it, through the same data path as `pread` and `pwrite`; letting
//! it overlap with the program's computation belongs to a later version. Its outcome stands where glibc itself keeps
//! it, in the control block, so that aio_error, aio_return, aio_suspend and aio_cancel need no hook: a program that
//! polls them hundreds of thousands of times pays nothing. Notifications are glibc's as well: its `lio_listio` of
//! nothing does nothing but notify.

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};

use libc::{c_int, c_void, sigevent};

use crate::buffers::Buffers;
use crate::data_calls::{at, element, write_buffers};
use crate::data_path;
use crate::descriptors::{self, Target};
use crate::kernel::{self, Errno};
use crate::symbols::real;

/// Highest `aio_reqprio` that glibc takes (`AIO_PRIO_DELTA_MAX`).
const PRIORITY_MAX: c_int = 20;

/// glibc's `struct aiocb`, which is its `aiocb64` too on 64-bit machines, with the fields that `aio.h` calls internal.
///
/// ```text
/// 0 fd | 4 opcode | 8 priority | 16 buffer | 24 length | 32 sigevent (64 bytes) | 96 next | 104 absolute priority
/// 108 policy | 112 error | 120 return value | 128 offset | 136 reserved (32 bytes) | 168
/// ```
#[repr(C)]
pub struct ControlBlock {
    fd: c_int,
    opcode: c_int,
    priority: c_int,
    buffer: *mut c_void,
    length: usize,
    event: sigevent,
    next: *mut c_void,
    absolute_priority: c_int,
    policy: c_int,
    error: AtomicI32,
    returned: AtomicIsize,
    offset: i64,
    reserved: [u8; 32],
}

const _: () = {
    assert!(offset_of!(ControlBlock, buffer) == offset_of!(libc::aiocb, aio_buf));
    assert!(offset_of!(ControlBlock, event) == offset_of!(libc::aiocb, aio_sigevent));
    assert!(offset_of!(ControlBlock, error) == 112 && offset_of!(ControlBlock, returned) == 120);
    assert!(offset_of!(ControlBlock, offset) == offset_of!(libc::aiocb, aio_offset));
    assert!(size_of::<ControlBlock>() == size_of::<libc::aiocb>());
};

/// What a control block asks for.
#[derive(Clone, Copy)]
pub enum Operation {
    /// `aio_read`.
    Read,
    /// `aio_write`.
    Write,
    /// `aio_fsync`, of the data alone or of everything.
    Sync {
        /// O_DSYNC.
        data_only: bool,
    },
}

impl Operation {
    /// Of a member of a list; what is none of the two is left to libc.
    fn of(opcode: c_int) -> Option<Operation> {
        match opcode {
            libc::LIO_READ => Some(Operation::Read),
            libc::LIO_WRITE => Some(Operation::Write),
            _ => None,
        }
    }
}

/// `aio_read`, `aio_write`.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
pub unsafe fn submit(block: *mut ControlBlock, operation: Operation, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let managed = unsafe { carry_out(block, operation) }.is_some();
    kernel::set_errno(saved);
    if managed { 0 } else { pass() }
}

/// `aio_fsync`.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
pub unsafe fn sync(kind: c_int, block: *mut ControlBlock, pass: impl FnOnce() -> c_int) -> c_int {
    match kind {
        // SAFETY: the caller's contract.
        libc::O_SYNC | libc::O_DSYNC => unsafe {
            submit(block, Operation::Sync { data_only: kind == libc::O_DSYNC }, pass)
        },
        _ => pass(),
    }
}

/// `lio_listio`: what is managed is carried out first; libc gets the list without it, and notifies when the rest is
/// done.
///
/// # Safety
/// The arguments are those of lio_listio(3).
pub unsafe fn list(
    mode: c_int,
    blocks: *const *mut ControlBlock,
    count: c_int,
    event: *mut sigevent,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    if !matches!(mode, libc::LIO_WAIT | libc::LIO_NOWAIT) || blocks.is_null() || count <= 0 {
        return pass();
    }
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let mut rest = unsafe { std::slice::from_raw_parts(blocks, count as usize) }.to_vec();
    let mut failed = false;
    for block in rest.iter_mut().filter(|block| !block.is_null()) {
        // SAFETY: the caller's contract: a member is a control block or null.
        let result = unsafe { Operation::of((**block).opcode).and_then(|operation| carry_out(*block, operation)) };
        if let Some(result) = result {
            failed |= result.is_err();
            *block = ptr::null_mut();
        }
    }
    kernel::set_errno(saved);
    // SAFETY: the program's arguments, with fewer members; libc keeps no reference to the list itself.
    let result = unsafe { real::lio_listio(mode, rest.as_ptr(), count, event) };
    if result == 0 && failed && mode == libc::LIO_WAIT {
        return kernel::answer(Err(libc::EIO), saved) as c_int;
    }
    result
}

/// Carries the operation out and stores its outcome, which it returns; nothing if it is libc's to do.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
unsafe fn carry_out(block: *mut ControlBlock, operation: Operation) -> Option<Result<usize, Errno>> {
    // SAFETY: the caller's contract. Other threads may look at the two atomics meanwhile.
    let (error, returned) = unsafe { (&(*block).error, &(*block).returned) };
    // SAFETY: the same; nobody writes the rest, and the block is the program's again once `error` is stored.
    let (fd, priority, event) = unsafe { ((*block).fd, (*block).priority, (*block).event) };
    if !(0..=PRIORITY_MAX).contains(&priority) {
        // libc refuses it.
        return None;
    }
    let result = loop {
        let result = descriptors::on_managed(fd, |target| {
            error.store(libc::EINPROGRESS, Ordering::Release);
            // SAFETY: the caller's contract.
            unsafe { transfer(target, block, operation) }
        });
        if result != Err(libc::EINTR) {
            break result.transpose()?;
        }
    };
    returned.store(result.map_or(-1, |count| count as isize), Ordering::Relaxed);
    error.store(result.err().unwrap_or(0), Ordering::Release);
    if matches!(event.sigev_notify, libc::SIGEV_SIGNAL | libc::SIGEV_THREAD) {
        let mut event = event;
        // SAFETY: a list of one member that is no control block.
        unsafe { real::lio_listio(libc::LIO_NOWAIT, &ptr::null_mut(), 1, &mut event) };
    }
    Some(result)
}

/// # Safety
/// `block` is a control block as aio(7) wants it.
unsafe fn transfer(target: &Target, block: *const ControlBlock, operation: Operation) -> Result<usize, Errno> {
    // SAFETY: the caller's contract; nobody writes these fields.
    let (buffer, length, offset) = unsafe { ((*block).buffer, (*block).length, (*block).offset) };
    let element = element(buffer, length);
    match operation {
        // SAFETY: the caller's contract.
        Operation::Read => data_path::read_at(target, unsafe { Buffers::one(&element) }?, at(offset)?),
        // SAFETY: the caller's contract.
        Operation::Write => write_buffers(target, unsafe { Buffers::one(&element) }?, Some(at(offset)?), 0),
        Operation::Sync { data_only } => data_path::sync(target, || kernel::sync(target.fd, data_only)),
    }
}
