//! Journals of the format before this one, read as journals of this one.
//!
//! Format 03 named a file by the device number of its file system, too. Within the managed directory's own file
//! system inode and birth time tell files apart, and its device number is another on another node or after a boot, so
//! that this format has none. All other records are the same. A shorter `File` record moves what lies behind it, so
//! that the positions that barriers name are translated.
//!
//! Format 03 also knew files of other file systems that were mounted below the managed directory. Whoever reads such
//! a journal takes the files of one part of the devices at a time.

use std::collections::BTreeSet;

use super::encoding::Reader;
use super::payload::frame;
use super::{HEADER_BYTES, Header, Identity, Record};

const MAGIC: &[u8; 8] = b"HSJRNL03";
/// Kind of the record that differs.
const FILE: u8 = 1;

/// A journal of format 03.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    header: Header,
    body: &'a [u8],
}

impl<'a> Earlier<'a> {
    /// The journal in `bytes`; none if it is of another format, or its header damaged.
    pub fn find(bytes: &'a [u8]) -> Option<Earlier<'a>> {
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let header = Header::fields(header).filter(|_| header.starts_with(MAGIC))?;
        Some(Earlier { header, body })
    }

    /// Its header, which says the same in both formats.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The body in this format, with the files whose device `is_kept`, up to the first record that is cut or damaged.
    pub fn body(&self, is_kept: impl Fn(u64) -> bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len());
        let mut positions = Positions::default();
        let mut left_out = BTreeSet::new();
        let mut at = 0;
        while let Some((kind, payload, length)) = frame(&self.body[at..]) {
            match kind {
                FILE => {
                    let Some((device, file, record)) = file_of(payload) else { break };
                    if is_kept(device) {
                        left_out.remove(&file);
                        record.encode(&mut out);
                    } else {
                        left_out.insert(file);
                    }
                }
                _ => match Record::parse(kind, payload) {
                    Some(Record::DataFile { file, .. }) if left_out.contains(&file) => {}
                    Some(Record::Barrier { end }) => Record::Barrier { end: positions.now(end) }.encode(&mut out),
                    // Of files that were left out replay knows nothing.
                    Some(_) => out.extend_from_slice(&self.body[at..at + length]),
                    None => break,
                },
            }
            at += length;
            positions.note(at, out.len());
        }
        out
    }
}

/// A `File` record of format 03: device, number, and what this format says of it.
fn file_of(payload: &[u8]) -> Option<(u64, u32, Record)> {
    let mut from = Reader(payload);
    let (file, device) = (from.word()?, from.number()?);
    let identity = Identity { inode: from.number()?, birth_ns: from.number()? };
    Some((device, file, Record::File { file, identity, path: from.rest().to_vec() }))
}

/// Where records end that ended elsewhere.
struct Positions {
    /// Ends of records, before and now, from which on all are moved alike.
    moved: Vec<(u64, u64)>,
}

impl Default for Positions {
    fn default() -> Positions {
        Positions { moved: vec![(HEADER_BYTES as u64, HEADER_BYTES as u64)] }
    }
}

impl Positions {
    /// A record ended after so many bytes of the body, and now does after so many.
    fn note(&mut self, before: usize, now: usize) {
        let (before, now) = ((HEADER_BYTES + before) as u64, (HEADER_BYTES + now) as u64);
        if self.now(before) != now {
            self.moved.push((before, now));
        }
    }

    /// Where that is now which ended at `end`.
    fn now(&self, end: u64) -> u64 {
        let behind = self.moved.partition_point(|(before, _)| *before <= end);
        match behind.checked_sub(1).map(|last| self.moved[last]) {
            Some((before, now)) => now + (end - before),
            None => end,
        }
    }
}

#[cfg(test)]
mod tests;
