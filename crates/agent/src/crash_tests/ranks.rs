//! Scripted threads: the library's side of the protocol, over the faulty storage. Each is a process of its own.

use std::collections::BTreeMap;
use std::ops::Range as Cells;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_overlay::{Answer, Process};
use headstart_protocol::data_file_name;
use headstart_protocol::message::Request;
use headstart_protocol::shared::{KIND_EXTEND, KIND_READ, KIND_WRITE, Slot};
use headstart_units::request::Range;

use super::history::{CELL_BYTES, Loss, cell_bytes};
use super::world::{FLASH, World};
use crate::storage::{Access, FileRef, Scope, Storage};

/// What a thread does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Open { writable: bool },
    Read(Cells<u64>),
    Write { cells: Cells<u64>, absorb: bool },
    Truncate(u64),
    Fsync,
    Close,
    Unlink,
    Rename,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Absorb { asked: bool },
    SlabSent,
    CommitSent,
    Cheap,
    CheapIo,
    Asked,
    DoneSent { ok: bool },
    SyncSent,
    LastSent,
}

/// An operation under way on a file.
#[derive(Clone, Debug)]
pub struct Task {
    file: usize,
    operation: Operation,
    step: Step,
    begun: u64,
    version: u32,
    next: u64,
    found: Vec<u8>,
}

/// A thread.
#[derive(Debug)]
pub struct Rank {
    pub process: Process,
    pub seq: u64,
    pub answer: Option<Answer>,
    pub task: Option<Task>,
    /// Files open here: their number, once it is known, and a descriptor.
    pub open: BTreeMap<usize, (Option<u32>, bool, FileRef)>,
    /// The data file of a commit under way: it stays open until that is answered.
    flash: Option<FileRef>,
    /// Operations that failed.
    pub errors: Vec<String>,
}

impl Rank {
    pub fn new(index: usize) -> Rank {
        let process = Process { pid: 100 + index as u32, start_time: 1 };
        Rank { process, seq: 0, answer: None, task: None, open: BTreeMap::new(), flash: None, errors: Vec::new() }
    }
}

fn bytes_of(cells: &Cells<u64>) -> Range {
    Range::between(cells.start * CELL_BYTES, cells.end * CELL_BYTES)
}

/// How a step ends.
enum Next {
    To(Step),
    Wait,
    Done,
    Failed(String),
}

/// Begins an operation.
pub fn begin(w: &mut World, rank: usize, file: usize, operation: Operation) {
    let begun = w.storage.tick();
    let mut version = 0;
    match &operation {
        Operation::Write { cells, .. } => {
            version = w.next_version();
            w.files[file].history.begin_write(version, cells.clone(), false, begun);
        }
        Operation::Truncate(size) => {
            version = w.next_version();
            w.files[file].history.begin_write(version, size / CELL_BYTES..u64::MAX, true, begun);
        }
        Operation::Unlink => w.files[file].unlinked = true,
        _ => {}
    }
    let next = match &operation {
        Operation::Read(cells) | Operation::Write { cells, .. } => cells.start * CELL_BYTES,
        _ => 0,
    };
    w.ranks[rank].task = Some(Task { file, operation, step: Step::Begin, begun, version, next, found: Vec::new() });
}

/// A thread is killed between two steps. What it was writing may or may not be there.
pub fn die(w: &mut World, rank: usize) {
    let process = Process { start_time: w.ranks[rank].process.start_time + 1, ..w.ranks[rank].process };
    let dead = std::mem::replace(&mut w.ranks[rank], Rank { process, ..Rank::new(rank) });
    w.ranks[rank].seq = dead.seq;
    let Some(task) = dead.task else { return };
    if matches!(task.operation, Operation::Write { .. } | Operation::Truncate(_)) {
        let now = w.storage.tick();
        w.files[task.file].history.end_write(task.version, false, now);
    }
}

/// One step of a thread; true if it had something to do.
pub fn step(w: &mut World, rank: usize) -> bool {
    let Some(mut task) = w.ranks[rank].task.take() else { return false };
    match advance(w, rank, &mut task) {
        Next::To(step) => {
            task.step = step;
            w.ranks[rank].task = Some(task);
        }
        Next::Wait => {
            w.ranks[rank].task = Some(task);
            return false;
        }
        Next::Done => finish(w, rank, &task, None),
        Next::Failed(error) => finish(w, rank, &task, Some(error)),
    }
    true
}

