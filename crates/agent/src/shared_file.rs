//! The shared file: created or adopted by the agent, mapped by everybody.
//!
//! | found | decision |
//! |---|---|
//! | none | a new one |
//! | this boot, version and size | adopted: its leases and quarantines hold, whether their owners live or not |
//! | another boot, version or size, or damaged; a process maps it | refused: what that process does cannot be known |
//! | this boot, another version with rings | refused: commits may lie there, and nowhere else |
//! | another boot, version or size, or damaged | replaced |
//!
//! It goes with an agent that ends in order, unless a process still maps it; while one serves, memory behind files that
//! are forgotten goes back.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use headstart_protocol::shared::{FILES_MAX, Header, MAGIC, Region, Shared};
use headstart_protocol::{PROTOCOL_VERSION, SHARED_FILE};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::stat::{major, minor};

use crate::error::{Error, Result};
use crate::process::start_time;
use crate::store::LIVE_JOURNAL_FILE;
use crate::survivors;

/// The first version of which threads commit without an answer: its agent alone knows what lies in the rings.
const VERSION_WITH_RINGS: u64 = 12;

/// A page, of which the kernel gives memory.
const PAGE_BYTES: usize = 4096;

/// The mapping, and the lock that makes this process the agent; the kernel frees it when the last thread is gone.
pub(crate) struct SharedFile {
    region: &'static Region,
    memory: Memory,
    adopted: bool,
    runtime: PathBuf,
    _lock: Flock<File>,
}

impl SharedFile {
    /// Takes the lock, and adopts the file of the agent before, or begins a new one.
    pub(crate) fn open(runtime: &Path, boot_id: [u8; 16]) -> Result<SharedFile> {
        let lock_path = runtime.join("lock");
        let lock = Flock::lock(open(&lock_path)?, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Error::AlreadyServed { path: runtime.to_path_buf() })?;
        let found = adoptable(&runtime.join(SHARED_FILE), boot_id)?;
        let adopted = found.is_some();
        let (region, memory) = match found {
            Some(found) => found,
            None => begin(runtime, boot_id)?,
        };
        Ok(SharedFile { region, memory, adopted, runtime: runtime.to_path_buf(), _lock: lock })
    }

    /// Has memory behind the parts of a slot before anybody touches them.
    pub(crate) fn reserve_slot(&mut self, slot: u32) -> Result<()> {
        Region::of_slot(slot).into_iter().try_for_each(|part| self.memory.reserve(part))
    }

    /// The same for the parts of a file.
    pub(crate) fn reserve_file(&mut self, file: u32) -> Result<()> {
        Region::of_file(file).into_iter().try_for_each(|part| self.memory.reserve(part))
    }

    /// The same for a listing.
    pub(crate) fn reserve_listing(&mut self, index: u32) -> Result<()> {
        self.memory.reserve(Region::of_listing(index))
    }

    /// Gives memory back behind a file's parts that nobody uses, but for pages that hold something of a neighbour
    /// `in_use`.
    pub(crate) fn release_file(&mut self, file: u32, in_use: impl Fn(u32) -> bool) {
        let before = file.checked_sub(1).is_none_or(&in_use);
        let after = file as usize + 1 >= FILES_MAX || in_use(file + 1);
        for part in Region::of_file(file) {
            self.memory.release(part, before, after);
        }
    }

    /// An agent ends in order, and no thread takes part: takes the file away, and the copy of the journal beside it,
    /// unless a process still has the file mapped, as a forked child that never said anything.
    pub(crate) fn give_back(&self) {
        if self.memory.is_alone() {
            for name in [LIVE_JOURNAL_FILE, SHARED_FILE] {
                let _ = std::fs::remove_file(self.runtime.join(name));
            }
        }
    }

    /// That there is no memory for something else beside it.
    pub(crate) fn no_room(&self) -> Error {
        Error::NoMemory { path: self.runtime.clone(), source: Errno::ENOSPC.into() }
    }

    /// Whether there is memory behind the parts of a file.
    pub(crate) fn has_file(&self, file: u32) -> bool {
        Region::of_file(file).iter().all(|part| self.memory.missing(part).is_none())
    }

