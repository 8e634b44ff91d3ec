//! One agent with its threads over faulty storage: the overlay, the store and the jobs as the event loop
//! drives them, in an order that comes from a seed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use headstart_overlay::Settings;
use headstart_overlay::journal::{Header, Identity};
use headstart_policy::client::FetchTurn;
use headstart_protocol::memory::Memory;
use headstart_protocol::message::{Envelope, Request};
use headstart_protocol::shared::{Shared, Slot};
use headstart_units::Capacity;
use headstart_units::request::Range;

use super::history::{CELL_BYTES, History, Loss};
use super::ranks::{self, Operation, Rank};
use crate::error::Error;
use crate::node_files::NodeFiles;
use crate::storage::faulty::{Disk, FaultyStorage};
use crate::store::{self, Left, Place, Store};
use crate::tiers::{Due, SharedMemory, Tiers};
use headstart_units::chance::Random;

pub const RANKS: usize = 3;
/// Slow files at the start.
pub const FILES: usize = 3;
/// Cells that operations touch: three pages and a bit of each file.
const CELLS: u64 = 52;
const ENTRIES: usize = 12;
const COPIES: usize = 8;
/// From one poll to the next.
const POLL_NS: u64 = 20_000_000;
/// So few that data files are closed and opened all the time.
const DATA_FILES_OPEN_MAX: usize = 2;

pub const SLOW: &str = "/slow";
pub const FAST: &str = "/fast";
pub const FLASH: &str = "/fast/.headstart";
pub const RUNTIME: &str = "/run";

/// A slow file.
#[derive(Clone, Debug)]
pub struct SlowPath {
    pub path: PathBuf,
    pub inode: u64,
    /// Its removal has begun: nothing is promised of it any more.
    pub unlinked: bool,
    pub history: History,
}

/// See the module.
pub struct World {
    pub random: Random,
    polls: u64,
    pub storage: FaultyStorage,
    pub tiers: Tiers<Arc<Memory>>,
    pub ranks: Vec<Rank>,
    pub files: Vec<SlowPath>,
    jobs: Vec<Due>,
    /// Of a thread's steps, how many it is killed instead of.
    kills_percent: u64,
    versions: u32,
    names: u32,
    /// A sync failed: what was not synced may be gone.
    pub lossy: bool,
    /// Why the agent ended.
    pub fatal: Option<Error>,
    pub violations: Vec<String>,
}

/// An empty disk with some slow files.
pub fn new_disk() -> (Disk, Vec<SlowPath>) {
    let mut disk = Disk::default();
    let files = (0..FILES)
        .map(|file| {
            let path = Path::new(SLOW).join(format!("f{file}"));
            SlowPath { inode: disk.create(&path), path, unlinked: false, history: History::new(file) }
        })
        .collect();
    disk.settle();
    (disk, files)
}

fn identity(inode: u64) -> Identity {
    Identity { inode, birth_ns: 0 }
}

impl SharedMemory for Arc<Memory> {
    fn view(&self) -> Shared<'_> {
        Memory::view(self)
    }

    fn reserve_listing(&mut self, _: u32) -> bool {
        true
    }
}

impl World {
    /// Starts an agent on a disk, as after a boot or as after the death of an agent of the same boot.
    pub fn start(
        seed: u64,
        storage: FaultyStorage,
        boot: u8,
        files: Vec<SlowPath>,
        versions: u32,
    ) -> Result<World, Error> {
        let mut random = Random(seed);
        let settings = Settings {
            capacity: Capacity::Bytes(random.pick(&[6, 12, 30]) * 4096),
            dirty_high: random.pick(&[0.0, 0.5]),
            dirty_low: 0.0,
            copies_max: random.pick(&[1, 4]),
            write_back_bytes_max: random.pick(&[4096, 65536]),
            write_back_leap_bytes: [0, 8192][seed as usize % 2],
            critical_max: 8,
            slab_bytes_max: random.pick(&[4096, 16384]),
            ..Settings::default()
        };
        let (boot_id, own) = ([boot; 16], NodeFiles::first(Path::new(FAST)));
        let found = store::recover(&storage, &own, Path::new(RUNTIME), boot_id)?;
        let memory = Arc::new(Memory::new(ENTRIES, RANKS, COPIES));
        storage.disk().rings.put_into(&memory);
        storage.share(Arc::clone(&memory));
        let place = Place {
            storage: Arc::new(storage.clone()),
            files: &own,
            runtime: Path::new(RUNTIME),
            data_files_open_max: DATA_FILES_OPEN_MAX,
        };
        let left = Left { recovered: found.recovered, shared: memory.view(), living: &BTreeSet::new() };
        let header = Header { boot_id, epoch: found.epoch + 1 };
        let (store, overlay) = Store::begin(place, header, settings, left)?;
        let (journal_bytes_max, kills_percent) = (random.pick(&[700, 3000]), random.pick(&[0, 2, 15]));
        let tiers = Tiers::new(overlay, store, memory, journal_bytes_max);
        let mut world = World {
            random,
            polls: 0,
            storage,
            tiers,
            ranks: (0..RANKS).map(Rank::new).collect(),
            files,
            jobs: Vec::new(),
            kills_percent,
            versions,
            names: versions,
            lossy: false,
            fatal: None,
            violations: Vec::new(),
        };
        (0..RANKS).for_each(|rank| world.join(rank));
        world.carry_out();
        match world.fatal.take() {
            Some(error) => Err(error),
            None => Ok(world),
        }
    }

