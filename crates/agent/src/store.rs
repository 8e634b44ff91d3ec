//! The agent's files: the journal, its copy in memory, data files, slow files.
//!
//! ```text
//! <fast>/.headstart/journal        durable up to the last barrier
//! <fast>/.headstart/data.XXXXXXXX  absorbed and fetched bytes
//! <runtime>/journal.live           every appended record; lives as long as the machine's memory
//! ```
//!
//! *Append* is a write to `journal.live`: it survives the agent, and only a barrier lets a record count after power loss, so
//! that the journal in the fast directory needs writing with the next barrier, not with every record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::RangeBounds;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headstart_core::overlay::adoption::open_files;
use headstart_core::overlay::extent_map::ExtentMap;
use headstart_core::overlay::journal::{HEADER_BYTES, Header, Identity};
use headstart_core::overlay::recovery::{Observation, Recovered, Replay};
use headstart_core::overlay::{Overlay, Settings, flash_space::Run};
use headstart_core::protocol::shared::{FILES_MAX, Shared};
use headstart_core::protocol::{FLASH_DIRECTORY, data_file_name};
use headstart_core::request::Range;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};

use crate::error::{Error, Result};
use crate::held_file;
use crate::origin::birth_ns;
use crate::slow_file::{SlowFile, fingerprint};

/// Everything the agent keeps open.
pub struct Store {
    directory: PathBuf,
    live_path: PathBuf,
    header: Header,
    journal: Arc<File>,
    journal_written: u64,
    unwritten: Vec<u8>,
    /// The journal begun last has not taken the place of the one before.
    unpublished: bool,
    /// Part of a journal job under way.
    writing: Arc<Vec<u8>>,
    live: File,
    data: BTreeMap<u32, (Arc<File>, u64)>,
    slow: BTreeMap<u32, SlowFile>,
    _claim: Claim,
}

/// Space kept allocated behind the journal's end, in the best case and in the worst.
const JOURNAL_IN_HAND_BYTES: u64 = 1 << 20;
const JOURNAL_IN_HAND_BYTES_MIN: u64 = 64 << 10;

/// Allocates storage without changing the size; what cannot be allocated ahead on this file system is not.
fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset as i64, length as i64) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Bytes of the journal to write and sync.
pub struct JournalJob {
    journal: Arc<File>,
    offset: u64,
    bytes: Arc<Vec<u8>>,
    /// A journal that begins with these bytes takes the old one's place.
    publish: Option<PathBuf>,
}

impl JournalJob {
    /// Writes and syncs; keeps space in hand for the next ones, as absorbed bytes may take all there is.
    pub fn run(&self) -> io::Result<()> {
        self.journal.write_all_at(&self.bytes, self.offset)?;
        let _ = allocate(&self.journal, self.offset + self.bytes.len() as u64, JOURNAL_IN_HAND_BYTES);
        self.journal.sync_data()?;
        if let Some(path) = &self.publish {
            self.journal.sync_all()?;
            put_in_place(&path.with_extension("new"), path, true)?;
        }
        Ok(())
    }
}

/// What was found before this agent started.
pub struct Found {
    /// The replayed journal.
    pub recovered: Recovered,
    /// The epoch of the agent that wrote it.
    pub epoch: u64,
    /// Whether nothing that was appended is missing.
    pub complete: bool,
}

/// What is taken for possible of a data file that is missing: bytes that lie there cannot be read, the others can.
const MISSING_BYTES_MAX: u64 = 1 << 40;

/// How long an agent that was killed may take to let go.
const CLAIM_PATIENCE: Duration = Duration::from_secs(2);

/// The right to use the fast directory; ends with the process.
pub struct Claim {
    _lock: Flock<File>,
}

/// Makes this agent the only one of this machine that uses the fast directory, whatever its runtime directory.
pub fn claim(fast: &Path) -> Result<Claim> {
    let directory = fast.join(FLASH_DIRECTORY);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| Error::file("create", &directory, error))?;
    let path = directory.join("lock");
    let mut file = create(&path).map_err(|error| Error::file("open", &path, error))?;
    let deadline = Instant::now() + CLAIM_PATIENCE;
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(Claim { _lock: lock }),
            Err((file, Errno::EWOULDBLOCK)) if Instant::now() < deadline => file,
            Err((_, Errno::EWOULDBLOCK)) => return Err(Error::FlashInUse { path: directory }),
            Err((_, error)) => return Err(Error::file("lock", &path, error)),
        };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Looks for a journal in the fast directory and its copy in memory, and replays what counts of them.
