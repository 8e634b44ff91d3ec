//! Storage in memory that loses, tears and reorders what was not synced when the power fails, and fails the
//! calls it is told to.
//!
//! A sync that fails behaves as Linux does: the changes since the last one are forgotten, though reads may
//! still see them, and a later sync succeeds without them. Every other handle open at the time is told of the
//! failure once. A failure that happened without a sync is told to every handle open at the time, or else to
//! the first that is opened afterwards; but it is forgotten with the inode, where nobody has the file open.
//! Names in directories do not behave so: they are kept in the file system's own log.

mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use headstart_overlay::journal::Identity;
use headstart_protocol::memory::Memory;

use super::{Access, Attributes, File, FileRef, Scope, Storage};
use crate::crash_tests::rings::Rings;
use disk::Change;
pub(crate) use disk::{Disk, MEMORY};

/// The device that all files are on.
const DEVICE: u64 = 1;

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The first call counted from the start that may.
    pub at: u64,
    /// `EIO`: any call; `ENOSPC` and `EDQUOT`: calls that need space.
    pub errno: i32,
    /// All of them from then on; of `EIO` those on disk and flash.
    pub lasting: bool,
    /// The call succeeds, but the kernel has just failed to write what its file had unsynced.
    pub silent: bool,
}

/// The disk just before an operation.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// When.
    pub tick: u64,
    /// Which.
    pub operation: String,
    /// The disk.
    pub disk: Disk,
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    ticks: u64,
    calls: u64,
    fault: Option<Fault>,
    faults: Vec<String>,
    failed_syncs: Vec<(u64, u64)>,
    /// Handles by inode.
    open: BTreeMap<u64, usize>,
    /// Inodes that the kernel may drop from memory: nobody has them open any more.
    unused: BTreeSet<u64>,
    snapshots: Option<Vec<Snapshot>>,
    /// The shared file.
    shared: Option<Arc<Memory>>,
    /// Files in memory get no more than they have, and what one gives back is gone.
    memory_is_full: bool,
}

impl State {
    fn disk_now(&self) -> Disk {
        let rings = self.shared.as_ref().map_or_else(|| self.disk.rings.clone(), |memory| Rings::left_in(memory));
        let mut disk = self.disk.clone();
        disk.rings = rings;
        disk
    }
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct FaultyStorage {
    state: Arc<Mutex<State>>,
}

struct Handle {
    storage: FaultyStorage,
    path: PathBuf,
    inode: u64,
    writable: bool,
    errors_seen: Mutex<u64>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (inode {})", self.path.display(), self.inode)
    }
}

/// What a call needs and does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Reads,
    Changes,
    TakesSpace,
}

impl State {
    fn fail_to_write(&mut self, path: &Path) {
        if let Some(inode) = self.disk.find(path).filter(|_| !path.starts_with(MEMORY)) {
            self.failed_syncs.push((self.ticks, inode));
            self.disk.inode_mut(inode).fail_to_write();
        }
    }
}

impl std::fmt::Debug for FaultyStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "faulty storage after {} calls", self.calls())
    }
}