    /// A thread takes its slot.
    fn join(&mut self, rank: usize) {
        let process = self.ranks[rank].process;
        self.slot(rank).owner_pid.store(process.pid, Ordering::Relaxed);
        self.tiers.overlay.on_join(rank as u32, process);
    }

    /// A thread is killed; another takes its place once the slot is free.
    pub fn kill(&mut self, rank: usize) {
        ranks::die(self, rank);
        self.tiers.hang_up(rank as u32);
        self.carry_out();
    }

    fn is_alive(&self, rank: usize) -> bool {
        self.tiers.overlay.owner(rank as u32).is_some()
    }

    pub fn shared(&self) -> Shared<'_> {
        self.tiers.shared.view()
    }

    pub fn slot(&self, rank: usize) -> &Slot {
        &self.tiers.shared.slots[rank]
    }

    pub fn next_version(&mut self) -> u32 {
        self.versions += 1;
        self.versions
    }

    pub fn versions(&self) -> u32 {
        self.versions
    }

    pub fn new_path(&mut self) -> PathBuf {
        self.names += 1;
        Path::new(SLOW).join(format!("n{}", self.names))
    }

    pub fn violation(&mut self, result: Result<(), String>, what: &str) {
        if let Err(text) = result {
            self.violations.push(format!("{what}: {text}"));
        }
    }

    /// Sends a request of a thread.
    pub fn request(&mut self, rank: usize, request: &Request<'_>) {
        self.envelope(rank);
        self.request_again(rank, request);
    }

    /// The same under the slot's number as it is: of a commit that was pushed.
    pub fn request_again(&mut self, rank: usize, request: &Request<'_>) {
        let seq = self.tiers.shared.slots[rank].seq.load(Ordering::Relaxed);
        let envelope = Envelope { slot: rank as u32, seq };
        match *request {
            Request::Unlinked { inode } => {
                self.tiers.overlay.on_unlinked(self.tiers.shared.view(), envelope, inode, |_| false);
            }
            _ => self.tiers.overlay.on_request(self.tiers.shared.view(), 1, envelope, request),
        }
        self.carry_out();
        if let Request::Close { file } = *request {
            self.tiers.take_fingerprint(file);
            self.carry_out();
        }
    }

    fn envelope(&mut self, rank: usize) -> Envelope {
        let seq = self.tiers.shared.slots[rank].seq.load(Ordering::Relaxed) + 1;
        self.tiers.shared.slots[rank].seq.store(seq, Ordering::Relaxed);
        Envelope { slot: rank as u32, seq }
    }

    /// A thread opens a slow file.
    pub fn open(&mut self, rank: usize, file: usize, writable: bool) {
        let envelope = self.envelope(rank);
        let identity = identity(self.files[file].inode);
        let path = self.files[file].path.to_str().expect("test paths are text").to_string();
        if let Err(answer) = self.tiers.open(envelope, identity, writable, path.as_bytes()) {
            self.ranks[rank].answer = Some(answer);
        }
        self.carry_out();
    }

    /// As the event loop does it after every event.
    fn carry_out(&mut self) {
        while self.fatal.is_none() {
            let outputs = match self.tiers.store_records() {
                Ok(outputs) => outputs,
                Err(error) => {
                    self.fatal = Some(error);
                    return;
                }
            };
            for output in outputs {
                match self.tiers.carry_out(output) {
                    Err(error) => {
                        self.fatal = Some(error);
                        return;
                    }
                    Ok(Some(Due::Reply(envelope, answer))) => {
                        self.ranks[envelope.slot as usize].answer = Some(answer);
                    }
                    Ok(due) => self.jobs.extend(due),
                }
            }
            if self.tiers.overlay.is_settled() {
                return;
            }
        }
    }

    fn settle(&mut self) {
        if self.fatal.is_none() {
            self.tiers.keep_descriptors();
            self.carry_out();
        }
        if self.fatal.is_some() {
            return;
        }
        match self.tiers.replace_grown_journal() {
            Ok(Some(_)) => self.carry_out(),
            Ok(None) => {}
            Err(error) => self.fatal = Some(error),
        }
    }

    pub fn poll(&mut self) {
        // Time goes by in polls alone: programs that do nothing during three of them pause.
        self.polls += 1;
        self.tiers.overlay.set_time(self.polls * POLL_NS);
        self.tiers.poll();
        self.carry_out();
    }

    /// Runs one job to its end.
    fn run_job(&mut self) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let at = self.random.below(self.jobs.len() as u64) as usize;
        let completion = match self.jobs.remove(at) {
            Due::Reply(..) => unreachable!("answers are no jobs"),
            Due::Copy(job) => job.run(&mut vec![0; job.order.range.length as usize]),
            Due::Sync(job) => job.run(),
            Due::Ended(completion) => completion,
        };
        self.note_failed_syncs();
        self.tiers.complete(completion);
        self.carry_out();
        true
    }

    /// What the kernel may have forgotten.
    pub fn note_failed_syncs(&mut self) {
        let failed = self.storage.failed_syncs();
        self.lossy |= !failed.is_empty();
        for file in &mut self.files {
            let own = failed.iter().filter(|(_, inode)| *inode == file.inode).map(|(tick, _)| *tick);
            let doubts = &mut file.history.doubts;
            own.for_each(|tick| {
                if !doubts.contains(&tick) {
                    doubts.push(tick)
                }
            });
        }
    }

    /// One step of anybody.
    pub fn step(&mut self, begins: bool) {
        match self.random.below(10) {
            0..6 => {
                let rank = self.random.below(RANKS as u64) as usize;
                if !self.is_alive(rank) {
                    if self.slot(rank).owner_pid.load(Ordering::Relaxed) == 0 {
                        self.join(rank);
                    }
                } else if begins && self.random.chance(self.kills_percent) {
                    self.kill(rank);
                } else if self.ranks[rank].task.is_some() {
                    ranks::step(self, rank);
                } else if begins {
                    self.choose(rank);
                }
            }
            6..9 => drop(self.run_job()),
            _ => self.poll(),
        }
        self.note_failed_syncs();
        self.settle();
    }

    fn choose(&mut self, rank: usize) {
        let file = self.random.below(self.files.len() as u64) as usize;
        if self.files[file].unlinked {
            return;
        }
        let first = self.random.below(CELLS - 20);
        let cells = first..first + 1 + self.random.below(20);
        let choice = self.random.below(100);
        if let Some((Some(number), ..)) = self.ranks[rank].open.get(&file)
            && self.random.chance(20)
        {
            let range = Range::between(cells.start * CELL_BYTES, cells.end * CELL_BYTES);
            self.tiers.shared.view().hint(rank as u32, *number, range, 1 << 30, FetchTurn::Soon);
        }
        let operation = match self.ranks[rank].open.get(&file) {
            None => Operation::Open { writable: choice < 85 },
            Some((None, ..)) => return,
            Some((_, writable, _)) => match choice {
                0..15 => Operation::Read(cells),
                15..75 if !writable => Operation::Open { writable: true },
                15..50 => Operation::Write { cells, absorb: true },
                50..65 => Operation::Write { cells, absorb: false },
                65..70 => Operation::Truncate(first * CELL_BYTES),
                70..85 => Operation::Fsync,
                85..94 => Operation::Close,
                94..98 => Operation::Rename,
                _ if self.is_idle(file) => Operation::Unlink,
                _ => Operation::Fsync,
            },
        };
        ranks::begin(self, rank, file, operation);
    }

    fn is_idle(&self, file: usize) -> bool {
        !self.ranks.iter().any(|rank| rank.task.as_ref().is_some_and(|task| task.is_on(file)))
    }

    /// Runs until nobody has anything under way.
    pub fn quiesce(&mut self) {
        for _ in 0..20_000 {
            if self.fatal.is_some() || !self.violations.is_empty() {
                return;
            }
            if self.jobs.is_empty() && self.ranks.iter().all(|rank| rank.task.is_none()) {
                self.poll();
                if self.jobs.is_empty() {
                    return;
                }
            }
            self.step(false);
        }
        let stuck: Vec<_> = self.ranks.iter().filter(|rank| rank.task.is_some()).collect();
        self.violations.push(format!("no end is reached: {stuck:?}, {} jobs", self.jobs.len()));
    }

    /// One operation of one thread, to its end; the others stand still. The error it ended with.
    pub fn run(&mut self, rank: usize, file: usize, operation: Operation) -> Result<(), String> {
        let errors = self.ranks[rank].errors.len();
        ranks::begin(self, rank, file, operation);
        for _ in 0..20_000 {
            if self.ranks[rank].task.is_none() || self.fatal.is_some() {
                break;
            }
            if !ranks::step(self, rank) && !self.run_job() {
                self.poll();
            }
            self.note_failed_syncs();
            self.settle();
        }
        if self.ranks[rank].task.is_some() {
            return Err(format!("no end is reached: {:?}", self.fatal));
        }
        self.ranks[rank].errors.get(errors).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Drains, and ends what can end.
    pub fn drain(&mut self) {
        self.tiers.overlay.drain(true);
        for _ in 0..6 {
            self.tiers.overlay.request_barrier();
            self.poll();
            self.quiesce();
        }
        self.tiers.overlay.drain(false);
    }

    /// Reads every file through the overlay and compares; all that is seen becomes the only truth.
    pub fn check_contents(&mut self, moment: u64, loss: Loss) {
        let disk = self.storage.disk();
        for file in 0..self.files.len() {
            let named =
                disk.list(Path::new(SLOW)).into_iter().find(|path| disk.find(path) == Some(self.files[file].inode));
            let Some(path) = named.filter(|_| !self.files[file].unlinked) else {
                if !self.files[file].unlinked {
                    self.violations.push(format!("file {file} is gone"));
                }
                continue;
            };
            self.files[file].path = path;
            self.check_file(file, moment, loss);
        }
    }

    fn check_file(&mut self, file: usize, moment: u64, loss: Loss) {
        let history = self.files[file].history.clone();
        let cells = history.cells();
        let mut versions = Vec::new();
        // What these operations do to the history is not wanted.
        self.files[file].history = History::new(file);
        let opened = self.run(0, file, Operation::Open { writable: false });
        if let Err(error) = opened {
            return self.violations.push(format!("file {file} cannot be opened: {error}"));
        }
        // At once, or cell by cell where some may be lost.
        let length = if self.lossy { 1 } else { cells.max(1) };
        let parts = (0..cells).step_by(length as usize).map(|first| first..(first + length).min(cells));
        for part in parts {
            let first = part.start;
            match ranks::read(self, 0, file, part) {
                Ok(bytes) => match history.check(first, &bytes, moment, moment, loss) {
                    Ok(seen) => versions.extend(seen),
                    Err(text) => {
                        self.violations.push(text);
                        break;
                    }
                },
                Err(error) if self.lossy && error.starts_with("5: absorbed bytes were lost") => versions.push(u32::MAX),
                Err(error) => self.violations.push(format!("file {file} cannot be read: {error}")),
            }
        }
        let _ = self.run(0, file, Operation::Close);
        let size = self.storage.disk().inode(self.files[file].inode).now.size;
        let sized = history.check_size(size, moment, loss);
        self.violation(sized, "after the crash");
        self.files[file].history = history;
        self.files[file].history.settle(versions, size, moment, loss);
    }

    /// Everything is on the slow files: they hold what the histories say.
    pub fn check_drained(&mut self) {
        let kept = self.files.iter().filter(|file| !file.unlinked);
        let numbers: Vec<u32> = kept.filter_map(|file| self.tiers.overlay.find(identity(file.inode))).collect();
        let dirty = self.tiers.overlay.file_list().filter(|(number, _, dirty, error)| {
            *dirty > 0 && numbers.contains(number) && !(self.lossy && *error == Some(libc::EIO))
        });
        let dirty: Vec<String> = dirty.map(|file| format!("{file:?}")).collect();
        if !dirty.is_empty() {
            self.violations.push(format!("dirty bytes do not drain: {dirty:?}"));
        }
        let now = self.storage.tick();
        let disk = self.storage.disk();
        for file in 0..self.files.len() {
            let SlowPath { path, unlinked, history, .. } = &self.files[file];
            let number = self.tiers.overlay.find(identity(self.files[file].inode));
            let kept = self.tiers.overlay.file_list().any(|(other, _, dirty, _)| Some(other) == number && dirty > 0);
            let Some(mut bytes) = disk.bytes(path).filter(|_| !unlinked && !kept) else { continue };
            let size = bytes.len() as u64;
            bytes.resize((history.cells() * CELL_BYTES).max(size) as usize, 0);
            let loss = if self.lossy { Loss::Power } else { Loss::Processes };
            let checked = history.check(0, &bytes, now, now, loss).map(|_| ());
            let sized = history.check_size(size, now, loss);
            self.violation(checked.and(sized), "after the drain");
        }
    }
}