fn finish(w: &mut World, rank: usize, task: &Task, error: Option<String>) {
    w.slot(rank).free();
    w.ranks[rank].flash = None;
    let now = w.storage.tick();
    let ok = error.is_none();
    let history = &mut w.files[task.file].history;
    match &task.operation {
        Operation::Write { .. } | Operation::Truncate(_) => history.end_write(task.version, ok, now),
        Operation::Fsync if ok => history.synced(task.begun, now),
        Operation::Read(cells) if ok => {
            let loss = if w.lossy { Loss::Power } else { Loss::Processes };
            let checked = history.check(cells.start, &task.found, task.begun, now, loss);
            w.violation(checked.map(|_| ()), "a read");
        }
        Operation::Open { .. } if !ok => drop(w.ranks[rank].open.remove(&task.file)),
        Operation::Close => drop(w.ranks[rank].open.remove(&task.file)),
        _ => {}
    }
    if let Some(error) = error {
        w.ranks[rank].errors.push(format!("{:?}: {error}", task.operation));
    }
}

fn advance(w: &mut World, rank: usize, task: &mut Task) -> Next {
    let open = w.ranks[rank].open.get(&task.file).cloned();
    let number = open.as_ref().and_then(|open| open.0).unwrap_or(u32::MAX);
    let Some(answer) = w.ranks[rank].answer.take() else {
        return match task.step {
            Step::Begin => start(w, rank, task, number),
            Step::Absorb { asked } => absorb(w, rank, task, number, asked),
            Step::Cheap => cheap(w, rank, task, number),
            Step::CheapIo => {
                let result = direct_io(task, &open.expect("it is open").2, None);
                w.slot(rank).free();
                after(task, result)
            }
            _ => Next::Wait,
        };
    };
    match (task.step, answer) {
        (_, Answer::Error { errno, text }) => Next::Failed(format!("{errno}: {text}")),
        (Step::LastSent, Answer::Opened { file }) => {
            if let Some(open) = w.ranks[rank].open.get_mut(&task.file) {
                open.0 = Some(file);
            }
            Next::Done
        }
        (Step::SlabSent, Answer::Done) => Next::To(Step::Absorb { asked: true }),
        (Step::SlabSent | Step::CommitSent, Answer::NoSpace | Answer::HeldUp) => Next::To(Step::Cheap),
        (Step::Asked, Answer::Flash { length }) => {
            let result = flash_read(w, rank, task);
            w.slot(rank).release_read();
            task.next += length;
            after(task, result)
        }
        (Step::Asked, Answer::Disk { length } | Answer::Sooner { length }) => {
            let result = direct_io(task, &open.expect("it is open").2, Some(length));
            w.slot(rank).release_read();
            after(task, result)
        }
        (Step::Asked, Answer::Go) => {
            let result = direct_io(task, &open.expect("it is open").2, None);
            let ok = result.is_ok();
            if let Err(error) = result {
                w.ranks[rank].errors.push(error);
            }
            let request = match task.operation {
                Operation::Truncate(size) => Request::TruncateDone { file: number, size, changed: ok },
                Operation::Write { ref cells, .. } => {
                    let range = bytes_of(cells);
                    let length = if ok { range.length } else { 0 };
                    Request::WriteDone { file: number, offset: range.offset, length }
                }
                ref other => unreachable!("{other:?} asks for no lease to write"),
            };
            w.request(rank, &request);
            Next::To(Step::DoneSent { ok })
        }
        (Step::DoneSent { ok: false }, _) => Next::Failed("the slow file could not be written".into()),
        (_, Answer::Done) => Next::Done,
        (step, answer) => Next::Failed(format!("{answer:?} in {step:?}")),
    }
}

/// What follows a part of a read or write.
fn after(task: &Task, result: Result<(), String>) -> Next {
    match (&task.operation, result) {
        (_, Err(error)) => Next::Failed(error),
        (Operation::Read(cells), Ok(())) if task.next < cells.end * CELL_BYTES => Next::To(Step::Cheap),
        _ => Next::Done,
    }
}

