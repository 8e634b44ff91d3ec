//! The register in a directory that all nodes share: one file a version, published by `link`.
//!
//! ```text
//! views/view.00000000000000000007    version 7; its contents never change
//! views/new.<nonce>                  a proposal that is not published yet
//! ```
//!
//! A swap of version 7 writes its proposal, syncs it, links it to `view.…8`, which fails if that name is taken, and
//! syncs the directory. A read looks for names from the version it knows until one is absent, then looks that the one
//! before is there: that was the newest when its successor was absent. No call takes a lock, as a member that was
//! stopped with one would stop all others. A view of an unchanged register costs two look-ups.
//!
//! | what must hold | by |
//! |---|---|
//! | of two swaps of one version one is done | `link` to one name |
//! | no view is torn by a power failure | the proposal is synced before it has a view's name |
//! | no view that somebody acted on is taken back by one | a swap syncs the directory before it returns, a read before it returns a version that is new to it |
//! | a name is taken once | names of old versions stay, emptied; the oldest are removed by ascending version, so that who comes late finds the name before his gone |

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::libc;

use crate::directory;
use crate::envelope::{self, Nonce};
use crate::error::{Error, Result};
use crate::limits::VALUE_BYTES_MAX;
use crate::register::{Register, Swap, Value, Version, now_ns, refuse_too_long};

/// Every so many versions the one who swapped cleans up, and versions so far behind are emptied; assumed: nobody needs
/// them any more, and one who reads one notices.
const KEPT_WHOLE: u64 = 16;
/// Names of versions so far behind are removed; assumed: no process sleeps between its read and its link while so many
/// views pass, and one that does says that it is unsure.
const KEPT_NAMES: u64 = 1024;
/// A proposal older than the newest by so much is of a process that was killed; assumed.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// How often a read lists the directory anew when the newest version is gone before it looks: each time more than
/// [`KEPT_NAMES`] versions would have to pass; assumed.
const LISTINGS_MAX: u32 = 100;

const VIEW: &str = "view.";
const PROPOSAL: &str = "new.";

/// See the module.
#[derive(Debug)]
pub struct FileRegister {
    directory: PathBuf,
    version: u64,
    bytes: Arc<[u8]>,
}

