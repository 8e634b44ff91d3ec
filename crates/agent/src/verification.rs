//! Comparing what flash holds of a file with the file: by the journal, as an agent that starts now would find
//! it, past the page cache of the data files, beside an agent at work.
//!
//! Bytes are compared while nobody is kept from changing them. Those that differ are looked at again, some
//! times: only what the journal said each time, before and after, to be clean at the same place, of a file
//! that nobody has open for writing, is said to differ.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headstart_overlay::Mapped;
use headstart_overlay::recovery::RecoveredFile;
use headstart_protocol::{FLASH_DIRECTORY, data_file_name};
use headstart_units::MIB;
use headstart_units::request::Range;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::cluster::entry::files_of_this_node;
use crate::error::{Error, Result};
use crate::process;
use crate::runtime_directory;
use crate::storage::{File as _, RealStorage, Storage as _};
use crate::store::{self, Found};

/// Bytes read at a time from each side.
const CHUNK_BYTES: u64 = MIB;
/// A journal that is being replaced may not be there for a moment.
const ATTEMPTS: u32 = 50;
/// So often bytes have to differ.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(10);

/// How an extent compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Flash and disk have the same bytes.
    Equal,
    /// Flash has newer ones, or a program may be writing them.
    Newer,
    /// They differ from this byte of the file on.
    Differs(u64),
}

/// A replayed journal, and where its files are.
pub struct Verification {
    slow: PathBuf,
    fast: PathBuf,
    storage: RealStorage,
    found: Found,
    data: Option<(u32, File)>,
}

impl Verification {
    /// Reads the journal of the agent that serves the directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn begin(slow: &Path, fast: &Path) -> Result<Verification> {
        let storage = RealStorage::below(slow)?;
        let found = replay(&storage, slow, fast)?;
        Ok(Verification { slow: slow.into(), fast: fast.into(), storage, found, data: None })
    }

    /// Compares what flash holds of `range`, extent by extent: `heard` learns of each how it compares and how
    /// long it is, and says whether to go on. False if it did not.
    ///
    /// # Errors
    /// The slow file or a data file cannot be read.
    pub fn compare(
        &mut self,
        path: &Path,
        inode: u64,
        range: Range,
        mut heard: impl FnMut(Outcome, u64) -> bool,
    ) -> Result<bool> {
        let Some(file) = self.file(inode) else { return Ok(true) };
        let extents: Vec<Mapped> = file.map.overlapping(range).map(|mapped| mapped.part(range)).collect();
        let failed = |error| Error::file("read", path, error);
        let slow = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            slow => slow.map_err(failed)?,
        };
        let found = slow.attributes().map_err(failed)?;
        if found.inode != inode || !self.storage.is_managed(found.device) {
            return Ok(true); // another file has its name by now
        }
        for extent in extents {
            let mut outcome = if extent.dirty { Outcome::Newer } else { self.look(&slow, &extent).map_err(failed)? };
            let mut looks = 1;
            while looks < LOOKS && matches!(outcome, Outcome::Differs(_)) {
                std::thread::sleep(PAUSE);
                self.found = replay(&self.storage, &self.slow, &self.fast)?;
                if !self.stands(inode, &extent) {
                    outcome = Outcome::Newer;
                    break;
                }
                outcome = self.look(&slow, &extent).map_err(failed)?;
                looks += 1;
            }
            if matches!(outcome, Outcome::Differs(_)) {
                self.found = replay(&self.storage, &self.slow, &self.fast)?;
                outcome = if self.stands(inode, &extent) { outcome } else { Outcome::Newer };
            }
            if !heard(outcome, extent.range.length) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn file(&self, inode: u64) -> Option<&RecoveredFile> {
        let same = |file: &&RecoveredFile| file.identity.inode == inode;
        self.found.recovered.files.values().filter(|file| !file.unlinked).find(same)
    }

    /// Whether the journal still says that these bytes are clean there, and nobody may be writing them.
    fn stands(&self, inode: u64, extent: &Mapped) -> bool {
        let Some(file) = self.file(inode).filter(|file| !file.intent) else { return false };
        let same = |now: Mapped| now.same_place(extent.data_file, extent.range.offset, extent.place) && !now.dirty;
        file.map.at(extent.range.offset).is_some_and(same)
    }

    fn look(&mut self, slow: &File, extent: &Mapped) -> io::Result<Outcome> {
        let path = self.fast.join(FLASH_DIRECTORY).join(data_file_name(extent.data_file));
        if self.data.as_ref().is_none_or(|(number, _)| *number != extent.data_file) {
            self.data = Some((extent.data_file, File::open(path)?));
        }
        let (_, data) = self.data.as_ref().expect("it was just opened");
        // What was synced leaves the page cache, so that flash itself is read; where it cannot, the
        // comparison is of the cache.
        let (place, length) = (extent.place as i64, extent.range.length as i64);
        let _ = posix_fadvise(data, place, length, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        let (mut on_flash, mut on_disk) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < extent.range.length {
            let length = CHUNK_BYTES.min(extent.range.length - done) as usize;
            on_flash.resize(length, 0);
            on_disk.resize(length, 0);
            data.read_exact_at(&mut on_flash, extent.place + done)?;
            let offset = extent.range.offset + done;
            match slow.read_exact_at(&mut on_disk, offset) {
                // The file ends before: flash has bytes that the disk has not.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Outcome::Differs(offset)),
                read => read?,
            }
            if let Some(at) = on_flash.iter().zip(&on_disk).position(|(flash, disk)| flash != disk) {
                return Ok(Outcome::Differs(offset + at as u64));
            }
            done += length as u64;
        }
        Ok(Outcome::Equal)
    }
}

fn replay(storage: &RealStorage, slow: &Path, fast: &Path) -> Result<Found> {
    let runtime = runtime_directory::path(slow);
    let boot_id = process::boot_id().unwrap_or_default();
    let mut attempt = 0;
    loop {
        let found = store::recover(storage, &files_of_this_node(fast), &runtime, boot_id);
        // Without its copy in memory a journal says what was, not what is.
        if attempt == ATTEMPTS || found.as_ref().is_ok_and(|found| found.complete) {
            return found;
        }
        std::thread::sleep(PAUSE);
        attempt += 1;
    }
}
