//! Requests that wait for their modelled time, and the act of answering them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use headstart_model::request::Operation;
use headstart_units::Nanos;

use crate::filesystem::{REQUEST_BYTES_MAX, errno};

/// Reads from this size on are fetched ahead of time: copying them would make the reply late by 0.05 ms or more.
pub(super) const STAGED_READ_BYTES_MIN: u32 = 256 << 10;

/// How much is fetched at once: about 30 us, by which another reply can be late.
const STAGING_BYTES: usize = 256 << 10;

/// Buffers kept for later large reads.
const SPARE_BUFFERS_MAX: usize = 32;

/// What is needed to answer a request.
pub(super) enum Body {
    /// Bytes are fetched from the backing file when the reply is due, or before in idle moments if they are many.
    Read { file: Arc<File>, offset: u64, length: u32, reply: ReplyData, staged: Staged },
    /// Bytes stored, or why they could not be.
    Write { reply: ReplyWrite, stored: Result<u32, Errno> },
    /// Nothing but the time.
    Flush { reply: ReplyEmpty },
}

/// The first bytes of a large read.
#[derive(Default)]
pub(super) struct Staged {
    buffer: Vec<u8>,
    filled: usize,
}

/// A piece of a large read to be fetched while nothing else is due.
pub(super) struct StagingJob {
    id: u64,
    file: Arc<File>,
    offset: u64,
    length: usize,
    staged: Staged,
}

impl StagingJob {
    /// Fetches the next piece; the request does not notice when that fails, it will be tried again when the
    /// reply is due.
    pub(super) fn run(&mut self, replier: &mut Replier) {
        let Staged { buffer, filled } = &mut self.staged;
        if buffer.is_empty() {
            *buffer = replier.take_buffer(self.length);
        }
        let end = self.length.min(*filled + STAGING_BYTES);
        *filled += read_fully(&self.file, &mut buffer[*filled..end], self.offset + *filled as u64).unwrap_or(0);
    }
}

/// A request in the model.
pub(super) struct Pending {
    /// When the model was told.
    pub(super) arrived: Nanos,
    body: Body,
    awaiting_bytes: bool,
    /// Set when the model was done before the bytes were stored.
    done_at: Option<Nanos>,
}

impl Pending {
    /// A request that can be answered as soon as the model says so.
    pub(super) fn complete(body: Body) -> Pending {
        Pending { arrived: Nanos::ZERO, body, awaiting_bytes: false, done_at: None }
    }

    /// A write whose bytes are still being stored.
    pub(super) fn awaiting_bytes(body: Body) -> Pending {
        Pending { awaiting_bytes: true, ..Pending::complete(body) }
    }

    /// What was asked.
    pub(super) fn operation(&self) -> Operation {
        match self.body {
            Body::Read { .. } => Operation::Read,
            Body::Write { .. } => Operation::Write,
            Body::Flush { .. } => Operation::Flush,
        }
    }

    /// How many bytes it moves.
    pub(super) fn bytes(&self) -> u64 {
        match self.body {
            Body::Read { length, .. } => u64::from(length),
            Body::Write { stored: Ok(count), .. } => u64::from(count),
            Body::Write { stored: Err(_), .. } | Body::Flush { .. } => 0,
        }
    }

    fn fail(self) {
        match self.body {
            Body::Read { reply, .. } => reply.error(Errno::EIO),
            Body::Write { reply, .. } => reply.error(Errno::EIO),
            Body::Flush { reply } => reply.error(Errno::EIO),
        }
    }
}

/// Requests in the model by id; ids of answered requests are reused.
#[derive(Default)]
pub(super) struct PendingRequests {
    slots: Vec<Option<Pending>>,
    free: Vec<u64>,
}

impl PendingRequests {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, pending: Pending) -> u64 {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(pending);
                id
            }
            None => {
                self.slots.push(Some(pending));
                self.slots.len() as u64 - 1
            }
        }
    }

    /// The model is done with `id`: takes it out, unless its bytes are still being stored.
    pub(super) fn take(&mut self, id: u64, due: Nanos) -> Option<Pending> {
        let slot = &mut self.slots[id as usize];
        let pending = slot.as_mut().expect("the model completes each request once");
        if pending.awaiting_bytes {
            pending.done_at = Some(due);
            return None;
        }
        self.free.push(id);
        slot.take()
    }

    /// The bytes of `id` are stored or lost; returns when the model was done, if it was. Nothing is left to do after
    /// [`PendingRequests::fail_all`].
    pub(super) fn bytes_stored(&mut self, id: u64, failure: Option<Errno>) -> Option<Nanos> {
        let pending = self.slots.get_mut(id as usize)?.as_mut()?;
        pending.awaiting_bytes = false;
        if let (Body::Write { stored, .. }, Some(failure)) = (&mut pending.body, failure) {
            *stored = Err(failure);
        }
        pending.done_at
    }

    /// Takes out the large read `id` for its next piece; `None` if all is fetched or the request answered.
    pub(super) fn begin_staging(&mut self, id: u64) -> Option<StagingJob> {
        let Body::Read { file, offset, length, staged, .. } = &mut self.slots.get_mut(id as usize)?.as_mut()?.body
        else {
            return None;
        };
        let length = *length as usize;
        if length < STAGED_READ_BYTES_MIN as usize || staged.filled == length {
            return None;
        }
        Some(StagingJob { id, file: Arc::clone(file), offset: *offset, length, staged: std::mem::take(staged) })
    }

    /// Puts back what was fetched. Requests are answered by the thread that stages them, so it is the same
    /// request still.
    pub(super) fn end_staging(&mut self, job: StagingJob) {
        let pending = self.slots.get_mut(job.id as usize).and_then(Option::as_mut);
        if let Some(Pending { body: Body::Read { staged, .. }, .. }) = pending {
            *staged = job.staged;
        }
    }

    /// Answers everything with EIO: the server stops.
    pub(super) fn fail_all(&mut self) {
        self.free.clear();
        self.slots.drain(..).flatten().for_each(Pending::fail);
    }
}

/// Sends replies from its own buffers, so that no request allocates.
pub(super) struct Replier {
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl Replier {
    pub(super) fn with_buffer() -> Replier {
        Replier { buffer: vec![0; REQUEST_BYTES_MAX as usize], spare: Vec::new() }
    }

    fn take_buffer(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        buffer
    }

    /// Answers one request.
    pub(super) fn send(&mut self, pending: Pending) {
        match pending.body {
            Body::Read { file, offset, length, reply, staged: Staged { buffer: staged, filled } } => {
                let mut staged = staged;
                let buffer = if staged.is_empty() { &mut self.buffer } else { &mut staged };
                match read_fully(&file, &mut buffer[filled..length as usize], offset + filled as u64) {
                    Ok(count) => reply.data(&buffer[..filled + count]),
                    Err(error) => reply.error(errno(&error)),
                }
                if !staged.is_empty() && self.spare.len() < SPARE_BUFFERS_MAX {
                    self.spare.push(staged);
                }
            }
            Body::Write { reply, stored: Ok(count) } => reply.written(count),
            Body::Write { reply, stored: Err(error) } => reply.error(error),
            Body::Flush { reply } => reply.ok(),
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn read_fully(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}
