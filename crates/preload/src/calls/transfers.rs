//! Calls by which the kernel moves bytes without the library seeing them: mmap, and copies from a managed
//! file (those to one are in [`crate::calls::copying`]; what ioctl does in [`crate::calls::ioctls`]).
//!
//! A managed source is written back first. A mapping is seen by nobody for as long as it stands: nothing of its file
//! comes to flash until the process ends.

use std::ffi::c_void;

use libc::{c_int, off64_t};

use crate::calls::rings;
use crate::data_path::{WHOLE, write_back};
use crate::files::bypass;
use crate::files::descriptors;
use crate::kernel::{self, Errno};
use crate::{recording, settings};

/// Makes the slow file whole, if the descriptor is managed, and keeps others from replacing that until the
/// program's call has ended.
pub(crate) fn brought_back<R>(fd: c_int, pass: impl Fn() -> R) -> Result<R, Errno> {
    let saved = kernel::errno();
    let passed = descriptors::on_managed(fd, |target| {
        target.hold()?;
        write_back(target, WHOLE)?;
        kernel::set_errno(saved);
        Ok(pass())
    });
    passed.map(|passed| {
        passed.unwrap_or_else(|| {
            kernel::set_errno(saved);
            pass()
        })
    })
}

/// `mmap`.
#[inline]
pub(crate) fn mmap(flags: c_int, fd: c_int, offset: off64_t, pass: impl Fn() -> *mut c_void) -> *mut c_void {
    if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 {
        return pass();
    }
    if offset == rings::REQUESTS_AT
        && let Err(errno) = rings::mapped(fd)
    {
        kernel::set_errno(errno);
        return libc::MAP_FAILED;
    }
    let saved = kernel::errno();
    // What is mapped for reading can be made writable later.
    let writes = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let mapped = descriptors::on_managed(fd, |target| {
        target.hold()?;
        bypass::bypass(target, writes && target.writable())?;
        kernel::set_errno(saved);
        Ok(pass())
    });
    match mapped {
        Ok(Some(mapped)) => mapped,
        Ok(None) => {
            kernel::set_errno(saved);
            pass()
        }
        Err(errno) => {
            kernel::set_errno(errno);
            libc::MAP_FAILED
        }
    }
}

/// `sendfile`, `copy_file_range`, `splice` to what is not managed, or without an agent, and clones: `refusal`
/// is what makes callers fall back.
pub(crate) fn copy(from: c_int, to: c_int, refusal: Errno, pass: impl Fn() -> isize) -> isize {
    let saved = kernel::errno();
    if !settings::served() {
        [from, to]
            .into_iter()
            .filter_map(|fd| descriptors::managed(fd).ok()?)
            .for_each(|target| recording::unseen(&target));
        kernel::set_errno(saved);
        return pass();
    }
    let copied = match descriptors::managed(to) {
        Ok(Some(_)) => Err(refusal),
        Ok(None) if !descriptors::known_unmanaged(from) && is_regular(to) => brought_back(from, pass),
        // The call may wait for whoever reads a pipe or a socket: nobody who replaces the source waits for that.
        Ok(None) => brought_back(from, || ()).map(|()| {
            kernel::set_errno(saved);
            pass()
        }),
        Err(errno) => Err(errno),
    };
    copied.unwrap_or_else(|errno| kernel::answer(Err(errno), saved))
}

fn is_regular(fd: c_int) -> bool {
    kernel::facts(fd).is_ok_and(|facts| facts.regular)
}
