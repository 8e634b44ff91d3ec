//! Blocks of a process's file: each is whole by itself.
//!
//! A block belongs to one *stream*: the requests of one thread, in the order of their starts. It has
//! [`BLOCK_BYTES`], a head of [`HEAD_BYTES`] and entries behind it. The head's first word, length and
//! checksum, is stored at once after each entry, so that a process which is killed leaves whole blocks. Files
//! are named in each block that mentions them.

use super::encoding::{NUMBER_BYTES_MAX, Reader, Writer};
use super::record::{Operation, range_of};
use headstart_units::request::Range;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Bytes of its head: length and checksum of the entries, stream, number of the block in its stream.
pub const HEAD_BYTES: usize = 16;
/// Streams of a process at most.
pub const STREAMS_MAX: u32 = 4096;
/// Longest path of a file.
pub const PATH_BYTES_MAX: usize = 4224;

/// Bytes of the longest entry of a request.
const REQUEST_BYTES_MAX: usize = 1 + 5 * NUMBER_BYTES_MAX;

/// Bits of an entry's first byte.
const KIND: u8 = 0b11;
const KIND_OTHER: u8 = 3;
const SAME_FILE: u8 = 1 << 2;
const SAME_LENGTH: u8 = 1 << 3;
const NEXT_BYTE: u8 = 1 << 4;
const NAME: u8 = KIND_OTHER;
const UNSEEN: u8 = KIND_OTHER | 1 << 2;

/// What entries are relative to: the request before in the same block.
#[derive(Clone, Copy, Debug)]
struct Before {
    file: Option<u32>,
    end: u64,
    length: u64,
    time_ns: u64,
}

const NOTHING: Before = Before { file: None, end: 0, length: 0, time_ns: 0 };

/// A request as an entry says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file's number in its process.
    pub file: u32,
    /// What it does.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Bytes moved.
    pub length: u64,
    /// When it began, on the process's clock.
    pub start_ns: u64,
    /// When it had ended.
    pub end_ns: u64,
}

/// The block has no room for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Fills one block. It holds no memory: the caller passes the block's entries each time.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    used: usize,
    checksum: u32,
    before: Before,
}

impl Encoder {
    /// An empty block: the `index`th of the file, the `number`th of its stream.
    pub fn new(index: u32, stream: u32, number: u32) -> Encoder {
        Encoder { used: 0, checksum: seed(index, stream, number), before: NOTHING }
    }

    /// The head's first eight bytes as a number, low byte first: length, then checksum of the entries so far.
    #[inline]
    pub fn head(&self) -> u64 {
        self.used as u64 | u64::from(self.checksum) << 32
    }

    /// Appends a request to the block's entries.
    #[inline]
    pub fn request(&mut self, entries: &mut [u8], request: &Request) -> Result<(), Full> {
        let room = entries.get_mut(self.used..self.used + REQUEST_BYTES_MAX).ok_or(Full)?;
        let before = self.before;
        let same_file = before.file == Some(request.file);
        let next_byte = same_file && request.offset == before.end;
        let same_length = request.length == before.length;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let mut writer = Writer::new(room);
        writer.byte(
            request.operation as u8
                | flag(same_file, SAME_FILE)
                | flag(same_length, SAME_LENGTH)
                | flag(next_byte, NEXT_BYTE),
        );
        if !same_file {
            writer.number(request.file.into());
        }
        if !next_byte {
            let from = if same_file { before.end } else { 0 };
            writer.step(request.offset.wrapping_sub(from) as i64);
        }
        if !same_length {
            writer.number(request.length);
        }
        // A stream has an order; a time before the last one is that one.
        let start_ns = request.start_ns.max(before.time_ns);
        let end_ns = request.end_ns.max(start_ns);
        writer.number(start_ns - before.time_ns);
        writer.number(end_ns - start_ns);
        let used = writer.used();
        self.before = Before {
            file: Some(request.file),
            end: request.offset.wrapping_add(request.length),
            length: request.length,
            time_ns: end_ns,
        };
        self.grow(entries, used);
        Ok(())
    }

    /// Names a file. Requests of it may follow in this block.
    pub fn name(&mut self, entries: &mut [u8], file: u32, device: u64, inode: u64, path: &[u8]) -> Result<(), Full> {
        let path = &path[..path.len().min(PATH_BYTES_MAX)];
        let most = 1 + 4 * NUMBER_BYTES_MAX + path.len();
        let mut writer = Writer::new(entries.get_mut(self.used..self.used + most).ok_or(Full)?);
        writer.byte(NAME);
        writer.number(file.into());
        writer.number(device);
        writer.number(inode);
        writer.number(path.len() as u64);
        writer.bytes(path);
        let used = writer.used();
        self.grow(entries, used);
        Ok(())
    }

