//! Scripted threads, each a process of its own, that drive the protocol's [`Call`] over the faulty storage.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range as Cells;
use std::path::Path;
use std::sync::atomic::Ordering;

use headstart_overlay::{Answer, Process};
use headstart_policy::client::{self, Decision, Reason};
use headstart_policy::order::Distance;
use headstart_protocol::call::{Call, FlashFault, Moved, Step, Thread};
use headstart_protocol::data_file_name;
use headstart_protocol::message::Request;
use headstart_protocol::shared::{STATE_FREE, Shared, Slot};
use headstart_units::request::{Direction, Range};

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

/// Where an operation stands.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// It has only begun.
    Begin,
    /// It is about to make a step.
    Next(Step),
    /// It has made one that moves bytes, and its call is about to hear what came of it.
    Made(Moved),
    /// It awaits an answer.
    Asked,
}

/// An operation under way on a file.
#[derive(Clone, Debug)]
pub struct Task {
    file: usize,
    operation: Operation,
    begun: u64,
    version: u32,
    /// None while it has only begun, and of what is no request for bytes.
    call: Option<Call>,
    doing: Doing,
    found: Vec<u8>,
    /// What the user is told if it fails.
    error: Option<String>,
}

/// What a thread brings to its calls.
struct Library<'a> {
    index: u32,
    slot: &'a Slot,
    shared: Shared<'a>,
    absorbs: bool,
}

impl Thread for Library<'_> {
    fn slot(&self) -> &Slot {
        self.slot
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn shared(&self) -> Shared<'_> {
        self.shared
    }

    fn decide(&self, request: &client::Request) -> (client::Request, Decision) {
        let flash = Decision::Flash { benefit_ns: 1 };
        (*request, if self.absorbs { flash } else { Decision::Disk(Reason::NoBenefit) })
    }
}

/// A thread.
#[derive(Debug)]
pub struct Rank {
    pub process: Process,
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
        Rank { process, answer: None, task: None, open: BTreeMap::new(), flash: None, errors: Vec::new() }
    }
}

fn bytes_of(cells: &Cells<u64>) -> Range {
    Range::between(cells.start * CELL_BYTES, cells.end * CELL_BYTES)
}

/// How a step ends.
enum Next {
    GoesOn,
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
    let (call, doing, found, error) = (None, Doing::Begin, Vec::new(), None);
    w.ranks[rank].task = Some(Task { file, operation, begun, version, call, doing, found, error });
}

/// A thread is killed between two steps. What it was writing may or may not be there.
pub fn die(w: &mut World, rank: usize) {
    let process = Process { start_time: w.ranks[rank].process.start_time + 1, ..w.ranks[rank].process };
    let dead = std::mem::replace(&mut w.ranks[rank], Rank { process, ..Rank::new(rank) });
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
        Next::GoesOn => w.ranks[rank].task = Some(task),
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
    assert_eq!(w.slot(rank).state.load(Ordering::Relaxed), STATE_FREE, "its request has ended");
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
    match task.doing {
        Doing::Begin => match begin_call(w, rank, task) {
            Some((call, step)) => {
                task.call = Some(call);
                follow(w, rank, task, step)
            }
            None => {
                task.doing = Doing::Asked;
                control(w, rank, task)
            }
        },
        Doing::Next(Step::Look) => {
            let (library, call) = (library(w, rank, task), task.call.as_mut());
            let step = call.expect("it has begun").look(&library);
            follow(w, rank, task, step)
        }
        Doing::Next(Step::Push) => {
            let (library, call) = (library(w, rank, task), task.call.as_mut());
            task.doing = Doing::Next(call.expect("it has begun").push(&library));
            Next::GoesOn
        }
        Doing::Next(Step::Tell(_)) => {
            let (library, call) = (library(w, rank, task), task.call.as_mut());
            let step = call.expect("it has begun").on_told(&library);
            follow(w, rank, task, step)
        }
        Doing::Next(step) => {
            task.doing = Doing::Made(transfer(w, rank, task, step));
            Next::GoesOn
        }
        Doing::Made(moved) => {
            let (library, call) = (library(w, rank, task), task.call.as_mut());
            let step = call.expect("it has begun").on_moved(&library, moved);
            follow(w, rank, task, step)
        }
        Doing::Asked => match w.ranks[rank].answer.take() {
            Some(answer) => on_answer(w, rank, task, answer),
            None => Next::Wait,
        },
    }
}

