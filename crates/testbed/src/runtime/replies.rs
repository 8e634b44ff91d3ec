//! Requests that wait for their modelled time, and the act of answering them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use headstart_core::units::Nanos;
use headstart_model::server::Operation;

use crate::filesystem::{REQUEST_BYTES_MAX, errno};

/// What is needed to answer a request.
pub(super) enum Body {
    /// Bytes are fetched from the backing file when the reply is due.
    Read { file: Arc<File>, offset: u64, length: u32, reply: ReplyData },
    /// Bytes stored, or why they could not be.
    Write { reply: ReplyWrite, stored: Result<u32, Errno> },
    /// Nothing but the time.
    Flush { reply: ReplyEmpty },
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

    /// Answers everything with EIO: the server stops.
    pub(super) fn fail_all(&mut self) {
        self.free.clear();
        self.slots.drain(..).flatten().for_each(Pending::fail);
    }
}

/// Sends replies from one buffer, so that no request allocates.
pub(super) struct Replier {
    buffer: Vec<u8>,
}

impl Replier {
    pub(super) fn with_buffer() -> Replier {
        Replier { buffer: vec![0; REQUEST_BYTES_MAX as usize] }
    }

    /// Answers one request; returns what it was and how many bytes it moved.
    pub(super) fn send(&mut self, pending: Pending) -> (Operation, u64) {
        match pending.body {
            Body::Read { file, offset, length, reply } => {
                let buffer = &mut self.buffer[..length as usize];
                match read_fully(&file, buffer, offset) {
                    Ok(count) => reply.data(&buffer[..count]),
                    Err(error) => reply.error(errno(&error)),
                }
                (Operation::Read, u64::from(length))
            }
            Body::Write { reply, stored: Ok(count) } => {
                reply.written(count);
                (Operation::Write, u64::from(count))
            }
            Body::Write { reply, stored: Err(error) } => {
                reply.error(error);
                (Operation::Write, 0)
            }
            Body::Flush { reply } => {
                reply.ok();
                (Operation::Flush, 0)
            }
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
