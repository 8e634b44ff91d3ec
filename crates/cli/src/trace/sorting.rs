//! Brings the requests of a text into the order of their starts: chunks are sorted in memory, written to a
//! temporary file without a name where there is more than one, and merged.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::vec;

use anyhow::{Context, Result};
use headstart_trace::{Merge, Operation, Record};
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::Shared;

/// Records sorted at a time: 16 MiB of them.
const CHUNK_RECORDS: usize = 1 << 18;
/// Bytes of a record in the temporary file.
const RECORD_BYTES: usize = 48;
/// Records read at a time from each chunk.
const PIECE_RECORDS: usize = 256;

/// No rank, process or end.
const NO_WORD: u32 = u32::MAX;
/// A bit beside the operation.
const WITHOUT_FLASH: u32 = 1 << 8;
const NO_TIME: u64 = u64::MAX;

/// Takes records in any order.
#[derive(Default)]
pub struct Sorter {
    chunk: Vec<Record>,
    spilled: Option<File>,
    /// Records in the temporary file after each chunk.
    ends: Vec<u64>,
}

impl Sorter {
    /// Takes one.
    pub fn push(&mut self, record: Record) -> Result<()> {
        self.chunk.push(record);
        if self.chunk.len() < CHUNK_RECORDS {
            return Ok(());
        }
        self.spill().context("cannot sort the trace: the directory for temporary files ($TMPDIR) does not take it")
    }

    /// All that were taken, by start; equal ones as they came.
    pub fn sorted(mut self, common: &Shared) -> Box<dyn Iterator<Item = Record>> {
        self.chunk.sort_by_key(|record| record.start);
        let Some(file) = self.spilled else { return Box::new(self.chunk.into_iter()) };
        let file = Rc::new(file);
        let mut runs = Vec::new();
        let mut at = 0;
        for end in self.ends {
            runs.push(Run::Spilled {
                file: file.clone(),
                at,
                end,
                piece: Vec::new().into_iter(),
                common: common.clone(),
            });
            at = end;
        }
        runs.push(Run::Held(self.chunk.into_iter()));
        Box::new(Merge::new(runs))
    }

    fn spill(&mut self) -> io::Result<()> {
        self.chunk.sort_by_key(|record| record.start);
        let mut file = match self.spilled.take() {
            Some(file) => file,
            None => tempfile::tempfile()?,
        };
        let mut bytes = Vec::with_capacity(self.chunk.len() * RECORD_BYTES);
        self.chunk.iter().for_each(|record| encode(record, &mut bytes));
        file.write_all(&bytes)?;
        self.ends.push(self.ends.last().unwrap_or(&0) + self.chunk.len() as u64);
        self.spilled = Some(file);
        self.chunk.clear();
        Ok(())
    }
}

/// A sorted chunk.
enum Run {
    Held(vec::IntoIter<Record>),
    /// Records `at .. end` of the file.
    Spilled {
        file: Rc<File>,
        at: u64,
        end: u64,
        piece: vec::IntoIter<Record>,
        common: Shared,
    },
}

impl Iterator for Run {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        match self {
            Run::Held(records) => records.next(),
            Run::Spilled { file, at, end, piece, common } => {
                if let Some(record) = piece.next() {
                    return Some(record);
                }
                let count = (*end - *at).min(PIECE_RECORDS as u64);
                let mut bytes = vec![0; count as usize * RECORD_BYTES];
                if let Err(error) = file.read_exact_at(&mut bytes, *at * RECORD_BYTES as u64) {
                    common.borrow_mut().failed = Some(anyhow::Error::new(error).context("cannot read what was sorted"));
                    return None;
                }
                *at += count;
                *piece = bytes.chunks_exact(RECORD_BYTES).map(decode).collect::<Vec<_>>().into_iter();
                piece.next()
            }
        }
    }
}

fn encode(record: &Record, bytes: &mut Vec<u8>) {
    let operation = record.operation as u32 | if record.without_flash { WITHOUT_FLASH } else { 0 };
    for word in [record.rank.unwrap_or(NO_WORD), record.process.unwrap_or(NO_WORD), record.file, operation] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let end = record.end.map_or(NO_TIME, |end| end.0);
    for long in [record.range.offset, record.range.length, record.start.0, end] {
        bytes.extend_from_slice(&long.to_le_bytes());
    }
}

fn decode(bytes: &[u8]) -> Record {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
    let some = |word: u32| (word != NO_WORD).then_some(word);
    let operation = match word(12) & !WITHOUT_FLASH {
        0 => Operation::Read,
        1 => Operation::Write,
        _ => Operation::Append,
    };
    let end = (long(40) != NO_TIME).then_some(Nanos(long(40)));
    let (range, start) = (Range::new(long(16), long(24)), Nanos(long(32)));
    let without_flash = word(12) & WITHOUT_FLASH != 0;
    Record { rank: some(word(0)), process: some(word(4)), file: word(8), operation, range, start, end, without_flash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_records_than_a_chunk_come_by_start_and_equal_ones_as_they_were_pushed() {
        let common = Shared::default();
        let count = 2 * CHUNK_RECORDS as u64 + 1000;
        let mut sorter = Sorter::default();
        let record = |k: u64| Record {
            rank: (!k.is_multiple_of(3)).then_some(k as u32 % 7),
            process: (!k.is_multiple_of(5)).then_some(k as u32),
            file: k as u32 % 11,
            operation: [Operation::Read, Operation::Write, Operation::Append][k as usize % 3],
            range: Range::new(k * 512, k),
            start: Nanos(k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50),
            end: (!k.is_multiple_of(4)).then_some(Nanos(k << 20)),
            without_flash: k.is_multiple_of(2),
        };
        (0..count).for_each(|k| sorter.push(record(k)).unwrap());
        assert_eq!(sorter.ends.len(), 2, "two chunks are in the file");
        let mut expected: Vec<Record> = (0..count).map(record).collect();
        expected.sort_by_key(|record| record.start);
        assert!(sorter.sorted(&common).eq(expected));
    }
}
