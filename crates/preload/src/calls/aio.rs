//! POSIX asynchronous I/O (aio(7)) on managed files, where glibc's own threads would read and write past every hook.
//!
//! The library queues them itself (`queue`) and has them carried out by threads of its own, through the same data path
//! as `pread` and `pwrite`. The outcome stands where glibc keeps it, in the control block, so that aio_error and
//! aio_return need no hook: a program that polls them hundreds of thousands of times pays nothing. Notifications are
//! glibc's as well: its `lio_listio` of nothing does nothing but notify.
//!
//! Where no thread can be had, the call that submits an operation carries it out.

pub(crate) mod queue;
mod waiting;

pub(crate) use queue::abandon;
pub(crate) use waiting::{cancel, suspend};

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering};

use headstart_units::request::Range;
use libc::{c_int, c_void, sigevent};

use crate::calls::data::{at, element, write_buffers};
use crate::data_path;
use crate::files::descriptors::{self, Target};
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};

mod libcs {
    use libc::{c_int, sigevent};

    use super::ControlBlock;

    crate::hooks::next::real! {
        lio_listio(mode: c_int, blocks: *const *mut ControlBlock, count: c_int, event: *mut sigevent) -> c_int
    }
}

/// Highest `aio_reqprio` that glibc takes (`AIO_PRIO_DELTA_MAX`).
const PRIORITY_MAX: c_int = 20;

/// glibc's `struct aiocb`, which is its `aiocb64` too on 64-bit machines, with the fields that `aio.h` calls internal.
///
/// ```text
/// 0 fd | 4 opcode | 8 priority | 16 buffer | 24 length | 32 sigevent (64 bytes) | 96 next | 104 absolute priority
/// 108 policy | 112 error | 120 return value | 128 offset | 136 reserved (32 bytes) | 168
/// ```
#[repr(C)]
pub(crate) struct ControlBlock {
    fd: c_int,
    opcode: c_int,
    priority: c_int,
    buffer: *mut c_void,
    length: usize,
    event: sigevent,
    next: *mut c_void,
    /// The queue's while the operation is under way: `WAITING` or `RUNNING`.
    state: AtomicI32,
    /// What the operation is: a `Kind`, and for a sync whether of data alone.
    kind: c_int,
    error: AtomicI32,
    returned: AtomicIsize,
    offset: i64,
    /// Says that the block is in the queue; see `mark`.
    mark: AtomicUsize,
    /// The list that is notified when its last operation has ended.
    group: *mut Group,
    reserved: [u8; 16],
}

/// Nobody has begun it.
const WAITING: c_int = 0;
/// A thread carries it out.
const RUNNING: c_int = 1;

/// What an operation is to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// A write to the end of the file.
    Append,
    Sync,
}

/// Operations of a list that is notified as one.
struct Group {
    left: AtomicU32,
    event: sigevent,
}

impl ControlBlock {
    /// What a block that is in the queue holds: another block, a copy even, does not.
    fn mark_of(block: *const ControlBlock) -> usize {
        block.addr() ^ 0x6865_6164_7374_6172
    }

    /// Whether a block waits for an outcome from this library.
    ///
    /// # Safety
    /// `block` is a control block.
    unsafe fn is_under_way(block: *const ControlBlock) -> bool {
        // SAFETY: the caller's contract; both are atomics.
        unsafe {
            (*block).error.load(Ordering::Acquire) == libc::EINPROGRESS
                && (*block).mark.load(Ordering::Relaxed) == ControlBlock::mark_of(block)
        }
    }

    fn operation(&self) -> Operation {
        match self.kind >> 1 {
            0 => Operation::Read,
            1 | 2 => Operation::Write,
            _ => Operation::Sync { data_only: self.kind & 1 != 0 },
        }
    }

