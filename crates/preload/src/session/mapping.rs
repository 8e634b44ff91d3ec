//! The shared file, mapped once in a process and kept for its life.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use headstart_protocol::shared::{MAGIC, Region, Shared};
use headstart_protocol::{PROTOCOL_VERSION, SHARED_FILE};

use super::door;
use crate::kernel::raw::syscall;
use crate::kernel::{self, Errno};
use crate::settings::runtime_path;

static REGION: AtomicPtr<Region> = AtomicPtr::new(ptr::null_mut());
/// Inode of the mapped file. An agent that made another file does not know what this process published.
static INODE: AtomicU64 = AtomicU64::new(0);

/// The shared file's parts, once a session has begun.
#[inline]
pub(crate) fn shared() -> Option<Shared<'static>> {
    region().map(Region::view)
}

/// The same as it lies in memory.
#[inline]
pub(crate) fn region() -> Option<&'static Region> {
    // SAFETY: the pointer is null or that of a mapping of `Region::BYTES` bytes that is never removed; every field is
    // an atomic.
    unsafe { REGION.load(Ordering::Acquire).as_ref() }
}

/// Maps the shared file, or finds that the mapped one is still the agent's. Where this process cannot reach it
/// by its path, `by_agent` gets a descriptor of it. A process that connected through the door has reached the
/// agent that owns the mapped file.
pub(crate) fn map(by_agent: impl FnOnce() -> Result<i32, Errno>) -> Result<Shared<'static>, Errno> {
    let path = runtime_path(SHARED_FILE)?;
    if let Some(shared) = shared() {
        // SAFETY: a string.
        let facts = match unsafe { kernel::facts_at(libc::AT_FDCWD, path.as_ptr(), 0) } {
            Err(_) if door::is_there() => return Ok(shared),
            found => found?,
        };
        return if INODE.load(Ordering::Acquire) == facts.inode { Ok(shared) } else { Err(libc::ESTALE) };
    }
    let opened = kernel::openat(libc::AT_FDCWD, &path, libc::O_RDWR | libc::O_CLOEXEC, 0);
    let fd = match opened {
        Err(libc::EACCES | libc::EPERM | libc::ENOENT | libc::ENOTDIR | libc::EROFS) => by_agent()?,
        opened => opened?,
    };
    let result = map_descriptor(fd);
    let _ = kernel::close(fd);
    result
}

fn map_descriptor(fd: i32) -> Result<Shared<'static>, Errno> {
    let facts = kernel::facts(fd)?;
    if facts.size < Region::BYTES as u64 {
        return Err(libc::EPROTO);
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; a system call, so that no hook is entered.
    let address = unsafe { syscall!(libc::SYS_mmap, 0, Region::BYTES, protection, libc::MAP_SHARED, fd, 0) }?;
    let region = address as *mut Region;
    // SAFETY: the mapping has `Region::BYTES` bytes, is page-aligned, and is never removed while someone uses it.
    let header = unsafe { &*region }.view().header;
    let ready = header.magic.load(Ordering::Acquire) == MAGIC
        && header.version.load(Ordering::Relaxed) == u64::from(PROTOCOL_VERSION);
    INODE.store(facts.inode, Ordering::Release);
    let lost = !ready || REGION.compare_exchange(ptr::null_mut(), region, Ordering::AcqRel, Ordering::Acquire).is_err();
    if lost {
        // SAFETY: this mapping was not published, so that nobody else uses it.
        let _ = unsafe { syscall!(libc::SYS_munmap, region, Region::BYTES) };
    }
    shared().ok_or(libc::EPROTO)
}
