//! The threads that move bytes between the tiers.

use std::io;

use headstart_core::overlay::{CopyKind, CopyOrder};

use crate::error::errno_of;
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;
use crate::storage::FileRef;

/// A copy with its files open.
#[derive(Debug)]
pub struct CopyJob {
    /// What to copy.
    pub order: CopyOrder,
    /// The slow file.
    pub slow: FileRef,
    /// The data file of each piece.
    pub data: Vec<FileRef>,
}

/// A buffer that grew beyond this is given back after its copy: there are hundreds of these threads.
const BUFFER_KEPT_BYTES: usize = 256 << 10;

/// Takes copies until the queue is closed.
pub fn run(jobs: &Jobs<CopyJob>, mailbox: &Mailbox<Completion>) {
    let mut buffer = Vec::new();
    while let Some(job) = jobs.take() {
        let completion = job.run(&mut buffer);
        // Its files are closed before anybody hears of it: one of them may be about to be executed.
        drop(job);
        mailbox.post(completion);
        if buffer.len() > BUFFER_KEPT_BYTES {
            buffer = Vec::new();
        }
    }
}

impl CopyJob {
    /// Makes the copy; `buffer` is reused from one to the next.
    pub fn run(&self, buffer: &mut Vec<u8>) -> Completion {
        let CopyOrder { id, file, kind, range, .. } = self.order;
        let result = copy(self, buffer);
        if let Err(error) = &result {
            tracing::warn!(file, ?kind, offset = range.offset, %error, "a copy failed");
        }
        Completion::Copied { id, file, kind, result: result.map_err(|error| errno_of(&error)) }
    }
}

fn copy(job: &CopyJob, buffer: &mut Vec<u8>) -> io::Result<()> {
    let order = &job.order;
    let length = order.range.length as usize;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let bytes = &mut buffer[..length];
    match order.kind {
        CopyKind::WriteBack => {
            for (piece, data) in order.pieces.iter().zip(&job.data) {
                let start = (piece.range.offset - order.range.offset) as usize;
                data.read_at(&mut bytes[start..start + piece.range.length as usize], piece.place)?;
            }
            job.slow.write_at(bytes, order.range.offset)
        }
        CopyKind::Fetch => {
            // A file that shrank meanwhile is an error: nothing is published.
            job.slow.read_at(bytes, order.range.offset)?;
            for (piece, data) in order.pieces.iter().zip(&job.data) {
                let start = (piece.range.offset - order.range.offset) as usize;
                data.write_at(&bytes[start..start + piece.range.length as usize], piece.place)?;
            }
            Ok(())
        }
    }
}