    fn kind(&self) -> Kind {
        match self.kind >> 1 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Append,
            _ => Kind::Sync,
        }
    }

    fn range(&self) -> Range {
        Range::new(self.offset.max(0) as u64, self.length.min(i64::MAX as usize) as u64)
    }
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
pub(crate) enum Operation {
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
pub(crate) unsafe fn list(
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
    let result = unsafe { libcs::lio_listio(mode, rest.as_mut_ptr(), count, event) };
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

fn notifies(event: &sigevent) -> bool {
    matches!(event.sigev_notify, libc::SIGEV_SIGNAL | libc::SIGEV_THREAD)
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
        if !queue::submit(block) {
            queue::settle(fd);
            let result = transfer(block);
            finish(block, result).give();
        }
    }
    true
}

/// Whom to tell that an operation has its outcome.
#[must_use]
struct Notice {
    event: sigevent,
    group: *mut Group,
}

impl Notice {
    /// Wakes who waits, and notifies; no lock is held.
    fn give(self) {
        queue::ENDED.fetch_add(1, Ordering::Release);
        kernel::wake(&queue::ENDED, u32::MAX >> 1);
        notify(self.event);
        // SAFETY: a group lives until its last member has ended.
        if !self.group.is_null() && unsafe { (*self.group).left.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: it came from `Box::into_raw`, and this was the last member.
            notify(unsafe { Box::from_raw(self.group) }.event);
        }
    }
}

/// Stores the outcome of an operation that is in no list; from here on the block is the program's again.
///
/// # Safety
/// `block` was taken, and nobody else stores its outcome.
unsafe fn finish(block: *mut ControlBlock, result: Result<usize, Errno>) -> Notice {
    // SAFETY: the caller's contract.
    unsafe { ended(block, result, (*block).group) }
}

/// # Safety
/// As [`finish`].
unsafe fn ended(block: *mut ControlBlock, result: Result<usize, Errno>, group: *mut Group) -> Notice {
    // SAFETY: the caller's contract; the block is the program's again once `error` is stored.
    unsafe {
        let event = (*block).event;
        (*block).mark.store(0, Ordering::Relaxed);
        (*block).returned.store(result.map_or(-1, |count| count as isize), Ordering::Relaxed);
        (*block).error.store(result.err().unwrap_or(0), Ordering::Release);
        Notice { event, group }
    }
}

/// Notifies as libc does.
fn notify(mut event: sigevent) {
    if notifies(&event) {
        // SAFETY: a list of one member that is no control block.
        unsafe { libcs::lio_listio(libc::LIO_NOWAIT, &ptr::null_mut(), 1, &mut event) };
    }
}

/// Carries an operation out.
///
/// # Safety
/// `block` was taken, and nobody else carries it out.
unsafe fn transfer(block: *mut ControlBlock) -> Result<usize, Errno> {
    // SAFETY: the caller's contract.
    let (fd, operation) = unsafe { ((*block).fd, (*block).operation()) };
    loop {
        // SAFETY: the caller's contract.
        match descriptors::on_managed(fd, |target| unsafe { move_bytes(target, block, operation) }) {
            Err(libc::EINTR) => {}
            result => return result.and_then(|moved| moved.ok_or(libc::EBADF)),
        }
    }
}

/// # Safety
/// `block` is a control block as aio(7) wants it.
unsafe fn move_bytes(target: &Target, block: *const ControlBlock, operation: Operation) -> Result<usize, Errno> {
    // SAFETY: the caller's contract; nobody writes these fields.
    let (buffer, length, offset) = unsafe { ((*block).buffer, (*block).length, (*block).offset) };
    let element = element(buffer, length);
    match operation {
        // SAFETY: the caller's contract.
        Operation::Read => data_path::read_at(target, &unsafe { Buffers::one(&element) }?, at(offset)?),
        // SAFETY: the caller's contract.
        Operation::Write => write_buffers(target, unsafe { Buffers::one(&element) }?, Some(at(offset)?), 0),
        Operation::Sync { data_only } => {
            target.hold()?;
            data_path::sync(target, || kernel::sync(target.fd, data_only))
        }
    }
}
