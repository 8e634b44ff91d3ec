//! Changes of the slow file by calls that the library cannot make in pieces of its own, and what makes bytes count
//! on the disk: fsync, and write-back for a reader that the library does not see.

use headstart_protocol::call::Call;
use headstart_units::request::Range;

use super::caller::{Caller, change};
use crate::files::descriptors::Target;
use crate::kernel::{self, Errno};
use crate::session::{self, Session};
use crate::settings;

/// Makes the slow file hold what flash holds of `range`, for a reader that the library does not see.
pub fn write_back(target: &Target, range: Range) -> Result<(), Errno> {
    if !settings::served() {
        return Ok(());
    }
    session::with(|session| write_back_with(session, target, range))
}

pub(super) fn write_back_with(session: &mut Session, target: &Target, range: Range) -> Result<(), Errno> {
    let caller = Caller::without_buffers(session, Some(target));
    let call = Call::write_back(&caller, target.file, range);
    change(session, &caller, call, || Ok((0, ()))).map(drop)
}

/// Changes a file's size: the agent agrees first, `kernel` does it, the agent hears whether it happened.
pub fn truncate(
    session: &mut Session,
    file: u32,
    size: u64,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let caller = Caller::without_buffers(session, None);
    let value = change(session, &caller, Call::truncate(file, size), || kernel().map(|value| (0, value)))?;
    Ok(value.unwrap_or(0))
}

/// Has `kernel` move bytes that lie at `from` or behind it in the slow file: they are off flash before, and
/// none comes meanwhile. What becomes of the size only the kernel knows.
pub fn rearrange(target: &Target, from: u64, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    session::with(|session| {
        let caller = Caller::without_buffers(session, Some(target));
        // Whatever the call came to, the agent hears how long the file is.
        let rearrange = || {
            let result = kernel();
            Ok((kernel::facts(target.fd).map_or(from, |facts| facts.size), result))
        };
        change(session, &caller, Call::rearrange(target.file, from), rearrange)?.unwrap_or(Ok(0))
    })
}

/// The whole of a file.
pub const WHOLE: Range = Range { offset: 0, length: u64::MAX };

/// fsync: rule 11 of the protocol. `kernel` syncs the slow file.
pub fn sync(target: &Target, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    if !settings::served() {
        return kernel();
    }
    session::with(|session| {
        let caller = Caller::without_buffers(session, Some(target));
        let call = Call::sync(&caller, target.file);
        change(session, &caller, call, || kernel().map(|_| (0, ())))?;
        Ok(0)
    })
}

/// A fallocate that removes bytes of `range`: for the protocol a direct write.
pub fn punch(target: &Target, range: Range, kernel: impl FnOnce() -> Result<usize, Errno>) -> Result<usize, Errno> {
    directly(target, range, || kernel().map(|value| (range.length, value)))
}

/// A write by a call that the library cannot make in pieces of its own: `kernel` writes to the slow file from the
/// range's first byte on, and returns how many.
pub fn write_directly(
    target: &Target,
    range: Range,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    directly(target, range, || kernel().map(|written| (written as u64, written)))
}

fn directly(
    target: &Target,
    range: Range,
    kernel: impl FnOnce() -> Result<(u64, usize), Errno>,
) -> Result<usize, Errno> {
    session::with(|session| {
        let caller = Caller::without_buffers(session, Some(target));
        let call = Call::change(&caller, target.file, range);
        Ok(change(session, &caller, call, kernel)?.unwrap_or(0))
    })
}
