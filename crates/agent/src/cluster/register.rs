//! Where the register of a managed directory lies, by the site file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headstart_membership::envelope::{fresh_nonce, hexadecimal};
use headstart_membership::presence::FAST_DIRECTORY;
use headstart_membership::{EtcdRegister, FileRegister, Register};
use headstart_protocol::FLASH_DIRECTORY;

use crate::error::{Error, Result};
use crate::site::{Membership, Site};
use crate::text_file;

/// How long servers of etcd may be silent when an agent starts; assumed: ten of etcd's longest elections.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two questions meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The cluster's directory below the fast one.
fn directory(fast: &Path) -> PathBuf {
    fast.join(FAST_DIRECTORY)
}

/// The key of the directory's agents.
pub(crate) fn key(fast: &Path) -> PathBuf {
    directory(fast).join("key")
}

/// Whether nodes of this fast directory have ever listed themselves, wherever.
pub(crate) fn is_there(fast: &Path) -> bool {
    directory(fast).is_dir()
}

/// Whether the fast directory has ever had a register in files.
pub(crate) fn is_in_files(fast: &Path) -> bool {
    directory(fast).join("views").is_dir()
}

/// The register in files below the fast directory.
pub(crate) fn in_files(fast: &Path) -> Result<Box<dyn Register>> {
    prepare(fast)?;
    Ok(Box::new(FileRegister::open(&directory(fast).join("views"))?))
}

/// That of the site.
pub(crate) fn open(site: &Site, membership: &Membership) -> Result<Box<dyn Register>> {
    match membership {
        Membership::Locks => in_files(&site.fast),
        Membership::Etcd(settings) => {
            prepare(&site.fast)?;
            let mut settings = settings.clone();
            settings.key = format!("/headstart/{}/view", id(&site.fast)?);
            let mut register = EtcdRegister::new(&settings)?;
            await_servers(&mut register)?;
            Ok(Box::new(register))
        }
    }
}

/// Waits until servers answer that may have been started with the job, or elect a leader at the moment.
fn await_servers(register: &mut EtcdRegister) -> Result<()> {
    let began = Instant::now();
    loop {
        match register.check() {
            Err(headstart_membership::Error::Unreachable { .. }) if began.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            checked => return checked.map(drop).map_err(Error::from),
        }
    }
}

/// What tells the directory from all others: a random number that the first agent puts there.
pub(crate) fn id(fast: &Path) -> Result<String> {
    let path = directory(fast).join("id");
    let failed = |error| Error::file("make", &path, error);
    loop {
        match text_file::read_own(&path, 64) {
            Ok(text) if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => return Ok(text),
            Ok(_) => return Err(Error::file("understand", &path, io::Error::other("it is no number of a directory"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &path, error)),
        }
        let (id, name) = (hexadecimal(&fresh_nonce()?), hexadecimal(&fresh_nonce()?));
        let fresh = path.with_file_name(format!("id.{name}"));
        let made = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
            file.write_all(id.as_bytes())?;
            file.sync_all()?;
            // Of two that start at once one gives the directory its number.
            std::fs::hard_link(&fresh, &path)?;
            text_file::sync_directory(&directory(fast))
        })();
        let _ = std::fs::remove_file(&fresh);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
    }
}

fn prepare(fast: &Path) -> Result<()> {
    for directory in [fast.join(FLASH_DIRECTORY), directory(fast)] {
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::file("create", &directory, error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_number_and_two_differ() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        prepare(one.path()).unwrap();
        prepare(other.path()).unwrap();
        let ids: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| id(one.path()).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_ne!(id(other.path()).unwrap(), ids[0]);
        assert_eq!(std::fs::read_dir(directory(one.path())).unwrap().count(), 1, "nothing else is left");
        std::fs::write(directory(one.path()).join("id"), "none").unwrap();
        assert!(id(one.path()).unwrap_err().to_string().contains("cluster/id"));
    }
}
