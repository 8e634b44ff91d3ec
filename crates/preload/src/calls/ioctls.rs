//! What ioctl does to bytes of files: clones, exchanges, maps of where they lie, allocation, and files that
//! become disks.
//!
//! A clone into a managed file is made while no byte of the file comes to flash. File systems without clones
//! refuse at once, with the error on which `cp` and libraries fall back to reading and writing. Where the kernel
//! goes on using a file by itself (a loop device), or changes two at a time (an exchange), the file bypasses
//! flash until the process ends.
//!
//! Before a file is made immutable or append-only the agent writes its bytes back: a later write-back would be
//! refused, as would one of bytes written through a descriptor that is open already.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use libc::{c_int, c_ulong};

use crate::calls::resizing;
use crate::calls::transfers::{brought_back, copy};
use crate::data_path;
use crate::files::bypass;
use crate::files::descriptors;
use crate::files::opening;
use crate::files::write_back;
use crate::kernel;
use crate::kernel::raw::syscall;
use crate::settings;

/// `FIEMAP`: asks where bytes lie on the slow disk.
const FS_IOC_FIEMAP: c_ulong = 0xc020_660b;
/// What fallocate was called before: space is allocated, removed, or made zeros.
const FS_IOC_RESVSP: c_ulong = 0x4030_5828;
const FS_IOC_UNRESVSP: c_ulong = 0x4030_5829;
const FS_IOC_RESVSP64: c_ulong = 0x4030_582a;
const FS_IOC_UNRESVSP64: c_ulong = 0x4030_582b;
const FS_IOC_ZERO_RANGE: c_ulong = 0x4030_5839;
/// The same of XFS before, which may change the size as well.
const XFS_IOC_ALLOCSP: [c_ulong; 4] = [0x4030_580a, 0x4030_580b, 0x4030_5824, 0x4030_5825];
/// Exchanges of bytes or extents between two files, and where in the argument the descriptors are: a number
/// of 32 or of 64 bits.
const EXT4_IOC_MOVE_EXT: c_ulong = 0xc028_660f;
const XFS_IOC_SWAPEXT: c_ulong = 0xc0c0_586d;
const XFS_IOC_EXCHANGE_RANGE: c_ulong = 0x4028_5881;
const XFS_IOC_COMMIT_RANGE: c_ulong = 0x4058_5883;

/// File systems that share blocks between files: Btrfs, XFS, OCFS2, bcachefs, ZFS, overlay, NFS, CIFS, SMB2
/// (linux/magic.h).
const SHARING: [u64; 9] =
    [0x9123_683e, 0x5846_5342, 0x7461_636f, 0xca45_1a4e, 0x2fc1_2fc1, 0x794c_7630, 0x6969, 0xff53_4d42, 0xfe53_4d42];

/// Sets flags of a file: `chattr`; the same by XFS's call, with quotas and more; fs-verity.
const FS_IOC_SETFLAGS: c_ulong = 0x4008_6602;
const FS_IOC_SETFLAGS_32: c_ulong = 0x4004_6602;
const FS_IOC_FSSETXATTR: c_ulong = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: c_ulong = 0x4080_6685;

/// A file is to be seen as a disk, by its descriptor: as the argument itself, or first in it (linux/loop.h).
const LOOP_SET_FD: c_ulong = 0x4c00;
const LOOP_CHANGE_FD: c_ulong = 0x4c06;
const LOOP_CONFIGURE: c_ulong = 0x4c0a;

/// `ioctl`: clones, exchanges, maps of where bytes lie, allocation, flags, and files as disks.
///
/// # Safety
/// The arguments are those of ioctl(2).
#[inline]
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void, pass: impl Fn() -> c_int) -> c_int {
    // SAFETY: the caller's contract: a structure that has a descriptor there. The kernel does not care how it
    // is aligned.
    let number = |at: usize| unsafe { argument.byte_add(at).cast::<c_int>().read_unaligned() };
    match request {
        libc::FICLONE => clone(argument as usize as c_int, fd, 0, pass),
        // The source, a signed 64-bit integer, and behind two others where it goes.
        libc::FICLONERANGE if !argument.is_null() => {
            // SAFETY: as above.
            let to = unsafe { argument.byte_add(24).cast::<u64>().read_unaligned() };
            clone(number(0), fd, to, pass)
        }
        FS_IOC_FIEMAP => {
            let saved = kernel::errno();
            brought_back(fd, pass).unwrap_or_else(|errno| kernel::answer(Err(errno), saved) as c_int)
        }
        FS_IOC_RESVSP | FS_IOC_UNRESVSP | FS_IOC_RESVSP64 | FS_IOC_UNRESVSP64 | FS_IOC_ZERO_RANGE
            if !argument.is_null() =>
        {
            // SAFETY: the caller's contract.
            unsafe { reserve(fd, request, argument, pass) }
        }
        FS_IOC_SETFLAGS | FS_IOC_SETFLAGS_32 | FS_IOC_FSSETXATTR | FS_IOC_ENABLE_VERITY => {
            sealed(fd, request == FS_IOC_ENABLE_VERITY, pass)
        }
        EXT4_IOC_MOVE_EXT if !argument.is_null() => unseen(&[fd, number(4)], pass),
        XFS_IOC_SWAPEXT if !argument.is_null() => unseen(&[fd, number(8), number(16)], pass),
        XFS_IOC_EXCHANGE_RANGE | XFS_IOC_COMMIT_RANGE if !argument.is_null() => unseen(&[fd, number(0)], pass),
        LOOP_SET_FD | LOOP_CHANGE_FD => unseen(&[argument as usize as c_int], pass),
        LOOP_CONFIGURE if !argument.is_null() => unseen(&[number(0)], pass),
        request if XFS_IOC_ALLOCSP.contains(&request) => unseen(&[fd], pass),
        _ => pass(),
    }
}