fn start(w: &mut World, rank: usize, task: &mut Task, number: u32) -> Next {
    let path = w.files[task.file].path.clone();
    match task.operation {
        Operation::Open { writable } => {
            let opened = w.storage.open(&path, Access::Slow);
            let handle = match opened {
                Ok(handle) => handle,
                Err(error) => return Next::Failed(error.to_string()),
            };
            let writable = writable || w.ranks[rank].open.get(&task.file).is_some_and(|open| open.1);
            w.ranks[rank].open.insert(task.file, (None, writable, handle));
            w.open(rank, task.file, writable);
            Next::To(Step::LastSent)
        }
        Operation::Read(_) | Operation::Write { absorb: false, .. } => Next::To(Step::Cheap),
        Operation::Write { absorb: true, .. } => Next::To(Step::Absorb { asked: false }),
        Operation::Truncate(size) => {
            w.request(rank, &Request::Truncate { file: number, size });
            Next::To(Step::Asked)
        }
        Operation::Fsync => {
            let bits = w.shared().files[number as usize].set_bits.load(Ordering::SeqCst);
            let handle = w.ranks[rank].open[&task.file].2.clone();
            if let Err(error) = handle.sync(Scope::All) {
                return Next::Failed(error.to_string());
            }
            if bits == 0 {
                return Next::Done;
            }
            w.request(rank, &Request::Sync { file: number });
            Next::To(Step::SyncSent)
        }
        Operation::Close => {
            w.request(rank, &Request::Close { file: number });
            Next::To(Step::LastSent)
        }
        Operation::Unlink => {
            let inode = w.files[task.file].inode;
            let removed = w.storage.remove(&path);
            if let Err(error) = removed {
                w.files[task.file].unlinked = false;
                return Next::Failed(error.to_string());
            }
            w.request(rank, &Request::Unlinked { inode });
            Next::To(Step::LastSent)
        }
        Operation::Rename => {
            let new = w.new_path();
            if let Err(error) = w.storage.rename(&path, &new) {
                return Next::Failed(error.to_string());
            }
            w.files[task.file].path = new.clone();
            let text = |path: &Path| path.to_str().expect("test paths are text").to_string();
            let (old, new) = (text(&path), text(&new));
            let paths = format!("{old}{new}");
            w.request(
                rank,
                &Request::Renamed { old_length: old.len() as u32, exchanged: false, paths: paths.as_bytes() },
            );
            Next::To(Step::LastSent)
        }
    }
}

/// Tries to write to a slab and to commit it.
fn absorb(w: &mut World, rank: usize, task: &mut Task, number: u32, asked: bool) -> Next {
    let Operation::Write { ref cells, .. } = task.operation else { unreachable!("only writes are absorbed") };
    let range = bytes_of(cells);
    let found = slab_for(w.slot(rank), number, range);
    let Some((data_file, place)) = found else {
        if asked {
            return Next::To(Step::Cheap);
        }
        w.request(rank, &Request::Slab { file: number, offset: range.offset, length: range.length });
        return Next::To(Step::SlabSent);
    };
    let bytes: Vec<u8> = cells.clone().flat_map(|cell| cell_bytes(task.file, cell, task.version)).collect();
    let path = Path::new(FLASH).join(data_file_name(data_file));
    let opened = w.storage.open(&path, Access::Existing);
    let written = opened.and_then(|file| file.write_at(&bytes, place).map(|()| file));
    w.ranks[rank].flash = None;
    if let Err(error) = written.map(|file| w.ranks[rank].flash = Some(file)) {
        w.ranks[rank].errors.push(error.to_string());
        return Next::To(Step::Cheap);
    }
    let (offset, length) = (range.offset, range.length);
    w.request(rank, &Request::Commit { file: number, data_file, offset, length, place });
    Next::To(Step::CommitSent)
}

fn slab_for(slot: &Slot, number: u32, range: Range) -> Option<(u32, u64)> {
    let within = range.offset % 4096;
    slot.slabs.iter().find_map(|slab| {
        let fits = slab.file.load(Ordering::Relaxed) == number
            && slab.length.load(Ordering::Acquire) >= (within + range.length).next_multiple_of(4096);
        fits.then(|| (slab.data_file.load(Ordering::Relaxed), slab.place.load(Ordering::Relaxed) + within))
    })
}

