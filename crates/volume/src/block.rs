//! A disk as exports see it: requests go in from any thread, each is answered once.

use std::io;

use aligned_vec::{AVec, ConstAlign};
use headstart_units::request::Range;

/// Bytes in memory that devices without a page cache accept: O_DIRECT asks for the alignment of a sector or a page.
pub type Buffer = AVec<u8, ConstAlign<4096>>;

/// A request. Offsets and lengths are multiples of 512 bytes; anything else is answered with EINVAL.
#[derive(Debug)]
pub enum Request {
    /// The bytes of a range.
    Read(Range),
    /// Writes.
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        data: Buffer,
        /// Durable before it is answered.
        fua: bool,
    },
    /// DISCARD or WRITE_ZEROES: the range reads as zeros from then on.
    Zero {
        /// Which bytes.
        range: Range,
        /// Durable before it is answered.
        fua: bool,
    },
    /// What was answered before is durable before this is answered.
    Flush,
}

/// Hears the end of a request: a read's bytes, for others an empty buffer. Called once, on any thread, also
/// for a request that the end of the volume overtakes (ESHUTDOWN); it must not block.
pub type Done = Box<dyn FnOnce(io::Result<Buffer>) + Send>;

/// A disk that is served.
pub trait Block: Send + Sync {
    /// Its size, a multiple of 512.
    fn size_bytes(&self) -> u64;

    /// Whether a discard gives up the room that a range takes; if not, clients are not told that they can, as by the
    /// disk itself.
    fn discards(&self) -> bool;

    /// Takes a request and returns at once.
    fn submit(&self, request: Request, done: Done);

    /// Submits a request and waits for its answer.
    fn call(&self, request: Request) -> io::Result<Buffer> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(request, Box::new(move |result| drop(sender.send(result))));
        receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the request was not answered")))
    }
}
