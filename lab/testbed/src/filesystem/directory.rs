//! Directory listings: a snapshot taken at the first read, so that files created or removed meanwhile disturb nobody.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use fuser::{FileType, INodeNo, ReplyDirectory};

use super::inode::Inode;
use super::path::magic_link;

/// An open directory.
pub(super) struct Listing {
    inode: Arc<Inode>,
    entries: Vec<(u64, FileType, OsString)>,
}

impl Listing {
    pub(super) fn of(inode: Arc<Inode>) -> Listing {
        Listing { inode, entries: Vec::new() }
    }

    /// Adds the entries from `offset` on that fit; offset 0 takes a new snapshot, as rewinddir wants.
    pub(super) fn fill(
        &mut self,
        offset: u64,
        reply: &mut ReplyDirectory,
        presented: impl Fn(u64) -> INodeNo,
    ) -> io::Result<()> {
        if offset == 0 {
            self.entries = self.snapshot()?;
        }
        for (index, (number, kind, name)) in self.entries.iter().enumerate().skip(offset as usize) {
            if reply.add(presented(*number), index as u64 + 1, *kind, name) {
                break;
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> io::Result<Vec<(u64, FileType, OsString)>> {
        let path = PathBuf::from(magic_link(&self.inode.fd).into_string().expect("the path is ASCII"));
        let parent = if self.inode.is_root { self.inode.number } else { std::fs::metadata(path.join(".."))?.ino() };
        let mut entries = vec![
            (self.inode.number, FileType::Directory, OsString::from(".")),
            (parent, FileType::Directory, OsString::from("..")),
        ];
        for entry in std::fs::read_dir(&path)? {
            let entry = entry?;
            // A name may vanish between listing and asking.
            let kind = entry.file_type().ok().and_then(FileType::from_std);
            entries.push((entry.ino(), kind.unwrap_or(FileType::RegularFile), entry.file_name()));
        }
        Ok(entries)
    }
}
