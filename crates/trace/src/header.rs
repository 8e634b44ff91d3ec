//! The head of a process's file: who wrote it, under which clock.
//!
//! It takes the file's first [`HEADER_BYTES`]. Two counters behind it change while the process lives and are
//! no part of its checksum: blocks given out, and requests that could not be recorded.

use thiserror::Error;

use headstart_units::Nanos;

/// Bytes before the first block.
pub const HEADER_BYTES: usize = 4096;
/// How a trace file begins; the last two digits are the format.
pub const MAGIC: [u8; 8] = *b"HSTRAC02";
/// Where the count of blocks lies, eight bytes.
pub const BLOCKS_OFFSET: usize = 8;
/// Where the count of requests lies that were not recorded, eight bytes.
pub const UNRECORDED_OFFSET: usize = 16;
/// Where the fixed part begins, behind its checksum and length.
const FIXED_OFFSET: usize = 32;
/// Longest host name that is kept.
pub const HOST_BYTES_MAX: usize = 64;
/// Longest path of the traced directory that is kept.
pub(crate) const ROOT_BYTES_MAX: usize = 3900;

/// The word for no rank.
const NO_RANK: u32 = u32::MAX;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The process.
    pub process: u32,
    /// Its rank, if it has one.
    pub rank: Option<u32>,
    /// CLOCK_MONOTONIC at a moment before the first request, in nanoseconds; the times of records are of this clock.
    pub monotonic_ns: u64,
    /// The same moment in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The kernel's boot id: files with the same one share the clock.
    pub boot_id: [u8; 16],
    /// Whether flash may have served requests of it.
    pub has_flash: bool,
    /// Name of the host.
    pub host: &'a [u8],
    /// The directory whose files are traced.
    pub root: &'a [u8],
}

/// A file that is no trace, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Not a trace at all.
    #[error("is not a trace of Headstart")]
    Foreign,
    /// Of another version.
    #[error("is a trace of another version of Headstart: format {}, this one reads 02", .0.escape_ascii())]
    OtherVersion([u8; 2]),
    /// Cut or damaged.
    #[error("has a damaged header")]
    Damaged,
}

impl<'a> Header<'a> {
    /// Its bytes, in memory of [`HEADER_BYTES`] that is zero; the counters are left alone.
    pub fn encode(&self, page: &mut [u8]) {
        let mut at = FIXED_OFFSET;
        let mut put = |bytes: &[u8]| {
            page[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        let (host, root) = (cut(self.host, HOST_BYTES_MAX), cut(self.root, ROOT_BYTES_MAX));
        put(&self.process.to_le_bytes());
        put(&self.rank.unwrap_or(NO_RANK).to_le_bytes());
        put(&self.monotonic_ns.to_le_bytes());
        put(&self.unix_ns.to_le_bytes());
        put(&self.boot_id);
        put(&(host.len() as u16).to_le_bytes());
        put(&(root.len() as u16).to_le_bytes());
        put(&[self.has_flash.into()]);
        put(host);
        put(root);
        let checksum = crc32c::crc32c(&page[FIXED_OFFSET..at]);
        page[..8].copy_from_slice(&MAGIC);
        page[24..28].copy_from_slice(&checksum.to_le_bytes());
        page[28..32].copy_from_slice(&((at - FIXED_OFFSET) as u32).to_le_bytes());
    }

    /// The header of a file that begins with `page`.
    pub fn decode(page: &'a [u8]) -> Result<Header<'a>, HeaderError> {
        let magic = page.get(..8).ok_or(HeaderError::Foreign)?;
        if magic[..6] != MAGIC[..6] {
            return Err(HeaderError::Foreign);
        }
        if magic != MAGIC {
            return Err(HeaderError::OtherVersion([magic[6], magic[7]]));
        }
        if page.len() < HEADER_BYTES {
            return Err(HeaderError::Damaged);
        }
        let length = word(page, 28) as usize;
        let fixed = page[FIXED_OFFSET..HEADER_BYTES].get(..length).ok_or(HeaderError::Damaged)?;
        if crc32c::crc32c(fixed) != word(page, 24) {
            return Err(HeaderError::Damaged);
        }
        Header::decode_fixed(fixed).ok_or(HeaderError::Damaged)
    }

    fn decode_fixed(fixed: &'a [u8]) -> Option<Header<'a>> {
        let (numbers, names) = fixed.split_at_checked(45)?;
        let host_length = usize::from(u16::from_le_bytes([numbers[40], numbers[41]]));
        let root_length = usize::from(u16::from_le_bytes([numbers[42], numbers[43]]));
        let (host, root) = names.split_at_checked(host_length)?;
        if root.len() != root_length {
            return None;
        }
        let rank = word(numbers, 4);
        Some(Header {
            process: word(numbers, 0),
            rank: (rank != NO_RANK).then_some(rank),
            monotonic_ns: long(numbers, 8),
            unix_ns: long(numbers, 16),
            boot_id: numbers[24..40].try_into().ok()?,
            has_flash: numbers[44] != 0,
            host,
            root,
        })
    }
}

/// Which time of a process's clock the trace's origin is, so that the files of several processes share one
/// line of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLine {
    /// Added to a time of the process's clock, modulo 2^64.
    shift: u64,
}

impl TimeLine {
    /// Of a process whose clock showed `monotonic_ns` at `unix_ns`, on a line that begins at `origin_unix_ns`.
    pub fn new(monotonic_ns: u64, unix_ns: u64, origin_unix_ns: u64) -> TimeLine {
        TimeLine { shift: unix_ns.wrapping_sub(origin_unix_ns).wrapping_sub(monotonic_ns) }
    }

    /// A time of the process's clock on the line; what lies before the origin is the origin.
    pub fn place(self, time_ns: u64) -> Nanos {
        let placed = time_ns.wrapping_add(self.shift);
        Nanos(if placed > i64::MAX as u64 { 0 } else { placed })
    }
}

/// How many blocks were given out.
pub fn blocks(page: &[u8]) -> u64 {
    long(page, BLOCKS_OFFSET)
}

/// How many requests were not recorded.
pub fn unrecorded(page: &[u8]) -> u64 {
    long(page, UNRECORDED_OFFSET)
}

fn cut(bytes: &[u8], length_max: usize) -> &[u8] {
    &bytes[..bytes.len().min(length_max)]
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]))
}
