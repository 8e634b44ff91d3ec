//! Calls by which the kernel moves bytes without the library seeing them: mmap, sendfile, copy_file_range, splice,
//! clones.
//!
//! A managed source is written back first. A managed destination is refused with the error on which `cp`, `cat` and
//! libraries fall back to reading and writing. A mapping is seen by nobody for as long as it stands: nothing of its file
//! comes to flash until the process ends.

use std::ffi::c_void;

use libc::{c_int, c_ulong};

use crate::data_path::{WHOLE, write_back};
use crate::descriptors;
use crate::kernel::{self, Errno};
use crate::{files, recording, settings};

/// `FIEMAP`: asks where bytes lie on the slow disk.
const FS_IOC_FIEMAP: c_ulong = 0xc020_660b;
/// What fallocate was called before: space is allocated, removed, or made zeros.
const FS_IOC_RESVSP: c_ulong = 0x4030_5828;
const FS_IOC_UNRESVSP: c_ulong = 0x4030_5829;
const FS_IOC_RESVSP64: c_ulong = 0x4030_582a;
const FS_IOC_UNRESVSP64: c_ulong = 0x4030_582b;
const FS_IOC_ZERO_RANGE: c_ulong = 0x4030_5839;

/// Makes the slow file whole, if the descriptor is managed, and keeps others from replacing that until the program's call has ended.
pub fn brought_back<R>(fd: c_int, pass: impl Fn() -> R) -> Result<R, Errno> {
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
pub fn mmap(flags: c_int, fd: c_int, pass: impl Fn() -> *mut c_void) -> *mut c_void {
    if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 {
        return pass();
    }
    let saved = kernel::errno();
    // What is mapped for reading can be made writable later.
    let writes = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let mapped = descriptors::on_managed(fd, |target| {
        target.hold()?;
        files::bypass(target, writes && target.writable())?;
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

/// `sendfile`, `copy_file_range`, `splice`: `refusal` is what makes callers fall back. Without an agent nothing is refused.
pub fn copy(from: c_int, to: c_int, refusal: Errno, pass: impl Fn() -> isize) -> isize {
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

/// `ioctl`: clones, maps of where bytes lie, and allocation.
///
/// # Safety
/// The arguments are those of ioctl(2).
#[inline]
pub unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void, pass: impl Fn() -> c_int) -> c_int {
    let source = match request {
        libc::FICLONE => argument as usize as c_int,
        // SAFETY: the caller's contract: a `file_clone_range`, whose first field is the source, a signed 64-bit
        // integer. The kernel does not care how it is aligned.
        libc::FICLONERANGE if !argument.is_null() => unsafe { argument.cast::<i64>().read_unaligned() as c_int },
        FS_IOC_FIEMAP => {
            let saved = kernel::errno();
            return brought_back(fd, pass).unwrap_or_else(|errno| kernel::answer(Err(errno), saved) as c_int);
        }
        FS_IOC_RESVSP | FS_IOC_UNRESVSP | FS_IOC_RESVSP64 | FS_IOC_UNRESVSP64 | FS_IOC_ZERO_RANGE => {
            return refused(fd, pass);
        }
        _ => return pass(),
    };
    copy(source, fd, libc::EOPNOTSUPP, || pass() as isize) as c_int
}

/// What programs fall back from to fallocate or to writing; passed on where it is no managed file.
fn refused(fd: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let managed = if settings::served() { descriptors::managed(fd) } else { Ok(None) };
    kernel::set_errno(saved);
    match managed {
        Ok(None) => pass(),
        Ok(Some(_)) => kernel::answer(Err(libc::EOPNOTSUPP), saved) as c_int,
        Err(errno) => kernel::answer(Err(errno), saved) as c_int,
    }
}