/// Publishes the slot and looks at the bits.
fn cheap(w: &mut World, rank: usize, task: &Task, number: u32) -> Next {
    let (cells, reads) = match &task.operation {
        Operation::Read(cells) => (cells, true),
        Operation::Write { cells, .. } => (cells, false),
        other => unreachable!("{other:?} is not cheap"),
    };
    let rest = Range::between(task.next, cells.end * CELL_BYTES);
    if !reads {
        w.files[task.file].history.go_direct(task.version);
    }
    let shared = w.shared();
    let entry = &shared.files[number as usize];
    let extends = !reads && rest.end() > entry.size.load(Ordering::Acquire);
    let kind = if reads {
        KIND_READ
    } else if extends {
        KIND_EXTEND
    } else {
        KIND_WRITE
    };
    let slot = &shared.slots[rank];
    slot.publish_cheap(kind, number, rest);
    if shared.all_clear(number, rest) && !(extends && entry.size_bit.load(Ordering::SeqCst) != 0) {
        return Next::To(Step::CheapIo);
    }
    slot.ask();
    let (offset, length) = (rest.offset, rest.length);
    let request = match reads {
        true => Request::Read { file: number, offset, length },
        false => Request::Write { file: number, offset, length, extends },
    };
    w.request(rank, &request);
    Next::To(Step::Asked)
}

/// Reads, writes or cuts the slow file; of a read, `length` bytes.
fn direct_io(task: &mut Task, file: &FileRef, length: Option<u64>) -> Result<(), String> {
    let result = match &task.operation {
        Operation::Read(cells) => {
            let length = length.unwrap_or(cells.end * CELL_BYTES - task.next);
            let mut bytes = vec![0; length as usize];
            let result = file.attributes().and_then(|found| {
                let there = found.size.saturating_sub(task.next).min(length) as usize;
                if there == 0 { Ok(()) } else { file.read_at(&mut bytes[..there], task.next) }
            });
            task.found.extend(bytes);
            task.next += length;
            result
        }
        Operation::Write { cells, .. } => {
            let bytes: Vec<u8> = cells.clone().flat_map(|cell| cell_bytes(task.file, cell, task.version)).collect();
            file.write_at(&bytes, cells.start * CELL_BYTES)
        }
        Operation::Truncate(size) => file.set_size(*size),
        other => unreachable!("{other:?} moves no bytes"),
    };
    result.map_err(|error| error.to_string())
}

fn flash_read(w: &mut World, rank: usize, task: &mut Task) -> Result<(), String> {
    let slot = w.slot(rank);
    let count = slot.pieces_count.load(Ordering::Acquire) as usize;
    let pieces = slot.pieces[..count].iter().map(|piece| {
        let (place, length) = (piece.place.load(Ordering::Relaxed), piece.length.load(Ordering::Relaxed));
        (piece.data_file.load(Ordering::Relaxed), place, length)
    });
    for (data_file, place, length) in pieces.collect::<Vec<_>>() {
        let path = Path::new(FLASH).join(data_file_name(data_file));
        let mut bytes = vec![0; length as usize];
        let read = w.storage.open(&path, Access::Existing).and_then(|file| file.read_at(&mut bytes, place));
        read.map_err(|error| error.to_string())?;
        task.found.extend(bytes);
    }
    Ok(())
}

impl Task {
    /// Whether it works on the file.
    pub fn is_on(&self, file: usize) -> bool {
        self.file == file
    }
}

/// Reads cells and returns their bytes unchecked.
pub fn read(w: &mut World, rank: usize, file: usize, cells: Cells<u64>) -> Result<Vec<u8>, String> {
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    begin(w, rank, file, Operation::Read(cells));
    for _ in 0..20_000 {
        let Some(mut task) = w.ranks[rank].task.take() else { break };
        match advance(w, rank, &mut task) {
            Next::To(step) => task.step = step,
            Next::Wait => w.poll(),
            Next::Done => {
                w.slot(rank).free();
                return Ok(task.found);
            }
            Next::Failed(error) => {
                w.slot(rank).free();
                return Err(error);
            }
        }
        w.ranks[rank].task = Some(task);
    }
    Err("no end is reached".into())
}
