//! The journal: what makes the map survive.
//!
//! ```text
//! header: magic "HSJRNL05" | boot id 16 | epoch u64 | crc32c u32 over what precedes        (36 bytes)
//! record: kind u8 | length of the payload, varint | crc32c u32 over kind, length, payload | payload
//! ```
//!
//! Payloads are made of the numbers of `encoding`. Positions are byte offsets from the start of the journal.
//! Replay ends at the first record that is cut or does not match its checksum. Appended records survive the
//! death of the agent; power loss survives only what lies before the position a `Barrier` names.
//!
//! A journal is replaced by a shorter one that says the same. Other nodes are told positions that only rise: the bytes
//! that were ever appended by the member, of which `Origin`, a journal's first record, names those of the ones before.
//!
//! Format 04 has none of the records that name members, epochs and copies. A journal of it is read as one of this
//! format.

pub mod earlier;
mod encoding;
mod payload;

use std::collections::BTreeMap;

use headstart_cluster::{MemberId, Order, Stamp};
use headstart_policy::client::carl::Wanted;
use headstart_units::request::Range;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 36;
/// What a journal begins with: its format in the last two digits.
pub const MAGIC: &[u8; 8] = b"HSJRNL05";
/// The format before, of which all is as it is in this one.
const MAGIC_OF_04: &[u8; 8] = b"HSJRNL04";
/// What the magic begins with in every format; two digits follow.
const MAGIC_OF_ALL: &[u8] = b"HSJRNL";
/// Most extents of one record: it stays below a tenth of the longest payload.
const EXTENTS_MAX: usize = 256;

/// Which file below the managed directory is meant: its inode and birth time.
///
/// All files that are managed lie on that directory's own file system. Its device number is no part of a file's
/// identity: it differs from node to node and from boot to boot, and belongs neither in a journal nor in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Identity {
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

/// One extent of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the slow file.
    pub offset: u64,
    /// Length.
    pub length: u64,
    /// Offset in the data file.
    pub place: u64,
    /// Whether the slow file holds something older.
    pub dirty: bool,
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
    /// The last name of the file was removed: where it cannot be found any more, nothing of it is owed to anybody.
    Unlinked {
        /// The file.
        file: u32,
    },
    /// Extents as a checkpoint finds them, in address order.
    Extents {
        /// The file.
        file: u32,
        /// The data file.
        data_file: u32,
        /// At most 256.
        extents: Vec<Extent>,
    },
    /// Pages of a data file that could not be synced: what is mapped there may not be what was written.
    Untrusted {
        /// The data file.
        data_file: u32,
        /// The first page.
        page: u64,
        /// Their number.
        pages: u64,
    },
    /// A region of the file belongs on flash, in place of those it shares bytes with.
    Wanted {
        /// The file.
        file: u32,
        /// The region.
        region: Wanted,
    },
    /// The regions that share bytes with this range no longer do.
    Unwanted {
        /// The file.
        file: u32,
        /// Offset in it.
        offset: u64,
        /// Length.
        length: u64,
    },
    /// Everything before `end` is durable, the bytes it speaks of included.
    Barrier {
        /// Position.
        end: u64,
    },
    /// What follows of the file was recorded while its owner had this epoch, each record in the order of its position.
    Epoch {
        /// The file.
        file: u32,
        /// The epoch.
        epoch: Stamp,
    },
    /// The next record was ordered by the file's owner, with that number in the file's epoch.
    Ordered {
        /// The number.
        seq: u64,
    },
    /// A write-back of bytes of an ordered record is about to begin.
    Copying {
        /// The file.
        file: u32,
        /// The copy's own place in the order.
        copy: Order,
        /// The record whose bytes are copied.
        order: Order,
        /// The bytes.
        range: Range,
    },
    /// It has ended: nothing of it lands any more.
    Copied {
        /// The file.
        file: u32,
        /// The copy's own place in the order.
        copy: Order,
    },
    /// A record that its owner ordered is none any more: something durable covers it.
    Gone {
        /// The file.
        file: u32,
        /// The record's place in the order.
        order: Order,
    },
    /// Whose journal it is, and the bytes that this member had appended before to others.
    Origin {
        /// The member.
        member: MemberId,
        /// Bytes.
        before: u64,
    },
}

