//! What the stage asks of a worker, and the worker's answer, as they cross a socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Means {
    /// `pread`, `pwrite`.
    Positioned,
    /// `preadv`, `pwritev` with pieces of uneven length.
    Vectored,
    /// `preadv2`, `pwritev2` without flags.
    VectoredWithFlags,
    /// `lseek`, then `read` or `write`.
    Offset,
    /// `lseek`, then `readv` or `writev`.
    OffsetVectored,
    /// `aio_read`, `aio_write`, waited for by `aio_suspend`.
    Asynchronous,
    /// `lio_listio` of two halves, waited for.
    List,
    /// A duplicated descriptor, closed afterwards.
    Duplicate,
    /// A forked child does it.
    Child,
}

impl Means {
    pub const ALL: [Means; 9] = [
        Means::Positioned,
        Means::Vectored,
        Means::VectoredWithFlags,
        Means::Offset,
        Means::OffsetVectored,
        Means::Asynchronous,
        Means::List,
        Means::Duplicate,
        Means::Child,
    ];
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    Plain,
    Append,
    Synchronous,
}

/// One thing a worker does. Names are numbers of names; slots are the worker's own descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Open { slot: usize, name: usize, opening: Opening, truncate: bool },
    Close { slot: usize },
    Write { slot: usize, offset: u64, length: usize, tag: u64, means: Means },
    Append { slot: usize, length: usize, tag: u64, vectored: bool },
    Read { slot: usize, offset: u64, length: usize, means: Means },
    Resize { slot: usize, size: u64 },
    ResizeByName { name: usize, size: u64 },
    Sync { slot: usize, data_only: bool },
    Size { slot: usize },
    SizeByName { name: usize },
    Rename { from: usize, to: usize },
    Unlink { name: usize },
}

impl Operation {
    /// The descriptor it works on; none where it goes by name.
    pub fn slot(&self) -> Option<usize> {
        match *self {
            Operation::Close { slot }
            | Operation::Write { slot, .. }
            | Operation::Append { slot, .. }
            | Operation::Read { slot, .. }
            | Operation::Resize { slot, .. }
            | Operation::Sync { slot, .. }
            | Operation::Size { slot } => Some(slot),
            _ => None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Done,
    Size(u64),
    /// So many bytes follow.
    Bytes(usize),
    Failed(String),
}

/// Sends a message: its length, then JSON.
pub fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut packet = (text.len() as u32).to_le_bytes().to_vec();
    packet.extend(text);
    stream.write_all(&packet)
}

/// Receives one.
pub fn receive<T: for<'a> Deserialize<'a>>(stream: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut text = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
