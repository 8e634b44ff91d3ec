//! What `stat` says of the file.

use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo};

/// What programs should read and write in: a page, as on disks with 4 KiB sectors.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// A file of the volume's size that only its owner, who serves it, may use.
pub(super) fn attributes(size_bytes: u64, since: SystemTime) -> FileAttr {
    FileAttr {
        ino: INodeNo::ROOT,
        size: size_bytes,
        blocks: size_bytes / 512,
        atime: since,
        mtime: since,
        ctime: since,
        crtime: since,
        kind: FileType::RegularFile,
        perm: 0o600,
        nlink: 1,
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}