/// A journal that cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Too short, or not a journal.
    #[error("not a Headstart journal")]
    NotAJournal,
    /// Of another version of Headstart.
    #[error(
        "it has format {found} and this version reads {}: run 'headstart drain' with the version that wrote it, then remove the \
         directory it lies in", String::from_utf8_lossy(&MAGIC[MAGIC_OF_ALL.len()..])
    )]
    OtherFormat {
        /// The format's number.
        found: Format,
    },
    /// The checksum does not match.
    #[error("the journal's header is damaged")]
    Damaged,
}

/// Two characters that number a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format([u8; 2]);

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
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
        let is_read = [MAGIC, MAGIC_OF_04].into_iter().any(|magic| bytes.starts_with(magic));
        let format = bytes.strip_prefix(MAGIC_OF_ALL).and_then(|rest| rest.first_chunk());
        if let Some(&found) = format.filter(|_| !is_read) {
            return Err(HeaderError::OtherFormat { found: Format(found) });
        }
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().filter(|_| is_read).ok_or(HeaderError::NotAJournal)?;
        Header::fields(bytes).ok_or(HeaderError::Damaged)
    }

    /// The same of a journal of the format before, too, which [`earlier::Earlier`] reads.
    pub fn decode_any(bytes: &[u8]) -> Result<Header, HeaderError> {
        earlier::Earlier::find(bytes).map_or_else(|| Header::decode(bytes), |earlier| Ok(earlier.header()))
    }

    /// What a header says of whatever format; none if its checksum does not match.
    fn fields(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let is_whole = crc32c::crc32c(&bytes[..32]).to_le_bytes() == bytes[32..];
        let (boot_id, epoch) = (array(&bytes[8..24]), u64::from_le_bytes(array(&bytes[24..32])));
        is_whole.then_some(Header { boot_id, epoch })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
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
    /// What is added to a position for others: bytes of the journals before. Wrapping, as it may be negative by the
    /// header.
    before: u64,
}

impl Journal {
    /// A journal that ends at `end`.
    pub fn at(end: u64) -> Journal {
        Journal { appended: Vec::new(), end, before: 0 }
    }

    /// A journal that begins at `start`, in the place of others with so many bytes.
    pub fn behind(start: u64, appended_ever: u64) -> Journal {
        Journal { before: appended_ever.wrapping_sub(start), ..Journal::at(start) }
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

    /// The same for others: all bytes that were ever appended.
    pub fn appended_ever(&self) -> u64 {
        self.before.wrapping_add(self.end)
    }

    /// Whether there are none.
    pub fn is_taken(&self) -> bool {
        self.appended.is_empty()
    }

    /// The bytes appended since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.appended)
    }
}

/// Gathers the extents of one file into records, each of one data file.
#[derive(Debug)]
pub struct Batches {
    file: u32,
    by_data_file: BTreeMap<u32, Vec<Extent>>,
}

impl Batches {
    /// For the extents of a file.
    pub fn of(file: u32) -> Batches {
        Batches { file, by_data_file: BTreeMap::new() }
    }

    /// Takes an extent, which lies behind those before; writes a record when there are enough.
    pub fn put(&mut self, journal: &mut Journal, data_file: u32, extent: Extent) {
        let extents = self.by_data_file.entry(data_file).or_default();
        extents.push(extent);
        if extents.len() == EXTENTS_MAX {
            let extents = std::mem::take(extents);
            journal.append(&Record::Extents { file: self.file, data_file, extents });
        }
    }

    /// Writes those that are left.
    pub fn finish(self, journal: &mut Journal) {
        for (data_file, extents) in self.by_data_file.into_iter().filter(|(_, extents)| !extents.is_empty()) {
            journal.append(&Record::Extents { file: self.file, data_file, extents });
        }
    }
}

#[cfg(test)]
mod tests;
