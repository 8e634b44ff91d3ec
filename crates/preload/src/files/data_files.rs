//! The data files on flash that this process has open, by number; kept until the slow file they serve is closed, or the
//! program has no descriptor left for a thread's connection.

use std::ffi::CString;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use headstart_protocol::{FLASH_DIRECTORY, data_file_name};
use libc::c_int;

use crate::files::descriptors::own::{self, Own};
use crate::kernel::{self, Errno};
use crate::session::Session;
use crate::{process, session};

/// Data files that are kept open at most; further ones are opened for each use.
const KEPT_MAX: usize = 1024;
/// An entry someone is filling or emptying.
const TAKEN: u64 = u64::MAX;

/// `number << 32 | descriptor + 1`; zero: empty.
static KEPT: [AtomicU64; KEPT_MAX] = [const { AtomicU64::new(0) }; KEPT_MAX];
/// Index of the slow file each serves.
static SERVES: [AtomicU32; KEPT_MAX] = [const { AtomicU32::new(0) }; KEPT_MAX];
/// Entries at or above this index were never used.
static KEPT_USED: AtomicU32 = AtomicU32::new(0);

/// Runs `work` with a descriptor of data file `number`, which serves slow file `file`. The caller's request is
/// published, so that nobody closes the descriptor meanwhile.
pub(crate) fn with<R>(
    session: &mut Session,
    file: u32,
    number: u32,
    work: impl FnOnce(c_int) -> Result<R, Errno>,
) -> Result<R, Errno> {
    for cell in &KEPT[..KEPT_USED.load(Ordering::Acquire) as usize] {
        let entry = cell.load(Ordering::Acquire);
        if entry != 0 && entry != TAKEN && (entry >> 32) as u32 == number {
            return work(entry as u32 as c_int - 1);
        }
    }
    let fd = open(session, number)?;
    // The list is the parent's of a `vfork` child, the descriptor is not.
    let keeps = if process::is_own() { &KEPT[..kept_max()] } else { &[] };
    for (index, cell) in keeps.iter().enumerate() {
        if cell.load(Ordering::Relaxed) == 0
            && cell.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            SERVES[index].store(file, Ordering::Relaxed);
            cell.store(u64::from(number) << 32 | (fd as u64 + 1), Ordering::Release);
            KEPT_USED.fetch_max(index as u32 + 1, Ordering::AcqRel);
            return work(fd);
        }
    }
    let result = work(fd);
    own::close_own(fd);
    result
}

/// Closes the data files of a slow file that no request of this process uses any more.
pub(crate) fn forget(file: u32) {
    for index in 0..KEPT_USED.load(Ordering::Acquire) as usize {
        if let Some((fd, _)) = take_out(index, |_, serves| serves == file) {
            own::close_own(fd);
        }
    }
}

/// Closes a data file for who needs its descriptor more; whether there was one, and its number may be given
/// out. The caller has no request under way, not even one that it interrupted.
pub(crate) fn close_one() -> bool {
    let limit = kernel::descriptor_limit();
    let mut kept = 0..KEPT_USED.load(Ordering::Acquire) as usize;
    let Some((fd, file)) = kept.find_map(|index| take_out(index, |fd, _| (fd as u64) < limit)) else { return false };
    // A request that found it is seen to be published; one that is published later does not find it.
    fence(Ordering::SeqCst);
    session::wait_for_requests(file);
    own::close_own(fd);
    true
}

/// Takes a data file off the list if its descriptor and the slow file it serves are `wanted`; both of them.
fn take_out(index: usize, wanted: impl FnOnce(c_int, u32) -> bool) -> Option<(c_int, u32)> {
    let entry = KEPT[index].load(Ordering::Acquire);
    let (fd, file) = (entry as u32 as c_int - 1, SERVES[index].load(Ordering::Relaxed));
    let taken = entry != 0
        && entry != TAKEN
        && wanted(fd, file)
        && KEPT[index].compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    taken.then_some((fd, file))
}

/// Data files that are kept open now. The program counts on its descriptors: most of them stay its own.
fn kept_max() -> usize {
    KEPT_MAX.min(kernel::descriptor_limit() as usize / 8)
}

fn open(session: &mut Session, number: u32) -> Result<c_int, Errno> {
    let (fast, name) = (session::fast_directory(), data_file_name(number));
    let path = [fast, b"/", FLASH_DIRECTORY.as_bytes(), b"/", name.as_bytes()].concat();
    let path = CString::new(path).map_err(|_| libc::EINVAL)?;
    let fd = match kernel::openat(libc::AT_FDCWD, &path, libc::O_RDWR | libc::O_CLOEXEC, 0) {
        Ok(fd) => fd,
        Err(errno @ (libc::EMFILE | libc::ENFILE | libc::EINTR | libc::ENOMEM)) => return Err(errno),
        // It has become another user since, or has another root directory, other mounts or less rights.
        Err(_) => session.data_file(number)?,
    };
    own::make_own(fd, Own::File)
}
