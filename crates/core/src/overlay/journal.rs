//! The journal: what makes the map survive.
//!
//! ```text
//! header: magic "HSJRNL01" | boot id 16 | epoch u64 | crc32c u32 over what precedes        (36 bytes)
//! record: length u16 (of the payload) | kind u8 | crc32c u32 over length, kind, payload | payload
//! ```
//!
//! All numbers are little-endian. Positions are byte offsets from the start of the journal. Replay ends at the first record
//! that is cut or does not match its checksum. Appended records survive the death of the agent; power loss survives only what
//! lies before the position a `Barrier` names.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 36;
const MAGIC: &[u8; 8] = b"HSJRNL01";
const RECORD_HEADER_BYTES: usize = 7;

/// Which file a record speaks of: device, inode and birth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Identity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Birth time, nanoseconds since 1970; zero where unknown.
    pub birth_ns: u64,
}

/// First bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kernel's boot id.
    pub boot_id: [u8; 16],
    /// The agent's epoch.
    pub epoch: u64,
}

/// One change of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A file and its number in what follows; again when it is renamed.
    File {
        /// Number.
        file: u32,
        /// Identity.
        identity: Identity,
        /// Absolute path.
        path: Vec<u8>,
    },
    /// A data file belongs to a file.
    DataFile {
        /// The file.
        file: u32,
        /// The data file.
        data_file: u32,
    },
    /// Absorbed bytes.
    Map {
        /// The file.
        file: u32,
        /// Offset in it.
        offset: u64,
        /// Length.
        length: u64,
        /// The data file.
        data_file: u32,
        /// Offset in that.
        place: u64,
        /// Who committed.
        slot: u32,
        /// The commit's number.
        seq: u64,
    },
    /// Bytes copied from disk to flash: clean.
    Fetched {
        /// The file.
        file: u32,
        /// Offset in it.
        offset: u64,
        /// Length.
        length: u64,
        /// The data file.
        data_file: u32,
        /// Offset in that.
        place: u64,
    },
    /// Bytes written back; counts only where the place is still mapped.
    Clean {
        /// The file.
        file: u32,
        /// Offset in it.
        offset: u64,
        /// Length.
        length: u64,
        /// The data file.
        data_file: u32,
        /// Offset in that.
        place: u64,
    },
    /// Bytes no longer on flash.
    Drop {
        /// The file.
        file: u32,
        /// Offset in it.
        offset: u64,
        /// Length.
        length: u64,
    },
    /// The file's size was changed; nothing beyond is on flash.
    Truncate {
        /// The file.
        file: u32,
        /// New size.
        size: u64,
    },
    /// The file is open for writing: after power loss its clean bytes do not count.
    Intent {
        /// The file.
        file: u32,
    },
    /// No writer has it open, and the slow file was synced since.
    Closed {
        /// The file.
        file: u32,
    },
    /// The file is gone.
    Remove {
        /// The file.
        file: u32,
    },
    /// The last commit of a slot, kept by checkpoints so that a repeated commit is still recognised.
    LastCommit {
        /// The slot.
        slot: u32,
        /// Its number.
        seq: u64,
    },
    /// How the slow file looked when nobody had it open: what looks otherwise later was changed behind our back.
    Fingerprint {
        /// The file.
        file: u32,
        /// Its size.
        size: u64,
        /// When it was last written, nanoseconds since 1970.
        modified_ns: u64,
    },
    /// Bytes of a data file that could not be synced: what is mapped there may not be what was written.
    Untrusted {
        /// The data file.
        data_file: u32,
        /// Offset in it.
        place: u64,
        /// Length.
        length: u64,
    },
    /// Everything before `end` is durable, the bytes it speaks of included.
    Barrier {
        /// Position.
        end: u64,
    },
}

/// A journal that cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Too short, or not a journal.
    #[error("not a Headstart journal")]
    NotAJournal,
    /// The checksum does not match.
    #[error("the journal's header is damaged")]
    Damaged,
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.boot_id);
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(HeaderError::NotAJournal)?;
        if &bytes[..8] != MAGIC {
            return Err(HeaderError::NotAJournal);
        }
        if crc32c::crc32c(&bytes[..32]).to_le_bytes() != bytes[32..] {
            return Err(HeaderError::Damaged);
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[8..24]);
        Ok(Header { boot_id, epoch: u64::from_le_bytes(array(&bytes[24..32])) })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

