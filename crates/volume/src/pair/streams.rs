//! What a start reads and writes in one go: threads keep the device busy while the processor decodes or encodes.
//!
//! Reading ahead is a hint: what a thread could not read is read again by the caller, who then hears why.
//! Writing behind is not: who writes behind asks for the end of it before anything else. A thread has a
//! descriptor of its own of the device, and with it the owner lock: it is waited for before the device may be
//! closed.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use headstart_block::devices::Device;
use headstart_units::request::Range;

use super::OpenDevice;
use crate::block::Buffer;

/// Bytes read at once.
const CHUNK_BYTES: u64 = 1 << 20;
/// Threads that read: a device that is read a chunk at a time rests between two (two read 1.2 to 2 times as
/// fast as one).
const READERS: u64 = 2;
/// Chunks that a reader is ahead.
const CHUNKS_AHEAD: usize = 2;
/// Chunks that wait to be written.
const CHUNKS_BEHIND: usize = 2;

/// Reads every so manieth chunk of a range.
#[derive(Debug)]
struct Reader {
    filled: Receiver<io::Result<Buffer>>,
    /// Buffers to be filled.
    empty: Sender<Buffer>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Without either channel the thread ends after the chunk it is at.
        (self.filled, self.empty) = (sync_channel(0).1, channel().0);
        self.thread.take().map(JoinHandle::join);
    }
}

impl Reader {
    fn spawn(device: &OpenDevice, range: Range, first: u64) -> io::Result<Reader> {
        let file = device.file.try_clone()?;
        let (filled_in, filled) = sync_channel(CHUNKS_AHEAD);
        let (empty, empty_out) = channel();
        (0..CHUNKS_AHEAD).for_each(|_| drop(empty.send(Buffer::new(4096))));
        let chunks = (range.offset + first * CHUNK_BYTES..range.end()).step_by((READERS * CHUNK_BYTES) as usize);
        let unit_bytes = device.unit_bytes;
        let read = move || {
            for (at, buffer) in chunks.zip(empty_out) {
                let length = CHUNK_BYTES.min((range.end() - at).next_multiple_of(unit_bytes)) as usize;
                let mut buffer: Buffer = buffer;
                buffer.resize(length, 0);
                let read = file.read_exact_at(&mut buffer, at).map(|()| buffer);
                let failed = read.is_err();
                if filled_in.send(read).is_err() || failed {
                    return;
                }
            }
        };
        let thread = Some(std::thread::Builder::new().name("read-ahead".into()).spawn(read)?);
        Ok(Reader { filled, empty, thread })
    }
}

/// A range that is read before it is asked for.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Of which device.
    pub device: Device,
    range: Range,
    readers: Vec<Reader>,
    /// The byte that is asked for next.
    at: u64,
    /// The chunk it lies in, once it has come.
    current: Option<Buffer>,
}

impl ReadAhead {
    /// Begins to read; none if the range begins where the device cannot, or there are no threads.
    pub(super) fn begin(opened: &OpenDevice, device: Device, range: Range) -> Option<ReadAhead> {
        if !range.offset.is_multiple_of(opened.unit_bytes) {
            return None;
        }
        let readers = (0..READERS).map(|first| Reader::spawn(opened, range, first).ok());
        Some(ReadAhead { device, range, readers: readers.collect::<Option<_>>()?, at: range.offset, current: None })
    }

    /// Fills `bytes` if they are the next of the range; false: they are not, or could not be read.
    pub(super) fn read(&mut self, offset: u64, bytes: &mut [u8]) -> bool {
        let end = offset + bytes.len() as u64;
        if offset != self.at || end > self.range.end() {
            return false;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = ((self.at - self.range.offset) % CHUNK_BYTES) as usize;
            let reader = &self.readers[((self.at - self.range.offset) / CHUNK_BYTES % READERS) as usize];
            if self.current.is_none() {
                let Ok(Ok(buffer)) = reader.filled.recv() else { return false };
                self.current = Some(buffer);
            }
            let chunk = self.current.as_ref().expect("it has come");
            let length = rest.len().min(chunk.len() - within);
            let (now, later) = rest.split_at_mut(length);
            now.copy_from_slice(&chunk[within..within + length]);
            rest = later;
            self.at += length as u64;
            if within + length == chunk.len()
                && let Some(buffer) = self.current.take()
            {
                drop(reader.empty.send(buffer));
            }
        }
        true
    }
}

/// Writes that go on after they were given.
#[derive(Debug)]
pub(super) struct WriteBehind {
    /// To which device.
    pub device: Device,
    given: Option<SyncSender<(u64, Vec<u8>)>>,
    /// The first that failed, and where.
    writer: Option<JoinHandle<Result<(), (u64, io::Error)>>>,
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.given = None;
        self.writer.take().map(JoinHandle::join);
    }
}

impl WriteBehind {
    /// Waits for writes to give.
    pub(super) fn begin(opened: &OpenDevice, device: Device) -> io::Result<WriteBehind> {
        let opened = opened.try_clone()?;
        let (given, taken) = sync_channel::<(u64, Vec<u8>)>(CHUNKS_BEHIND);
        let write = move || {
            for (offset, bytes) in taken {
                opened.write(offset, &bytes).map_err(|error| (offset, error))?;
            }
            Ok(())
        };
        let writer = std::thread::Builder::new().name("write-behind".into()).spawn(write)?;
        Ok(WriteBehind { device, given: Some(given), writer: Some(writer) })
    }

    /// Gives a write; false: one before has failed.
    pub(super) fn give(&self, offset: u64, bytes: Vec<u8>) -> bool {
        self.given.as_ref().is_some_and(|given| given.send((offset, bytes)).is_ok())
    }

    /// Waits for the end of all that were given.
    pub(super) fn end(mut self) -> Result<(), (u64, io::Error)> {
        self.given = None;
        let writer = self.writer.take().expect("it is waited for once");
        writer.join().expect("a thread that writes does not panic")
    }
}
