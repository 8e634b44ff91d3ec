//! A slow file by way of a process that has it open: it may have no name any more, or another one than the
//! journal says.
//!
//! A file system behind FUSE opens no file without a name a second time; there the process's own descriptor is copied.

use std::fs::{File, OpenOptions};

use headstart_overlay::journal::Identity;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::identity::ManagedDevice;
use crate::process::ProcessHandle;

/// Opens the file for reading and writing, or for reading where the user may not write, if one of the
/// processes has it open.
pub(crate) fn open(device: ManagedDevice, identity: Identity, pids: &[u32]) -> Option<File> {
    let held: Vec<(u32, i32)> = pids.iter().flat_map(|&pid| descriptors(device, identity, pid)).collect();
    let reopen = |write: bool| {
        let mut links = held.iter().map(|(pid, number)| format!("/proc/{pid}/fd/{number}"));
        links.find_map(|link| OpenOptions::new().read(true).write(write).open(link).ok())
    };
    reopen(true).or_else(|| held.iter().find_map(|&(pid, number)| copy(pid, number))).or_else(|| reopen(false))
}

/// The processes that have the file open, as far as this one may look at them.
pub(crate) fn holders(device: ManagedDevice, identity: Identity) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| pid != std::process::id() && !descriptors(device, identity, pid).is_empty()).collect()
}

/// The numbers under which a process has the file open.
fn descriptors(device: ManagedDevice, identity: Identity, pid: u32) -> Vec<(u32, i32)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_the_file = |entry: &std::fs::DirEntry| {
        let found = std::fs::metadata(entry.path());
        found.is_ok_and(|found| found.is_file() && device.finds(&found, identity))
    };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter(is_the_file).filter_map(number).map(|number| (pid, number)).collect()
}

/// A copy of the descriptor, if it reads and writes where it is told to: one that appends would write elsewhere.
fn copy(pid: u32, number: i32) -> Option<File> {
    let file = File::from(ProcessHandle::of_number(pid).ok()?.descriptor(number).ok()?);
    let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL).ok()?);
    let fits = flags & OFlag::O_ACCMODE == OFlag::O_RDWR && !flags.intersects(OFlag::O_APPEND | OFlag::O_DIRECT);
    fits.then_some(file)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_file_without_a_name_is_opened_through_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, b"bytes").unwrap();
        let held = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let found = held.metadata().unwrap();
        let device = ManagedDevice::of(directory.path()).unwrap();
        let identity = device.identify(&found).unwrap();
        let mut bytes = Vec::new();
        open(device, identity, &[std::process::id()]).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"bytes");
        drop(held);
        assert!(open(device, identity, &[std::process::id()]).is_none());
    }

    #[test]
    fn a_descriptor_is_copied_only_if_it_reads_and_writes_where_it_is_told_to() {
        use std::os::fd::AsRawFd;
        let file = tempfile::NamedTempFile::new().unwrap();
        let copied = |options: &mut OpenOptions| {
            let held = options.open(file.path()).unwrap();
            copy(std::process::id(), held.as_raw_fd()).is_some()
        };
        assert!(copied(OpenOptions::new().read(true).write(true)));
        assert!(!copied(OpenOptions::new().read(true)));
        assert!(!copied(OpenOptions::new().read(true).append(true)));
    }
}
