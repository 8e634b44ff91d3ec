//! Files whose path is longer than the kernel can tell. Nobody knows where they lie, so they are used without
//! flash; one that the agent knows by an earlier path is refused, as flash may hold newer bytes than the slow
//! file.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use headstart_protocol::shared::FileEntry;

use crate::kernel::{self, Errno, Facts};
use crate::{session, settings};

/// A file whose path is too long for the kernel to tell. Where it lies nobody knows, so that it is used without flash;
/// one that the agent knows by a path it had before is refused, as flash may hold newer bytes than the slow file.
#[cold]
pub(crate) fn untold(facts: &Facts) -> Result<(), Errno> {
    if !settings::served() {
        return Ok(());
    }
    let slow = CString::new(settings::settings().slow.as_slice()).map_err(|_| libc::EIO)?;
    // SAFETY: the path is a string.
    let device = unsafe { kernel::facts_at(libc::AT_FDCWD, slow.as_ptr(), 0) }.map(|facts| facts.device);
    if device != Ok(facts.device) || session::with(|_| Ok(())) == Err(libc::ENOTCONN) {
        return Ok(());
    }
    let shared = session::shared().ok_or(libc::EIO)?;
    let of_this = |entry: &&FileEntry| entry.inode.load(Ordering::Relaxed) == facts.inode;
    if shared.files.iter().filter(|entry| entry.used.load(Ordering::Acquire) != 0).any(|entry| of_this(&entry)) {
        session::complain(format_args!(
            "a file with bytes on flash (inode {}) has a path of more than 4095 bytes by now; make it shorter to use \
             it",
            facts.inode
        ));
        return Err(libc::ENAMETOOLONG);
    }
    session::complain(format_args!(
        "a file (inode {}) whose path has more than 4095 bytes is used without flash; while it is open, nobody must \
         rename a directory above it",
        facts.inode
    ));
    Ok(())
}
