//! Darshan's extended traces as the text of `darshan-dxt-parser`, 3.4 and later.
//!
//! ```text
//! # start_time: 1587000000
//! # DXT, file_id: 14388265063268455899, file_name: /scratch/out
//! # DXT, rank: 0, hostname: n1
//! # DXT, write_count: 1, read_count: 0
//! # Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
//!  X_POSIX       0  write        0               0       524288      0.0029      0.0033  [OST]
//! ```
//!
//! A request that went through MPI-IO is there twice, at that layer and as what reached the file system. One
//! layer is read.

use super::files::Files;
use super::losses::{Loss, Losses};
use super::record::{Operation, Record, range_of};
use headstart_units::Nanos;

/// How the text begins.
pub const FIRST_WORDS: &[u8] = b"# darshan log version:";

/// Longest time that is taken for one, in seconds: thirty years.
const SECONDS_MAX: f64 = 1e9;

/// The layer whose requests are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// What reached the file system.
    #[default]
    Posix,
    /// What the program asked of MPI-IO.
    MpiIo,
}

/// Reads line by line.
#[derive(Debug, Default)]
pub struct Reader {
    layer: Layer,
    section: Section,
    start_time_s: u64,
    without_data: bool,
}

/// The file and process the next requests are of.
#[derive(Debug, Default)]
struct Section {
    file: Option<u32>,
    announced: u64,
    seen: u64,
}

impl Reader {
    /// Reads the requests of a layer.
    pub fn new(layer: Layer) -> Reader {
        Reader { layer, ..Reader::default() }
    }

    /// When the job started, in seconds since 1970: the origin of all times. Zero before it was read.
    pub fn start_time_s(&self) -> u64 {
        self.start_time_s
    }

    /// Whether the log says that it holds no extended trace.
    pub fn is_without_data(&self) -> bool {
        self.without_data
    }

    /// Takes a line without its end; the request in it, if any.
    pub fn line(&mut self, line: &[u8], files: &mut Files, losses: &mut Losses) -> Option<Record> {
        if let Some(comment) = line.strip_prefix(b"#") {
            self.comment(comment, files, losses);
            return None;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let text = String::from_utf8_lossy(line);
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let layer = match fields[0] {
            "X_POSIX" => Layer::Posix,
            "X_MPIIO" => Layer::MpiIo,
            _ => {
                losses.add(Loss::MalformedLines, 1);
                return None;
            }
        };
        let Some(request) = Fields::parse(&fields) else {
            losses.add(Loss::MalformedLines, 1);
            return None;
        };
        self.section.seen += 1;
        if layer != self.layer {
            losses.add(Loss::OtherLayer, 1);
            return None;
        }
        request.record(self.section.file).map_err(|loss| losses.add(loss, 1)).ok().inspect(|record| {
            if record.end.is_none() {
                losses.add(Loss::WithoutEnd, 1);
            }
        })
    }

    /// The text has ended.
    pub fn finish(&mut self, losses: &mut Losses) {
        losses.add(Loss::MissingRecords, self.section.announced.saturating_sub(self.section.seen));
        self.section = Section::default();
    }

    fn comment(&mut self, comment: &[u8], files: &mut Files, losses: &mut Losses) {
        let comment = comment.trim_ascii();
        if let Some(rest) = comment.strip_prefix(b"start_time: ") {
            self.start_time_s = number(rest).unwrap_or(0);
        } else if comment.starts_with(b"*WARNING*") || comment.starts_with(b"*ERROR*") {
            let incomplete = comment.windows(10).any(|words| words == b"incomplete");
            losses.add(Loss::IncompleteModules, incomplete.into());
        } else if comment.starts_with(b"no DXT module data") {
            self.without_data = true;
        } else if let Some(rest) = comment.strip_prefix(b"DXT, ") {
            self.heading(rest, files, losses);
        }
    }

    /// A line about the file and process of the requests that follow.
    fn heading(&mut self, rest: &[u8], files: &mut Files, losses: &mut Losses) {
        if rest.starts_with(b"file_id: ") {
            self.finish(losses);
            let name = find(rest, b", file_name: ").map(|at| &rest[at..]);
            self.section.file = name.filter(|name| *name != b"(null)").map(|name| files.index(name));
        } else if let Some(counts) = rest.strip_prefix(b"write_count: ") {
            let comma = counts.iter().position(|byte| *byte == b',').unwrap_or(counts.len());
            let reads = find(counts, b", read_count: ").and_then(|at| number(&counts[at..]));
            match (number(&counts[..comma]), reads) {
                (Some(writes), Some(reads)) => self.section.announced = writes.saturating_add(reads),
                _ => losses.add(Loss::MalformedLines, 1),
            }
        }
    }
}

/// A line's fields, which are numbers all.
struct Fields {
    rank: i64,
    operation: Operation,
    offset: i64,
    length: i64,
    start_s: f64,
    end_s: Option<f64>,
}

impl Fields {
    /// Module, rank, write or read, segment, offset, length, start, end; what follows is not needed.
    fn parse(fields: &[&str]) -> Option<Fields> {
        let seconds = |text: &&str| text.parse().ok().filter(|time: &f64| (0.0..=SECONDS_MAX).contains(time));
        let operation = match *fields.get(2)? {
            "write" => Operation::Write,
            "read" => Operation::Read,
            _ => return None,
        };
        fields.get(3)?.parse::<u64>().ok()?;
        Some(Fields {
            rank: fields.get(1)?.parse().ok()?,
            operation,
            offset: fields.get(4)?.parse().ok()?,
            length: fields.get(5)?.parse().ok()?,
            start_s: fields.get(6).and_then(seconds)?,
            end_s: fields.get(7).and_then(seconds),
        })
    }

    fn record(&self, file: Option<u32>) -> Result<Record, Loss> {
        if self.offset == -1 {
            return Err(Loss::WithoutOffset);
        }
        let file = file.ok_or(Loss::WithoutFile)?;
        let unsigned = |number: i64| u64::try_from(number).map_err(|_| Loss::ImpossiblePlaces);
        let range = range_of(unsigned(self.offset)?, unsigned(self.length)?).ok_or(Loss::ImpossiblePlaces)?;
        let end = self.end_s.filter(|end| *end >= self.start_s);
        Ok(Record {
            rank: u32::try_from(self.rank).ok(),
            process: None,
            file,
            operation: self.operation,
            range,
            start: Nanos::from_seconds(self.start_s),
            end: end.map(Nanos::from_seconds),
            without_flash: false,
        })
    }
}

/// Where the bytes behind `words` begin.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|part| part == words).map(|at| at + words.len())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
