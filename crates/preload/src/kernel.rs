//! System calls as the library itself makes them: past every hook, and never a cancellation point.

mod allocator;
pub(crate) mod buffers;
pub(crate) mod raw;

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;

use libc::{c_char, c_int, c_long, c_void, iovec, mode_t};

use raw::syscall;

/// An error number; it reaches the program through [`answer`] alone.
pub(crate) type Errno = c_int;

/// The calling thread's errno.
pub(crate) fn errno() -> Errno {
    // SAFETY: glibc returns the address of the calling thread's errno, valid for the thread's life.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: Errno) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// What the program's call returns: the count, with errno as it was before (`saved`), or -1 and errno.
pub(crate) fn answer(result: Result<usize, Errno>, saved: Errno) -> isize {
    let (value, errno) = match result {
        Ok(count) => (count as isize, saved),
        Err(errno) => (-1, errno),
    };
    set_errno(errno);
    value
}

/// open(2) relative to `dir`.
pub(crate) fn openat(dir: c_int, path: &CStr, flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    // SAFETY: `path` ends with NUL.
    unsafe { openat_raw(dir, path.as_ptr(), flags, mode) }
}

/// open(2) of a path the program passed.
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn openat_raw(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Result<c_int, Errno> {
    // SAFETY: the kernel checks the address.
    unsafe { syscall!(libc::SYS_openat, dir, path, flags, mode) }.map(|fd| fd as c_int)
}

/// close(2).
pub(crate) fn close(fd: c_int) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_close, fd) }
}

/// close_range(2).
pub(crate) fn close_range(first: u32, last: u32, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_close_range, first, last, flags) }
}

/// fcntl(2) with an integer argument.
pub(crate) fn fcntl(fd: c_int, command: c_int, argument: c_long) -> Result<c_int, Errno> {
    // SAFETY: the commands used here take no pointer.
    unsafe { syscall!(libc::SYS_fcntl, fd, command, argument) }.map(|value| value as c_int)
}

/// lseek(2).
pub(crate) fn lseek(fd: c_int, offset: i64, whence: c_int) -> Result<u64, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_lseek, fd, offset, whence) }.map(|position| position as u64)
}

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

/// readlink(2); returns the part of `buffer` that holds the target.
pub(crate) fn readlink<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    // SAFETY: `path` ends with NUL, `buffer` is writable for its length.
    let result =
        unsafe { syscall!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    result.map(|length| &buffer[..length])
}

/// What the library wants to know of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Nanoseconds since 1970; zero where the file system keeps no birth time.
    pub birth_ns: u64,
    /// `st_size`.
    pub size: u64,
    /// `st_nlink`.
    pub links: u32,
    /// Whether it is a regular file.
    pub regular: bool,
    /// What it is: `S_IFMT` of its mode.
    pub kind: u32,
    /// Permissions, with the bits that change who a program runs as.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Number of the mount that it was reached by; zero where the kernel does not say.
    pub mount: u64,
}

/// statx(2) of a descriptor.
pub(crate) fn facts(fd: c_int) -> Result<Facts, Errno> {
    // SAFETY: the path is the empty string.
    unsafe { facts_at(fd, c"".as_ptr(), libc::AT_EMPTY_PATH) }
}

/// statx(2).
///
/// # Safety
/// `path` is a string, or the kernel answers EFAULT.
pub(crate) unsafe fn facts_at(dir: c_int, path: *const c_char, flags: c_int) -> Result<Facts, Errno> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
    // SAFETY: `found` is writable, and the kernel checks `path`.
    unsafe { syscall!(libc::SYS_statx, dir, path, flags, mask, found.as_mut_ptr()) }?;
    // SAFETY: it was zeroed, and every bit pattern is a valid `statx`.
    let found = unsafe { found.assume_init() };
    let born = found.stx_mask & libc::STATX_BTIME != 0;
    let birth_ns = (found.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(found.stx_btime.tv_nsec);
    Ok(Facts {
        device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        birth_ns: if born { birth_ns } else { 0 },
        size: found.stx_size,
        links: found.stx_nlink,
        regular: u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG,
        kind: u32::from(found.stx_mode) & libc::S_IFMT,
        mode: u32::from(found.stx_mode) & 0o7777,
        owner: (found.stx_uid, found.stx_gid),
        mount: if found.stx_mask & libc::STATX_MNT_ID != 0 { found.stx_mnt_id } else { 0 },
    })
}

