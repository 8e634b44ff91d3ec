//! The threads that move bytes between the tiers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use headstart_core::overlay::{CopyKind, CopyOrder};

use crate::error::errno_of;
use crate::jobs::{Completion, Jobs};
use crate::mailbox::Mailbox;

/// A copy with its files open.
pub struct CopyJob {
    /// What to copy.
    pub order: CopyOrder,
    /// The slow file.
    pub slow: Arc<File>,
    /// The data file of each piece.
    pub data: Vec<Arc<File>>,
}

/// A buffer that grew beyond this is given back after its copy: there are hundreds of these threads.
const BUFFER_KEPT_BYTES: usize = 256 << 10;

/// Takes copies until the queue is closed.
pub fn run(jobs: &Jobs<CopyJob>, mailbox: &Mailbox<Completion>) {
    let mut buffer = Vec::new();
    while let Some(job) = jobs.take() {
        let result = copy(&job, &mut buffer);
        if let Err(error) = &result {
            tracing::warn!(file = job.order.file, kind = ?job.order.kind, offset = job.order.range.offset, %error, "a copy failed");
        }
        if buffer.len() > BUFFER_KEPT_BYTES {
            buffer = Vec::new();
        }
        let CopyOrder { id, file, kind, .. } = job.order;
        mailbox.post(Completion::Copied { id, file, kind, result: result.map_err(|error| errno_of(&error)) });
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
                data.read_exact_at(&mut bytes[start..start + piece.range.length as usize], piece.place)?;
            }
            job.slow.write_all_at(bytes, order.range.offset)
        }
        CopyKind::Fetch => {
            // A file that shrank meanwhile is an error: nothing is published.
            job.slow.read_exact_at(bytes, order.range.offset)?;
            for (piece, data) in order.pieces.iter().zip(&job.data) {
                let start = (piece.range.offset - order.range.offset) as usize;
                data.write_all_at(&bytes[start..start + piece.range.length as usize], piece.place)?;
            }
            Ok(())
        }
    }
}