pub fn recover(fast: &Path, runtime: &Path, boot_id: [u8; 16]) -> Result<Found> {
    let path = fast.join(FLASH_DIRECTORY).join("journal");
    let Some((header, body)) = read_journal(&path)? else {
        refuse_lost_journal(&path)?;
        return Ok(Found { recovered: Recovered::default(), epoch: 0, complete: false });
    };
    let live = read_journal(&runtime.join("journal.live")).unwrap_or_else(|error| {
        tracing::warn!(%error, "only what was made durable counts");
        None
    });
    // One of a later epoch was written by an agent that died before its journal took the old one's place: it says the same and
    // all that was appended.
    let live = live.filter(|(live_header, _)| live_header.boot_id == boot_id && live_header.epoch >= header.epoch);
    let observation = Observation { same_boot: header.boot_id == boot_id, tail_present: live.is_some() };
    let replay = observation.decide();
    let body = live.map_or(body, |(_, live_body)| live_body);
    let recovered = Recovered::replay(&body, replay);
    let directory = fast.join(FLASH_DIRECTORY);
    let size = |data_file| {
        let found = std::fs::metadata(directory.join(data_file_name(data_file)));
        found.map_or(MISSING_BYTES_MAX, |found| found.len())
    };
    if !recovered.is_plausible(FILES_MAX, size) {
        let problem = "it names bytes that are not there; restore the data files beside it, or remove all of them to give up \
                       what only flash holds";
        return Err(Error::Journal { path, problem: problem.into() });
    }
    tracing::info!(
        ?observation,
        ?replay,
        records = recovered.records,
        dirty_bytes = recovered.dirty_bytes(),
        "journal replayed"
    );
    Ok(Found { recovered, epoch: header.epoch, complete: replay == Replay::Everything })
}

/// A journal is there before the first data file is.
fn refuse_lost_journal(path: &Path) -> Result<()> {
    let entries = path.parent().and_then(|directory| std::fs::read_dir(directory).ok());
    let data =
        entries.and_then(|entries| entries.flatten().find(|entry| data_file_number(&entry.file_name()).is_some()));
    data.map_or(Ok(()), |data| {
        let problem = format!("it is missing, but {} is there", data.path().display());
        Err(Error::Journal { path: path.to_path_buf(), problem })
    })
}

fn data_file_number(name: &std::ffi::OsStr) -> Option<u32> {
    u32::from_str_radix(name.to_str()?.strip_prefix("data.")?, 16).ok()
}

fn read_journal(path: &Path) -> Result<Option<(Header, Vec<u8>)>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read the journal", path, error)),
    };
    let header = Header::decode(&bytes)
        .map_err(|error| Error::Journal { path: path.to_path_buf(), problem: error.to_string() })?;
    Ok(Some((header, bytes[HEADER_BYTES..].to_vec())))
}

/// Path bytes as a path.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Opens a slow file for reading and writing, or for reading where the user may not write; checks that it is the one meant.
pub fn open_slow(path: &[u8], identity: Identity) -> io::Result<File> {
    let path = as_path(path);
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options.open(path)
    };
    let file = options(true).or_else(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EROFS | libc::EPERM) => options(false),
        _ => Err(error),
    })?;
    let found = file.metadata()?;
    let another = identity.birth_ns != 0 && birth_ns(&found) != identity.birth_ns;
    if another || (found.dev(), found.ino()) != (identity.device, identity.inode) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    Ok(file)
}

