//! The locks by which other nodes see that a member is there, and that its copies are done.
//!
//! | file | who holds its lock | given up means |
//! |---|---|---|
//! | `FAST/.headstart/cluster/present/MEMBER` | the agent and the [holder](crate::holder) of its node | the node is gone, or nobody on it needs the cluster |
//! | `SLOW/.headstart-cluster/movers/MEMBER` | the agent alone | no copy of that agent is under way: its last thread has left the kernel, or the file system has given the node up and takes nothing more that it had in flight |
//!
//! The second one says so at the very moment because the agent alone has it: a holder would keep it after an agent was
//! killed, and would give it up under a living agent if it were killed itself. Names of members are used once, and
//! nobody but the member makes its files: a file that is not there says nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::directory;
use crate::envelope::{fresh_nonce, hexadecimal};
use crate::error::{Error, Result};
use crate::lock;

/// What the cluster keeps below the fast directory.
pub const FAST_DIRECTORY: &str = ".headstart/cluster";
/// What the cluster keeps below the slow directory.
pub const SLOW_DIRECTORY: &str = ".headstart-cluster";

/// Where the cluster's files of one managed directory lie.
#[derive(Clone, Debug)]
pub struct Places {
    fast: PathBuf,
    slow: PathBuf,
}

impl Places {
    /// Of this fast and this slow directory; makes what is missing, but nothing where a file system is not mounted.
    ///
    /// # Errors
    /// One of them is missing: the fast one must have been an agent's before.
    pub fn make(fast: &Path, slow: &Path) -> Result<Places> {
        let places = Places { fast: fast.join(FAST_DIRECTORY), slow: slow.join(SLOW_DIRECTORY) };
        for directory in [&places.fast, &places.present(), &places.slow, &places.movers()] {
            directory::make(directory)?;
        }
        Ok(places)
    }

    /// Of the register in files.
    pub fn views(&self) -> PathBuf {
        self.fast.join("views")
    }

    /// The cluster's own directory below the fast one.
    pub fn fast(&self) -> &Path {
        &self.fast
    }

    /// The cluster's own directory below the slow one.
    pub fn slow(&self) -> &Path {
        &self.slow
    }

    fn present(&self) -> PathBuf {
        self.fast.join("present")
    }

    fn movers(&self) -> PathBuf {
        self.slow.join("movers")
    }
}

/// A name for an agent's files that was never used and never will be: the node's, for people, and a random number.
pub fn fresh_name(node: &str) -> Result<String> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let node: String = node.chars().map(plain).take(64).collect();
    Ok(format!("{node}.{}", hexadecimal(&fresh_nonce()?)))
}

/// The locks of this agent.
#[derive(Debug)]
pub struct Presence {
    name: String,
    present: (PathBuf, File),
    movers: (PathBuf, File),
}

impl Presence {
    /// Takes the locks under a [fresh name](fresh_name).
    pub fn take(places: &Places, name: &str) -> Result<Presence> {
        let present = take(places.present().join(name))?;
        let movers = take(places.movers().join(name)).inspect_err(|_| {
            let _ = std::fs::remove_file(&present.0);
        })?;
        Ok(Presence { name: name.into(), present, movers })
    }

    /// Under which name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor that the holder gets.
    pub fn present(&self) -> &File {
        &self.present.1
    }

    /// Gives both up, in an agent that has left the view and of which no copy is under way.
    pub fn release(self) -> Result<()> {
        for (path, file) in [self.movers, self.present] {
            drop(file);
            std::fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))?;
        }
        Ok(())
    }
}

fn take(path: PathBuf) -> Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|error| Error::file("make", &path, error))?;
    match lock::try_lock(&file) {
        Ok(true) => Ok((path, file)),
        Ok(false) => Err(Error::file("lock", &path, io::Error::other("another process has locked it"))),
        Err(error) => {
            let _ = std::fs::remove_file(&path);
            Err(Error::file("lock", &path, error))
        }
    }
}

/// What a lock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is held.
    Held,
    /// It was given up.
    GivenUp,
    /// Nobody can say: why.
    Unknown(String),
}

/// What the two locks of a member say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Whether its node is there.
    pub present: LockState,
    /// Given up: its copies are done.
    pub movers: LockState,
}

/// Looks at a member's locks; of use only where the [probe](crate::probe) has seen that locks are seen between nodes.
pub fn observe(places: &Places, name: &str) -> Observed {
    Observed { present: look(&places.present().join(name)), movers: look(&places.movers().join(name)) }
}

fn look(path: &Path) -> LockState {
    let found = OpenOptions::new().read(true).write(true).open(path).and_then(|file| lock::is_held(&file));
    match found {
        Ok(true) => LockState::Held,
        Ok(false) => LockState::GivenUp,
        Err(error) => LockState::Unknown(format!("{}: {error}", path.display())),
    }
}

/// Removes the files of a member that the view no longer names and that was proven done.
pub fn forget(places: &Places, name: &str) -> Result<()> {
    for path in [places.present().join(name), places.movers().join(name)] {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", &path, error)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> (tempfile::TempDir, Places) {
        let directory = tempfile::tempdir().unwrap();
        let (fast, slow) = (directory.path().join("fast"), directory.path().join("slow"));
        std::fs::create_dir_all(fast.join(".headstart")).unwrap();
        std::fs::create_dir(&slow).unwrap();
        let places = Places::make(&fast, &slow).unwrap();
        (directory, places)
    }

    #[test]
    fn a_member_is_seen_while_it_is_there_and_nothing_is_said_of_one_that_was_never() {
        let (_directory, places) = places();
        let name = fresh_name("node/1 ü").unwrap();
        assert!(name.starts_with("node_1__."), "{name}");
        assert!(matches!(observe(&places, &name).movers, LockState::Unknown(_)));
        let presence = Presence::take(&places, &name).unwrap();
        assert_eq!(observe(&places, &name), Observed { present: LockState::Held, movers: LockState::Held });
        assert!(Presence::take(&places, &name).is_err(), "a name is used once");
        drop(presence);
        let given_up = Observed { present: LockState::GivenUp, movers: LockState::GivenUp };
        crate::until(|| observe(&places, &name) == given_up);
        forget(&places, &name).unwrap();
        assert!(matches!(observe(&places, &name).present, LockState::Unknown(_)), "its absence says nothing");
        forget(&places, &name).unwrap();
    }

    #[test]
    fn one_that_leaves_takes_its_files_along() {
        let (directory, places) = places();
        let name = fresh_name("node").unwrap();
        Presence::take(&places, &name).unwrap().release().unwrap();
        for of in [places.present(), places.movers()] {
            assert_eq!(std::fs::read_dir(of).unwrap().count(), 0);
        }
        let nowhere = directory.path().join("not mounted");
        assert!(Places::make(&nowhere, directory.path()).is_err(), "nothing is made where nothing is mounted");
        assert!(!nowhere.exists());
    }
}