/// What kind of file system a path is in, as statfs(2) numbers them.
pub(crate) fn file_system(path: &CStr) -> Result<i64, Errno> {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` ends with NUL, and `found` is writable.
    unsafe { syscall!(libc::SYS_statfs, path.as_ptr(), found.as_mut_ptr()) }?;
    // SAFETY: it was zeroed, and every bit pattern is a valid `statfs`.
    Ok(unsafe { found.assume_init() }.f_type)
}

/// ftruncate(2).
pub(crate) fn ftruncate(fd: c_int, size: u64) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall!(libc::SYS_ftruncate, fd, size) }
}

/// truncate(2).
pub(crate) fn truncate(path: &CStr, size: u64) -> Result<usize, Errno> {
    // SAFETY: `path` ends with NUL.
    unsafe { syscall!(libc::SYS_truncate, path.as_ptr(), size) }
}

/// fsync(2), or fdatasync(2) if `data_only`.
pub(crate) fn sync(fd: c_int, data_only: bool) -> Result<usize, Errno> {
    let number = if data_only { libc::SYS_fdatasync } else { libc::SYS_fsync };
    // SAFETY: no memory is involved.
    unsafe { syscall!(number, fd) }
}

/// send(2) without SIGPIPE.
pub(crate) fn send(socket: c_int, packet: &[u8]) -> Result<usize, Errno> {
    let none = std::ptr::null::<libc::sockaddr>();
    // SAFETY: `packet` is readable for its length; no address is given.
    unsafe { syscall!(libc::SYS_sendto, socket, packet.as_ptr(), packet.len(), libc::MSG_NOSIGNAL, none, 0) }
}

/// sendmsg(2) of a packet and a descriptor with it, without SIGPIPE.
pub(crate) fn send_with(socket: c_int, packet: &[u8], fd: c_int) -> Result<usize, Errno> {
    let mut part = iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let mut control = Control::default();
    let mut message = control.message(&mut part);
    // SAFETY: the control buffer has room for one header and one descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        syscall!(libc::SYS_sendmsg, socket, &raw mut message, libc::MSG_NOSIGNAL)
    }
}

/// recvmsg(2) of a packet and the descriptor that may come with it.
pub(crate) fn receive_with(socket: c_int, buffer: &mut [u8]) -> Result<(usize, Option<c_int>), Errno> {
    let mut part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control::default();
    let mut message = control.message(&mut part);
    // SAFETY: everything that the message names is writable and lives.
    let length = unsafe { syscall!(libc::SYS_recvmsg, socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) }?;
    // SAFETY: the kernel filled the buffer, which has room for one descriptor.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        let came =
            !header.is_null() && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        came.then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())
    };
    Ok((length, fd))
}

/// Room for one descriptor beside a packet: a header of 16 bytes and what is behind it.
#[repr(C, align(8))]
#[derive(Default)]
struct Control([u8; 24]);

impl Control {
    fn message(&mut self, part: &mut iovec) -> libc::msghdr {
        // SAFETY: a message of zeroes is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (part, 1);
        (message.msg_control, message.msg_controllen) = (self.0.as_mut_ptr().cast(), self.0.len());
        message
    }
}

/// Two sockets for packets, connected to each other.
pub(crate) fn socket_pair() -> Result<[c_int; 2], Errno> {
    let mut pair = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `pair` has room for two numbers.
    unsafe { syscall!(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }.map(|_| pair)
}

/// recv(2).
pub(crate) fn receive(socket: c_int, buffer: &mut [u8]) -> Result<usize, Errno> {
    let none = std::ptr::null_mut::<libc::sockaddr>();
    // SAFETY: `buffer` is writable for its length; no address is asked for.
    unsafe { syscall!(libc::SYS_recvfrom, socket, buffer.as_mut_ptr(), buffer.len(), 0, none, none) }
}

/// getpid(2), never cached.
pub(crate) fn process() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getpid) }.unwrap_or(0) as u32
}

/// gettid(2).
pub(crate) fn thread() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_gettid) }.unwrap_or(0) as u32
}

/// getuid(2).
pub(crate) fn real_user() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getuid) }.unwrap_or(0) as u32
}

/// getgid(2).
pub(crate) fn real_group() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { syscall!(libc::SYS_getgid) }.unwrap_or(0) as u32
}

/// Waits until `word` is woken, if it still holds `value`; at most `milliseconds`, if that is given.
pub(crate) fn wait(word: &AtomicU32, value: u32, milliseconds: Option<u64>) -> Result<(), Errno> {
    let time =
        milliseconds.map(|ms| libc::timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
    let time = time.as_ref().map_or(std::ptr::null(), |time| &raw const *time);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is ours, the time is readable or null.
    unsafe { syscall!(libc::SYS_futex, word.as_ptr(), operation, value, time) }.map(drop)
}

/// Wakes at most `count` waiters of `word`.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    wake_address(word.as_ptr(), count);
}

/// The same by the word's address, where the word itself may be gone.
pub(crate) fn wake_address(word: *const u32, count: u32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel does not touch the word.
    let _ = unsafe { syscall!(libc::SYS_futex, word, operation, count) };
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// From here on this thread is not cancelled; returns what it was before, for [`restore_cancellation`].
pub(crate) fn forbid_cancellation() -> c_int {
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: `before` is writable.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut before) };
    before
}

/// Whether this thread can be cancelled is as it was before [`forbid_cancellation`].
pub(crate) fn restore_cancellation(before: c_int) {
    // SAFETY: no old state is asked for.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
}

/// Runs a call of libc's that is a cancellation point while something is held or published: the thread ends at the next
/// one.
pub(crate) fn uncancelled<R>(work: impl FnOnce() -> R) -> R {
    let before = forbid_cancellation();
    let result = work();
    restore_cancellation(before);
    result
}

/// Sleeps; a signal may cut it short.
pub(crate) fn sleep_ms(milliseconds: u64) {
    let time =
        libc::timespec { tv_sec: (milliseconds / 1000) as i64, tv_nsec: (milliseconds % 1000 * 1_000_000) as i64 };
    let rest = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: `time` is readable; the rest is not asked for.
    let _ = unsafe { syscall!(libc::SYS_nanosleep, &raw const time, rest) };
}

/// CLOCK_MONOTONIC in milliseconds.
pub(crate) fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// CLOCK_MONOTONIC in nanoseconds, without a system call.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

/// Waits until a descriptor can be read from, or its other end is closed.
pub(crate) fn wait_readable(fd: c_int) -> Result<(), Errno> {
    let mut waited = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let none = std::ptr::null::<c_void>();
    // SAFETY: `waited` is one element; neither a time nor a mask is given.
    unsafe { syscall!(libc::SYS_ppoll, &raw mut waited, 1, none, none, 0) }.map(drop)
}

/// Whether a connection's other end is gone.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    let (mut looked, at_once) = (libc::pollfd { fd, events: 0, revents: 0 }, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: `looked` is one element, the time is readable.
    let found = unsafe { syscall!(libc::SYS_ppoll, &raw mut looked, 1, &raw const at_once, 0, 0) };
    found.is_err() || looked.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// The soft limit on the size of files this process writes.
pub(crate) fn file_size_limit() -> u64 {
    limit(libc::RLIMIT_FSIZE).unwrap_or(libc::RLIM_INFINITY)
}

/// The soft limit on descriptor numbers.
pub(crate) fn descriptor_limit() -> u64 {
    limit(libc::RLIMIT_NOFILE).unwrap_or(1024)
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}
