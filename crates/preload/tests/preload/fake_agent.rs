//! An agent just good enough to test the library: one thread, the map in memory, always new flash space, nothing
//! durable.
//!
//! It keeps the protocol's order (bits, fence, wait for cheap requests, then the map), leases exclude commits, and a
//! new agent adopts slots and map. It never frees flash space, and it takes every process at its word.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use headstart_policy::client::carl::Regions;
use headstart_policy::client::s4d::Critical;
use headstart_policy::cost::benefit::Parameters;
use headstart_protocol::counters::{RequestCounters, families};
use headstart_protocol::message::{Envelope, MESSAGE_MAX, REGIONS_PER_REPLY, Reply, Request, Welcome, encode_regions};
use headstart_protocol::read_times::Side;
use headstart_protocol::shared::{
    Counter, FileEntry, LEASE_DIRECT_WRITE, LEASE_FLASH_READ, LEASE_NONE, LEASE_SLOW_READ, MAGIC, PIECES_MAX, Piece,
    Region, STATE_CHEAP, STATE_FREE, Shared, bits_of,
};
use headstart_protocol::{FLASH_DIRECTORY, PROTOCOL_VERSION, SHARED_FILE, SOCKET_FILE, data_file_name};
use headstart_units::GRANULE_BYTES;
use headstart_units::request::Range;

/// Slabs are at most this long, so that large writes come in parts.
const SLAB_BYTES: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent {
    range: Range,
    place: u64,
}

struct Cached {
    /// Open for reading alone: a file somebody has open for writing cannot be executed.
    slow: File,
    flash: File,
    extents: Vec<Extent>,
    next_place: u64,
    /// Processes that use it unseen.
    bypassers: Vec<u32>,
}

impl Cached {
    fn carve(&mut self, hole: Range) {
        let mut left = Vec::new();
        for extent in self.extents.drain(..) {
            let before = Range::between(extent.range.offset, extent.range.end().min(hole.offset));
            let after = Range::between(extent.range.offset.max(hole.end()), extent.range.end());
            for part in [before, after].into_iter().filter(|part| !part.is_empty()) {
                left.push(Extent { range: part, place: extent.place + (part.offset - extent.range.offset) });
            }
        }
        self.extents = left;
    }

    /// The slow file for a moment, for writing: in a thread with descriptors of its own, or processes that
    /// other tests start at that moment would have it open until they execute their programs, and it could
    /// not be executed.
    fn while_writable(&self, work: impl FnOnce(&File) -> std::io::Result<()> + Send) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: it changes this thread alone, which ends without closing what others opened.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                let path = format!("/proc/thread-self/fd/{}", self.slow.as_raw_fd());
                work(&OpenOptions::new().write(true).open(path).unwrap()).unwrap();
            });
        });
    }

    fn write_back(&self, range: Range) {
        if !self.extents.iter().any(|extent| extent.range.overlaps(range)) {
            return;
        }
        self.while_writable(|slow| {
            self.extents.iter().try_for_each(|extent| {
                let part = extent.range.intersection(range);
                let mut bytes = vec![0; part.length as usize];
                let place = extent.place + part.offset.saturating_sub(extent.range.offset);
                self.flash.read_exact_at(&mut bytes, place)?;
                slow.write_all_at(&bytes, part.offset)
            })
        });
    }
}

#[derive(Default)]
struct Inner {
    files: Vec<Cached>,
    index: HashMap<u64, u32>,
    /// Every request but the data path's, as text.
    log: Vec<String>,
    /// Last answered commit of each slot.
    commits: HashMap<u32, u64>,
    /// Commits that are applied but not answered before the agent dies.
    swallow_commits: bool,
    refuse_opens: bool,
    /// Reads, direct writes, truncations and write-backs wait for their answer.
    hold_asks: bool,
    /// Those that do.
    held_asks: u64,
    exclude: bool,
    /// Reads of what is on flash are sent to the slow file.
    sooner: bool,
    /// Of every file.
    regions: Regions,
    /// Extents that are written back and dropped, one for each message or so.
    churn: bool,
    churned: u64,
}

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

struct Connection {
    socket: OwnedFd,
    slot: Option<u32>,
}

struct Server {
    listener: OwnedFd,
    shared: Shared<'static>,
    inner: Arc<Mutex<Inner>>,
    stop: Arc<AtomicBool>,
    fast: PathBuf,
    slow: PathBuf,
    parameters: Parameters,
    connections: Vec<Connection>,
    /// Requests that a lease holds up: socket and packet.
    waiting: Vec<(RawFd, Vec<u8>)>,
}