impl Record {
    fn kind(&self) -> u8 {
        match self {
            Record::File { .. } => 1,
            Record::DataFile { .. } => 2,
            Record::Map { .. } => 3,
            Record::Fetched { .. } => 4,
            Record::Clean { .. } => 5,
            Record::Drop { .. } => 6,
            Record::Truncate { .. } => 7,
            Record::Intent { .. } => 8,
            Record::Closed { .. } => 9,
            Record::Remove { .. } => 10,
            Record::Barrier { .. } => 11,
            Record::LastCommit { .. } => 12,
            Record::Fingerprint { .. } => 13,
            Record::Untrusted { .. } => 14,
        }
    }

    fn payload(&self, out: &mut Vec<u8>) {
        let mut u32 = |value: &u32| out.extend_from_slice(&value.to_le_bytes());
        match self {
            Record::File { file, .. }
            | Record::Drop { file, .. }
            | Record::Truncate { file, .. }
            | Record::Intent { file }
            | Record::Closed { file }
            | Record::Remove { file }
            | Record::Fingerprint { file, .. } => u32(file),
            Record::LastCommit { slot, .. } => u32(slot),
            Record::Untrusted { data_file, .. } => u32(data_file),
            Record::DataFile { file, data_file }
            | Record::Map { file, data_file, .. }
            | Record::Fetched { file, data_file, .. }
            | Record::Clean { file, data_file, .. } => {
                u32(file);
                u32(data_file);
            }
            Record::Barrier { .. } => {}
        }
        let mut u64 = |value: &u64| out.extend_from_slice(&value.to_le_bytes());
        match self {
            Record::File { identity, path, .. } => {
                u64(&identity.device);
                u64(&identity.inode);
                u64(&identity.birth_ns);
                out.extend_from_slice(path);
            }
            Record::Map { offset, length, place, slot, seq, .. } => {
                [*offset, *length, *place, u64::from(*slot), *seq].iter().for_each(u64);
            }
            Record::Fetched { offset, length, place, .. } | Record::Clean { offset, length, place, .. } => {
                [offset, length, place].into_iter().for_each(u64);
            }
            Record::Drop { offset, length, .. } => [offset, length].into_iter().for_each(u64),
            Record::Truncate { size, .. } => u64(size),
            Record::Fingerprint { size, modified_ns, .. } => [size, modified_ns].into_iter().for_each(u64),
            Record::Barrier { end } => u64(end),
            Record::Untrusted { place, length, .. } => [place, length].into_iter().for_each(u64),
            Record::LastCommit { seq, .. } => u64(seq),
            Record::DataFile { .. } | Record::Intent { .. } | Record::Closed { .. } | Record::Remove { .. } => {}
        }
    }

    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        self.payload(out);
        let length = out.len() - start - RECORD_HEADER_BYTES;
        let length = u16::try_from(length).expect("a path is at most 4096 bytes long");
        out[start..start + 2].copy_from_slice(&length.to_le_bytes());
        out[start + 2] = self.kind();
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[start..start + 3]), &out[start + RECORD_HEADER_BYTES..]);
        out[start + 3..start + RECORD_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    fn parse(kind: u8, payload: &[u8]) -> Option<Record> {
        let word = |at: usize| payload.get(at..at + 4).map(|bytes| u32::from_le_bytes(array(bytes)));
        let long = |at: usize| payload.get(at..at + 8).map(|bytes| u64::from_le_bytes(array(bytes)));
        let exact = |length: usize| (payload.len() == length).then_some(());
        Some(match kind {
            1 => Record::File {
                file: word(0)?,
                identity: Identity { device: long(4)?, inode: long(12)?, birth_ns: long(20)? },
                path: payload[28..].to_vec(),
            },
            2 => {
                exact(8)?;
                Record::DataFile { file: word(0)?, data_file: word(4)? }
            }
            3 => {
                exact(48)?;
                Record::Map {
                    file: word(0)?,
                    data_file: word(4)?,
                    offset: long(8)?,
                    length: long(16)?,
                    place: long(24)?,
                    slot: u32::try_from(long(32)?).ok()?,
                    seq: long(40)?,
                }
            }
            4 | 5 => {
                exact(32)?;
                let (file, data_file) = (word(0)?, word(4)?);
                let (offset, length, place) = (long(8)?, long(16)?, long(24)?);
                match kind {
                    4 => Record::Fetched { file, offset, length, data_file, place },
                    _ => Record::Clean { file, offset, length, data_file, place },
                }
            }
            6 => {
                exact(20)?;
                Record::Drop { file: word(0)?, offset: long(4)?, length: long(12)? }
            }
            7 => {
                exact(12)?;
                Record::Truncate { file: word(0)?, size: long(4)? }
            }
            8..=10 => {
                exact(4)?;
                let file = word(0)?;
                match kind {
                    8 => Record::Intent { file },
                    9 => Record::Closed { file },
                    _ => Record::Remove { file },
                }
            }
            11 => {
                exact(8)?;
                Record::Barrier { end: long(0)? }
            }
            12 => {
                exact(12)?;
                Record::LastCommit { slot: word(0)?, seq: long(4)? }
            }
            13 => {
                exact(20)?;
                Record::Fingerprint { file: word(0)?, size: long(4)?, modified_ns: long(12)? }
            }
            14 => {
                exact(20)?;
                Record::Untrusted { data_file: word(0)?, place: long(4)?, length: long(12)? }
            }
            _ => return None,
        })
    }

    /// Reads the record at the start of `bytes` and its length; none if it is cut or damaged.
    pub fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
        let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
        let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let payload = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + length)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..3]), payload);
        if crc.to_le_bytes() != header[3..] {
            return None;
        }
        Some((Record::parse(header[2], payload)?, RECORD_HEADER_BYTES + length))
    }
}