impl Store {
    /// Adopts what was found and begins a new epoch: everything it names is synced, then a journal that says the same takes the
    /// old one's place.
    pub fn begin(
        fast: &Path,
        runtime: &Path,
        boot_id: [u8; 16],
        epoch: u64,
        settings: Settings,
        mut recovered: Recovered,
        shared: Shared<'_>,
        living: &BTreeSet<u32>,
        claim: Claim,
    ) -> Result<(Store, Overlay)> {
        let directory = fast.join(FLASH_DIRECTORY);
        let live_path = runtime.join("journal.live");
        let (slow, sizes) = open_recovered(&mut recovered, &open_files(shared, living))?;
        let data = open_data_files(&directory, &recovered)?;
        let mut overlay = Overlay::adopt(settings, recovered, shared, &sizes, living);
        for (&number, _) in slow.iter().filter(|(_, slow)| !slow.has_name()) {
            overlay.disown(shared, number);
        }
        let header = Header { boot_id, epoch };
        let (journal, live, written) = write_journals(&directory, &live_path, &header, &mut overlay)?;
        let store = Store {
            directory,
            live_path,
            header,
            journal: Arc::new(journal),
            journal_written: written,
            unwritten: Vec::new(),
            writing: Arc::default(),
            unpublished: false,
            live,
            data,
            slow,
            _claim: claim,
        };
        store.remove_strangers();
        Ok((store, overlay))
    }

    /// Removes data files the journal does not name: their commits were never acknowledged, or they were removed.
    fn remove_strangers(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if let Some(number) = data_file_number(&entry.file_name())
                && !self.data.contains_key(&number)
            {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Appends records.
    pub fn append(&mut self, bytes: Vec<u8>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.live.write_all(&bytes).map_err(|error| Error::file("append to", &self.live_path, error))?;
        self.unwritten.extend_from_slice(&bytes);
        Ok(())
    }

    /// Bytes appended that the journal in the fast directory does not have.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten.len()
    }

    /// Everything appended so far, to be made durable; [`Store::journal_done`] ends it.
    pub fn journal_job(&mut self) -> JournalJob {
        self.writing = Arc::new(std::mem::take(&mut self.unwritten));
        JournalJob {
            journal: self.journal.clone(),
            offset: self.journal_written,
            bytes: self.writing.clone(),
            publish: self.unpublished.then(|| self.directory.join("journal")),
        }
    }

    /// The job ended. What it could not write is written again with the next one: a gap would end the replay there.
    pub fn journal_done(&mut self, written: bool) {
        let bytes = std::mem::take(&mut self.writing);
        if written {
            self.journal_written += bytes.len() as u64;
            self.unpublished = false;
        } else {
            self.unwritten.splice(0..0, bytes.iter().copied());
        }
    }

    /// Begins a journal that says no more than the overlay knows; it takes the place of the grown one with the barrier that the
    /// overlay now asks for. No barrier is under way. False, and nothing is changed, if the fast directory has no room for both.
    pub fn rotate(&mut self, overlay: &mut Overlay) -> Result<bool> {
        let Some(journal) = self.reserve_journal(overlay.journal_end()) else { return Ok(false) };
        let mut bytes = self.header.encode().to_vec();
        bytes.extend(overlay.begin_journal(HEADER_BYTES as u64));
        self.live = replace(&self.live_path, &bytes, false)?;
        self.journal = Arc::new(journal);
        self.journal_written = 0;
        self.unwritten = bytes;
        self.unpublished = true;
        Ok(true)
    }

    /// Creates the next journal with what it may need allocated: once the overlay has written into it there is no way back.
    fn reserve_journal(&self, bytes: u64) -> Option<File> {
        let fresh = self.directory.join("journal.new");
        let _ = std::fs::remove_file(&fresh);
        let attempt = || {
            let file = create(&fresh)?;
            allocate(&file, 0, bytes + JOURNAL_IN_HAND_BYTES_MIN)?;
            Ok::<File, io::Error>(file)
        };
        attempt()
            .inspect_err(|error| {
                tracing::warn!(%error, path = %fresh.display(), "the journal cannot be replaced and goes on growing");
                let _ = std::fs::remove_file(&fresh);
            })
            .ok()
    }

    /// The data file, which exists and is at least `size` long afterwards.
    pub fn grow(&mut self, number: u32, size: u64) -> Result<()> {
        let path = self.directory.join(data_file_name(number));
        let (file, known) = match self.data.entry(number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((Arc::new(create(&path).map_err(|error| Error::file("create", &path, error))?), 0))
            }
        };
        if *known < size {
            file.set_len(size).map_err(|error| Error::file("size", &path, error))?;
            *known = size;
        }
        Ok(())
    }

