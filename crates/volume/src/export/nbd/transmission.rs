//! Requests of a client and their answers, in whatever order they are done.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use headstart_units::request::Range;

use super::window::Window;
use super::{Export, REQUEST_BYTES_MAX};
use crate::block::{Block, Buffer, Request};
use crate::handle::Handle;
use crate::storage::buffers::empty;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

const FLAG_FUA: u16 = 1;
const FLAG_NO_HOLE: u16 = 1 << 1;
const FLAG_FAST_ZERO: u16 = 1 << 4;

const REQUEST_BYTES: usize = 28;
/// Requests and answers without data are gathered in so much memory.
const GATHERED_BYTES: usize = 64 << 10;

/// What a request begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

impl Header {
    fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Header> {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (flags, command) = ((word(4) >> 16) as u16, word(4) as u16);
        let header = Header { flags, command, cookie: long(8), offset: long(16), length: word(24) };
        (word(0) == REQUEST_MAGIC).then_some(header)
    }

    fn range(&self) -> Option<Range> {
        let end = self.offset.checked_add(self.length.into())?;
        Some(Range::between(self.offset, end))
    }

    fn is_fua(&self) -> bool {
        self.flags & FLAG_FUA != 0
    }

    /// Flags that the command may have: FUA is without meaning for some, and allowed.
    fn has_known_flags(&self) -> bool {
        let known = match self.command {
            WRITE_ZEROES => FLAG_FUA | FLAG_NO_HOLE | FLAG_FAST_ZERO,
            _ => FLAG_FUA,
        };
        self.flags & !known == 0
    }

    /// The volume's request, but for a write's data; or the error that the client is told.
    fn request(&self, export: &Export) -> Result<Request, i32> {
        let (range, is_fua) = (self.range().ok_or(libc::EINVAL)?, self.is_fua());
        let is_long = self.length > REQUEST_BYTES_MAX;
        let is_beyond = range.end() > export.size_bytes;
        if !self.has_known_flags() {
            return Err(libc::EINVAL);
        }
        match self.command {
            READ if is_long || is_beyond => Err(libc::EINVAL),
            READ => Ok(Request::Read(range)),
            WRITE if is_long => Err(libc::EINVAL),
            WRITE | TRIM | WRITE_ZEROES if is_beyond => Err(libc::ENOSPC),
            WRITE => Ok(Request::Write { offset: self.offset, data: empty(), fua: is_fua }),
            TRIM if !export.discards => Err(libc::EINVAL),
            WRITE_ZEROES if self.flags & FLAG_FAST_ZERO != 0 && !export.zeros_are_fast => Err(libc::ENOTSUP),
            TRIM | WRITE_ZEROES => Ok(Request::Zero { range, fua: is_fua }),
            FLUSH => Ok(Request::Flush),
            _ => Err(libc::EINVAL),
        }
    }
}

/// An answer on its way.
struct Answer {
    cookie: u64,
    result: io::Result<Buffer>,
    /// What it has of the window.
    bytes: u64,
}

/// The number that the protocol has for an error.
fn error_number(error: &io::Error) -> u32 {
    match error.raw_os_error() {
        Some(
            number @ (libc::EPERM
            | libc::EIO
            | libc::ENOMEM
            | libc::EINVAL
            | libc::ENOSPC
            | libc::ENOTSUP
            | libc::ESHUTDOWN),
        ) => number as u32,
        _ => libc::EIO as u32,
    }
}

/// Takes requests until the client goes, and sends answers as long as it takes any.
pub(super) fn serve(stream: UnixStream, handle: Handle, export: &Export) -> io::Result<()> {
    let window = Arc::new(Window::default());
    let (answers, sent) = channel();
    let writer =
        Writer { stream: stream.try_clone()?, answers: sent, window: Arc::clone(&window), handle: handle.clone() };
    let writer = std::thread::Builder::new().name("nbd-answers".to_owned()).spawn(move || writer.run())?;
    let reader = Reader { stream: BufReader::with_capacity(GATHERED_BYTES, stream), answers, window, handle, export };
    let read = reader.run();
    // Once the last request is answered, nobody can send any more.
    let _ = writer.join();
    read
}

struct Reader<'a> {
    stream: BufReader<UnixStream>,
    answers: Sender<Answer>,
    window: Arc<Window>,
    handle: Handle,
    export: &'a Export,
}

impl Reader<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut bytes = [0; REQUEST_BYTES];
        loop {
            self.stream.read_exact(&mut bytes)?;
            let Some(header) = Header::decode(&bytes) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a request does not begin as one"));
            };
            if header.command == DISCONNECT {
                return Ok(());
            }
            self.take(header)?;
        }
    }

    fn take(&mut self, header: Header) -> io::Result<()> {
        let mut request = header.request(self.export);
        let bytes = match &request {
            Ok(Request::Read(_) | Request::Write { .. }) => u64::from(header.length),
            _ => 0,
        };
        self.window.enter(bytes);
        if let Ok(Request::Write { data, .. }) = &mut request {
            *data = self.handle.buffer(header.length as usize);
            self.stream.read_exact(data)?;
        } else if header.command == WRITE {
            // The data of one that is refused come all the same.
            let passed = io::copy(&mut self.stream.by_ref().take(header.length.into()), &mut io::sink())?;
            if passed < header.length.into() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let (answers, cookie) = (self.answers.clone(), header.cookie);
        // Whoever sends them may have ended: then nobody hears any.
        let answer = move |result| drop(answers.send(Answer { cookie, result, bytes }));
        match request {
            Ok(request) => self.handle.submit(request, Box::new(answer)),
            Err(number) => answer(Err(io::Error::from_raw_os_error(number))),
        }
        Ok(())
    }
}