impl Server {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            for (socket, packet) in std::mem::take(&mut self.waiting) {
                self.on_packet(socket, packet);
            }
            let churns = self.inner.lock().unwrap().churn;
            if churns {
                churn(self.shared, &mut self.inner.lock().unwrap());
            }
            let ready = self.poll(churns);
            for fd in ready {
                if fd == self.listener.as_raw_fd() {
                    self.accept();
                    continue;
                }
                let mut packet = vec![0; MESSAGE_MAX];
                // SAFETY: `packet` is writable for its length.
                let length = unsafe { libc::recv(fd, packet.as_mut_ptr().cast(), packet.len(), libc::MSG_DONTWAIT) };
                if length <= 0 {
                    self.hang_up(fd);
                    continue;
                }
                packet.truncate(length as usize);
                self.on_packet(fd, packet);
            }
        }
    }

    fn poll(&self, at_once: bool) -> Vec<RawFd> {
        let all = self.connections.iter().map(|c| c.socket.as_raw_fd()).chain([self.listener.as_raw_fd()]);
        let mut set: Vec<_> = all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let timeout = if self.waiting.is_empty() && !at_once { 20 } else { 0 };
        // SAFETY: `set` is writable for its length.
        unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout) };
        set.iter().filter(|entry| entry.revents != 0).map(|entry| entry.fd).collect()
    }

    fn accept(&mut self) {
        // SAFETY: no address is asked for; a descriptor that accept returned is ours.
        let socket = unsafe {
            let fd = libc::accept4(
                self.listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            assert!(fd >= 0);
            OwnedFd::from_raw_fd(fd)
        };
        self.connections.push(Connection { socket, slot: None });
    }

    fn hang_up(&mut self, fd: RawFd) {
        let at = self.connections.iter().position(|c| c.socket.as_raw_fd() == fd).unwrap();
        if let Some(slot) = self.connections.swap_remove(at).slot {
            let slot = &self.shared.slots[slot as usize];
            slot.slabs.iter().for_each(|slab| slab.length.store(0, Ordering::Relaxed));
            slot.lease.store(LEASE_NONE, Ordering::Relaxed);
            slot.state.store(STATE_FREE, Ordering::Relaxed);
            slot.owner_pid.store(0, Ordering::Release);
        }
        self.waiting.retain(|(socket, _)| *socket != fd);
    }

    fn on_packet(&mut self, socket: RawFd, packet: Vec<u8>) {
        let (mut envelope, request) = Request::decode(&packet).unwrap();
        let inner = self.inner.clone();
        let mut inner = inner.lock().unwrap();
        let reply = match request {
            Request::Hello { version, pid, tid, start_time, slot } => {
                assert_eq!(version, PROTOCOL_VERSION);
                envelope.slot = self.join(pid, tid, start_time, slot);
                let connection = self.connections.iter_mut().find(|c| c.socket.as_raw_fd() == socket).unwrap();
                connection.slot = Some(envelope.slot);
                Some(Reply::Welcome(Welcome {
                    read: self.parameters.clone(),
                    write: self.parameters.clone(),
                    slow: self.slow.as_os_str().as_bytes(),
                    fast: self.fast.as_os_str().as_bytes(),
                }))
            }
            request => {
                if !matches!(
                    request,
                    Request::Commit { .. } | Request::Read { .. } | Request::Write { .. } | Request::WriteDone { .. }
                ) {
                    inner.log.push(format!("{request:?}"));
                }
                match serve(self.shared, &self.fast, &mut inner, envelope, request) {
                    Served::Reply(reply) => Some(reply),
                    Served::Silence => None,
                    Served::Later => {
                        self.waiting.push((socket, packet));
                        return;
                    }
                }
            }
        };
        if let Some(reply) = reply {
            let mut bytes = Vec::new();
            reply.encode(envelope, &mut bytes);
            // SAFETY: `bytes` is readable for its length.
            unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        }
    }

    /// The thread's slot: the one it had, or a free one.
    fn join(&self, pid: u32, tid: u32, start: u64, had: u32) -> u32 {
        let owner = |index: &usize| {
            let slot = &self.shared.slots[*index];
            (slot.owner_pid.load(Ordering::Relaxed), slot.owner_start.load(Ordering::Relaxed))
        };
        let taken: Vec<u32> = self.connections.iter().filter_map(|c| c.slot).collect();
        let mut free = (0..self.shared.slots.len()).filter(|index| !taken.contains(&(*index as u32)));
        let index = free
            .clone()
            .find(|index| *index as u32 == had && owner(index) == (pid, start))
            .or_else(|| free.find(|index| owner(index).0 == 0))
            .unwrap();
        let slot = &self.shared.slots[index];
        slot.owner_tid.store(tid, Ordering::Relaxed);
        slot.owner_start.store(start, Ordering::Relaxed);
        slot.owner_pid.store(pid, Ordering::Release);
        self.shared.header.slots_used.fetch_max(index as u64 + 1, Ordering::AcqRel);
        index as u32
    }
}

