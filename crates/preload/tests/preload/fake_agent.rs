//! An agent just good enough to test the library: one thread, the map in memory, always new flash space, nothing
//! durable.
//!
//! It keeps the protocol's order (bits, fence, wait for cheap requests, then the map), leases exclude commits, and a
//! new agent adopts slots and map. It never frees flash space, and it takes every process at its word.

mod answers;
mod files;
mod server;
mod sockets;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use headstart_policy::client::carl::Regions;
use headstart_policy::client::s4d::Critical;
use headstart_policy::cost::benefit::Parameters;
use headstart_protocol::counters::{RequestCounters, families};
use headstart_protocol::deadline::Deadline;
use headstart_protocol::read_times::Side;
use headstart_protocol::shared::{Counter, MAGIC, STATE_CHEAP, Shared};
use headstart_protocol::{FLASH_DIRECTORY, PROTOCOL_VERSION, SHARED_FILE, SOCKET_FILE};
use headstart_units::request::Range;

use files::Inner;
use server::Server;
use sockets::{listen, map};

/// The fake agent and the directories of one test.
pub struct Agent {
    pub root: PathBuf,
    pub slow: PathBuf,
    pub fast: PathBuf,
    pub runtime: PathBuf,
    shared: Shared<'static>,
    inner: Arc<Mutex<Inner>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    parameters: Parameters,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Agent {
    /// Starts one in fresh directories.
    pub fn start() -> Agent {
        Agent::start_with(Parameters::default())
    }

    /// Starts one that hands out `parameters`.
    pub fn start_with(parameters: Parameters) -> Agent {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("headstart-preload-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for directory in ["slow", "fast", "runtime", "outside"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let root = fs::canonicalize(root).unwrap();
        let (slow, fast, runtime) = (root.join("slow"), root.join("fast"), root.join("runtime"));
        fs::create_dir(fast.join(FLASH_DIRECTORY)).unwrap();
        let shared = map(&runtime.join(SHARED_FILE));
        shared.header.version.store(PROTOCOL_VERSION.into(), Ordering::Relaxed);
        shared.header.free_bytes.store(1 << 40, Ordering::Relaxed);
        shared.header.magic.store(MAGIC, Ordering::Release);
        let (inner, stop) = (Arc::default(), Arc::default());
        let mut agent = Agent { root, slow, fast, runtime, shared, inner, stop, thread: None, parameters };
        agent.serve();
        agent
    }

    /// Listens; as a new agent if one was stopped before.
    pub fn serve(&mut self) {
        self.stop = Arc::default();
        self.shared.header.epoch.fetch_add(1, Ordering::Relaxed);
        let listener = listen(&self.runtime.join(SOCKET_FILE));
        let server = Server {
            listener,
            shared: self.shared,
            inner: self.inner.clone(),
            stop: self.stop.clone(),
            fast: self.fast.clone(),
            slow: self.slow.clone(),
            parameters: self.parameters.clone(),
            connections: Vec::new(),
            waiting: Vec::new(),
        };
        self.thread = Some(std::thread::spawn(move || server.run()));
    }

    /// Dies: connections break, the shared file and the map stay.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        let _ = fs::remove_file(self.runtime.join(SOCKET_FILE));
    }

    /// From now on commits are applied, but never answered.
    pub fn swallow_commits(&self, swallow: bool) {
        self.inner.lock().unwrap().swallow_commits = swallow;
    }

    /// From now on reads, direct writes, truncations and write-backs wait for their answer, or no longer do.
    pub fn hold_asks(&self, hold: bool) {
        self.inner.lock().unwrap().hold_asks = hold;
    }

    /// How often one was put off.
    pub fn held_asks(&self) -> u64 {
        self.inner.lock().unwrap().held_asks
    }

    /// How often somebody asked for flash.
    pub fn asks_for_space(&self) -> u64 {
        self.inner.lock().unwrap().asks_for_space
    }

    /// From now on nothing that is written of any file may come to flash, or again it may.
    pub fn leave_alone(&self, is_left_alone: bool) {
        self.shared.files.iter().for_each(|entry| entry.leave_alone(is_left_alone));
    }

    /// From now on every `Open` fails with EBUSY.
    pub fn refuse_opens(&self) {
        self.inner.lock().unwrap().refuse_opens = true;
    }

    /// From now on files are excluded, as they are opened.
    pub fn exclude(&self) {
        self.inner.lock().unwrap().exclude = true;
    }

    /// From now on the disks answer sooner.
    pub fn send_reads_to_the_disks(&self) {
        self.shared.end_all_listings();
        self.inner.lock().unwrap().sooner = true;
    }

    /// Reads that were measured: of the slow files, and of flash.
    pub fn measured(&self) -> [u64; 2] {
        let of = |side| self.shared.files.iter().map(|entry| entry.read_times.measured(side).requests).sum();
        [of(Side::Disk), of(Side::Flash)]
    }

    /// From now on these regions of every file belong on flash.
    pub fn set_regions(&self, regions: Regions) {
        let mut inner = self.inner.lock().unwrap();
        inner.regions = regions;
        for entry in &self.shared.files[..inner.files.len()] {
            entry.regions.fetch_add(1, Ordering::Release);
        }
    }

    /// From now on it keeps writing extents back, dropping them and clearing their bits.
    pub fn churn(&self) {
        self.inner.lock().unwrap().churn = true;
    }

    /// How many extents that were dropped.
    pub fn churned(&self) -> u64 {
        self.inner.lock().unwrap().churned
    }

    /// Bytes of flash it admits to having.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.shared.header.free_bytes.store(bytes, Ordering::Relaxed);
    }

