//! The file that a process records into: a header, then blocks, given out one by one at its end.
//!
//! Space is taken from the file system before a block is mapped, so that no store meets a full one. Where
//! there is none, one line on stderr says so, the program goes on, and the header counts the requests that
//! are missing.

use std::ffi::CString;
use std::fmt::Write;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use headstart_trace::block::BLOCK_BYTES;
use headstart_trace::header::{BLOCKS_OFFSET, HEADER_BYTES, HOST_BYTES_MAX, Header, UNRECORDED_OFFSET};

use crate::files::descriptors::own::{self, Own};
use crate::gate::RECORDING;
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::settings::settings;
use crate::{process, session};

/// No file yet.
const NONE: i32 = -1;
/// There was no space, or the file cannot be made: nothing more is recorded.
const FAILED: i32 = -2;

/// The descriptor, or one of the above.
static FILE: AtomicI32 = AtomicI32::new(NONE);
/// The header, mapped for as long as the process lives.
static HEADER: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// CLOCK_MONOTONIC and the time since 1970 when the process began to record, before its first request.
static BEGAN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Called once, before the first request.
pub(crate) fn start() {
    BEGAN[0].store(kernel::monotonic_ns(), Ordering::Relaxed);
    BEGAN[1].store(kernel::unix_ns(), Ordering::Relaxed);
}

/// A block that a stream may fill.
pub(crate) struct Block {
    /// Which of the file's.
    pub index: u32,
    /// Its [`BLOCK_BYTES`], zero.
    pub memory: *mut u8,
}

/// The next block; none if there is no space.
pub(crate) fn give_out() -> Option<Block> {
    let held = RECORDING.hold();
    let made = match FILE.load(Ordering::Relaxed) {
        FAILED => return None,
        NONE => create(),
        fd => Ok(fd),
    };
    let block = made.and_then(|fd| {
        FILE.store(fd, Ordering::Relaxed);
        extend(fd)
    });
    if block.is_err() {
        FILE.store(FAILED, Ordering::Relaxed);
    }
    drop(held);
    block.map_err(complain).ok()
}

/// Gives a block's memory back; what it holds is in the file.
pub(crate) fn unmap(memory: *mut u8) {
    // SAFETY: `map` made this mapping, and the stream it belonged to gives it up.
    let _ = unsafe { syscall!(libc::SYS_munmap, memory, BLOCK_BYTES) };
}

/// A request is missing.
pub(crate) fn count_unrecorded() {
    if let Some(counter) = counter(UNRECORDED_OFFSET) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// In a forked child: the parent's file is not the child's.
pub(crate) fn abandon() {
    let fd = FILE.swap(NONE, Ordering::Relaxed);
    HEADER.store(ptr::null_mut(), Ordering::Relaxed);
    if fd >= 0 {
        own::close_own(fd);
    }
}

fn counter(at: usize) -> Option<&'static AtomicU64> {
    let header = HEADER.load(Ordering::Acquire);
    // SAFETY: the header stays mapped, and its counters are aligned.
    (!header.is_null()).then(|| unsafe { &*header.add(at).cast::<AtomicU64>() })
}

fn complain(errno: Errno) {
    let what = match errno {
        libc::ENOSPC | libc::EDQUOT => "no space is left there",
        libc::EFBIG => "the limit on the size of files is reached",
        libc::EMFILE | libc::ENFILE => "there are too many open files",
        libc::EACCES | libc::EPERM | libc::EROFS => "it may not be written",
        libc::ENOENT => "it is gone",
        _ => "of an error",
    };
    let directory = settings().trace.as_deref().unwrap_or(b"").escape_ascii();
    session::complain(format_args!(
        "process {} records nothing more in {directory}, because {what} (error {errno}); the program goes on",
        process::number()
    ));
}