impl FaultyStorage {
    /// Storage with these contents; takes snapshots if asked to.
    pub(crate) fn new(disk: Disk, snapshots: bool, fault: Option<Fault>) -> FaultyStorage {
        let snapshots = snapshots.then(Vec::new);
        FaultyStorage { state: Arc::new(Mutex::new(State { disk, snapshots, fault, ..State::default() })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }

    /// The time, in events: of which every storage operation is one.
    pub(crate) fn tick(&self) -> u64 {
        let mut state = self.state();
        state.ticks += 1;
        state.ticks
    }

    /// The disk as it is.
    pub(crate) fn disk(&self) -> Disk {
        self.state().disk_now()
    }

    /// From now on that is the shared file.
    pub(crate) fn share(&self, memory: Arc<Memory>) {
        self.state().shared = Some(memory);
    }

    /// The snapshots taken.
    pub(crate) fn take_snapshots(&self) -> Vec<Snapshot> {
        self.state().snapshots.take().unwrap_or_default()
    }

    /// No call fails any more; those that did.
    pub(crate) fn heal(&self) -> Vec<String> {
        let mut state = self.state();
        state.fault = None;
        state.faults.clone()
    }

    /// Syncs that failed: when, and of which inode.
    pub(crate) fn failed_syncs(&self) -> Vec<(u64, u64)> {
        self.state().failed_syncs.clone()
    }

    /// Pages whose sync failed leave the cache: reads see what is durable.
    pub(crate) fn evict(&self) {
        self.state().disk.evict();
    }

    /// The kernel could not write what the file had unsynced.
    pub(crate) fn fail_to_write(&self, path: &Path) {
        self.state().fail_to_write(path);
    }

    /// The next call fails.
    pub(crate) fn fail_next(&self, errno: i32) {
        let mut state = self.state();
        state.fault = Some(Fault { at: state.calls + 1, errno, lasting: false, silent: false });
    }

    /// From now on others take whatever memory is free.
    pub(crate) fn fill_memory(&self) {
        self.state().memory_is_full = true;
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// A handle that is told of the syncs that fail from now on.
    fn handle(&self, state: &mut State, path: &Path, inode: u64, writable: bool) -> FileRef {
        *state.open.entry(inode).or_default() += 1;
        state.unused.remove(&inode);
        let errors_seen = Mutex::new(state.disk.inode(inode).errors_told());
        Arc::new(Handle { storage: self.clone(), path: path.to_path_buf(), inode, writable, errors_seen })
    }

    /// Counts a call; the error it is to fail with.
    fn enter(&self, call: Call, verb: &str, path: &Path) -> (MutexGuard<'_, State>, io::Result<()>) {
        let mut state = self.state();
        state.ticks += 1;
        state.calls += 1;
        state.disk.clock_ns += 1000;
        if call != Call::Reads
            && let Some(mut snapshots) = state.snapshots.take()
        {
            let operation = format!("{verb} {}", path.display());
            snapshots.push(Snapshot { tick: state.ticks, operation, disk: state.disk_now() });
            state.snapshots = Some(snapshots);
        }
        for inode in std::mem::take(&mut state.unused) {
            state.disk.leave_memory(inode);
        }
        let calls = state.calls;
        // Memory has no device that goes on failing beside another.
        let spared = |fault: &Fault| fault.lasting && fault.errno == libc::EIO && path.starts_with(MEMORY);
        let fails = |fault: &Fault| {
            let of_space = matches!(fault.errno, libc::ENOSPC | libc::EDQUOT);
            calls >= fault.at && !spared(fault) && (!of_space || call == Call::TakesSpace)
        };
        let Some(fault) = state.fault.filter(fails) else { return (state, Ok(())) };
        if !fault.lasting {
            state.fault = None;
        }
        state.faults.push(format!("{verb} {}", path.display()));
        if fault.silent {
            state.fail_to_write(path);
            return (state, Ok(()));
        }
        let error = io::Error::from_raw_os_error(fault.errno);
        (state, Err(error))
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path, access: Access) -> io::Result<FileRef> {
        let creates = access == Access::Create && self.state().disk.find(path).is_none();
        let call = if creates { Call::TakesSpace } else { Call::Reads };
        let (mut state, result) = self.enter(call, "open", path);
        result?;
        let inode = match state.disk.find(path) {
            Some(inode) => inode,
            None if creates => state.disk.create(path),
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(self.handle(&mut state, path, inode, access != Access::SlowRead))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, result) = self.enter(Call::TakesSpace, "rename", from);
        result?;
        let inode = state.disk.find(from).ok_or(io::ErrorKind::NotFound)?;
        state.disk.rename_all(vec![(from.to_path_buf(), None), (to.to_path_buf(), Some(inode))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, result) = self.enter(Call::Changes, "remove", path);
        result?;
        state.disk.find(path).ok_or(io::ErrorKind::NotFound)?;
        state.disk.rename_all(vec![(path.to_path_buf(), None)]);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let (state, result) = self.enter(Call::Reads, "list", directory);
        result.map(|()| state.disk.list(directory))
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let (mut state, result) = self.enter(Call::Changes, "sync the directory", directory);
        result.map(|()| state.disk.sync_directory(directory))
    }

    fn open_held(&self, _identity: Identity, _pids: &[u32]) -> Option<FileRef> {
        None
    }

    fn holders(&self, _identity: Identity) -> Vec<u32> {
        Vec::new()
    }

    fn is_managed(&self, device: u64) -> bool {
        device == DEVICE
    }

    fn sync_file_system(&self, path: &Path) -> io::Result<()> {
        let (mut state, result) = self.enter(Call::Changes, "sync the file system of", path);
        result.map(|()| state.disk.sync_all())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.storage.state();
        let left = state.open.get_mut(&self.inode).expect("it was opened");
        *left -= 1;
        if *left == 0 {
            state.unused.insert(self.inode);
        }
    }
}

impl Handle {
    /// Has space up to `end` in memory; elsewhere it is not counted.
    fn take_room(&self, state: &mut State, end: u64) -> io::Result<()> {
        if !self.path.starts_with(MEMORY) || end <= state.disk.inode(self.inode).room {
            return Ok(());
        }
        if state.memory_is_full {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        state.disk.inode_mut(self.inode).room = end;
        Ok(())
    }

    fn change(&self, call: Call, verb: &str, change: Change) -> io::Result<()> {
        let (mut state, result) = self.storage.enter(call, verb, &self.path);
        result?;
        if !self.writable {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        match &change {
            Change::Write { offset, bytes } => self.take_room(&mut state, offset + bytes.len() as u64)?,
            Change::Size(size) => {
                let inode = state.disk.inode_mut(self.inode);
                inode.room = inode.room.min(*size);
            }
            Change::Grow(_) | Change::Punch { .. } => {}
        }
        let now_ns = state.disk.clock_ns;
        state.disk.inode_mut(self.inode).change(change, now_ns);
        Ok(())
    }
}

impl File for Handle {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let (state, result) = self.storage.enter(Call::Reads, "read", &self.path);
        result?;
        let now = &state.disk.inode(self.inode).now;
        if offset + bytes.len() as u64 > now.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        now.read(bytes, offset);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Call::TakesSpace, "write", Change::Write { offset, bytes: bytes.into() })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.change(Call::TakesSpace, "size", Change::Size(size))
    }

    fn sync(&self, _scope: Scope) -> io::Result<()> {
        let (mut state, result) = self.storage.enter(Call::Changes, "sync", &self.path);
        let tick = state.ticks;
        if result.is_err() {
            state.failed_syncs.push((tick, self.inode));
        }
        let inode = state.disk.inode_mut(self.inode);
        match &result {
            Ok(()) => inode.sync(),
            Err(_) => inode.fail_sync(),
        }
        let told = std::mem::replace(&mut *self.errors_seen.lock().expect("no thread panics"), inode.errors);
        inode.errors_are_told();
        if told < inode.errors { Err(io::Error::from_raw_os_error(libc::EIO)) } else { result }
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        let (mut state, result) = self.storage.enter(Call::TakesSpace, "allocate", &self.path);
        result.and_then(|()| self.take_room(&mut state, offset + length))
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.change(Call::Changes, "punch", Change::Punch { offset, length })
    }

    fn is_writable(&self) -> bool {
        self.writable
    }

    fn reopen(&self, writable: bool) -> io::Result<FileRef> {
        let (mut state, result) = self.storage.enter(Call::Reads, "reopen", &self.path);
        result.map(|()| self.storage.handle(&mut state, &self.path, self.inode, writable))
    }

    fn attributes(&self) -> io::Result<Attributes> {
        let (state, result) = self.storage.enter(Call::Reads, "look at", &self.path);
        result?;
        let inode = state.disk.inode(self.inode);
        let (size, modified_ns, birth_ns) = (inode.now.size, inode.modified_ns, 0);
        Ok(Attributes {
            device: DEVICE,
            inode: self.inode,
            links: state.disk.links(self.inode),
            size,
            modified_ns,
            birth_ns,
        })
    }

    fn set_modified(&self, modified_ns: u64) -> io::Result<()> {
        let (mut state, result) = self.storage.enter(Call::Changes, "set the time of", &self.path);
        result?;
        state.disk.inode_mut(self.inode).modified_ns = modified_ns;
        Ok(())
    }

    fn set_extended(&self, _name: &str, _value: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove_extended(&self, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