    /// Opens it and begins an epoch.
    #[cfg(test)]
    pub(crate) fn create(runtime: &Path, boot_id: [u8; 16], epoch: u64) -> Result<SharedFile> {
        let shared = SharedFile::open(runtime, boot_id)?;
        shared.begin_epoch(epoch);
        Ok(shared)
    }

    /// Whether it is that of the agent before.
    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Puts a new one in the place of an adopted one whose owners are gone.
    pub(crate) fn replace(&mut self, boot_id: [u8; 16]) -> Result<()> {
        (self.region, self.memory) = begin(&self.runtime, boot_id)?;
        self.adopted = false;
        Ok(())
    }

    /// This agent is that of a new member: whoever has the file of one before fails.
    pub(crate) fn end_membership(&mut self, boot_id: [u8; 16]) -> Result<()> {
        if !self.adopted {
            return Ok(());
        }
        self.view().header.deadline.expel();
        self.replace(boot_id)
    }

    /// Says who is the agent now.
    pub(crate) fn begin_epoch(&self, epoch: u64) {
        let header = self.view().header;
        let pid = std::process::id();
        header.epoch.store(epoch, Ordering::Relaxed);
        survivors::note_namespace(self.view(), self.adopted);
        header.agent_start.store(start_time(pid).unwrap_or(0), Ordering::Relaxed);
        header.agent_pid.store(pid.into(), Ordering::Release);
    }

    /// The runtime directory.
    pub(crate) fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// The parts.
    pub(crate) fn view(&self) -> Shared<'static> {
        self.region.view()
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|error| Error::file("open", path, error))
}

/// A new file under a new inode: whoever still maps the old one must not see this agent's bits.
fn begin(runtime: &Path, boot_id: [u8; 16]) -> Result<(&'static Region, Memory)> {
    let (path, fresh) = (runtime.join(SHARED_FILE), runtime.join("shared.new"));
    let _ = std::fs::remove_file(&fresh);
    let file = open(&fresh)?;
    file.set_len(Region::BYTES as u64).map_err(|error| Error::file("size", &fresh, error))?;
    let region = map(&file).map_err(|error| Error::file("map", &fresh, error))?;
    let memory = Memory::of(file, runtime)?;
    let header = region.view().header;
    for (word, part) in header.boot_id.iter().zip(boot_words(boot_id)) {
        word.store(part, Ordering::Relaxed);
    }
    header.version.store(PROTOCOL_VERSION.into(), Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
    std::fs::rename(&fresh, &path).map_err(|error| Error::file("rename", &fresh, error))?;
    Ok((region, memory))
}

/// The memory behind the file, page by page. On a tmpfs that is full a page that was never touched has none,
/// and whoever touches it, a program or the agent, is ended by SIGBUS: so memory is asked for before, and its
/// lack is an error.
struct Memory {
    file: File,
    directory: PathBuf,
    /// Pages known to have some.
    reserved: Vec<bool>,
}

impl Memory {
    /// With what is always used reserved.
    fn of(file: File, directory: &Path) -> Result<Memory> {
        let reserved = vec![false; Region::BYTES.div_ceil(PAGE_BYTES)];
        let mut memory = Memory { file, directory: directory.to_path_buf(), reserved };
        Region::always().into_iter().try_for_each(|part| memory.reserve(part))?;
        Ok(memory)
    }

    /// The pages of `part`, if any of them is not known to have memory.
    fn missing(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let pages = part.start / PAGE_BYTES..part.end.div_ceil(PAGE_BYTES);
        self.reserved[pages.clone()].contains(&false).then_some(pages)
    }

    fn reserve(&mut self, part: Range<usize>) -> Result<()> {
        let Some(pages) = self.missing(&part) else { return Ok(()) };
        let end = (pages.end * PAGE_BYTES).min(Region::BYTES);
        let (offset, length) = ((pages.start * PAGE_BYTES) as i64, (end - pages.start * PAGE_BYTES) as i64);
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), offset, length) {
                Err(Errno::EINTR) => {}
                // No tmpfs: it has what it needs or not, as ever.
                Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => break,
                Err(error) => return Err(Error::NoMemory { path: self.directory.clone(), source: error.into() }),
            }
        }
        self.reserved[pages].fill(true);
        Ok(())
    }

    /// Gives back the pages of `part`; those at its ends only if the neighbour there uses them not.
    fn release(&mut self, part: Range<usize>, before: bool, after: bool) {
        let first = if before { part.start.div_ceil(PAGE_BYTES) } else { part.start / PAGE_BYTES };
        let last = if after { part.end / PAGE_BYTES } else { part.end.div_ceil(PAGE_BYTES) };
        if first >= last {
            return;
        }
        self.reserved[first..last].fill(false);
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // Where it cannot be given back it stays.
        let _ = fallocate(&self.file, how, (first * PAGE_BYTES) as i64, ((last - first) * PAGE_BYTES) as i64);
    }

    /// Whether no other process has the file open or mapped. A lease for writing is granted for a file that nobody else
    /// has open; a mapping keeps it open.
    fn is_alone(&self) -> bool {
        // Whoever opens it at this moment has the owner of the lease told by this signal, which would end the process.
        // SAFETY: ignoring a signal runs no code of this process.
        let ignored = unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        if ignored == libc::SIG_ERR {
            return false;
        }
        let lease = |kind: libc::c_int| {
            // SAFETY: plain integers.
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, kind) == 0 }
        };
        let granted = lease(libc::F_WRLCK);
        let _ = lease(libc::F_UNLCK);
        granted
    }
}

