//! Reading, writing, syncing.

use libc::{c_int, iovec};

use super::errno::Errno;
use super::identity::process;
use super::raw::syscall;

/// pread(2), or preadv(2) for several elements.
///
/// # Safety
/// The vector's elements are memory that may be written.
pub(crate) unsafe fn read_at(fd: c_int, vector: &[iovec], offset: u64) -> Result<usize, Errno> {
    match vector {
        // SAFETY: the caller's contract.
        [one] => unsafe { syscall!(libc::SYS_pread64, fd, one.iov_base, one.iov_len, offset) },
        // SAFETY: the caller's contract; the offset's high half is ignored on 64-bit machines.
        many => unsafe { syscall!(libc::SYS_preadv, fd, many.as_ptr(), many.len(), offset, 0) },
    }
}

/// pwrite(2), or pwritev(2) for several elements.
///
/// # Safety
/// The vector's elements are memory that may be read.
pub(crate) unsafe fn write_at(fd: c_int, vector: &[iovec], offset: u64) -> Result<usize, Errno> {
    match vector {
        // SAFETY: the caller's contract.
        [one] => unsafe { syscall!(libc::SYS_pwrite64, fd, one.iov_base, one.iov_len, offset) },
        // SAFETY: the caller's contract; the offset's high half is ignored on 64-bit machines.
        many => unsafe { syscall!(libc::SYS_pwritev, fd, many.as_ptr(), many.len(), offset, 0) },
    }
}

/// writev(2).
///
/// # Safety
/// The vector's elements are memory that may be read.
pub(crate) unsafe fn write(fd: c_int, vector: &[iovec]) -> Result<usize, Errno> {
    // SAFETY: the caller's contract.
    unsafe { syscall!(libc::SYS_writev, fd, vector.as_ptr(), vector.len()) }
}

/// pwritev2(2), for a descriptor or with flags that append.
///
/// # Safety
/// The vector's elements are memory that may be read.
pub(crate) unsafe fn append(fd: c_int, vector: &[iovec], place: i64, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: the caller's contract; the offset's high half is ignored on 64-bit machines.
    unsafe { syscall!(libc::SYS_pwritev2, fd, vector.as_ptr(), vector.len(), place, 0, flags) }
}

/// Reads into `buffer` at the descriptor's offset.
pub(crate) fn read(fd: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `buffer` is writable for its length.
    unsafe { syscall!(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) }
}

/// Copies the beginning of `from` into the elements of `to`, which the kernel checks. Returns how many bytes; fewer
/// than there is room for where an element's memory cannot be written.
///
/// # Safety
/// The elements are memory that may be written (or the kernel answers EFAULT), together no longer than `from`.
pub(crate) unsafe fn copy(from: &[u8], to: &[iovec]) -> Result<usize, Errno> {
    let local = iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: `local` is only read; the caller's contract.
    let copied =
        unsafe { syscall!(libc::SYS_process_vm_writev, process(), &raw const local, 1, to.as_ptr(), to.len(), 0) };
    if !matches!(copied, Err(libc::ENOSYS | libc::EPERM)) {
        return copied;
    }
    // A sandbox forbids that call.
    let mut done = 0;
    for element in to {
        let now = &from[done..done + element.iov_len];
        // SAFETY: the caller's contract; `now` is as long as the element.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), element.iov_base.cast(), now.len()) };
        done += now.len();
    }
    Ok(done)
}

/// fsync(2), or fdatasync(2) if `data_only`.
pub(crate) fn sync(fd: c_int, data_only: bool) -> Result<usize, Errno> {
    let number = if data_only { libc::SYS_fdatasync } else { libc::SYS_fsync };
    // SAFETY: no memory is involved.
    unsafe { syscall!(number, fd) }
}
