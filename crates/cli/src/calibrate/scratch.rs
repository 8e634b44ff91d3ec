//! The scratch file of a calibration: the only thing it writes to a directory, and gone when it ends.
//!
//! It is named after host and process and held under a lock where the file system has locks. A calibration
//! that was killed leaves it behind; the next one of the same host finds it unlocked, or its process gone,
//! and removes it. One of another host is left alone and named: whether somebody writes it cannot be told.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, PosixFadviseAdvice, posix_fadvise};

use super::load::Buffer;

/// How every scratch file's name begins.
const PREFIX: &str = ".headstart-calibrate";

/// Bytes written at a time.
const PIECE_BYTES: usize = 4 << 20;

/// An open file, under a lock if there are locks.
enum Held {
    Locked(Flock<File>),
    Unlocked(File),
}

/// A scratch file; dropping it removes it.
pub struct Scratch {
    path: PathBuf,
    file: Held,
    /// Whether the page cache is passed by.
    pub is_direct: bool,
}

impl Scratch {
    /// Makes an empty one, after removing what killed calibrations of this host left.
    pub fn create(directory: &Path) -> Result<Scratch> {
        let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
        remove_leftovers(directory, &host)?;
        let path = directory.join(format!("{PREFIX}.{host}.{}", std::process::id()));
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .custom_flags(flags)
                .open(&path)
        };
        let (file, is_direct) = match open(nix::libc::O_DIRECT) {
            Ok(file) => (Ok(file), true),
            Err(error) if error.raw_os_error() == Some(nix::libc::EINVAL) => (open(0), false),
            Err(error) => (Err(error), false),
        };
        let file = file.with_context(|| format!("cannot create the scratch file {}", path.display()))?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Held::Locked(file),
            // Parallel file systems may be mounted without locks.
            Err((file, _)) => Held::Unlocked(file),
        };
        Ok(Scratch { path, file, is_direct })
    }

    /// Its file.
    pub fn file(&self) -> &File {
        match &self.file {
            Held::Locked(file) => file,
            Held::Unlocked(file) => file,
        }
    }

    /// Writes `bytes` bytes that nothing can compress, or as many as `limit` allows; returns how many. Tells
    /// of each piece how many there are so far; stops where that says no.
    pub fn fill(&self, bytes: u64, limit: Duration, mut go_on: impl FnMut(u64) -> bool) -> Result<u64> {
        let mut buffer = Buffer::of(PIECE_BYTES);
        let start = Instant::now();
        let mut written = 0;
        while written < bytes && start.elapsed() < limit && go_on(written) {
            let piece = (bytes - written).min(PIECE_BYTES as u64) as usize;
            buffer.stamp(written);
            self.file().write_all_at(&buffer.bytes()[..piece], written).with_context(|| self.cannot("write"))?;
            written += piece as u64;
        }
        self.file().sync_all().with_context(|| self.cannot("sync"))?;
        if !self.is_direct {
            // What can be done without O_DIRECT; whether it did is seen from the latencies.
            let _ = posix_fadvise(self.file(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            let _ = posix_fadvise(self.file(), 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM);
        }
        Ok(written)
    }

    fn cannot(&self, action: &str) -> String {
        format!("cannot {action} the scratch file {}", self.path.display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            eprintln!("headstart: the scratch file {} could not be removed: {error}", self.path.display());
        }
    }
}

fn remove_leftovers(directory: &Path, host: &str) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let path = entry.path();
        let Some((_, process)) = rest.rsplit_once('.').filter(|(its, _)| *its == host) else {
            eprintln!(
                "headstart: {} is the scratch file of a calibration on another node; remove it if none runs there",
                path.display()
            );
            continue;
        };
        match remove_unlocked(&path, Path::new("/proc").join(process).exists()) {
            Ok(()) => eprintln!("headstart: removed {}, which a killed calibration had left", path.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("another calibration of {} is under way: {} is locked", directory.display(), path.display())
            }
            Err(error) => return Err(error).with_context(|| format!("cannot remove the leftover {}", path.display())),
        }
    }
    Ok(())
}

/// Removes a scratch file unless somebody holds it; `is_alive`: its process exists, which counts where nobody can lock.
fn remove_unlocked(path: &Path, is_alive: bool) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOFOLLOW).open(path)?;
    let _lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Some(lock),
        Err((_, error)) if error == Errno::EWOULDBLOCK || is_alive => return Err(ErrorKind::WouldBlock.into()),
        Err(_) => None,
    };
    fs::remove_file(path)
}