    /// Gives storage back, where the file system can.
    pub fn punch(&self, run: Run) {
        if let Some((file, _)) = self.data.get(&run.data_file) {
            let bytes = run.bytes();
            let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            if let Err(error) = fallocate(file.as_ref(), flags, bytes.offset as i64, bytes.length as i64) {
                tracing::debug!(%error, data_file = run.data_file, "the fast file system cannot punch holes");
            }
        }
    }

    /// Deletes a data file.
    pub fn remove_data_file(&mut self, number: u32) {
        self.data.remove(&number);
        let path = self.directory.join(data_file_name(number));
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, path = %path.display(), "a data file could not be removed");
        }
    }

    /// A data file.
    pub fn data(&self, number: u32) -> Option<Arc<File>> {
        self.data.get(&number).map(|(file, _)| file.clone())
    }

    /// A slow file.
    pub fn slow(&self, number: u32) -> Option<&SlowFile> {
        self.slow.get(&number)
    }

    /// A slow file.
    pub fn slow_mut(&mut self, number: u32) -> Option<&mut SlowFile> {
        self.slow.get_mut(&number)
    }

    /// The slow files from number `from` on.
    pub fn slow_files(&self, from: u32) -> impl Iterator<Item = (u32, &SlowFile)> + '_ {
        self.slow.range(from..).map(|(&number, slow)| (number, slow))
    }

    /// The user wants what is on flash written over whatever a stranger made of these files.
    pub fn accept_changes(&mut self, numbers: impl RangeBounds<u32>) {
        self.slow.range_mut(numbers).for_each(|(_, slow)| slow.accept_changes());
    }

    /// Remembers a slow file.
    pub fn put_slow(&mut self, number: u32, slow: SlowFile) {
        self.slow.insert(number, slow);
    }

    /// Closes a slow file.
    pub fn forget_slow(&mut self, number: u32) {
        self.slow.remove(&number);
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens the slow files of a replay, makes durable what it says of them, and takes back what it may say no longer: bytes that are
/// clean on flash count only if the slow file looks as it did when nobody had it open. The files in `open` are left as they are:
/// those processes go on using them.
fn open_recovered(
    recovered: &mut Recovered,
    open: &BTreeMap<u32, Vec<u32>>,
) -> Result<(BTreeMap<u32, SlowFile>, BTreeMap<u32, u64>)> {
    let mut slow = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for (&number, found) in &mut recovered.files {
        let path = as_path(&found.path).to_path_buf();
        let holders = open.get(&number).map_or(&[][..], Vec::as_slice);
        let held = |error| held_file::open(found.identity, holders).ok_or(error);
        let opened = match open_slow(&found.path, found.identity).or_else(held) {
            Ok(opened) => opened,
            Err(error) => {
                if dirty_end(&found.map).is_none() {
                    found.map.carve(Range::new(0, u64::MAX));
                } else {
                    let path = path.display();
                    tracing::error!(%error, %path, "a file with dirty bytes on flash cannot be opened; they are kept");
                }
                continue;
            }
        };
        // Records of write-backs and of dropped bytes rest on it.
        opened.sync_all().map_err(|error| Error::file("sync", &path, error))?;
        let before = fingerprint(&opened).map_err(|error| Error::file("look at", &path, error))?;
        if !holders.is_empty() {
            found.fingerprint = None;
            sizes.insert(number, before.size);
            slow.insert(number, SlowFile::new(Arc::new(opened), None));
            continue;
        }
        if found.fingerprint != Some(before) {
            let clean: Vec<Range> =
                found.map.iter().filter(|mapped| !mapped.dirty).map(|mapped| mapped.range).collect();
            clean.into_iter().for_each(|range| {
                found.map.carve(range);
            });
        }
        if let Some(known) = found.fingerprint.filter(|known| known.size != before.size)
            && dirty_end(&found.map).is_some()
        {
            // No write-back of ours changes a size: it is for the user to say which bytes are wanted.
            sizes.insert(number, before.size.max(dirty_end(&found.map).unwrap_or(0)));
            slow.insert(number, SlowFile::new(Arc::new(opened), Some(known)));
            continue;
        }
        // A commit may have been appended and its extension lost with the agent.
        if let Some(end) = dirty_end(&found.map).filter(|end| before.size < *end) {
            opened.set_len(end).map_err(|error| Error::file("extend", &path, error))?;
        }
        let now = fingerprint(&opened).map_err(|error| Error::file("look at", &path, error))?;
        found.fingerprint = Some(now);
        sizes.insert(number, now.size);
        slow.insert(number, SlowFile::new(Arc::new(opened), Some(now)));
    }
    Ok((slow, sizes))
}

/// Where the last dirty extent ends.
fn dirty_end(map: &ExtentMap) -> Option<u64> {
    map.iter().filter(|mapped| mapped.dirty).map(|mapped| mapped.range.end()).max()
}

fn open_data_files(directory: &Path, recovered: &Recovered) -> Result<BTreeMap<u32, (Arc<File>, u64)>> {
    let mut data = BTreeMap::new();
    for &number in recovered.data_files.keys() {
        let path = directory.join(data_file_name(number));
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => {
                file.sync_data().map_err(|error| Error::file("sync", &path, error))?;
                let size = file.metadata().map_err(|error| Error::file("look at", &path, error))?.len();
                data.insert(number, (Arc::new(file), size));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), "a data file named by the journal is missing");
            }
            Err(error) => return Err(Error::file("open", &path, error)),
        }
    }
    Ok(data)
}