/// The records of a journal's body with the position after each, up to the first cut or damaged one.
pub fn records(body: &[u8]) -> impl Iterator<Item = (Record, u64)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (record, length) = Record::decode(&body[at..])?;
        at += length;
        Some((record, (HEADER_BYTES + at) as u64))
    })
}

/// The writing end: records are appended here, and the runtime takes their bytes before it sends any reply.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    appended: Vec<u8>,
    end: u64,
}

impl Journal {
    /// A journal that ends at `end`.
    pub fn at(end: u64) -> Journal {
        Journal { appended: Vec::new(), end }
    }

    /// Appends a record.
    pub fn append(&mut self, record: &Record) {
        let before = self.appended.len();
        record.encode(&mut self.appended);
        self.end += (self.appended.len() - before) as u64;
    }

    /// Position after the last record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The bytes appended since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let identity = Identity { device: 1, inode: 2, birth_ns: 3 };
        vec![
            Record::File { file: 1, identity, path: b"/slow/a\xff".to_vec() },
            Record::DataFile { file: 1, data_file: 9 },
            Record::Map { file: 1, offset: 2, length: 3, data_file: 4, place: 5, slot: 6, seq: 7 },
            Record::Fetched { file: 1, offset: 2, length: 3, data_file: 4, place: 5 },
            Record::Clean { file: 1, offset: 2, length: 3, data_file: 4, place: 5 },
            Record::Drop { file: 1, offset: 2, length: u64::MAX },
            Record::Truncate { file: 1, size: 2 },
            Record::Intent { file: 1 },
            Record::Closed { file: 1 },
            Record::Remove { file: 1 },
            Record::Barrier { end: 99 },
            Record::LastCommit { slot: 4, seq: 5 },
            Record::Fingerprint { file: 1, size: 2, modified_ns: 3 },
            Record::Untrusted { data_file: 1, place: 4096, length: 8192 },
        ]
    }

    #[test]
    fn every_record_comes_back_with_its_position() {
        let mut journal = Journal::at(HEADER_BYTES as u64);
        for record in samples() {
            journal.append(&record);
        }
        let bytes = journal.take();
        let read: Vec<(Record, u64)> = records(&bytes).collect();
        assert_eq!(read.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>(), samples());
        assert_eq!(read.last().map(|(_, end)| *end), Some(journal.end()));
    }

    #[test]
    fn a_journal_cut_or_flipped_anywhere_yields_a_prefix() {
        let mut journal = Journal::default();
        samples().iter().for_each(|record| journal.append(record));
        let bytes = journal.take();
        let prefix = |damaged: &[u8]| {
            let read: Vec<Record> = records(damaged).map(|(record, _)| record).collect();
            assert!(samples().starts_with(&read), "{read:?}");
            read.len()
        };
        for cut in 0..bytes.len() {
            assert!(prefix(&bytes[..cut]) < samples().len());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(prefix(&damaged) < samples().len());
        }
    }

    #[test]
    fn a_damaged_header_is_refused() {
        let header = Header { boot_id: [7; 16], epoch: 3 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        assert_eq!(Header::decode(&bytes[..30]), Err(HeaderError::NotAJournal));
        let mut damaged = bytes;
        damaged[25] ^= 1;
        assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged));
    }
}
