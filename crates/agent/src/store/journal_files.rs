//! The journal's two files: the one in the fast directory, durable up to the last barrier, and the copy in
//! memory with every appended record.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_overlay::Overlay;
use headstart_overlay::journal::{HEADER_BYTES, Header};

use crate::error::{Error, Result};
use crate::storage::{Access, File, FileRef, Scope, Storage, StorageRef};

/// Space kept allocated behind the journal's end, in the best case and in the worst.
const IN_HAND_BYTES: u64 = 1 << 20;
const IN_HAND_BYTES_MIN: u64 = 64 << 10;

/// Memory kept behind the end of the copy: what is told while no more is to be had, of bytes absorbed before.
/// An assumption: some thousand records.
const LIVE_IN_HAND_BYTES: u64 = 128 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct JournalFiles {
    storage: StorageRef,
    directory: PathBuf,
    live_path: PathBuf,
    header: Header,
    journal: FileRef,
    journal_written: u64,
    unwritten: Vec<u8>,
    /// The journal begun last has not taken the place of the one before.
    unpublished: bool,
    /// Part of a journal job under way.
    writing: Arc<Vec<u8>>,
    live: FileRef,
    live_end: u64,
    /// Up to where the copy has memory.
    live_reserved: u64,
    /// There was no more when it was last asked for.
    live_is_short: bool,
    appended: u64,
}

/// Bytes of the journal to write and sync.
#[derive(Debug)]
pub(crate) struct JournalJob {
    storage: StorageRef,
    journal: FileRef,
    offset: u64,
    bytes: Arc<Vec<u8>>,
    /// A journal that begins with these bytes takes the old one's place.
    publish: Option<PathBuf>,
}

impl JournalJob {
    /// Writes and syncs; keeps space in hand for the next ones, as absorbed bytes may take all there is.
    pub(crate) fn run(&self) -> io::Result<()> {
        self.journal.write_at(&self.bytes, self.offset)?;
        let _ = self.journal.allocate(self.offset + self.bytes.len() as u64, IN_HAND_BYTES);
        self.journal.sync(Scope::Data)?;
        if let Some(path) = &self.publish {
            self.journal.sync(Scope::All)?;
            put_in_place(&*self.storage, &path.with_extension("new"), path, true)?;
        }
        Ok(())
    }
}

impl JournalFiles {
    /// Writes a checkpoint: first beside, durable, then in place. The copy in memory goes first: it may say
    /// more, never less. Where memory has no room for another copy, the one before is written over, once the
    /// journal says all that it said, and what it has beyond that stays in hand.
    pub(crate) fn begin(
        storage: StorageRef,
        directory: PathBuf,
        live_path: PathBuf,
        header: Header,
        overlay: &mut Overlay,
    ) -> Result<JournalFiles> {
        let mut bytes = header.encode().to_vec();
        bytes.extend(overlay.checkpoint(HEADER_BYTES as u64));
        let live_end = bytes.len() as u64;
        let (live, reused) = match replace(&*storage, &live_path, &bytes, false) {
            Err(error) if error.is_no_space() => {
                let (live, room) = reuse(&*storage, &live_path, live_end).ok_or(error)?;
                (live, Some(room))
            }
            fresh => (fresh?, None),
        };
        let journal = replace(&*storage, &directory.join("journal"), &bytes, true)?;
        if let Some(room) = reused {
            overwrite(&*live, &bytes, room).map_err(|error| Error::file("write the journal", &live_path, error))?;
        }
        let mut files = JournalFiles {
            storage,
            directory,
            live_path,
            header,
            journal,
            journal_written: bytes.len() as u64,
            unwritten: Vec::new(),
            unpublished: false,
            writing: Arc::default(),
            live,
            live_end,
            live_reserved: reused.unwrap_or(live_end),
            live_is_short: false,
            appended: 0,
        };
        files.keep_live_in_hand(0);
        Ok(files)
    }

