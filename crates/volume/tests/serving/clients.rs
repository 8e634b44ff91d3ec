//! Users of a served disk, and the reference model that explains what they read.
//!
//! The model is that of the engine's crash tests: each sector an atomic register. A request begins before it
//! is submitted and ends in its callback, on the volume's thread, both under the model's lock; so whatever
//! the threads do, times are those a user could have seen.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use headstart_units::SECTOR_BYTES;
use headstart_units::chance::Random;
use headstart_units::request::Range;
use headstart_volume::block::{Block, Buffer, Request};
use headstart_volume::server::Handle;
use headstart_volume::storage::buffers::zeroed;

use crate::register::{FIRST, NEVER, Register, sector_bytes};

/// What a disk holds before its first user.
pub fn first_bytes(disk_bytes: u64) -> Vec<u8> {
    (0..disk_bytes / SECTOR_BYTES).flat_map(|sector| sector_bytes(FIRST, sector)).collect()
}

struct State {
    register: Register,
    now: u64,
    versions: u32,
    waiting: usize,
    violations: Vec<String>,
    /// Requests may fail.
    may_fail: bool,
}

/// The model of one disk.
#[derive(Clone)]
pub struct Model {
    state: Arc<(Mutex<State>, Condvar)>,
    disk_bytes: u64,
}

impl Model {
    pub fn new(disk_bytes: u64) -> Model {
        let (register, violations) = (Register::new(disk_bytes), Vec::new());
        let state = State { register, now: 1, versions: FIRST, waiting: 0, violations, may_fail: false };
        Model { state: Arc::new((Mutex::new(state), Condvar::new())), disk_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    fn everything(&self) -> Range {
        Range::new(0, self.disk_bytes)
    }

    /// Submits a request; its end is checked whenever it comes.
    pub fn submit(&self, handle: &Handle, ask: Ask) {
        let mut state = self.lock();
        state.now += 1;
        state.waiting += 1;
        let begun = state.now;
        let (request, version) = match ask {
            Ask::Read(range) => (Request::Read(range), 0),
            Ask::Flush => (Request::Flush, 0),
            Ask::Zero { range, fua } => {
                state.versions += 1;
                let version = state.versions;
                state.register.begin_write(range, version, true, begun);
                (Request::Zero { range, fua }, version)
            }
            Ask::Write { range, fua } => {
                state.versions += 1;
                let version = state.versions;
                state.register.begin_write(range, version, false, begun);
                (Request::Write { offset: range.offset, data: contents(range, version), fua }, version)
            }
        };
        drop(state);
        let model = self.clone();
        handle.submit(request, Box::new(move |result| model.end(ask, version, begun, result)));
    }

    fn end(&self, ask: Ask, version: u32, begun: u64, result: std::io::Result<Buffer>) {
        let mut state = self.lock();
        let state = &mut *state;
        state.now += 1;
        state.waiting -= 1;
        self.state.1.notify_all();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                if !state.may_fail {
                    state.violations.push(format!("{ask:?} failed: {error}"));
                }
                return;
            }
        };
        match ask {
            Ask::Read(range) => {
                assert_eq!(bytes.len() as u64, range.length, "a read returns what was asked for");
                for (sector, bytes) in sectors(range).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                    state.violations.extend(state.register.read(sector, bytes, begun, state.now).err());
                }
            }
            Ask::Write { range, fua } | Ask::Zero { range, fua } => {
                state.register.end_write(range, version, state.now);
                if fua {
                    state.register.written_through(range, version);
                }
            }
            Ask::Flush => state.register.flushed(self.everything(), begun),
        }
    }

    /// Waits until no more than `depth` requests wait, or `is_over` says that none will be answered.
    pub fn wait(&self, depth: usize, is_over: impl Fn() -> bool) {
        let mut state = self.lock();
        while state.waiting > depth && !is_over() {
            // Looked at again now and then: what is over is not announced here.
            state = self.state.1.wait_timeout(state, Duration::from_millis(2)).unwrap().0;
        }
    }

    /// Whether requests may fail from now on.
    pub fn let_fail(&self, may_fail: bool) {
        self.lock().may_fail = may_fail;
    }

    /// What was found wrong.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// After a crash and a start, what is read is what the disk holds from now on.
    pub fn settle(&self, handle: &Handle, rotten: bool) {
        let read = handle.call(Request::Read(self.everything())).expect("everything can be read after a crash");
        let mut state = self.lock();
        let state = &mut *state;
        state.now += 1;
        for (sector, bytes) in sectors(self.everything()).zip(read.chunks(SECTOR_BYTES as usize)) {
            state.violations.extend(state.register.settle(sector, bytes, state.now, rotten).err());
        }
    }

    /// The raw disk of a volume that has ended holds what its users would read.
    pub fn check_disk(&self, disk: &[u8]) {
        let mut state = self.lock();
        let state = &mut *state;
        for (sector, bytes) in sectors(self.everything()).zip(disk.chunks(SECTOR_BYTES as usize)) {
            let read = state.register.read(sector, bytes, state.now, state.now);
            state.violations.extend(read.err().map(|error| format!("raw disk: {error}")));
        }
    }
}

fn sectors(range: Range) -> std::ops::Range<u64> {
    range.offset / SECTOR_BYTES..range.end() / SECTOR_BYTES
}

fn contents(range: Range, version: u32) -> Buffer {
    assert_ne!(version, NEVER);
    let mut data = zeroed(range.length as usize);
    for (sector, bytes) in sectors(range).zip(data.chunks_mut(SECTOR_BYTES as usize)) {
        bytes.copy_from_slice(&sector_bytes(version, sector));
    }
    data
}

/// A request of a user.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    Read(Range),
    Write { range: Range, fua: bool },
    Zero { range: Range, fua: bool },
    Flush,
}

/// Any request; those of different users overlap often.
pub fn any(random: &mut Random, disk_bytes: u64) -> Ask {
    let sectors = disk_bytes / SECTOR_BYTES;
    let length = match random.below(10) {
        0..=4 => 8,
        5..=7 => 1 + random.below(8),
        8 => 1 + random.below(24),
        _ => 8 * (1 + random.below(4)),
    };
    let hot = if random.chance(60) { sectors.min(64) } else { sectors };
    let unit = if random.chance(60) { 8 } else { 1 };
    let first = random.below(hot) / unit * unit;
    let range = Range::new(first * SECTOR_BYTES, length.min(sectors - first) * SECTOR_BYTES);
    match random.below(100) {
        0..=29 => Ask::Read(range),
        30..=82 => Ask::Write { range, fua: random.chance(8) },
        83..=90 => Ask::Zero { range, fua: random.chance(10) },
        _ => Ask::Flush,
    }
}