    /// From here on the process uses a file by means that are not traced.
    pub fn unseen(&mut self, entries: &mut [u8], file: u32) -> Result<(), Full> {
        let mut writer = Writer::new(entries.get_mut(self.used..self.used + 1 + NUMBER_BYTES_MAX).ok_or(Full)?);
        writer.byte(UNSEEN);
        writer.number(file.into());
        let used = writer.used();
        self.grow(entries, used);
        Ok(())
    }

    #[inline]
    fn grow(&mut self, entries: &[u8], bytes: usize) {
        self.checksum = crc32c::crc32c_append(self.checksum, &entries[self.used..self.used + bytes]);
        self.used += bytes;
    }
}

/// Where the checksum begins: a block at another place is another block.
fn seed(index: u32, stream: u32, number: u32) -> u32 {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&index.to_le_bytes());
    bytes[4..8].copy_from_slice(&stream.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    crc32c::crc32c(&bytes)
}

/// A block's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of entries.
    pub length: u32,
    /// Their checksum.
    pub checksum: u32,
    /// The thread's requests it belongs to.
    pub stream: u32,
    /// Its number in the stream.
    pub number: u32,
}

impl Head {
    /// The head in a block's first bytes.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Head {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
        Head { length: word(0), checksum: word(4), stream: word(8), number: word(12) }
    }

    /// Whether the block was given out and never begun.
    pub fn is_blank(&self) -> bool {
        *self == Head { length: 0, checksum: 0, stream: 0, number: 0 }
    }

    /// The entries of the file's `index`th block, if they are whole.
    pub fn entries<'b>(&self, index: u32, behind_head: &'b [u8]) -> Option<&'b [u8]> {
        let bytes = behind_head.get(..self.length as usize)?;
        let sum = crc32c::crc32c_append(seed(index, self.stream, self.number), bytes);
        (sum == self.checksum && self.stream < STREAMS_MAX).then_some(bytes)
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A request.
    Request(Request),
    /// A request at a place that no file has.
    Impossible,
    /// A file's name.
    Name {
        /// Its number in the process.
        file: u32,
        /// Its device.
        device: u64,
        /// Its inode.
        inode: u64,
        /// Its path when it was written down.
        path: &'a [u8],
    },
    /// The process uses a file by means that are not traced.
    Unseen {
        /// Its number in the process.
        file: u32,
    },
}

/// Reads the entries of a block, one after the other. It holds no memory: the caller passes the entries each time.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    used: usize,
    before: Before,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { used: 0, before: NOTHING }
    }
}

impl Decoder {
    /// Whether everything was read.
    pub fn is_at_end(&self, entries: &[u8]) -> bool {
        self.used == entries.len()
    }

    /// The next entry; none at the end, and where there is none.
    pub fn next<'a>(&mut self, entries: &'a [u8]) -> Option<Entry<'a>> {
        let mut reader = Reader(entries.get(self.used..)?);
        let tag = reader.byte()?;
        let entry = match tag {
            NAME => {
                let (file, device, inode) = (reader.word()?, reader.number()?, reader.number()?);
                let length = usize::try_from(reader.number()?).ok().filter(|length| *length <= PATH_BYTES_MAX)?;
                Entry::Name { file, device, inode, path: reader.bytes(length)? }
            }
            UNSEEN => Entry::Unseen { file: reader.word()? },
            _ => self.request(tag, &mut reader)?,
        };
        self.used = entries.len() - reader.0.len();
        Some(entry)
    }

    fn request<'a>(&mut self, tag: u8, reader: &mut Reader<'a>) -> Option<Entry<'a>> {
        let operation = match tag & KIND {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Append,
            _ => return None,
        };
        let set = |bit: u8| tag & bit != 0;
        if tag & !(KIND | SAME_FILE | SAME_LENGTH | NEXT_BYTE) != 0 || set(NEXT_BYTE) && !set(SAME_FILE) {
            return None;
        }
        let before = self.before;
        let file = if set(SAME_FILE) { before.file? } else { reader.word()? };
        let from = if set(SAME_FILE) { before.end } else { 0 };
        let offset = if set(NEXT_BYTE) { from } else { from.wrapping_add(reader.step()? as u64) };
        let length = if set(SAME_LENGTH) { before.length } else { reader.number()? };
        let start_ns = before.time_ns.checked_add(reader.number()?)?;
        let end_ns = start_ns.checked_add(reader.number()?)?;
        self.before = Before { file: Some(file), end: offset.wrapping_add(length), length, time_ns: end_ns };
        Some(match range_of(offset, length) {
            Some(Range { offset, length }) => {
                Entry::Request(Request { file, operation, offset, length, start_ns, end_ns })
            }
            None => Entry::Impossible,
        })
    }
}
