//! Files as a program of a test uses them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// For reading and writing; made if it is not there.
pub fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// So many bytes, or as many as the file has there.
pub fn read_at(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; length];
    let count = file.read_at(&mut bytes, offset).unwrap();
    bytes.truncate(count);
    bytes
}
