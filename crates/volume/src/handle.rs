//! What exports and commands hold of a served volume.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use headstart_block::superblock::Uuid;

use crate::block::{Block, Buffer, Done, Request};
use crate::control::{Answer as CommandAnswer, Command};
use crate::event_loop::mailbox::{Answer, Mailbox, Message};
use crate::settings::Mode;
use crate::status::Status;
use crate::storage::buffers::Pool;
use crate::trace::Access;

/// A request that the kernel could not carry out as one; exports allow far less.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// The volume has ended, or does not do what was asked; why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Ended(pub String);

/// A served volume, as a disk. Clones are the same volume; it does not end because they are dropped.
#[derive(Clone)]
pub struct Handle {
    mailbox: Arc<Mailbox>,
    pool: Arc<Pool>,
    size_bytes: u64,
    discards: bool,
    uuid: Uuid,
}

impl Handle {
    pub(crate) fn new(mailbox: Arc<Mailbox>, pool: Arc<Pool>, size_bytes: u64, discards: bool, uuid: Uuid) -> Handle {
        Handle { mailbox, pool, size_bytes, discards, uuid }
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The volume's name.
    pub fn uuid(&self) -> &Uuid {
        &self.uuid
    }

    /// A buffer for a write, of any bytes: one that was used before if there is one.
    pub fn buffer(&self, bytes: usize) -> Buffer {
        self.pool.take(bytes)
    }

    /// Gives back a buffer, as of a read whose bytes were sent on.
    pub fn recycle(&self, buffer: Buffer) {
        self.pool.put(buffer);
    }

    /// Asks the volume's server, and waits for the answer.
    pub fn ask(&self, command: Command) -> Result<CommandAnswer, Ended> {
        if command == Command::Flush {
            return match self.call(Request::Flush) {
                Ok(_) => self.status().map(|status| CommandAnswer::Done { dirty_bytes: status.dirty_bytes }),
                Err(error) => Err(Ended(format!("FLUSH: {error}"))),
            };
        }
        let (sender, receiver) = sync_channel(1);
        self.mailbox.put(Message::Command(command, Box::new(move |answer| drop(sender.send(answer)))));
        match receiver.recv() {
            Ok(CommandAnswer::Error(reason)) => Err(Ended(reason)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(Ended("the volume has ended".to_owned())),
        }
    }

    /// How the volume stands.
    pub fn status(&self) -> Result<Status, Ended> {
        match self.ask(Command::Status)? {
            CommandAnswer::Status(status) => Ok(*status),
            other => unreachable!("a status is answered by a status, not {other:?}"),
        }
    }

    /// Writes everything back while requests go on; the dirty bytes that are left.
    pub fn drain(&self) -> Result<u64, Ended> {
        match self.ask(Command::Drain)? {
            CommandAnswer::Done { dirty_bytes } => Ok(dirty_bytes),
            other => unreachable!("a drain is answered when it is done, not by {other:?}"),
        }
    }

    /// Whether zeros cost no more than a record, or than telling the disk to make them.
    pub fn zeros_are_fast(&self) -> bool {
        self.discards || self.status().is_ok_and(|status| status.mode == Mode::WriteBack)
    }

    /// Lets the volume end, and returns at once. Once more with `keep_dirty` ends a stop that writes back.
    pub fn stop(&self, keep_dirty: bool) -> Result<(), Ended> {
        self.ask(Command::Stop { keep_dirty }).map(drop)
    }

    /// The last operations of the devices since this was last asked; `count` are remembered from now on.
    pub fn trace_addresses(&self, count: usize) -> Result<Vec<Access>, Ended> {
        match self.ask(Command::TraceAddresses { count })? {
            CommandAnswer::Trace(accesses) => Ok(accesses),
            other => unreachable!("a trace is answered by a trace, not {other:?}"),
        }
    }
}

impl Block for Handle {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn discards(&self) -> bool {
        self.discards
    }

    fn submit(&self, request: Request, done: Done) {
        let answer = Answer::new(done);
        let bytes = match &request {
            Request::Read(range) => range.length,
            Request::Write { data, .. } => data.len() as u64,
            Request::Zero { .. } | Request::Flush => 0,
        };
        if bytes > REQUEST_BYTES_MAX {
            return answer.send(Err(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        self.mailbox.put(Message::Request(request, Instant::now(), answer));
    }
}
