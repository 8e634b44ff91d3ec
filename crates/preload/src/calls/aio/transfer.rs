//! Carrying an operation out, by the same data path as `pread` and `pwrite`.

use crate::calls::data::{at, element, write_buffers};
use crate::data_path;
use crate::files::descriptors::{self, Target};
use crate::kernel::buffers::Buffers;
use crate::kernel::{self, Errno};

use super::block::{ControlBlock, Operation};

/// Carries an operation out.
///
/// # Safety
/// `block` was taken, and nobody else carries it out.
pub(crate) unsafe fn transfer(block: *mut ControlBlock) -> Result<usize, Errno> {
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
pub(crate) unsafe fn move_bytes(
    target: &Target,
    block: *const ControlBlock,
    operation: Operation,
) -> Result<usize, Errno> {
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