struct Writer {
    stream: UnixStream,
    answers: Receiver<Answer>,
    window: Arc<Window>,
    handle: Handle,
}

impl Writer {
    /// Sends answers until there are no more to come. Those for a client that takes none are dropped.
    fn run(self) {
        let mut stream = BufWriter::with_capacity(GATHERED_BYTES, &self.stream);
        let mut is_gone = false;
        loop {
            let answer = match self.answers.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    // Nothing is kept back while nothing is to be added.
                    is_gone = is_gone || !self.has_gone_on(stream.flush());
                    match self.answers.recv() {
                        Ok(answer) => answer,
                        Err(_) => break,
                    }
                }
            };
            is_gone = is_gone || !self.has_gone_on(send(&mut stream, &answer));
            self.window.leave(answer.bytes);
            if let Ok(data) = answer.result {
                self.handle.recycle(data);
            }
        }
        if !is_gone {
            self.has_gone_on(stream.flush());
        }
        // What is left belongs to nobody: it is not tried again when the stream goes.
        drop(stream.into_parts());
    }

    /// Whether the client took it; who does not is cut off, and what it asked for then is carried out and not answered.
    fn has_gone_on(&self, sent: io::Result<()>) -> bool {
        if let Err(error) = &sent {
            tracing::debug!(%error, "a client takes no answers");
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        sent.is_ok()
    }
}

fn send(stream: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let (number, data) = match &answer.result {
        Ok(data) => (0, &data[..]),
        Err(error) => (error_number(error), &[][..]),
    };
    let mut head = [0; 16];
    head[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
    head[4..8].copy_from_slice(&number.to_be_bytes());
    head[8..].copy_from_slice(&answer.cookie.to_be_bytes());
    stream.write_all(&head)?;
    stream.write_all(data)
}

#[cfg(test)]
mod tests {
    use headstart_units::chance::Random;

    use super::*;

    const EXPORT: Export = Export { size_bytes: 64 << 20, discards: false, zeros_are_fast: false };

    fn header(command: u16, flags: u16, offset: u64, length: u32) -> Header {
        Header { flags, command, cookie: 7, offset, length }
    }

    #[test]
    fn what_a_request_asks_for_is_known_or_refused() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[5] = 1;
        bytes[7] = 6;
        bytes[15] = 7;
        bytes[22] = 2;
        bytes[26] = 16;
        assert_eq!(Header::decode(&bytes), Some(header(WRITE_ZEROES, FLAG_FUA, 512, 4096)));
        bytes[0] = 0;
        assert_eq!(Header::decode(&bytes), None);
        let refused = |header: Header| header.request(&EXPORT).unwrap_err();
        assert_eq!(refused(header(READ, 0, u64::MAX - 10, 512)), libc::EINVAL);
        assert_eq!(refused(header(READ, 0, 64 << 20, 512)), libc::EINVAL);
        assert_eq!(refused(header(READ, 0, 0, REQUEST_BYTES_MAX + 512)), libc::EINVAL);
        assert_eq!(refused(header(WRITE, 0, 64 << 20, 512)), libc::ENOSPC);
        assert_eq!(refused(header(WRITE, 4, 0, 512)), libc::EINVAL);
        assert_eq!(refused(header(TRIM, 0, 0, 512)), libc::EINVAL);
        assert_eq!(refused(header(WRITE_ZEROES, FLAG_FAST_ZERO, 0, 512)), libc::ENOTSUP);
        assert_eq!(refused(header(7, 0, 0, 512)), libc::EINVAL);
        let zero = header(WRITE_ZEROES, FLAG_FUA | FLAG_NO_HOLE, 512, 64 << 19).request(&EXPORT).unwrap();
        assert!(matches!(zero, Request::Zero { range, fua: true } if range == Range::new(512, 64 << 19)), "{zero:?}");
    }

    #[test]
    fn no_request_of_any_bytes_reaches_beyond_the_end_of_the_volume() {
        let seed = std::env::var("SEED").ok().map_or(4, |text| text.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = Random(seed);
        let mut taken = 0;
        for _ in 0..20_000 {
            let offset = random.pick(&[0, 512, 32 << 20, 64 << 20, u64::MAX - 511]);
            let length = random.pick(&[0, 512, 1 << 20, 32 << 20, u32::MAX, random.clone().next() as u32]);
            let (flags, command) = (random.pick(&[0, 1, 2, 4, 16, 17, 19]), random.below(9) as u16);
            let export = Export { discards: random.chance(50), zeros_are_fast: random.chance(50), ..EXPORT };
            let range = match header(command, flags, offset, length).request(&export) {
                Ok(Request::Read(range) | Request::Zero { range, .. }) => range,
                Ok(Request::Write { offset, .. }) => Range::new(offset, length.into()),
                Ok(Request::Flush) | Err(_) => continue,
            };
            taken += 1;
            assert!(range.end() <= EXPORT.size_bytes, "{range:?}");
        }
        assert!(taken > 1000, "{taken} are taken");
    }

    #[test]
    fn an_error_that_the_protocol_does_not_know_is_an_io_error() {
        let number = |number| error_number(&io::Error::from_raw_os_error(number));
        assert_eq!([libc::EINVAL, libc::ESHUTDOWN, libc::ENODEV].map(number), [22, 108, 5]);
        assert_eq!(error_number(&io::Error::other("some")), 5);
    }
}