/// Writes a checkpoint: first beside, durable, then in place. The copy in memory goes first: it may say more, never less.
fn write_journals(
    directory: &Path,
    live_path: &Path,
    header: &Header,
    overlay: &mut Overlay,
) -> Result<(File, File, u64)> {
    let mut bytes = header.encode().to_vec();
    bytes.extend(overlay.checkpoint(HEADER_BYTES as u64));
    let live = replace(live_path, &bytes, false)?;
    let path = directory.join("journal");
    let journal = replace(&path, &bytes, true)?;
    Ok((journal, live, bytes.len() as u64))
}

fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<File> {
    let fresh = path.with_extension("new");
    let attempt = || -> io::Result<File> {
        // Space may have been allocated for it, which must not be given back now.
        let mut file = create(&fresh)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        if durable {
            let mut in_hand = JOURNAL_IN_HAND_BYTES;
            while let Err(error) = allocate(&file, bytes.len() as u64, in_hand) {
                in_hand /= 2;
                if in_hand < JOURNAL_IN_HAND_BYTES_MIN {
                    return Err(error);
                }
            }
            file.sync_all()?;
        }
        put_in_place(&fresh, path, durable)?;
        Ok(file)
    };
    attempt().map_err(|error| Error::file("write the journal", path, error))
}