enum Served {
    Reply(Reply<'static>),
    Silence,
    Later,
}

fn serve(shared: Shared<'static>, fast: &Path, inner: &mut Inner, envelope: Envelope, request: Request) -> Served {
    let slot = &shared.slots[envelope.slot as usize];
    // The slot's request may be another one: who cuts a file by name publishes none.
    let lease = |kind: u32, file: u32, range: Range| {
        slot.lease_file.store(file, Ordering::Relaxed);
        slot.lease_offset.store(range.offset, Ordering::Relaxed);
        slot.lease_length.store(range.length, Ordering::Relaxed);
        slot.lease.store(kind, Ordering::Release);
    };
    let held_up = |file: u32, range: Range, kinds: &[u32]| {
        shared.used_slots().iter().any(|other| {
            !std::ptr::eq(other, slot)
                && kinds.contains(&other.lease.load(Ordering::Acquire))
                && other.lease_file.load(Ordering::Relaxed) == file
                && other.leased().overlaps(range)
        })
    };
    let reply = match request {
        Request::Read { .. } | Request::Write { .. } | Request::Truncate { .. } | Request::WriteBack { .. }
            if inner.hold_asks =>
        {
            inner.held_asks += 1;
            return Served::Later;
        }
        Request::Regions { file: _, from } => {
            let rest = inner.regions.beginning_from(from);
            let part = &rest[..rest.len().min(REGIONS_PER_REPLY)];
            Reply::Regions { last: part.len() == rest.len(), packed: encode_regions(part).leak() }
        }
        Request::Open { inode, path, .. } => {
            if inner.refuse_opens {
                return Served::Reply(Reply::Error { errno: libc::EBUSY, text: b"another node has it" });
            }
            match open(shared, fast, inner, inode, path) {
                Ok(file) => Reply::Opened { file, excluded: inner.exclude },
                Err(error) => Reply::Error { errno: error.raw_os_error().unwrap(), text: b"the agent cannot open it" },
            }
        }
        Request::Slab { file, offset, length } => {
            let wanted = (length + 4096 + offset % 4096).next_multiple_of(4096).clamp(64 << 10, SLAB_BYTES);
            if bypassed(shared, inner, file) {
                return Served::Reply(Reply::Bypassed);
            }
            if shared.header.free_bytes.load(Ordering::Relaxed) < wanted {
                return Served::Reply(Reply::NoSpace);
            }
            shared.header.free_bytes.fetch_sub(wanted, Ordering::Relaxed);
            let cached = &mut inner.files[file as usize];
            let slab = slot.slabs.iter().min_by_key(|slab| slab.length.load(Ordering::Relaxed)).unwrap();
            set_piece(slab, file, cached.next_place, wanted);
            cached.next_place += wanted;
            Reply::Done
        }
        Request::Commit { file, offset, length, place, data_file } => {
            assert_eq!(data_file, file, "this agent has one data file for each file");
            assert_eq!(place % 4096, offset % 4096, "places keep the offset modulo 4096");
            let range = Range::new(offset, length);
            if inner.commits.get(&envelope.slot) == Some(&envelope.seq) {
                inner.log.push("repeated commit".into());
                return Served::Reply(Reply::Done);
            }
            if bypassed(shared, inner, file) {
                return Served::Reply(Reply::Bypassed);
            }
            shared.announce(file, range);
            let cheap = !bits_of(range).all(|bit| shared.is_settled(file, bit));
            let extenders = shared.may_be_extending(file, shared.files[file as usize].size.load(Ordering::Acquire));
            if cheap || extenders || held_up(file, range, &[LEASE_DIRECT_WRITE, LEASE_SLOW_READ]) {
                return Served::Later;
            }
            commit(shared, slot, inner, file, range, place);
            inner.commits.insert(envelope.slot, envelope.seq);
            if inner.swallow_commits {
                inner.log.push("swallowed commit".into());
                return Served::Silence;
            }
            Reply::Done
        }
        Request::Read { file, offset, length } => {
            let range = Range::new(offset, length);
            let mut parts: Vec<_> = inner.files[file as usize]
                .extents
                .iter()
                .filter(|extent| extent.range.overlaps(range))
                .map(|extent| {
                    let part = extent.range.intersection(range);
                    Extent { range: part, place: extent.place + (part.offset - extent.range.offset) }
                })
                .collect();
            parts.sort_by_key(|part| part.range.offset);
            let (mut end, mut count) = (offset, 0);
            for part in parts.iter().take(PIECES_MAX).take_while(|part| {
                let adjoins = part.range.offset == end;
                end = if adjoins { part.range.end() } else { end };
                adjoins
            }) {
                set_piece(&slot.pieces[count], file, part.place, part.range.length);
                count += 1;
            }
            slot.pieces_count.store(count as u32, Ordering::Relaxed);
            if count > 0 && inner.sooner {
                lease(LEASE_SLOW_READ, file, Range::between(offset, end));
                Reply::Sooner { length: end - offset }
            } else if count > 0 {
                lease(LEASE_FLASH_READ, file, Range::new(0, 0));
                Reply::Flash { length: end - offset }
            } else {
                let length = parts.first().map_or(length, |part| part.range.offset - offset);
                lease(LEASE_SLOW_READ, file, Range::new(offset, length));
                Reply::Disk { length }
            }
        }
        Request::Write { file, offset, length, .. } => {
            let range = Range::new(offset, length);
            if held_up(file, range, &[LEASE_DIRECT_WRITE]) {
                return Served::Later;
            }
            lease(LEASE_DIRECT_WRITE, file, range);
            Reply::Go
        }
        Request::WriteDone { file, offset, length } => {
            inner.files[file as usize].carve(Range::new(offset, length));
            slot.lease.store(LEASE_NONE, Ordering::Release);
            Reply::Done
        }
        Request::Truncate { file, size } => {
            lease(LEASE_DIRECT_WRITE, file, Range::between(size, u64::MAX));
            Reply::Go
        }
        Request::TruncateDone { file, size, changed } => {
            if changed {
                inner.files[file as usize].carve(Range::between(size, u64::MAX));
                shared.files[file as usize].size.store(size, Ordering::Release);
            }
            slot.lease.store(LEASE_NONE, Ordering::Release);
            Reply::Done
        }
        Request::Rearrange { file, from } => {
            inner.files[file as usize].write_back(Range::between(from, u64::MAX));
            lease(LEASE_DIRECT_WRITE, file, Range::between(from, u64::MAX));
            Reply::Go
        }
        Request::RearrangeDone { file, from, size } => {
            inner.files[file as usize].carve(Range::between(from, u64::MAX));
            shared.files[file as usize].size.store(size, Ordering::Release);
            slot.lease.store(LEASE_NONE, Ordering::Release);
            Reply::Done
        }
        Request::WriteBack { file, offset, length } => {
            inner.files[file as usize].write_back(Range::new(offset, length));
            Reply::Done
        }
        Request::Bypass { file, writes } => {
            let (everything, cached) = (Range::new(0, u64::MAX), &mut inner.files[file as usize]);
            cached.write_back(everything);
            if writes {
                cached.carve(everything);
            }
            cached.bypassers.push(slot.owner_pid.load(Ordering::Relaxed));
            Reply::Done
        }
        // Its flash never fails.
        Request::FlashFailed { .. } => Reply::Error { errno: libc::EIO, text: b"" },
        Request::Close { .. }
        | Request::Sealed { .. }
        | Request::Sync { .. }
        | Request::Unlinked { .. }
        | Request::TimesSet { .. }
        | Request::Name { .. }
        | Request::Renamed { .. } => Reply::Done,
        // Whoever runs against it can open everything by its path.
        Request::Descriptor { .. } => Reply::Error { errno: libc::EIO, text: b"" },
        Request::Hello { .. } | Request::Connect | Request::Control { .. } => unreachable!(),
    };
    Served::Reply(reply)
}

/// Whether a living process uses the file unseen.
fn bypassed(shared: Shared, inner: &mut Inner, file: u32) -> bool {
    let living = |pid: &u32| shared.used_slots().iter().any(|slot| slot.owner_pid.load(Ordering::Acquire) == *pid);
    let bypassers = &mut inner.files[file as usize].bypassers;
    bypassers.retain(living);
    !bypassers.is_empty()
}

/// Writes one extent of each file back, drops it, and clears the bits of granules nothing is left in.
fn churn(shared: Shared, inner: &mut Inner) {
    for (file, cached) in inner.files.iter_mut().enumerate() {
        let Some(extent) = cached.extents.first().copied() else { continue };
        let leased = shared.used_slots().iter().any(|slot| {
            slot.lease.load(Ordering::Acquire) == LEASE_DIRECT_WRITE
                && slot.lease_file.load(Ordering::Relaxed) == file as u32
                && slot.leased().overlaps(extent.range)
        });
        if leased {
            cached.extents.rotate_left(1);
            continue;
        }
        cached.write_back(extent.range);
        cached.carve(extent.range);
        inner.churned += 1;
        for bit in bits_of(extent.range) {
            let granule = Range::new(bit * GRANULE_BYTES, GRANULE_BYTES);
            if !cached.extents.iter().any(|extent| extent.range.overlaps(granule)) {
                shared.clear_bit(file as u32, bit);
            }
        }
    }
}

fn open(shared: Shared, fast: &Path, inner: &mut Inner, inode: u64, path: &[u8]) -> std::io::Result<u32> {
    if let Some(&file) = inner.index.get(&inode) {
        return Ok(file);
    }
    let file = inner.files.len() as u32;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let slow = File::open(path)?;
    let flash = fast.join(FLASH_DIRECTORY).join(data_file_name(file));
    let flash = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(flash).unwrap();
    let entry = &shared.files[file as usize];
    entry.size.store(slow.metadata().unwrap().len(), Ordering::Relaxed);
    entry.regions.store(u64::from(inner.regions != Regions::NONE), Ordering::Relaxed);
    entry.used.store(1, Ordering::Release);
    inner.files.push(Cached { slow, flash, extents: Vec::new(), next_place: 0, bypassers: Vec::new() });
    inner.index.insert(inode, file);
    Ok(file)
}

fn commit(
    shared: Shared,
    slot: &headstart_protocol::shared::Slot,
    inner: &mut Inner,
    file: u32,
    range: Range,
    place: u64,
) {
    let cached = &mut inner.files[file as usize];
    cached.carve(range);
    cached.extents.push(Extent { range, place });
    extend(shared, &shared.files[file as usize], cached, file, range.end());
    let slab = slot
        .slabs
        .iter()
        .find(|slab| {
            let (start, length) = (slab.place.load(Ordering::Relaxed), slab.length.load(Ordering::Relaxed));
            slab.file.load(Ordering::Relaxed) == file && start <= place && place + range.length <= start + length
        })
        .expect("a commit lies in a slab of its slot");
    let end = slab.place.load(Ordering::Relaxed) + slab.length.load(Ordering::Relaxed);
    let next = (place + range.length).next_multiple_of(4096).min(end);
    set_piece(slab, file, next, end - next);
}

/// Extends the slow file, while writes that would extend it too ask first.
fn extend(shared: Shared, entry: &FileEntry, cached: &Cached, file: u32, end: u64) {
    let slow = &cached.slow;
    if slow.metadata().unwrap().len() < end {
        shared.announce_extension(file);
        while shared.may_be_extending(file, entry.size.load(Ordering::Acquire)) {
            std::hint::spin_loop();
        }
        if slow.metadata().unwrap().len() < end {
            cached.while_writable(|slow| slow.set_len(end));
        }
        shared.end_extension(file);
    }
    entry.size.store(slow.metadata().unwrap().len(), Ordering::Release);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    entry.modified_ns.store(now.as_nanos() as u64, Ordering::Relaxed);
}

fn set_piece(piece: &Piece, file: u32, place: u64, length: u64) {
    piece.file.store(file, Ordering::Relaxed);
    piece.data_file.store(file, Ordering::Relaxed);
    piece.place.store(place, Ordering::Relaxed);
    piece.length.store(length, Ordering::Release);
}

fn map(path: &Path) -> Shared<'static> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(Region::BYTES as u64).unwrap();
    // SAFETY: a new mapping of the whole file, never removed; every field is an atomic.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let address =
            libc::mmap(std::ptr::null_mut(), Region::BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(address, libc::MAP_FAILED);
        (*(address as *const Region)).view()
    }
}

fn listen(path: &Path) -> OwnedFd {
    let _ = fs::remove_file(path);
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the address is a zeroed sockaddr_un with a path shorter than its room.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        assert!(name.as_bytes().len() < address.sun_path.len());
        for (to, from) in address.sun_path.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(fd, 128), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// Whether no slot of the shared file says that a cheap request is under way.
pub fn is_quiet(agent: &Agent) -> bool {
    agent.shared.used_slots().iter().all(|slot| slot.state.load(Ordering::Relaxed) != STATE_CHEAP)
}
