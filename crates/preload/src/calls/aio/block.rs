//! The control block, as glibc and the library use it, and what it asks for.

use std::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering};

use headstart_units::request::Range;
use libc::{c_int, c_void, sigevent};

/// glibc's `struct aiocb`, which is its `aiocb64` too on 64-bit machines, with the fields that `aio.h` calls internal.
///
/// ```text
/// 0 fd | 4 opcode | 8 priority | 16 buffer | 24 length | 32 sigevent (64 bytes) | 96 next | 104 absolute priority
/// 108 policy | 112 error | 120 return value | 128 offset | 136 reserved (32 bytes) | 168
/// ```
#[repr(C)]
pub(crate) struct ControlBlock {
    pub fd: c_int,
    pub opcode: c_int,
    pub priority: c_int,
    pub buffer: *mut c_void,
    pub length: usize,
    pub event: sigevent,
    pub next: *mut c_void,
    /// The queue's while the operation is under way: `WAITING` or `RUNNING`.
    pub state: AtomicI32,
    /// What the operation is: a `Kind`, and for a sync whether of data alone.
    pub kind: c_int,
    pub error: AtomicI32,
    pub returned: AtomicIsize,
    pub offset: i64,
    /// Says that the block is in the queue; see `mark`.
    pub mark: AtomicUsize,
    /// The list that is notified when its last operation has ended.
    pub group: *mut Group,
    reserved: [u8; 16],
}

/// Nobody has begun it.
pub(crate) const WAITING: c_int = 0;
/// A thread carries it out.
pub(crate) const RUNNING: c_int = 1;

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
pub(crate) struct Group {
    pub left: AtomicU32,
    pub event: sigevent,
}

impl ControlBlock {
    /// What a block that is in the queue holds: another block, a copy even, does not.
    pub(crate) fn mark_of(block: *const ControlBlock) -> usize {
        block.addr() ^ 0x6865_6164_7374_6172
    }

    /// Whether a block waits for an outcome from this library.
    ///
    /// # Safety
    /// `block` is a control block.
    pub(crate) unsafe fn is_under_way(block: *const ControlBlock) -> bool {
        // SAFETY: the caller's contract; both are atomics.
        unsafe {
            (*block).error.load(Ordering::Acquire) == libc::EINPROGRESS
                && (*block).mark.load(Ordering::Relaxed) == ControlBlock::mark_of(block)
        }
    }

    pub(crate) fn operation(&self) -> Operation {
        match self.kind >> 1 {
            0 => Operation::Read,
            1 | 2 => Operation::Write,
            _ => Operation::Sync { data_only: self.kind & 1 != 0 },
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.kind >> 1 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Append,
            _ => Kind::Sync,
        }
    }

    pub(crate) fn range(&self) -> Range {
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
    pub(crate) fn of(opcode: c_int) -> Option<Operation> {
        match opcode {
            libc::LIO_READ => Some(Operation::Read),
            libc::LIO_WRITE => Some(Operation::Write),
            _ => None,
        }
    }
}