/// Asks at once what is to be asked.
fn follow(w: &mut World, rank: usize, task: &mut Task, step: Step) -> Next {
    task.doing = Doing::Next(step);
    match step {
        Step::Ask(request) => {
            task.doing = Doing::Asked;
            w.request(rank, &request);
            Next::GoesOn
        }
        Step::AskPushed(request) => {
            task.doing = Doing::Asked;
            w.request_again(rank, &request);
            Next::GoesOn
        }
        Step::Done => match task.call.expect("it has begun").result() {
            Ok(_) => Next::Done,
            Err(failure) => Next::Failed(task.error.take().unwrap_or_else(|| format!("{failure:?}"))),
        },
        Step::Look => {
            if let Operation::Write { .. } = task.operation {
                w.files[task.file].history.go_direct(task.version);
            }
            Next::GoesOn
        }
        Step::Slow(_) | Step::Flash { .. } | Step::Push | Step::Tell(_) | Step::Sync => Next::GoesOn,
    }
}

fn on_answer(w: &mut World, rank: usize, task: &mut Task, answer: Answer) -> Next {
    if let Answer::Error { errno, text } = &answer {
        task.error = Some(format!("{errno}: {text}"));
    }
    let Some(mut call) = task.call else {
        return match answer {
            Answer::Opened { file } => {
                if let Some(open) = w.ranks[rank].open.get_mut(&task.file) {
                    open.0 = Some(file);
                }
                Next::Done
            }
            Answer::Done => Next::Done,
            other => Next::Failed(task.error.take().unwrap_or_else(|| format!("{other:?}"))),
        };
    };
    let library = library(w, rank, task);
    let step = call.on_answer(&library, (&answer).into());
    let step = step.unwrap_or_else(|_| panic!("{answer:?} is no answer to {task:?}"));
    task.call = Some(call);
    follow(w, rank, task, step)
}

fn library<'a>(w: &'a World, rank: usize, task: &Task) -> Library<'a> {
    let absorbs = matches!(task.operation, Operation::Write { absorb: true, .. });
    Library { index: rank as u32, slot: w.slot(rank), shared: w.shared(), absorbs }
}

/// None of what moves no bytes.
fn begin_call(w: &World, rank: usize, task: &Task) -> Option<(Call, Step)> {
    let number = w.ranks[rank].open.get(&task.file).and_then(|open| open.0).unwrap_or(u32::MAX);
    let library = library(w, rank, task);
    let request = |direction, cells| client::Request { direction, range: bytes_of(cells), distance: Distance::far(0) };
    Some(match &task.operation {
        Operation::Read(cells) => Call::read(number, request(Direction::Read, cells)),
        Operation::Write { cells, .. } => Call::write(&library, number, request(Direction::Write, cells)),
        Operation::Truncate(size) => Call::truncate(number, *size),
        Operation::Fsync => Call::sync(&library, number),
        Operation::Open { .. } | Operation::Close | Operation::Unlink | Operation::Rename => return None,
    })
}

/// What moves no bytes: the kernel's part, and a message.
fn control(w: &mut World, rank: usize, task: &Task) -> Next {
    let path = w.files[task.file].path.clone();
    match task.operation {
        Operation::Open { writable } => {
            let handle = match w.storage.open(&path, Access::Slow) {
                Ok(handle) => handle,
                Err(error) => return Next::Failed(error.to_string()),
            };
            let writable = writable || w.ranks[rank].open.get(&task.file).is_some_and(|open| open.1);
            w.ranks[rank].open.insert(task.file, (None, writable, handle));
            w.open(rank, task.file, writable);
        }
        Operation::Close => {
            let file = w.ranks[rank].open.get(&task.file).and_then(|open| open.0).unwrap_or(u32::MAX);
            w.request(rank, &Request::Close { file });
        }
        Operation::Unlink => {
            let inode = w.files[task.file].inode;
            if let Err(error) = w.storage.remove(&path) {
                w.files[task.file].unlinked = false;
                return Next::Failed(error.to_string());
            }
            w.request(rank, &Request::Unlinked { inode });
        }
        Operation::Rename => {
            let new = w.new_path();
            if let Err(error) = w.storage.rename(&path, &new) {
                return Next::Failed(error.to_string());
            }
            w.files[task.file].path = new.clone();
            let text = |path: &Path| path.to_str().expect("test paths are text").to_string();
            let (old, new) = (text(&path), text(&new));
            let (old_length, paths) = (old.len() as u32, format!("{old}{new}"));
            w.request(rank, &Request::Renamed { old_length, exchanged: false, paths: paths.as_bytes() });
        }
        ref other => unreachable!("{other:?} is a call"),
    }
    Next::GoesOn
}

