//! Traces that are lines of text: read once, in order, then sorted. A line that the end of the file cuts is
//! counted and not used.

use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result, bail};
use headstart_trace::dxt;
use headstart_trace::dxt::Layer;
use headstart_trace::{Files, Loss, Losses, Record, iolog};

use super::sorting::Sorter;
use super::{Opened, Shared, lose};

/// Longest line that is read: a path of 4096 bytes, and numbers.
const LINE_BYTES_MAX: usize = 1 << 16;

/// The text of `darshan-dxt-parser`.
pub fn dxt(text: impl Read, layer: Layer, common: &Shared) -> Result<Opened> {
    let mut reader = dxt::Reader::new(layer);
    let mut sorter = Sorter::default();
    let mut lines = Lines::new(text);
    sort(&mut lines, common, &mut sorter, |line, files, losses| reader.line(line, files, losses))?;
    reader.finish(&mut common.borrow_mut().losses);
    if reader.is_without_data() {
        bail!(
            "is a log without an extended trace: it says how much each file was used, not by which requests. Run the program with \
             DXT_ENABLE_IO_TRACE=1, or under 'headstart trace'"
        );
    }
    Ok((sorter.sorted(common), reader.start_time_s().saturating_mul(1_000_000_000)))
}

/// fio's log.
pub fn iolog(text: impl Read, common: &Shared) -> Result<Opened> {
    let mut lines = Lines::new(text);
    let mut reader = iolog::Reader::of(lines.next(common)?.unwrap_or_default())?;
    let mut sorter = Sorter::default();
    sort(&mut lines, common, &mut sorter, |line, files, losses| reader.line(line, files, losses))?;
    reader.finish(&mut common.borrow_mut().losses);
    Ok((sorter.sorted(common), 0))
}

fn sort<R: Read>(
    lines: &mut Lines<R>,
    common: &Shared,
    sorter: &mut Sorter,
    mut take: impl FnMut(&[u8], &mut Files, &mut Losses) -> Option<Record>,
) -> Result<()> {
    while let Some(line) = lines.next(common)? {
        let mut borrowed = common.borrow_mut();
        let common = &mut *borrowed;
        if let Some(record) = take(line, &mut common.files, &mut common.losses) {
            sorter.push(record)?;
        }
    }
    Ok(())
}

/// Lines without their ends.
struct Lines<R> {
    text: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    fn new(text: R) -> Lines<R> {
        Lines { text: BufReader::new(text), line: Vec::new() }
    }

    /// The next whole line.
    fn next(&mut self, common: &Shared) -> Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            let limit = LINE_BYTES_MAX as u64;
            let count =
                (&mut self.text).take(limit).read_until(b'\n', &mut self.line).context("cannot read the trace")?;
            if count == 0 {
                return Ok(None);
            }
            if self.line.pop_if(|byte| *byte == b'\n').is_some() {
                return Ok(Some(&self.line));
            }
            lose(common, Loss::MalformedLines, 1);
            if count < LINE_BYTES_MAX {
                return Ok(None);
            }
            self.skip_line()?;
        }
    }

    /// What is left of a line that is too long.
    fn skip_line(&mut self) -> Result<()> {
        loop {
            let held = self.text.fill_buf().context("cannot read the trace")?;
            let end = held.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(held.len(), |end| end + 1);
            self.text.consume(count);
            if end.is_some() || count == 0 {
                return Ok(());
            }
        }
    }
}