fn put_in_place(fresh: &Path, path: &Path, durable: bool) -> io::Result<()> {
    match std::fs::rename(fresh, path) {
        // An earlier try got as far as this.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {}
        renamed => renamed?,
    }
    match path.parent().filter(|_| durable) {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use headstart_core::overlay::journal::{Journal, Record};

    use super::*;

    const BOOT: [u8; 16] = [7; 16];

    /// A fast directory whose journal names `/slow/a` with ten dirty bytes before a barrier and ten after it.
    fn fast(epoch: u64) -> tempfile::TempDir {
        let fast = tempfile::tempdir().unwrap();
        let directory = fast.path().join(FLASH_DIRECTORY);
        std::fs::create_dir(&directory).unwrap();
        let bytes = journal(epoch);
        std::fs::write(directory.join("journal"), &bytes).unwrap();
        fast
    }

    fn journal(epoch: u64) -> Vec<u8> {
        let mut journal = Journal::at(HEADER_BYTES as u64);
        let map = |offset| Record::Map { file: 1, offset, length: 10, data_file: 1, place: offset, slot: 0, seq: 1 };
        journal.append(&Record::File { file: 1, identity: Identity::default(), path: b"/slow/a".to_vec() });
        journal.append(&map(0));
        let end = journal.end();
        journal.append(&Record::Barrier { end });
        journal.append(&map(100));
        [Header { boot_id: BOOT, epoch }.encode().to_vec(), journal.take()].concat()
    }

    fn dirty_bytes(fast: &Path, runtime: &Path, boot_id: [u8; 16]) -> u64 {
        recover(fast, runtime, boot_id).unwrap().recovered.dirty_bytes()
    }

    #[test]
    fn what_was_appended_counts_only_with_the_memory_file_of_the_same_boot_and_epoch() {
        let (fast, runtime) = (fast(3), tempfile::tempdir().unwrap());
        let live = runtime.path().join("journal.live");
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10, "it is gone");
        std::fs::write(&live, journal(3)).unwrap();
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 20);
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), [8; 16]), 10, "the machine was started anew");
        std::fs::write(&live, journal(4)).unwrap();
        assert_eq!(
            dirty_bytes(fast.path(), runtime.path(), BOOT),
            20,
            "the next agent died before its journal was in place"
        );
        std::fs::write(&live, journal(2)).unwrap();
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10, "it is of an earlier agent");
        std::fs::write(&live, b"nonsense").unwrap();
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 10);
    }

    #[test]
    fn a_journal_cut_anywhere_behind_its_header_is_read_up_to_there() {
        let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
        let path = fast.path().join(FLASH_DIRECTORY).join("journal");
        let whole = std::fs::read(&path).unwrap();
        for length in HEADER_BYTES..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(dirty_bytes(fast.path(), runtime.path(), BOOT) <= 10);
        }
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_named() {
        let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
        let path = fast.path().join(FLASH_DIRECTORY).join("journal");
        for bytes in [&b""[..], b"HSJRNL02", b"HSJRNL01 and more", &[0; 100]] {
            std::fs::write(&path, bytes).unwrap();
            let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
            assert!(error.contains(path.to_str().unwrap()) && error.contains("move it away"), "{error}");
        }
    }

    #[test]
    fn data_files_without_a_journal_are_not_taken_for_rubbish() {
        let (fast, runtime) = (fast(1), tempfile::tempdir().unwrap());
        let directory = fast.path().join(FLASH_DIRECTORY);
        std::fs::remove_file(directory.join("journal")).unwrap();
        assert_eq!(dirty_bytes(fast.path(), runtime.path(), BOOT), 0);
        std::fs::write(directory.join("data.00000001"), b"x").unwrap();
        let error = recover(fast.path(), runtime.path(), BOOT).err().unwrap().to_string();
        assert!(error.contains("missing") && error.contains("data.00000001"), "{error}");
    }

    #[test]
    fn a_journal_that_could_not_be_written_is_written_whole_the_next_time() {
        let (fast, runtime) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let shared = crate::shared_file::SharedFile::create(runtime.path(), BOOT, 1).unwrap();
        let (mut store, mut overlay) = Store::begin(
            fast.path(),
            runtime.path(),
            BOOT,
            1,
            Settings::default(),
            Recovered::default(),
            shared.view(),
            &BTreeSet::new(),
            claim(fast.path()).unwrap(),
        )
        .unwrap();
        let path = fast.path().join(FLASH_DIRECTORY).join("journal");
        let before = std::fs::read(&path).unwrap();
        store.append(b"first".to_vec()).unwrap();
        drop(store.journal_job());
        store.append(b"second".to_vec()).unwrap();
        store.journal_done(false);
        store.append(b"third".to_vec()).unwrap();
        store.journal_job().run().unwrap();
        store.journal_done(true);
        assert_eq!(std::fs::read(&path).unwrap(), [&before[..], b"firstsecondthird"].concat());
        let old = std::fs::read(&path).unwrap();
        assert!(store.rotate(&mut overlay).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), old, "the old one stays until a barrier");
        drop(store.journal_job());
        store.journal_done(false);
        assert_eq!(std::fs::read(&path).unwrap(), old, "or until one succeeds");
        store.journal_job().run().unwrap();
        store.journal_done(true);
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(runtime.path().join("journal.live")).unwrap());
        assert_eq!(recover(fast.path(), runtime.path(), BOOT).unwrap().recovered.dirty_bytes(), 0);
    }

    #[test]
    fn two_agents_never_use_one_fast_directory() {
        let fast = tempfile::tempdir().unwrap();
        let first = claim(fast.path()).unwrap();
        assert!(matches!(claim(fast.path()), Err(Error::FlashInUse { .. })));
        drop(first);
        assert!(claim(fast.path()).is_ok());
    }
}
