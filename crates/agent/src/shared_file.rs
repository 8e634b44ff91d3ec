//! The shared file: created by the agent, mapped by everybody.

use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_core::protocol::shared::{MAGIC, Region, Shared};
use headstart_core::protocol::{PROTOCOL_VERSION, SHARED_FILE};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};

use crate::error::{Error, Result};
use crate::runtime_directory::{is_zombie, start_time};

/// The mapping, and the lock that makes this process the agent; the kernel frees it when the last thread is gone.
pub struct SharedFile {
    region: &'static Region,
    _lock: Flock<File>,
}

impl SharedFile {
    /// Takes the lock, makes sure that no process of an earlier agent lives, and starts from an empty file.
    pub fn create(runtime: &Path, boot_id: [u8; 16], epoch: u64) -> Result<SharedFile> {
        let lock_path = runtime.join("lock");
        let open = |path: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(|error| Error::file("open", path, error))
        };
        let lock = Flock::lock(open(&lock_path)?, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Error::AlreadyServed { path: runtime.to_path_buf() })?;
        let path = runtime.join(SHARED_FILE);
        refuse_living_ranks(&path, runtime)?;
        // A new inode: whoever still maps the old one must not see this agent's bits.
        let fresh = runtime.join("shared.new");
        let _ = std::fs::remove_file(&fresh);
        let file = open(&fresh)?;
        file.set_len(Region::BYTES as u64).map_err(|error| Error::file("size", &fresh, error))?;
        let region = map(&file).map_err(|error| Error::file("map", &fresh, error))?;
        let header = region.view().header;
        for (word, bytes) in header.boot_id.iter().zip(boot_id.chunks(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
        header.version.store(PROTOCOL_VERSION.into(), Ordering::Relaxed);
        header.epoch.store(epoch, Ordering::Relaxed);
        let pid = std::process::id();
        header.agent_pid.store(pid.into(), Ordering::Relaxed);
        header.agent_start.store(start_time(pid).unwrap_or(0), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        std::fs::rename(&fresh, &path).map_err(|error| Error::file("rename", &fresh, error))?;
        Ok(SharedFile { region, _lock: lock })
    }

    /// The parts.
    pub fn view(&self) -> Shared<'static> {
        self.region.view()
    }
}

fn refuse_living_ranks(path: &Path, runtime: &Path) -> Result<()> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(()) };
    if file.metadata().map(|found| found.len()).unwrap_or(0) != Region::BYTES as u64 {
        return Ok(());
    }
    let old = map(&file).map_err(|error| Error::file("map", path, error))?.view();
    for slot in old.used_slots() {
        let pid = slot.owner_pid.load(Ordering::Relaxed);
        if pid != 0 && start_time(pid) == Some(slot.owner_start.load(Ordering::Relaxed)) && !is_zombie(pid) {
            return Err(Error::LivingRank { pid, path: runtime.to_path_buf() });
        }
    }
    Ok(())
}

fn map(file: &File) -> std::io::Result<&'static Region> {
    let length = NonZeroUsize::new(Region::BYTES).expect("the region is not empty");
    // SAFETY: a new shared mapping at an address the kernel chooses, never unmapped, as long as the file, which is
    // `Region::BYTES` long and never shrinks: only this module sizes it.
    let address = unsafe {
        mmap(
            None,
            length,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE,
            file,
            0,
        )
    }?;
    // SAFETY: `Region` consists of atomics only, any bytes are valid for it, the mapping is page-aligned and lives as long as
    // the process.
    Ok(unsafe { &*address.as_ptr().cast::<Region>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_at_a_time_serves_a_runtime_directory() {
        let runtime = tempfile::tempdir().unwrap();
        let first = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        assert_eq!(first.view().header.magic.load(Ordering::Acquire), MAGIC);
        assert!(matches!(SharedFile::create(runtime.path(), [1; 16], 2), Err(Error::AlreadyServed { .. })));
        drop(first);
        assert!(SharedFile::create(runtime.path(), [1; 16], 2).is_ok());
    }

    #[test]
    fn a_living_process_of_the_last_agent_is_named_and_a_dead_one_is_not_waited_for() {
        let runtime = tempfile::tempdir().unwrap();
        let (own, start) = (std::process::id(), start_time(std::process::id()).unwrap());
        for (pid, start, lives) in [(own, start, true), (own, start + 1, false), (u32::MAX, 1, false), (0, 0, false)] {
            let _ = std::fs::remove_file(runtime.path().join(SHARED_FILE));
            let before = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
            before.view().header.slots_used.store(1, Ordering::Relaxed);
            before.view().slots[0].owner_start.store(start, Ordering::Relaxed);
            before.view().slots[0].owner_pid.store(pid, Ordering::Relaxed);
            drop(before);
            let next = SharedFile::create(runtime.path(), [1; 16], 2);
            assert_eq!(matches!(next, Err(Error::LivingRank { pid, .. }) if pid == own), lives);
            assert_eq!(next.is_ok(), !lives);
        }
    }

    #[test]
    fn a_file_that_is_no_shared_file_is_replaced() {
        let runtime = tempfile::tempdir().unwrap();
        std::fs::write(runtime.path().join(SHARED_FILE), b"cut").unwrap();
        assert!(SharedFile::create(runtime.path(), [1; 16], 1).is_ok());
    }
}