impl FileRegister {
    /// The register in `directory`, which is made if its parent is there.
    pub fn open(directory: &Path) -> Result<FileRegister> {
        directory::make(directory)?;
        let register = FileRegister { directory: directory.to_path_buf(), version: 0, bytes: Arc::new([]) };
        if register.listed()?.is_none() {
            // Made anew by one who saw no view long ago, it does no harm: a read goes on to the newest.
            let first = register.view(0);
            let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&first);
            options.map_err(|error| Error::file("make", &first, error))?;
        }
        Ok(register)
    }

    fn view(&self, version: u64) -> PathBuf {
        self.directory.join(format!("{VIEW}{version:020}"))
    }

    fn is_there(&self, version: u64) -> Result<bool> {
        let path = self.view(version);
        match std::fs::symlink_metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::file("look at", &path, error)),
        }
    }

    fn names(&self) -> Result<impl Iterator<Item = String> + use<>> {
        let entries = std::fs::read_dir(&self.directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        match entries {
            Ok(entries) => Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.went_back()),
            Err(error) => Err(Error::file("list", &self.directory, error)),
        }
    }

    fn listed(&self) -> Result<Option<u64>> {
        Ok(self.names()?.filter_map(|name| version_of(&name)).max())
    }

    fn went_back(&self) -> Error {
        Error::WentBack { place: self.directory.display().to_string(), known: self.version }
    }

    /// The version that was the newest at some moment of this call.
    fn newest(&self) -> Result<u64> {
        let mut at = self.version;
        for _ in 0..LISTINGS_MAX {
            while self.is_there(at + 1)? {
                at += 1;
            }
            if self.is_there(at)? {
                return Ok(at);
            }
            // It was removed as an old one, or the directory is another one.
            at = self.listed()?.filter(|&listed| listed > self.version).ok_or_else(|| self.went_back())?;
        }
        Err(self.went_back())
    }

    fn load(&self, version: u64) -> Result<(Nonce, Vec<u8>)> {
        let path = self.view(version);
        let failed = |error| Error::file("read", &path, error);
        let file = File::open(&path).map_err(failed)?;
        let mut sealed = Vec::new();
        file.take(2 * VALUE_BYTES_MAX as u64).read_to_end(&mut sealed).map_err(failed)?;
        let (nonce, value) = envelope::open(&|| path.display().to_string(), &sealed)?;
        Ok((nonce, value.to_vec()))
    }

    /// Goes on to the newest version.
    fn advance(&mut self) -> Result<()> {
        let mut refused = None;
        loop {
            let newest = self.newest()?;
            if newest == self.version {
                return Ok(());
            }
            match self.load(newest) {
                Ok((_, bytes)) => {
                    directory::sync(&self.directory)?;
                    (self.version, self.bytes) = (newest, bytes.into());
                    return Ok(());
                }
                Err(error) if refused == Some(newest) => return Err(error),
                // It may have been emptied or removed as an old one just now: then there is a newer one.
                Err(_) => refused = Some(newest),
            }
        }
    }

    fn propose(&self, nonce: &Nonce, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.directory.join(format!("{PROPOSAL}{}", envelope::hexadecimal(nonce)));
        let mut options = OpenOptions::new();
        let written = options.write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
            file.write_all(&envelope::seal(nonce, bytes))?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(Error::file("write", &path, error))
            }
        }
    }

    /// Gives the proposal the name of the version; false if that is taken.
    fn publish(&self, proposal: &Path, version: u64, nonce: &Nonce) -> Result<bool> {
        let path = self.view(version);
        match std::fs::hard_link(proposal, &path) {
            Ok(()) => {}
            // A file system that repeats a call whose answer was lost finds its own name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.load(version).ok().is_none_or(|(found, _)| found != *nonce) {
                    return Ok(false);
                }
            }
            Err(error) if is_refusal(&error) => return Err(Error::file("link the next view to", &path, error)),
            Err(error) => return Err(Error::Unsure { problem: format!("linking to {}: {error}", path.display()) }),
        }
        directory::sync(&self.directory).map_err(|error| Error::Unsure { problem: error.to_string() })?;
        if !self.is_there(version - 1).map_err(|error| Error::Unsure { problem: error.to_string() })? {
            // So far behind nobody needs the name, whether it was taken in time or too late.
            let _ = std::fs::remove_file(&path);
            let problem = format!("{} is {KEPT_NAMES} versions old", path.display());
            return Err(Error::Unsure { problem });
        }
        Ok(true)
    }

    /// Empties and removes what is too old. What fails is left to the next one.
    fn clean_up(&self) {
        let Ok(names) = self.names() else { return };
        let mut versions = Vec::new();
        for name in names {
            match version_of(&name) {
                Some(version) => versions.push(version),
                None if name.starts_with(PROPOSAL) => self.remove_if_abandoned(&name),
                None => {}
            }
        }
        versions.sort_unstable();
        for version in versions {
            if version + KEPT_NAMES < self.version {
                if std::fs::remove_file(self.view(version)).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
                {
                    return;
                }
            } else if version + KEPT_WHOLE <= self.version && version + 2 * KEPT_WHOLE > self.version {
                let _ = OpenOptions::new().write(true).truncate(true).open(self.view(version));
            }
        }
    }

    /// By times of one server: those of the file and of the newest view.
    fn remove_if_abandoned(&self, name: &str) {
        let path = self.directory.join(name);
        let modified = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified());
        let (Ok(newest), Ok(this)) = (modified(&self.view(self.version)), modified(&path)) else { return };
        if newest.duration_since(this).is_ok_and(|age| age > ABANDONED_AFTER) {
            let _ = std::fs::remove_file(&path);
        }
    }

    fn value(&self, began_ns: u64) -> Value {
        Value { began_ns, version: Version(self.version), bytes: Arc::clone(&self.bytes) }
    }
}

impl Register for FileRegister {
    fn read(&mut self) -> Result<Value> {
        let began_ns = now_ns();
        self.advance()?;
        Ok(self.value(began_ns))
    }

    fn swap(&mut self, expected: Version, bytes: &[u8]) -> Result<Swap> {
        refuse_too_long(bytes)?;
        let found = self.read()?;
        if found.version != expected {
            return Ok(Swap::Lost(found));
        }
        let nonce = envelope::fresh_nonce()?;
        let proposal = self.propose(&nonce, bytes)?;
        let published = self.publish(&proposal, expected.0 + 1, &nonce);
        let _ = std::fs::remove_file(&proposal);
        if !published? {
            // What this process is told must not be less than what it lost to.
            return self.read().map(Swap::Lost);
        }
        (self.version, self.bytes) = (expected.0 + 1, bytes.into());
        if self.version.is_multiple_of(KEPT_WHOLE) {
            self.clean_up();
        }
        Ok(Swap::Done(self.value(found.began_ns)))
    }
}

fn version_of(name: &str) -> Option<u64> {
    name.strip_prefix(VIEW).filter(|digits| digits.len() == 20)?.parse().ok()
}

/// Whether the call certainly changed nothing and never will.
fn is_refusal(error: &io::Error) -> bool {
    const REFUSALS: [i32; 10] = [
        libc::EACCES,
        libc::EDQUOT,
        libc::EMLINK,
        libc::ENOENT,
        libc::ENOSPC,
        libc::EOPNOTSUPP,
        libc::EPERM,
        libc::EROFS,
        libc::ENOSYS,
        libc::ENOTDIR,
    ];
    error.raw_os_error().is_some_and(|errno| REFUSALS.contains(&errno))
}

#[cfg(test)]
mod power_failures;
#[cfg(test)]
mod tests;