    /// From now on it says that it sleeps, or no longer does; it looks at no mark either way.
    pub fn set_sleeping(&self, sleeps: bool) {
        self.shared.marks.sleeping.0.store(sleeps.into(), Ordering::Relaxed);
    }

    /// Until when the node is a member of a cluster.
    pub fn deadline(&self) -> &Deadline {
        &self.shared.header.deadline
    }

    /// Every request so far but those of the data path.
    pub fn log(&self) -> Vec<String> {
        self.inner.lock().unwrap().log.clone()
    }

    /// How many logged requests begin with `name`.
    pub fn logged(&self, name: &str) -> usize {
        self.log().iter().filter(|line| line.starts_with(name)).count()
    }

    /// A counter, summed over all slots.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.shared.slots.iter().map(|slot| slot.counters[counter as usize].load(Ordering::Relaxed)).sum()
    }

    /// What the requests came to, summed over all slots.
    pub fn requests(&self) -> RequestCounters {
        let mut sum = RequestCounters::default();
        self.shared.slots.iter().for_each(|slot| sum.add(&slot.counters));
        sum
    }

    /// Bytes that went to disk.
    pub fn disk_bytes(&self, direction: &str) -> u64 {
        self.requests().sum(&families::REQUEST_BYTES, &[("direction", direction), ("outcome", "disk")])
    }

    /// Bytes that are mapped to flash.
    pub fn mapped_bytes(&self) -> u64 {
        let inner = self.inner.lock().unwrap();
        inner.files.iter().flat_map(|file| &file.extents).map(|extent| extent.range.length).sum()
    }

    /// Whether every slot loses its owner before long.
    pub fn everybody_left(&self) -> bool {
        let owned = || self.shared.slots.iter().any(|slot| slot.owner_pid.load(Ordering::Relaxed) != 0);
        for _ in 0..500 {
            if !owned() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    }

    /// Hints the library left, taken.
    pub fn take_hints(&self) -> Vec<Critical> {
        self.shared.slots.iter().flat_map(|slot| std::iter::from_fn(|| slot.take_hint())).collect()
    }

    /// Copies everything back to the slow files.
    pub fn drain(&self) {
        for file in &self.inner.lock().unwrap().files {
            file.write_back(Range { offset: 0, length: u64::MAX });
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Whether no slot of the shared file says that a cheap request is under way.
pub fn is_quiet(agent: &Agent) -> bool {
    agent.shared.used_slots().iter().all(|slot| slot.state.load(Ordering::Relaxed) != STATE_CHEAP)
}
