//! A slow file by way of a process that has it open: it may have no name any more, or another one than the journal says.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;

use headstart_core::overlay::journal::Identity;

/// Opens the file for reading and writing, or for reading where the user may not write, if one of the processes has it open.
pub fn open(identity: Identity, pids: &[u32]) -> Option<File> {
    let links = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let mut links = links.flatten().flatten().map(|entry| entry.path());
    let link = links.find(|link| {
        let found = std::fs::metadata(link);
        found.is_ok_and(|found| found.is_file() && (found.dev(), found.ino()) == (identity.device, identity.inode))
    })?;
    let options = |write: bool| OpenOptions::new().read(true).write(write).open(&link);
    options(true).or_else(|_| options(false)).ok()
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
        let identity = Identity { device: found.dev(), inode: found.ino(), birth_ns: 0 };
        let mut bytes = Vec::new();
        open(identity, &[std::process::id()]).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"bytes");
        drop(held);
        assert!(open(identity, &[std::process::id()]).is_none());
    }
}