fn boot_words(boot_id: [u8; 16]) -> [u64; 2] {
    let word = |at: usize| u64::from_le_bytes(boot_id[at..at + 8].try_into().expect("eight bytes"));
    [word(0), word(8)]
}

/// The file of the agent before if it can be adopted; none if there is none, or one that nobody uses.
fn adoptable(path: &Path, boot_id: [u8; 16]) -> Result<Option<(&'static Region, Memory)>> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(None) };
    let found = file.metadata().map_err(|error| Error::file("look at", path, error))?;
    if found.len() == Region::BYTES as u64 {
        let region = map(&file).map_err(|error| Error::file("map", path, error))?;
        if is_of(region, boot_id) {
            return Ok(Some((region, Memory::of(file, path.parent().unwrap_or(path))?)));
        }
    }
    if let Some(pid) = user_of(found.dev(), found.ino()) {
        let why = "whose shared file is of another version, or damaged";
        return Err(Error::LivingRank { pid, path: path.parent().unwrap_or(path).to_path_buf(), why });
    }
    match other_version(&file, boot_id).filter(|version| *version >= VERSION_WITH_RINGS) {
        Some(version) => Err(Error::OtherVersion { path: path.to_path_buf(), version }),
        None => Ok(None),
    }
}

/// The version of a file that is ready and of this boot, if it is another one: headers of all versions begin alike. An
/// agent that ends in order leaves none.
fn other_version(file: &File, boot_id: [u8; 16]) -> Option<u64> {
    let mut bytes = [0; size_of::<Header>()];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let boot = offset_of!(Header, boot_id);
    let is_ready = word(offset_of!(Header, magic)) == MAGIC && [word(boot), word(boot + 8)] == boot_words(boot_id);
    Some(word(offset_of!(Header, version))).filter(|version| is_ready && *version != u64::from(PROTOCOL_VERSION))
}

/// The shared file as an agent left it or uses it, to be looked at; none if there is none of this version and boot.
pub(crate) fn look(runtime: &Path, boot_id: [u8; 16]) -> Option<Shared<'static>> {
    let file = File::open(runtime.join(SHARED_FILE)).ok()?;
    if file.metadata().ok()?.len() != Region::BYTES as u64 {
        return None;
    }
    let region = map_as(&file, ProtFlags::PROT_READ).ok()?;
    is_of(region, boot_id).then(|| region.view())
}

/// Whether it is ready, of this boot and of this version.
fn is_of(region: &Region, boot_id: [u8; 16]) -> bool {
    let header = region.view().header;
    let same_boot = header.boot_id.iter().zip(boot_words(boot_id)).all(|(a, b)| a.load(Ordering::Relaxed) == b);
    let ready = header.magic.load(Ordering::Acquire) == MAGIC;
    ready && same_boot && header.version.load(Ordering::Relaxed) == u64::from(PROTOCOL_VERSION)
}