/// A clone of a file or a part of it, over bytes at `at` or behind it.
fn clone(from: c_int, to: c_int, at: u64, pass: impl Fn() -> c_int) -> c_int {
    let saved = kernel::errno();
    let managed = if settings::served() { descriptors::managed(to) } else { Ok(None) };
    let cloned = match managed {
        Ok(None) => return copy(from, to, libc::EOPNOTSUPP, || pass() as isize) as c_int,
        Ok(Some(_)) if !shares_blocks(to) => Err(libc::EOPNOTSUPP),
        // First what the source has on flash: the thread has one lease at a time.
        Ok(Some(_)) => brought_back(from, || ()).and_then(|()| {
            let rearranged = |target: &descriptors::Target| {
                target.hold()?;
                data_path::rearrange(target, at, || resizing::outcome(kernel::uncancelled(&pass)))
            };
            descriptors::on_managed(to, rearranged).and_then(|cloned| cloned.ok_or(libc::EBADF))
        }),
        Err(errno) => Err(errno),
    };
    kernel::answer(cloned, saved) as c_int
}

/// Whether the file system has clones at all: elsewhere no byte has to be written back to hear that it has none.
fn shares_blocks(fd: c_int) -> bool {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: there is room for what is found.
    let known = unsafe { syscall!(libc::SYS_fstatfs, fd, found.as_mut_ptr()) }.is_ok();
    // SAFETY: all zeroes, or what was found.
    known && SHARING.contains(&(unsafe { found.assume_init() }.f_type as u64 & 0xffff_ffff))
}

/// What ioctl had before there was fallocate: the kernel takes it for that.
///
/// # Safety
/// `argument` is a `space_resv`.
unsafe fn reserve(fd: c_int, request: c_ulong, argument: *const c_void, pass: impl Fn() -> c_int) -> c_int {
    if !settings::served() {
        return pass();
    }
    let mode = match request {
        FS_IOC_UNRESVSP | FS_IOC_UNRESVSP64 => libc::FALLOC_FL_PUNCH_HOLE,
        FS_IOC_ZERO_RANGE => libc::FALLOC_FL_ZERO_RANGE,
        _ => 0,
    };
    // SAFETY: the caller's contract.
    let (whence, start, length) = unsafe {
        let number = |at: usize| argument.byte_add(at).cast::<i64>().read_unaligned();
        (argument.byte_add(2).cast::<i16>().read_unaligned(), number(8), number(16))
    };
    let base = match c_int::from(whence) {
        libc::SEEK_CUR => kernel::lseek(fd, 0, libc::SEEK_CUR).unwrap_or(0),
        libc::SEEK_END => kernel::facts(fd).map_or(0, |facts| facts.size),
        _ => 0,
    };
    let offset = start.saturating_add(base as i64);
    resizing::fallocate(fd, mode | libc::FALLOC_FL_KEEP_SIZE, offset, length, pass)
}

/// The kernel changes files as only it knows: they bypass flash from here on.
fn unseen(fds: &[c_int], pass: impl FnOnce() -> c_int) -> c_int {
    let saved = kernel::errno();
    let told = fds.iter().try_for_each(|&fd| opening::bypass(fd, true));
    kernel::set_errno(told.err().unwrap_or(saved));
    if told.is_ok() { pass() } else { -1 }
}

/// A call after which the slow file may refuse to be written: everything goes back before, with the time of
/// last write, and nothing comes to flash until this process has ended and the file is opened for writing
/// anew. `unwritten`: the kernel asks that nobody has it open for writing.
fn sealed(fd: c_int, unwritten: bool, pass: impl Fn() -> c_int) -> c_int {
    let saved = kernel::errno();
    let result = descriptors::on_managed(fd, |target| {
        target.hold()?;
        bypass::bypass(target, true)?;
        if unwritten && settings::served() {
            write_back::write_back_open(target)?;
        }
        kernel::set_errno(saved);
        let result = pass();
        let errno = kernel::errno();
        if result == 0 {
            bypass::tell_sealed(target.file)?;
        }
        kernel::set_errno(errno);
        Ok(result)
    });
    match result {
        Ok(Some(result)) => result,
        Ok(None) => {
            kernel::set_errno(saved);
            pass()
        }
        Err(errno) => kernel::answer(Err(errno), saved) as c_int,
    }
}
