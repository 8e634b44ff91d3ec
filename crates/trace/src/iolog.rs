//! fio's logs of I/O (`write_iolog`), versions 2 and 3.
//!
//! ```text
//! fio version 2 iolog          fio version 3 iolog
//! /scratch/a add               19 /scratch/a add
//! /scratch/a open              98 /scratch/a open
//! /scratch/a read 0 4096       101 /scratch/a read 0 4096
//! /scratch/a wait 150 0        254 /scratch/a write 45056 4096
//! /scratch/a close             350126 /scratch/a close
//! ```
//!
//! Version 3 says when a request was submitted, in microseconds (as fio 3.33 writes and replays them). Version 2 only
//! says before which time no later request is made: `wait` N is replayed as until N milliseconds have passed since the
//! start, whatever fio's manual says of microseconds since the last one (measured with fio 3.33: waits of 500 and 1500
//! lie a second apart, and one of 400 behind them is none). None says when a request ended, or by whom it was made.

use std::collections::BTreeSet;

use thiserror::Error;

use super::files::Files;
use super::losses::{Loss, Losses};
use super::record::{Operation, Record, range_of};
use headstart_units::Nanos;
use headstart_units::request::Range;

/// How the text begins.
pub const FIRST_WORDS: &[u8] = b"fio version ";

/// A version that is not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("is an I/O log of fio of another version than 2 and 3: '{0}'")]
pub struct OtherVersion(String);

/// Reads line by line.
#[derive(Debug)]
pub struct Reader {
    timed: bool,
    time_us: u64,
    open: BTreeSet<u32>,
}

impl Reader {
    /// Of a log that begins with this line.
    pub fn of(first_line: &[u8]) -> Result<Reader, OtherVersion> {
        let timed = match first_line.trim_ascii_end() {
            b"fio version 2 iolog" => false,
            b"fio version 3 iolog" => true,
            other => return Err(OtherVersion(other.escape_ascii().to_string())),
        };
        Ok(Reader { timed, time_us: 0, open: BTreeSet::new() })
    }

    /// Takes a line without its end; the request in it, if any.
    pub fn line(&mut self, line: &[u8], files: &mut Files, losses: &mut Losses) -> Option<Record> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        self.read(line, files).map_err(|loss| losses.add(loss, 1)).ok().flatten()
    }

    /// The text has ended.
    pub fn finish(&mut self, losses: &mut Losses) {
        losses.add(Loss::NeverClosed, self.open.len() as u64);
        self.open.clear();
    }

    fn read(&mut self, line: &[u8], files: &mut Files) -> Result<Option<Record>, Loss> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut next = || words.next().ok_or(Loss::MalformedLines);
        let time_us = if self.timed { Some(number(next()?).ok_or(Loss::MalformedLines)?) } else { None };
        let (name, action) = (next()?, next()?);
        match action {
            b"add" => {}
            b"open" => drop(self.open.insert(files.index(name))),
            b"close" => drop(self.open.remove(&files.index(name))),
            b"wait" if !self.timed => {
                let until_ms = number(next()?).ok_or(Loss::MalformedLines)?;
                self.time_us = self.time_us.max(until_ms.checked_mul(1000).ok_or(Loss::MalformedLines)?);
            }
            b"sync" | b"datasync" | b"trim" => {}
            b"read" | b"write" => {
                let operation = if action == b"read" { Operation::Read } else { Operation::Write };
                let range = range(next()?, next()?)?;
                let start_us = time_us.unwrap_or(self.time_us);
                let start = start_us.checked_mul(1000).map(Nanos).ok_or(Loss::MalformedLines)?;
                let file = files.index(name);
                return Ok(Some(Record {
                    rank: None,
                    process: None,
                    file,
                    operation,
                    range,
                    start,
                    end: None,
                    without_flash: false,
                }));
            }
            _ => return Err(Loss::MalformedLines),
        }
        Ok(None)
    }
}

/// A place; numbers that are none are told from places that no file has.
fn range(offset: &[u8], length: &[u8]) -> Result<Range, Loss> {
    let part = |word: &[u8]| {
        let text = std::str::from_utf8(word).map_err(|_| Loss::MalformedLines)?;
        let value: i128 = text.parse().map_err(|_| Loss::MalformedLines)?;
        u64::try_from(value).map_err(|_| Loss::ImpossiblePlaces)
    };
    range_of(part(offset)?, part(length)?).ok_or(Loss::ImpossiblePlaces)
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
