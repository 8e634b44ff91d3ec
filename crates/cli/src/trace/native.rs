//! Headstart's own traces: a directory with a file for each process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use headstart_trace::block::{BLOCK_BYTES, Decoder, Entry, HEAD_BYTES, Head, STREAMS_MAX};
use headstart_trace::header;
use headstart_trace::header::{HEADER_BYTES, Header, HeaderError, TimeLine};
use headstart_trace::{Loss, Merge, Record};
use headstart_units::request::Range;

use super::{Opened, Shared, lose};

/// How names of process files end.
const EXTENSION: &str = "hstrace";

/// Whether a directory holds a trace.
pub fn is_trace(directory: &Path) -> bool {
    process_files(directory).is_ok_and(|paths| !paths.is_empty())
}

fn process_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> = fs::read_dir(directory)?.collect();
    let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    Ok(paths)
}

/// All processes of a directory.
pub fn directory(path: &Path, common: &Shared) -> Result<Opened> {
    let paths = process_files(path).with_context(|| format!("cannot read the trace {}", path.display()))?;
    if paths.is_empty() {
        bail!("the directory {} holds no trace: no file in it ends in .{EXTENSION}", path.display());
    }
    let mut processes = Vec::new();
    for path in paths {
        match ProcessFile::open(&path) {
            Ok(process) => processes.push(process),
            // A process that was killed as it began leaves such a file.
            Err(error) if error.downcast_ref() == Some(&HeaderError::Damaged) || is_blank(&path) => {
                lose(common, Loss::UnreadableFiles, 1);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(merged(processes, common))
}

/// One process.
pub fn file(path: &Path, common: &Shared) -> Result<Opened> {
    Ok(merged(vec![ProcessFile::open(path)?], common))
}

fn is_blank(path: &Path) -> bool {
    let mut magic = [0; 8];
    match File::open(path).and_then(|file| read_at(&file, &mut magic, 0)) {
        Ok(length) => magic[..length].iter().all(|byte| *byte == 0),
        Err(_) => false,
    }
}

/// Processes of one boot share a clock; boots are brought together by the time since 1970.
fn merged(mut processes: Vec<ProcessFile>, common: &Shared) -> Opened {
    let mut boots: BTreeMap<[u8; 16], (u64, u64)> = BTreeMap::new();
    for process in &processes {
        let pair = (process.monotonic_ns, process.unix_ns);
        let first = boots.entry(process.boot_id).or_insert(pair);
        *first = (*first).min(pair);
    }
    let origin_unix_ns = boots.values().map(|(_, unix_ns)| *unix_ns).min().unwrap_or(0);
    let mut streams = Vec::new();
    for process in &mut processes {
        let (monotonic_ns, unix_ns) = boots[&process.boot_id];
        process.time_line = TimeLine::new(monotonic_ns, unix_ns, origin_unix_ns);
    }
    for process in processes {
        let numbers = process.streams(common);
        let process = Rc::new(process);
        streams.extend(numbers.into_iter().map(|number| Stream::new(process.clone(), number, common.clone())));
    }
    (Box::new(Merge::new(streams)), origin_unix_ns)
}

/// A process's file, which is opened anew for each block: a run may have more processes than this one may open files.
struct ProcessFile {
    path: PathBuf,
    process: u32,
    rank: Option<u32>,
    monotonic_ns: u64,
    unix_ns: u64,
    boot_id: [u8; 16],
    has_flash: bool,
    time_line: TimeLine,
    /// Blocks that the header counts.
    blocks: u64,
    unrecorded: u64,
}

impl ProcessFile {
    fn open(path: &Path) -> Result<ProcessFile> {
        let read = || -> io::Result<Vec<u8>> {
            let mut page = vec![0; HEADER_BYTES];
            let length = read_at(&File::open(path)?, &mut page, 0)?;
            page.truncate(length);
            Ok(page)
        };
        let page = read().with_context(|| format!("cannot read the trace {}", path.display()))?;
        let head = Header::decode(&page).with_context(|| path.display().to_string())?;
        Ok(ProcessFile {
            path: path.to_path_buf(),
            process: head.process,
            rank: head.rank,
            monotonic_ns: head.monotonic_ns,
            unix_ns: head.unix_ns,
            boot_id: head.boot_id,
            has_flash: head.has_flash,
            time_line: TimeLine::new(0, 0, 0),
            blocks: header::blocks(&page),
            unrecorded: header::unrecorded(&page),
        })
    }

    /// The streams that its blocks belong to. Counts what is missing.
    fn streams(&self, common: &Shared) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        lose(common, Loss::Unrecorded, self.unrecorded);
        let scanned = File::open(&self.path).and_then(|file| {
            let mut index = 0;
            while let Some(head) = read_head(&file, index)? {
                match head {
                    Some(head) if head.is_blank() => {}
                    Some(head) if head.stream < STREAMS_MAX => drop(numbers.insert(head.stream)),
                    Some(_) | None => lose(common, Loss::DamagedBlocks, 1),
                }
                index += 1;
            }
            Ok(index)
        });
        match scanned {
            Ok(blocks) => lose(common, Loss::MissingBlocks, self.blocks.saturating_sub(blocks.into())),
            Err(error) => self.fail(error, common),
        }
        numbers
    }

    fn fail(&self, error: io::Error, common: &Shared) {
        let error = anyhow::Error::new(error).context(format!("cannot read the trace {}", self.path.display()));
        common.borrow_mut().failed = Some(error);
    }
}

/// A block's head: nothing behind the last block, and none in it where the head is cut.
fn read_head(file: &File, index: u32) -> io::Result<Option<Option<Head>>> {
    let mut bytes = [0; HEAD_BYTES];
    match read_at(file, &mut bytes, offset_of(index))? {
        0 => Ok(None),
        HEAD_BYTES => Ok(Some(Some(Head::decode(&bytes)))),
        _ => Ok(Some(None)),
    }
}

fn offset_of(index: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(index) * BLOCK_BYTES as u64
}

/// Reads as much as there is.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The requests of one stream, a block at a time.
struct Stream {
    process: Rc<ProcessFile>,
    number: u32,
    common: Shared,
    /// The block to look at next.
    index: u32,
    entries: Vec<u8>,
    decoder: Decoder,
    /// The block's numbers of files, and what they are in the trace.
    names: HashMap<u32, u32>,
}

impl Stream {
    fn new(process: Rc<ProcessFile>, number: u32, common: Shared) -> Stream {
        let (entries, decoder) = (Vec::new(), Decoder::default());
        Stream { process, number, common, index: 0, entries, decoder, names: HashMap::new() }
    }

    /// Goes on to the stream's next whole block; whether there is one.
    fn next_block(&mut self) -> io::Result<bool> {
        let file = File::open(&self.process.path)?;
        while let Some(head) = read_head(&file, self.index)? {
            let index = self.index;
            self.index += 1;
            let Some(head) = head.filter(|head| head.stream == self.number && !head.is_blank()) else { continue };
            self.entries.resize(BLOCK_BYTES - HEAD_BYTES, 0);
            let length = read_at(&file, &mut self.entries, offset_of(index) + HEAD_BYTES as u64)?;
            let Some(entries) = head.entries(index, &self.entries[..length]) else {
                lose(&self.common, Loss::DamagedBlocks, 1);
                continue;
            };
            let length = entries.len();
            self.entries.truncate(length);
            self.decoder = Decoder::default();
            self.names.clear();
            return Ok(true);
        }
        Ok(false)
    }

    /// The block's next request.
    fn next_in_block(&mut self) -> Option<Record> {
        while let Some(entry) = self.decoder.next(&self.entries) {
            match entry {
                Entry::Name { path: b"", .. } => {}
                Entry::Name { file, path, .. } => {
                    let index = self.common.borrow_mut().files.index(path);
                    self.names.insert(file, index);
                }
                Entry::Unseen { .. } => lose(&self.common, Loss::Unseen, 1),
                Entry::Impossible => lose(&self.common, Loss::ImpossiblePlaces, 1),
                Entry::Request(request) => {
                    let Some(&file) = self.names.get(&request.file) else {
                        lose(&self.common, Loss::WithoutFile, 1);
                        continue;
                    };
                    return Some(Record {
                        rank: self.process.rank,
                        process: Some(self.process.process),
                        file,
                        operation: request.operation,
                        range: Range::new(request.offset, request.length),
                        start: self.process.time_line.place(request.start_ns),
                        end: Some(self.process.time_line.place(request.end_ns)),
                        without_flash: !self.process.has_flash,
                    });
                }
            }
        }
        if !self.decoder.is_at_end(&self.entries) {
            lose(&self.common, Loss::DamagedBlocks, 1);
        }
        None
    }
}

impl Iterator for Stream {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.next_in_block() {
                return Some(record);
            }
            self.entries.clear();
            self.decoder = Decoder::default();
            match self.next_block() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.process.fail(error, &self.common);
                    return None;
                }
            }
        }
    }
}