    /// Appends records.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.keep_live_in_hand(bytes.len() as u64);
        self.live.write_at(bytes, self.live_end).map_err(|error| Error::file("append to", &self.live_path, error))?;
        self.live_end += bytes.len() as u64;
        self.appended += bytes.len() as u64;
        self.unwritten.extend_from_slice(bytes);
        Ok(())
    }

    /// Asks for memory before the last of it is used: without any the agent could only end.
    fn keep_live_in_hand(&mut self, bytes: u64) {
        let end = self.live_end + bytes;
        if end + LIVE_IN_HAND_BYTES / 2 <= self.live_reserved {
            return;
        }
        match self.live.allocate(self.live_end, bytes + LIVE_IN_HAND_BYTES) {
            Ok(()) => (self.live_reserved, self.live_is_short) = (end + LIVE_IN_HAND_BYTES, false),
            Err(error) => {
                if !std::mem::replace(&mut self.live_is_short, true) {
                    tracing::error!(
                        %error, path = %self.live_path.display(),
                        "there is no room for more records: nothing is absorbed until there is. \
                         Make room in that file system"
                    );
                }
            }
        }
    }

    /// Whether what is in hand for records is all that there is, now as when it was last asked for.
    pub(crate) fn is_short(&mut self) -> bool {
        if self.live_is_short {
            self.keep_live_in_hand(0);
        }
        self.live_is_short
    }

    /// Bytes appended since the agent started.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended
    }

    /// Bytes appended that the journal in the fast directory does not have.
    pub(crate) fn unwritten_bytes(&self) -> usize {
        self.unwritten.len()
    }

    /// Everything appended so far, to be made durable; [`JournalFiles::done`] ends it.
    pub(crate) fn job(&mut self) -> JournalJob {
        self.writing = Arc::new(std::mem::take(&mut self.unwritten));
        JournalJob {
            storage: self.storage.clone(),
            journal: self.journal.clone(),
            offset: self.journal_written,
            bytes: self.writing.clone(),
            publish: self.unpublished.then(|| self.directory.join("journal")),
        }
    }

    /// The job ended. What it could not write is written again with the next one: a gap would end the replay there.
    pub(crate) fn done(&mut self, written: bool) {
        let bytes = std::mem::take(&mut self.writing);
        if written {
            self.journal_written += bytes.len() as u64;
            self.unpublished = false;
        } else {
            self.unwritten.splice(0..0, bytes.iter().copied());
        }
    }

    /// Begins a journal that says no more than the overlay knows; it takes the place of the grown one with
    /// the barrier that the overlay now asks for. No barrier is under way. False, and nothing is changed, if
    /// the fast directory has no room for both, or while the one begun last has not taken its place: it has
    /// no other name than the next one would have.
    pub(crate) fn rotate(&mut self, overlay: &mut Overlay) -> Result<bool> {
        if self.unpublished {
            return Ok(false);
        }
        let (journal_path, bytes) = (self.directory.join("journal"), overlay.journal_end());
        let Some(journal) = self.reserve(&journal_path, bytes) else { return Ok(false) };
        if self.reserve(&self.live_path, bytes).is_none() {
            let _ = self.storage.remove(&journal_path.with_extension("new"));
            return Ok(false);
        }
        let mut bytes = self.header.encode().to_vec();
        bytes.extend(overlay.begin_journal(HEADER_BYTES as u64));
        self.live = replace(&*self.storage, &self.live_path, &bytes, false)?;
        self.live_end = bytes.len() as u64;
        self.live_reserved = self.live_end;
        self.keep_live_in_hand(0);
        self.journal = journal;
        self.journal_written = 0;
        self.unwritten = bytes;
        self.unpublished = true;
        Ok(true)
    }

    /// Creates what takes the place of `path` next with what it may need allocated: once the overlay has
    /// written into it there is no way back.
    fn reserve(&self, path: &Path, bytes: u64) -> Option<FileRef> {
        let fresh = path.with_extension("new");
        let _ = self.storage.remove(&fresh);
        let attempt = || {
            let file = self.storage.open(&fresh, Access::Create)?;
            file.allocate(0, bytes + IN_HAND_BYTES_MIN)?;
            Ok::<FileRef, io::Error>(file)
        };
        attempt()
            .inspect_err(|error| {
                tracing::warn!(%error, path = %fresh.display(), "the journal cannot be replaced and goes on growing");
                let _ = self.storage.remove(&fresh);
            })
            .ok()
    }
}

