//! One operation on a file or block device, there and then.
//!
//! Zeros are made by a hole: of a file, and of a block device too, where the kernel then gives the room up only if the
//! device promises that what it gives up reads as zeros, and refuses if it does not (`blkdev_fallocate`). So nothing
//! else need be known of what a device leaves behind.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::uio::pwritev;

use super::buffers::{Slice, empty};
use super::{Action, Completion, Operation};

/// Slices that the kernel takes at once.
pub const SLICES_MAX: usize = 1024;

/// Carries an operation out.
pub fn perform(file: &File, operation: Operation) -> Completion {
    let Operation { id, offset, action, .. } = operation;
    let result = match action {
        Action::Read(mut buffer) => file.read_exact_at(&mut buffer, offset).map(|()| buffer),
        Action::Write(slices) => write(file, &slices, offset).map(|()| empty()),
        Action::Zero(length) => zero(file, offset, length).map(|()| empty()),
        Action::Flush => file.sync_data().map(|()| empty()),
    };
    Completion { id, result }
}

/// How zeros are made.
pub const HOLE: FallocateFlags = FallocateFlags::FALLOC_FL_PUNCH_HOLE.union(FallocateFlags::FALLOC_FL_KEEP_SIZE);

/// Makes zeros without writing any.
pub fn zero(file: &File, offset: u64, length: u64) -> io::Result<()> {
    loop {
        match fallocate(file, HOLE, offset as i64, length as i64) {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes slices one behind the other.
pub fn write(file: &File, slices: &[Slice], mut offset: u64) -> io::Result<()> {
    for group in slices.chunks(SLICES_MAX) {
        let mut vectors: Vec<IoSlice<'_>> = group.iter().map(|slice| IoSlice::new(slice.bytes())).collect();
        let mut rest: &mut [IoSlice<'_>] = &mut vectors;
        while !rest.is_empty() {
            match pwritev(file.as_fd(), rest, offset as i64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