/// Another process that maps the file: what is in it need not be understood to know that.
fn user_of(device: u64, inode: u64) -> Option<u32> {
    let named = format!("{:02x}:{:02x} {inode}", major(device), minor(device));
    let maps_it = |maps: String| maps.lines().any(|line| line.split(' ').skip(3).take(2).eq(named.split(' ')));
    let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| *pid != std::process::id())
        .find(|pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(maps_it))
}

fn map(file: &File) -> std::io::Result<&'static Region> {
    map_as(file, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
}

/// Whoever maps it for reading alone must not store to it.
fn map_as(file: &File, protection: ProtFlags) -> std::io::Result<&'static Region> {
    let length = NonZeroUsize::new(Region::BYTES).expect("the region is not empty");
    // SAFETY: a new shared mapping at an address the kernel chooses, never unmapped, as long as the file, which is
    // `Region::BYTES` long and never shrinks: only this module sizes it.
    let address = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE, file, 0) }?;
    // SAFETY: `Region` consists of atomics only, any bytes are valid for it, the mapping is page-aligned and
    // lives as long as the process.
    Ok(unsafe { &*address.as_ptr().cast::<Region>() })
}

#[cfg(test)]
mod tests {
    use headstart_units::GRANULE_BYTES;
    use headstart_units::request;

    use super::*;

    #[test]
    fn one_agent_at_a_time_serves_a_runtime_directory() {
        let runtime = tempfile::tempdir().unwrap();
        let first = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        assert_eq!(first.view().header.magic.load(Ordering::Acquire), MAGIC);
        assert!(matches!(SharedFile::create(runtime.path(), [1; 16], 2), Err(Error::AlreadyServed { .. })));
        drop(first);
        assert!(SharedFile::create(runtime.path(), [1; 16], 2).is_ok());
    }

    fn inode(runtime: &Path) -> u64 {
        std::fs::metadata(runtime.join(SHARED_FILE)).unwrap().ino()
    }

    #[test]
    fn the_file_of_the_agent_before_is_adopted_as_it_is_and_says_who_is_the_agent_now() {
        let runtime = tempfile::tempdir().unwrap();
        let before = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        assert!(!before.is_adopted());
        before.view().slots[3].seq.store(17, Ordering::Relaxed);
        before.view().header.agent_pid.store(1, Ordering::Relaxed);
        let number = inode(runtime.path());
        drop(before);
        let next = SharedFile::create(runtime.path(), [1; 16], 2).unwrap();
        assert!(next.is_adopted() && inode(runtime.path()) == number);
        let (slot, header) = (&next.view().slots[3], next.view().header);
        assert_eq!(slot.seq.load(Ordering::Relaxed), 17);
        assert_eq!(header.agent_pid.load(Ordering::Relaxed), u64::from(std::process::id()));
        assert_eq!(header.epoch.load(Ordering::Relaxed), 2);
    }

