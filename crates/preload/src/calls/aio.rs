//! POSIX asynchronous I/O (aio(7)) on managed files, where glibc's own threads would read and write past every hook.
//!
//! The library queues operations (`list`), and threads of its own carry them out (`threads`) by the same data path as
//! `pread` and `pwrite`. The outcome stands where glibc keeps it, in the control block, so that aio_error and
//! aio_return need no hook: a program that polls them hundreds of thousands of times pays nothing. glibc notifies:
//! a `lio_listio` of no operations does nothing else.
//!
//! Where no thread can be had, the call that submits an operation carries it out.

pub(crate) mod block;
pub(crate) mod list;
mod notice;
mod threads;
mod transfer;
mod waiting;

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, sigevent};

use crate::files::descriptors;
use crate::kernel;

pub(crate) use block::{ControlBlock, Operation};
pub(crate) use threads::abandon;
pub(crate) use waiting::{cancel, suspend};

use block::{Group, Kind, WAITING};
use notice::{ended, finish, lio_listio, notifies};
use transfer::transfer;

/// Highest `aio_reqprio` that glibc takes (`AIO_PRIO_DELTA_MAX`).
const PRIORITY_MAX: c_int = 20;

/// `aio_read`, `aio_write`.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
pub(crate) unsafe fn submit(block: *mut ControlBlock, operation: Operation, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    // SAFETY: the caller's contract.
    let is_ours = unsafe { take(block, operation, ptr::null_mut()) };
    kernel::set_errno(saved);
    if is_ours { 0 } else { pass() }
}

/// `aio_fsync`.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
pub(crate) unsafe fn sync(kind: c_int, block: *mut ControlBlock, pass: impl FnOnce() -> c_int) -> c_int {
    match kind {
        // SAFETY: the caller's contract.
        libc::O_SYNC | libc::O_DSYNC => unsafe {
            submit(block, Operation::Sync { data_only: kind == libc::O_DSYNC }, pass)
        },
        _ => pass(),
    }
}

/// `lio_listio`: what is managed is queued; libc gets the list without it.
///
/// # Safety
/// The arguments are those of lio_listio(3).
pub(crate) unsafe fn list_io(
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
    let (ours, mut rest) = unsafe { divided(std::slice::from_raw_parts(blocks, count as usize)) };
    if ours.is_empty() {
        kernel::set_errno(saved);
        return pass();
    }
    let alone = rest.iter().all(|block| block.is_null());
    // SAFETY: the caller's contract.
    let notified = mode == libc::LIO_NOWAIT && !event.is_null() && unsafe { notifies(&*event) };
    let group = match notified && alone {
        // SAFETY: an event that is not null.
        true => Box::into_raw(Box::new(Group { left: AtomicU32::new(ours.len() as u32), event: unsafe { *event } })),
        false => ptr::null_mut(),
    };
    for &(block, operation) in &ours {
        // SAFETY: the caller's contract.
        unsafe {
            if !take(block, operation, group) {
                // Its descriptor was closed meanwhile.
                ended(block, Err(libc::EBADF), group).give();
            }
        }
    }
    if mode == libc::LIO_WAIT || notified && !alone {
        // A list of both kinds is notified by libc when its own part is done; so that ours must be done before.
        waiting::all(ours.iter().map(|&(block, _)| block));
    }
    kernel::set_errno(saved);
    if alone && mode == libc::LIO_NOWAIT {
        return 0;
    }
    // SAFETY: the program's arguments, with fewer members; libc keeps no reference to the list itself.
    let result = unsafe { lio_listio(mode, rest.as_mut_ptr(), count, event) };
    // SAFETY: the caller's contract.
    let failed = ours.iter().any(|&(block, _)| unsafe { (*block).error.load(Ordering::Acquire) } != 0);
    if result == 0 && failed && mode == libc::LIO_WAIT {
        return kernel::answer(Err(libc::EIO), saved) as c_int;
    }
    result
}

/// The members of a list that are managed, and the list without them.
///
/// # Safety
/// A member is a control block or null.
unsafe fn divided(list: &[*mut ControlBlock]) -> (Vec<(*mut ControlBlock, Operation)>, Vec<*mut ControlBlock>) {
    let (mut ours, mut rest) = (Vec::new(), list.to_vec());
    for block in rest.iter_mut().filter(|block| !block.is_null()) {
        // SAFETY: the caller's contract.
        let (fd, opcode, priority) = unsafe { ((**block).fd, (**block).opcode, (**block).priority) };
        if let Some(operation) = Operation::of(opcode)
            && (0..=PRIORITY_MAX).contains(&priority)
            && !matches!(descriptors::managed(fd), Ok(None))
        {
            ours.push((*block, operation));
            *block = ptr::null_mut();
        } else if opcode == libc::LIO_NOP {
            *block = ptr::null_mut();
        }
    }
    (ours, rest)
}

/// Queues an operation on a managed file; false if it is libc's to do.
///
/// # Safety
/// `block` is a control block as aio(7) wants it.
unsafe fn take(block: *mut ControlBlock, operation: Operation, group: *mut Group) -> bool {
    // SAFETY: the caller's contract; the block is nobody else's until it is queued.
    let (fd, priority) = unsafe { ((*block).fd, (*block).priority) };
    if !(0..=PRIORITY_MAX).contains(&priority) && !matches!(operation, Operation::Sync { .. }) {
        // libc refuses it; of a sync it does not look.
        return false;
    }
    let appends = descriptors::on_managed(fd, |target| {
        if matches!(operation, Operation::Write) {
            target.know_flags()?;
        }
        Ok(target.appends())
    });
    let kind = match (appends, operation) {
        (Ok(None), _) => return false,
        (Ok(Some(true)), Operation::Write) => Kind::Append,
        (_, Operation::Read) => Kind::Read,
        (_, Operation::Write) => Kind::Write,
        (_, Operation::Sync { .. }) => Kind::Sync,
    };
    let data_only = matches!(operation, Operation::Sync { data_only: true });
    // SAFETY: the same.
    unsafe {
        (*block).next = ptr::null_mut();
        (*block).kind = (kind as c_int) << 1 | c_int::from(data_only);
        (*block).group = group;
        (*block).state.store(WAITING, Ordering::Relaxed);
        (*block).mark.store(ControlBlock::mark_of(block), Ordering::Relaxed);
        (*block).error.store(libc::EINPROGRESS, Ordering::Release);
        if !threads::submit(block) {
            list::settle(fd);
            let result = transfer(block);
            finish(block, result).give();
        }
    }
    true
}
