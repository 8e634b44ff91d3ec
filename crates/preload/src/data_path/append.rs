//! Writes whose place only the kernel knows: O_APPEND, and plain fallocate. They are never absorbed.
//!
//! They land at or behind the end of the file. All that is mapped lies before it, so that nothing is dropped; but a
//! commit behind the end at the same time must be excluded. So they claim everything from the known size on, and are
//! cheap only while the file has no set bit at all. `posix_fallocate` may write before the end too, but no other bytes
//! than it reads.

use headstart_protocol::call::Call;
use headstart_protocol::counters::Served;

use super::caller::{Caller, change};
use super::changes::sync;
use crate::files::descriptors::{CHANGED, Target};
use crate::kernel::{self, Errno};
use crate::session;

/// An appending write; `kernel` does it.
pub fn append(target: &Target, durable: bool, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    let result = extend(target, kernel);
    session::with(|session| {
        match result {
            Ok(0) | Err(CHANGED) => {}
            Ok(written) => session.slot.served(Served::WriteAppend, written as u64),
            Err(_) => session.slot.served(Served::WriteFailed, 0),
        }
        Ok(())
    })?;
    let written = result?;
    if durable || target.durable() {
        sync(target, || kernel::sync(target.fd, true))?;
    }
    Ok(written)
}

/// A call that may change the end of the file, but no byte before it.
pub fn extend(target: &Target, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    extend_over(target, u64::MAX, kernel)
}

/// The same for a call that may also write to the slow file what it reads there, from `offset` on.
pub fn extend_over(
    target: &Target,
    offset: u64,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    session::with(|session| {
        let caller = Caller::without_buffers(session, Some(target));
        let call = Call::extend(&caller, target.file, offset);
        let value = change(session, &caller, call, || kernel().map(|value| (0, value)))?;
        Ok(value.unwrap_or(0))
    })
}