/// A journal's header, of this format or the one before, and all its bytes; nothing if it is missing.
pub(crate) fn read_journal(storage: &dyn Storage, path: &Path) -> Result<Option<(Header, Vec<u8>)>> {
    let read = || -> io::Result<Vec<u8>> {
        let file = storage.open(path, Access::Existing)?;
        let mut bytes = vec![0; file.attributes()?.size as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes = match read() {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read the journal", path, error)),
    };
    let header = Header::decode_any(&bytes)
        .map_err(|error| Error::Journal { path: path.to_path_buf(), problem: error.to_string() })?;
    Ok(Some((header, bytes)))
}

fn replace(storage: &dyn Storage, path: &Path, bytes: &[u8], durable: bool) -> Result<FileRef> {
    let fresh = path.with_extension("new");
    let attempt = || -> io::Result<FileRef> {
        // Space may have been allocated for it, which must not be given back now.
        let file = storage.open(&fresh, Access::Create)?;
        file.write_at(bytes, 0)?;
        file.set_size(bytes.len() as u64)?;
        if durable {
            let mut in_hand = IN_HAND_BYTES;
            while let Err(error) = file.allocate(bytes.len() as u64, in_hand) {
                in_hand /= 2;
                if in_hand < IN_HAND_BYTES_MIN {
                    return Err(error);
                }
            }
            file.sync(Scope::All)?;
        }
        put_in_place(storage, &fresh, path, durable)?;
        Ok(file)
    };
    attempt().map_err(|error| Error::file("write the journal", path, error))
}

/// The copy in memory of before, if it is there and has room for so many bytes, and how much it has for them and more.
fn reuse(storage: &dyn Storage, path: &Path, bytes: u64) -> Option<(FileRef, u64)> {
    let _ = storage.remove(&path.with_extension("new"));
    let file = storage.open(path, Access::Existing).ok()?;
    let in_hand = std::iter::successors(Some(LIVE_IN_HAND_BYTES), |bytes| (*bytes > 0).then_some(bytes / 2));
    let room = in_hand.map(|in_hand| bytes + in_hand).find(|room| file.allocate(0, *room).is_ok())?;
    Some((file, room))
}

/// Its header last: until then it is of an earlier agent than the journal, and does not count. Whoever fills
/// the file system would have what is given back: of what lies behind the end, `room` is kept, as zeros,
/// which are no record.
fn overwrite(live: &dyn File, bytes: &[u8], room: u64) -> io::Result<()> {
    live.write_at(&bytes[HEADER_BYTES..], HEADER_BYTES as u64)?;
    let (end, size) = (bytes.len() as u64, live.attributes()?.size);
    if size > room {
        live.set_size(room)?;
    }
    live.write_at(&vec![0; (size.min(room) - end) as usize], end)?;
    live.write_at(&bytes[..HEADER_BYTES], 0)
}

fn put_in_place(storage: &dyn Storage, fresh: &Path, path: &Path, durable: bool) -> io::Result<()> {
    match storage.rename(fresh, path) {
        // An earlier try got as far as this.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_there(storage, path) => {}
        renamed => renamed?,
    }
    match path.parent().filter(|_| durable) {
        Some(directory) => storage.sync_directory(directory),
        None => Ok(()),
    }
}

fn is_there(storage: &dyn Storage, path: &Path) -> bool {
    storage.open(path, Access::Existing).is_ok()
}

#[cfg(test)]
mod tests;