/// Moves the bytes of a step. What fails is said to the user if the operation comes to nothing for it.
fn transfer(w: &mut World, rank: usize, task: &mut Task, step: Step) -> Moved {
    let slow = w.ranks[rank].open[&task.file].2.clone();
    let result = match step {
        Step::Slow(range) => direct_io(task, &slow, range),
        Step::Flash { range, data_file, place } => flash_io(w, rank, task, (range, data_file, place)),
        Step::Sync => slow.sync(Scope::All).map(|()| 0),
        other => unreachable!("{other:?} moves nothing"),
    };
    result.map_or_else(
        |error| {
            task.error.get_or_insert(error.to_string());
            let is_flash = matches!(step, Step::Flash { .. });
            if is_flash { Moved::FlashFailed(FlashFault::Broken) } else { Moved::Failed(libc::EIO) }
        },
        Moved::Bytes,
    )
}

/// Reads, writes or cuts the slow file. Behind its end a read finds zeros.
fn direct_io(task: &mut Task, file: &FileRef, range: Range) -> io::Result<u64> {
    match &task.operation {
        Operation::Read(_) => {
            let mut bytes = vec![0; range.length as usize];
            let there = file.attributes()?.size.saturating_sub(range.offset).min(range.length) as usize;
            if there > 0 {
                file.read_at(&mut bytes[..there], range.offset)?;
            }
            find(task, range, &bytes);
            Ok(range.length)
        }
        Operation::Write { .. } => file.write_at(&bytes_at(task, range), range.offset).map(|()| range.length),
        Operation::Truncate(size) => file.set_size(*size).map(|()| 0),
        other => unreachable!("{other:?} moves no bytes"),
    }
}

fn flash_io(w: &mut World, rank: usize, task: &mut Task, at: (Range, u32, u64)) -> io::Result<u64> {
    let (range, data_file, place) = at;
    let path = Path::new(FLASH).join(data_file_name(data_file));
    if let Operation::Read(_) = task.operation {
        let mut bytes = vec![0; range.length as usize];
        w.storage.open(&path, Access::Existing)?.read_at(&mut bytes, place)?;
        find(task, range, &bytes);
    } else {
        w.ranks[rank].flash = None;
        let file = w.storage.open(&path, Access::Existing)?;
        file.write_at(&bytes_at(task, range), place)?;
        w.ranks[rank].flash = Some(file);
    }
    Ok(range.length)
}

/// What a read finds there; what was in vain is found anew.
fn find(task: &mut Task, range: Range, bytes: &[u8]) {
    if let Operation::Read(cells) = &task.operation {
        task.found.truncate((range.offset - cells.start * CELL_BYTES) as usize);
    }
    task.found.extend(bytes);
}

/// What a write writes there.
fn bytes_at(task: &Task, range: Range) -> Vec<u8> {
    assert!(range.offset.is_multiple_of(CELL_BYTES) && range.length.is_multiple_of(CELL_BYTES));
    let cells = range.offset / CELL_BYTES..range.end() / CELL_BYTES;
    cells.flat_map(|cell| cell_bytes(task.file, cell, task.version)).collect()
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
            Next::GoesOn => {}
            Next::Wait => w.poll(),
            Next::Done => return Ok(task.found),
            Next::Failed(error) => return Err(error),
        }
        w.ranks[rank].task = Some(task);
    }
    Err("no end is reached".into())
}
