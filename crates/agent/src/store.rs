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

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_core::overlay::journal::{HEADER_BYTES, Header, Identity};
use headstart_core::overlay::recovery::{Observation, Recovered};
use headstart_core::overlay::{Fingerprint, Overlay, Settings, flash_space::Run};
use headstart_core::protocol::shared::Shared;
use headstart_core::protocol::{FLASH_DIRECTORY, data_file_name};

use crate::error::{Error, Result};

/// A slow file the agent has open.
#[derive(Clone)]
pub struct SlowFile {
    /// For reading, and for writing where the user may.
    pub file: Arc<File>,
}

/// Everything the agent keeps open.
pub struct Store {
    directory: PathBuf,
    live_path: PathBuf,
    header: Header,
    journal: Arc<File>,
    journal_written: u64,
    unwritten: Vec<u8>,
    live: File,
    data: BTreeMap<u32, (Arc<File>, u64)>,
    slow: BTreeMap<u32, SlowFile>,
}

/// Bytes of the journal to write and sync.
pub struct JournalJob {
    journal: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
}

impl JournalJob {
    /// Writes and syncs.
    pub fn run(&self) -> io::Result<()> {
        self.journal.write_all_at(&self.bytes, self.offset)?;
        self.journal.sync_data()
    }
}

/// What was found before this agent started.
pub struct Found {
    /// The replayed journal.
    pub recovered: Recovered,
    /// The epoch of the agent that wrote it.
    pub epoch: u64,
}

/// Looks for a journal in the fast directory and its copy in memory, and replays what counts of them.
pub fn recover(fast: &Path, runtime: &Path, boot_id: [u8; 16]) -> Result<Found> {
    let path = fast.join(FLASH_DIRECTORY).join("journal");
    let Some((header, body)) = read_journal(&path)? else {
        return Ok(Found { recovered: Recovered::default(), epoch: 0 });
    };
    let live = read_journal(&runtime.join("journal.live")).unwrap_or(None);
    let live = live.filter(|(live_header, _)| live_header.boot_id == boot_id && live_header.epoch == header.epoch);
    let observation = Observation { same_boot: header.boot_id == boot_id, tail_present: live.is_some() };
    let replay = observation.decide();
    let body = live.map_or(body, |(_, live_body)| live_body);
    let recovered = Recovered::replay(&body, replay);
    tracing::info!(
        ?observation,
        ?replay,
        records = recovered.records,
        dirty_bytes = recovered.dirty_bytes(),
        "journal replayed"
    );
    Ok(Found { recovered, epoch: header.epoch })
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
    if (found.dev(), found.ino()) != (identity.device, identity.inode) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    Ok(file)
}

/// Size and modification time now.
pub fn fingerprint(file: &File) -> io::Result<Fingerprint> {
    let found = file.metadata()?;
    let modified_ns = (found.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec() as u64);
    Ok(Fingerprint { size: found.len(), modified_ns })
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
        recovered: Recovered,
        shared: Shared<'_>,
    ) -> Result<(Store, Overlay)> {
        let directory = fast.join(FLASH_DIRECTORY);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| Error::file("create", &directory, error))?;
        let live_path = runtime.join("journal.live");
        let (slow, sizes) = open_recovered(&recovered);
        let data = open_data_files(&directory, &recovered)?;
        let mut overlay = Overlay::adopt(settings, recovered, shared, &sizes);
        let header = Header { boot_id, epoch };
        let (journal, live, written) = write_journals(&directory, &live_path, &header, &mut overlay)?;
        let store = Store {
            directory,
            live_path,
            header,
            journal: Arc::new(journal),
            journal_written: written,
            unwritten: Vec::new(),
            live,
            data,
            slow,
        };
        store.remove_strangers();
        Ok((store, overlay))
    }

    /// Removes data files the journal does not name: their commits were never acknowledged, or they were removed.
    fn remove_strangers(&self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_prefix("data.")).map(|hex| u32::from_str_radix(hex, 16));
            if let Some(Ok(number)) = number
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

    /// Everything appended so far, to be made durable.
    pub fn journal_job(&mut self) -> JournalJob {
        let bytes = std::mem::take(&mut self.unwritten);
        let offset = self.journal_written;
        self.journal_written += bytes.len() as u64;
        JournalJob { journal: self.journal.clone(), offset, bytes }
    }

    /// Puts a journal that says no more than the overlay knows in the place of the grown one. Everything the journal names is
    /// durable.
    pub fn rotate(&mut self, overlay: &mut Overlay) -> Result<()> {
        let (journal, live, written) = write_journals(&self.directory, &self.live_path, &self.header, overlay)?;
        self.journal = Arc::new(journal);
        self.live = live;
        self.journal_written = written;
        self.unwritten.clear();
        Ok(())
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
        use nix::fcntl::{FallocateFlags, fallocate};
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

    /// Remembers a slow file.
    pub fn put_slow(&mut self, number: u32, file: Arc<File>) {
        self.slow.insert(number, SlowFile { file });
    }

    /// Closes a slow file.
    pub fn forget_slow(&mut self, number: u32) {
        self.slow.remove(&number);
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn open_recovered(recovered: &Recovered) -> (BTreeMap<u32, SlowFile>, BTreeMap<u32, u64>) {
    let mut slow = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for (&number, file) in &recovered.files {
        match open_slow(&file.path, file.identity) {
            Ok(opened) => {
                let mut size = opened.metadata().map(|found| found.len()).unwrap_or(0);
                // A commit may have been appended and its extension lost with the agent.
                if size < file.map.end() && opened.set_len(file.map.end()).is_ok() {
                    size = file.map.end();
                }
                sizes.insert(number, size);
                slow.insert(number, SlowFile { file: Arc::new(opened) });
            }
            Err(error) => {
                let path = as_path(&file.path).display().to_string();
                tracing::error!(%error, %path, "a file with bytes on flash cannot be opened; its bytes are kept");
            }
        }
    }
    (slow, sizes)
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
        let _ = std::fs::remove_file(&fresh);
        let mut file = create(&fresh)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        std::fs::rename(&fresh, path)?;
        if durable && let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(file)
    };
    attempt().map_err(|error| Error::file("write the journal", path, error))
}
