//! Files that this process uses by means the library does not see (stdio, mmap, io_uring): the agent writes back
//! what flash holds, and puts nothing of them on flash until the process ends.

use headstart_protocol::message::Request;

use crate::files::descriptors::{self, Target};
use crate::files::records::{BYPASS_READS, BYPASS_WRITES, tell_bypass, used};
use crate::kernel::Errno;
use crate::session::{self, Answer};
use crate::{recording, settings};

/// From now on, and until it ends, this process reads the file by means the library does not see, or writes it: what
/// flash holds goes back first, and nothing comes to flash meanwhile.
pub(crate) fn bypass(target: &Target, writes: bool) -> Result<(), Errno> {
    recording::unseen(target);
    let wanted = if writes { BYPASS_WRITES } else { BYPASS_READS };
    if target.record.bypass() < wanted {
        tell_bypass(target.file, wanted)?;
        target.record.raise_bypass(wanted);
    }
    Ok(())
}

/// From now on this process uses whatever it has open by means the library does not see; whether there is any.
pub(crate) fn bypass_all() -> Result<bool, Errno> {
    let mut any = false;
    for (index, record) in used().iter().enumerate() {
        if !record.is_open() {
            continue;
        }
        let Some(fd) = descriptors::any_of(index as u32) else { continue };
        if let Some(target) = descriptors::managed(fd)? {
            bypass(&target, record.may_write())?;
            any = true;
        }
    }
    Ok(any)
}

/// The slow file may refuse to be written from now on.
pub(crate) fn tell_sealed(file: u32) -> Result<(), Errno> {
    if !settings::served() {
        return Ok(());
    }
    session::with(|session| match session.call(&Request::Sealed { file })? {
        Answer::Done => Ok(()),
        other => Err(session.unexpected(other)),
    })
}