/// Takes space behind the last block.
fn extend(fd: i32) -> Result<Block, Errno> {
    let blocks = counter(BLOCKS_OFFSET).ok_or(libc::EIO)?;
    let index = u32::try_from(blocks.load(Ordering::Relaxed)).map_err(|_| libc::EFBIG)?;
    let offset = HEADER_BYTES as u64 + u64::from(index) * BLOCK_BYTES as u64;
    take_space(fd, offset, BLOCK_BYTES)?;
    let memory = map(fd, offset, BLOCK_BYTES)?;
    blocks.store(u64::from(index) + 1, Ordering::Relaxed);
    Ok(Block { index, memory })
}

fn create() -> Result<i32, Errno> {
    let directory = settings().trace.as_deref().ok_or(libc::ENOENT)?;
    let mut host = [0u8; HOST_BYTES_MAX + 1];
    // SAFETY: the buffer is writable for its length; its last byte stays zero.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), HOST_BYTES_MAX) };
    let host = host.split(|byte| *byte == 0).next().unwrap_or(b"");
    let (monotonic_ns, unix_ns) = (BEGAN[0].load(Ordering::Relaxed), BEGAN[1].load(Ordering::Relaxed));
    let mut path = directory.to_vec();
    path.push(b'/');
    path.extend(host.iter().map(|byte| if byte.is_ascii_alphanumeric() { *byte } else { b'-' }));
    let mut rest = String::new();
    let _ = write!(rest, ".{}.{:x}.hstrace", process::number(), kernel::monotonic_ns());
    path.extend_from_slice(rest.as_bytes());
    let path = CString::new(path).map_err(|_| libc::ENOENT)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let fd = own::make_own(kernel::openat(libc::AT_FDCWD, &path, flags, 0o600)?, Own::File)?;
    let mapped = take_space(fd, 0, HEADER_BYTES).and_then(|()| map(fd, 0, HEADER_BYTES));
    let memory = mapped.inspect_err(|_| own::close_own(fd))?;
    // SAFETY: the mapping is this long, and nobody else has it.
    let page = unsafe { std::slice::from_raw_parts_mut(memory, HEADER_BYTES) };
    let (rank, root) = (settings().rank, settings().slow.as_slice());
    let (process, has_flash) = (process::number(), !settings().runtime.is_empty());
    let header = Header {
        process,
        rank,
        monotonic_ns,
        unix_ns,
        boot_id: kernel::boot_id().unwrap_or_default(),
        has_flash,
        host,
        root,
    };
    header.encode(page);
    HEADER.store(memory, Ordering::Release);
    Ok(fd)
}

/// Makes the file long enough, with space behind every byte of it.
fn take_space(fd: i32, offset: u64, length: usize) -> Result<(), Errno> {
    // Beyond the limit the kernel would send a signal that ends the program.
    if offset + length as u64 > kernel::file_size_limit() {
        return Err(libc::EFBIG);
    }
    // SAFETY: no memory is involved.
    match unsafe { syscall!(libc::SYS_fallocate, fd, 0, offset, length) } {
        Err(libc::EOPNOTSUPP | libc::ENOSYS) => write_zeroes(fd, offset, length),
        result => result.map(drop),
    }
}

/// For file systems that cannot reserve.
fn write_zeroes(fd: i32, offset: u64, length: usize) -> Result<(), Errno> {
    static ZEROES: [u8; 4096] = [0; 4096];
    let mut done = 0;
    while done < length {
        let part =
            libc::iovec { iov_base: ZEROES.as_ptr().cast_mut().cast(), iov_len: ZEROES.len().min(length - done) };
        // SAFETY: the element is readable, and only read.
        match unsafe { kernel::write_at(fd, &[part], offset + done as u64) }? {
            0 => return Err(libc::ENOSPC),
            written => done += written,
        }
    }
    Ok(())
}

fn map(fd: i32, offset: u64, length: usize) -> Result<*mut u8, Errno> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe { syscall!(libc::SYS_mmap, 0, length, protection, flags, fd, offset) }.map(|address| address as *mut u8)
}