    /// A process that maps the runtime directory's shared file until it is killed.
    fn mapper(runtime: &Path) -> Option<std::process::Child> {
        let script = "import mmap,sys,time; f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(), 4096); \
                      print('mapped', flush=True); time.sleep(600)";
        let mut command = std::process::Command::new("python3");
        command.arg("-c").arg(script).arg(runtime.join(SHARED_FILE)).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line, "mapped\n");
        Some(child)
    }

    #[test]
    fn it_goes_with_its_agent_unless_a_process_maps_it() {
        let runtime = tempfile::tempdir_in("/dev/shm").unwrap();
        let shared = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        std::fs::write(runtime.path().join(LIVE_JOURNAL_FILE), b"records").unwrap();
        let are_there = || [SHARED_FILE, LIVE_JOURNAL_FILE].map(|name| runtime.path().join(name).exists());
        if let Some(mut child) = mapper(runtime.path()) {
            shared.give_back();
            assert_eq!(are_there(), [true; 2], "a process may still go by it");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        shared.give_back();
        assert_eq!(are_there(), [false; 2]);
    }

    #[test]
    fn memory_behind_a_file_goes_back_but_for_what_neighbours_use() {
        let runtime = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut shared = SharedFile::create(runtime.path(), [1; 16], 1).unwrap();
        let blocks = || std::fs::metadata(runtime.path().join(SHARED_FILE)).unwrap().blocks();
        let before = blocks();
        // At the borders to those that go, and in the middle.
        let granules = [(10, 65_535), (11, 32_768), (12, 32_768), (13, 0)];
        let range = |granule: u64| request::Range::new(granule * GRANULE_BYTES, 1);
        for (file, granule) in granules {
            shared.reserve_file(file).unwrap();
            shared.view().announce(file, range(granule));
        }
        shared.release_file(11, |file| file != 12);
        shared.release_file(12, |file| file != 11);
        let are_set = granules.map(|(file, granule)| !shared.view().all_clear(file, range(granule)));
        assert_eq!(are_set, [true, false, false, true]);
        assert!(shared.has_file(10) && shared.has_file(13) && !shared.has_file(11));
        shared.reserve_file(11).unwrap();
        assert!(shared.has_file(11));
        [10, 11, 13].into_iter().for_each(|file| shared.release_file(file, |_| false));
        assert!(blocks() <= before + 8, "{} and {before}", blocks());
    }

    #[test]
    fn a_file_of_another_version_whose_rings_may_hold_commits_stays_as_it_is() {
        for version in [VERSION_WITH_RINGS, u64::from(PROTOCOL_VERSION) + 1] {
            let runtime = tempfile::tempdir().unwrap();
            let path = runtime.path().join(SHARED_FILE);
            drop(SharedFile::create(runtime.path(), [1; 16], 1).unwrap());
            let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            file.write_all_at(&version.to_ne_bytes(), offset_of!(Header, version) as u64).unwrap();
            for bytes in [Region::BYTES, Region::BYTES / 2] {
                // Its layout may be another one.
                file.set_len(bytes as u64).unwrap();
                let number = inode(runtime.path());
                let refused = SharedFile::open(runtime.path(), [1; 16]).err().unwrap();
                assert!(refused.means_in_use(), "nobody goes on with the slow directory alone");
                let said = refused.to_string();
                let wanted = [path.to_str().unwrap(), &format!("protocol {version}"), "'headstart drain'"];
                assert!(wanted.iter().all(|words| said.contains(words)), "{said}");
                assert_eq!((inode(runtime.path()), file.metadata().unwrap().len()), (number, bytes as u64));
            }
            // Another boot: nothing in memory has survived.
            let next = SharedFile::create(runtime.path(), [2; 16], 1).unwrap();
            assert!(!next.is_adopted());
            drop(next);
            file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&version.to_ne_bytes(), offset_of!(Header, version) as u64).unwrap();
            assert!(SharedFile::open(runtime.path(), [2; 16]).is_err());
            std::fs::remove_file(&path).unwrap();
            assert!(SharedFile::open(runtime.path(), [2; 16]).is_ok(), "the user does without it");
        }
    }

    #[test]
    fn a_file_of_another_boot_version_or_size_is_replaced_unless_a_process_maps_it() {
        let spoil: [fn(&Path); 4] = [
            |path| std::fs::write(path.join(SHARED_FILE), [7; 8192]).unwrap(),
            |path| drop(SharedFile::create(path, [2; 16], 1).unwrap()),
            |path| {
                let file = SharedFile::create(path, [1; 16], 1).unwrap();
                file.view().header.version.store(VERSION_WITH_RINGS - 1, Ordering::Relaxed);
            },
            |path| SharedFile::create(path, [1; 16], 1).unwrap().view().header.magic.store(0, Ordering::Relaxed),
        ];
        for spoil in spoil {
            let runtime = tempfile::tempdir().unwrap();
            spoil(runtime.path());
            let Some(mut child) = mapper(runtime.path()) else {
                println!("SKIPPED: there is no python3 to map the file");
                return;
            };
            let refused = SharedFile::create(runtime.path(), [1; 16], 2).err().unwrap();
            assert!(matches!(refused, Error::LivingRank { pid, .. } if pid == child.id()), "{refused}");
            child.kill().unwrap();
            child.wait().unwrap();
            let number = inode(runtime.path());
            let next = SharedFile::create(runtime.path(), [1; 16], 2).unwrap();
            assert!(!next.is_adopted() && inode(runtime.path()) != number);
        }
    }
}
