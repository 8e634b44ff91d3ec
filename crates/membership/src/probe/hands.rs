//! What either node does to the files of a probe, and what it sees.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::libc;
use serde::{Deserialize, Serialize};

use super::finding::Tier;
use crate::directory;
use crate::error::Result;
use crate::lock;
use crate::presence::Places;

/// Longest that is written or read at once.
const BYTES_MAX: u64 = 256 << 10;
/// Files that a probe has open at a time, and room.
const FILES_MAX: usize = 64;

/// One act on one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// In which directory.
    pub tier: Tier,
    /// The file's name there.
    pub name: String,
    /// What.
    pub action: Action,
}

impl Act {
    /// Whether it stays within the directories for probes, as every act does that is carried out.
    pub fn stays_within(&self) -> bool {
        let further = match &self.action {
            Action::Link(to) | Action::Rename(to) => Some(to),
            _ => None,
        };
        is_of_probe(&self.name) && further.is_none_or(|to| is_of_probe(to))
    }
}

/// Names of probes' files begin with the digits of a nonce and lead nowhere else.
fn is_of_probe(name: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'.';
    (32..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

/// What is done; the file stays open from `Make` or `Open` on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Makes the file, which must not be there, with these bytes.
    Make(Vec<u8>),
    /// Opens the file.
    Open,
    /// Looks at the open file.
    LookAtOpen,
    /// Looks at the name.
    Look,
    /// Reads from the open file.
    Read(u64, u64),
    /// Opens the name anew and reads.
    ReadAnew(u64, u64),
    /// Writes to the open file.
    Write(u64, Vec<u8>),
    /// Sets the open file's length.
    Resize(u64),
    /// Locks the open file if nobody else has.
    Lock,
    /// Gives that lock up.
    Unlock,
    /// Gives the file this further name, which must not be there.
    Link(String),
    /// Renames the file, over what is there.
    Rename(String),
    /// Removes the name, and closes the file.
    Remove,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is done.
    Done,
    /// What was read.
    Bytes(Vec<u8>),
    /// What was looked at.
    Found {
        /// Its inode number.
        inode: u64,
        /// Its length.
        bytes: u64,
    },
    /// Whether the lock was taken.
    Locked(bool),
    /// It failed.
    Failed {
        /// The `errno`, or zero.
        errno: i32,
        /// In words.
        text: String,
    },
}

/// The files of a probe at one node.
#[derive(Debug)]
pub struct Hands {
    fast: PathBuf,
    slow: PathBuf,
    open: HashMap<(Tier, String), File>,
}

impl Hands {
    /// In the cluster's directories; makes one for probes in each.
    pub fn new(places: &Places) -> Result<Hands> {
        let (fast, slow) = (places.fast().join("probe"), places.slow().join("probe"));
        for directory in [&fast, &slow] {
            directory::make(directory)?;
        }
        Ok(Hands { fast, slow, open: HashMap::new() })
    }

    /// Does it. What another node asks for stays within the directories for probes.
    pub fn act(&mut self, act: Act) -> Answer {
        match self.attempt(act) {
            Ok(answer) => answer,
            Err(error) => Answer::Failed { errno: error.raw_os_error().unwrap_or(0), text: error.to_string() },
        }
    }

    fn path(&self, tier: Tier, name: &str) -> io::Result<PathBuf> {
        if !is_of_probe(name) {
            return Err(io::Error::other("no name of a probe's file"));
        }
        Ok(if tier == Tier::Fast { self.fast.join(name) } else { self.slow.join(name) })
    }

    fn attempt(&mut self, Act { tier, name, action }: Act) -> io::Result<Answer> {
        let path = self.path(tier, &name)?;
        let options = || OpenOptions::new().read(true).write(true).mode(0o600).to_owned();
        match action {
            Action::Make(bytes) => {
                let file = options().create_new(true).open(&path)?;
                file.write_all_at(&bytes, 0)?;
                self.keep(tier, name, file)
            }
            Action::Open => self.keep(tier, name, options().open(&path)?),
            Action::Look => found(&std::fs::symlink_metadata(&path)?),
            Action::ReadAnew(offset, length) => read(&File::open(&path)?, offset, length),
            Action::Link(to) => std::fs::hard_link(&path, self.path(tier, &to)?).map(|()| Answer::Done),
            Action::Rename(to) => std::fs::rename(&path, self.path(tier, &to)?).map(|()| Answer::Done),
            Action::Remove => {
                self.open.remove(&(tier, name));
                std::fs::remove_file(&path).map(|()| Answer::Done)
            }
            Action::LookAtOpen => found(&self.kept(tier, name)?.metadata()?),
            Action::Read(offset, length) => read(self.kept(tier, name)?, offset, length),
            Action::Write(offset, bytes) => self.kept(tier, name)?.write_all_at(&bytes, offset).map(|()| Answer::Done),
            Action::Resize(length) => self.kept(tier, name)?.set_len(length.min(BYTES_MAX)).map(|()| Answer::Done),
            Action::Lock => lock::try_lock(self.kept(tier, name)?).map(Answer::Locked),
            Action::Unlock => lock::unlock(self.kept(tier, name)?).map(|()| Answer::Done),
        }
    }

    fn keep(&mut self, tier: Tier, name: String, file: File) -> io::Result<Answer> {
        if self.open.len() >= FILES_MAX {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        self.open.insert((tier, name), file);
        Ok(Answer::Done)
    }

    fn kept(&self, tier: Tier, name: String) -> io::Result<&File> {
        self.open.get(&(tier, name)).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }
}

fn found(found: &std::fs::Metadata) -> io::Result<Answer> {
    Ok(Answer::Found { inode: found.ino(), bytes: found.len() })
}

fn read(file: &File, offset: u64, length: u64) -> io::Result<Answer> {
    let mut bytes = vec![0; length.min(BYTES_MAX) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(Answer::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_reaches_nothing_but_files_of_probes() {
        let directory = tempfile::tempdir().unwrap();
        let (fast, slow) = (directory.path().join("fast"), directory.path().join("slow"));
        std::fs::create_dir_all(fast.join(".headstart")).unwrap();
        std::fs::create_dir(&slow).unwrap();
        let mut hands = Hands::new(&Places::make(&fast, &slow).unwrap()).unwrap();
        let nonce = "0123456789abcdef0123456789abcdef";
        let mut act = |name: &str, action| hands.act(Act { tier: Tier::Slow, name: name.into(), action });
        for name in ["", "short", "../../../fast/.headstart/journal0", &format!("../{nonce}"), &format!(".{nonce}")] {
            for action in [Action::Make(vec![1]), Action::Look, Action::Remove] {
                assert!(matches!(act(name, action), Answer::Failed { errno: 0, .. }), "{name}");
            }
        }
        assert_eq!(act(nonce, Action::Make(vec![1, 2])), Answer::Done);
        assert!(matches!(act(nonce, Action::Rename("../../stolen".into())), Answer::Failed { errno: 0, .. }));
        assert_eq!(act(nonce, Action::Read(0, u64::MAX)), Answer::Bytes(vec![1, 2]));
        assert!(matches!(act(nonce, Action::Make(vec![])), Answer::Failed { errno: libc::EEXIST, .. }));
        assert_eq!(act(nonce, Action::Remove), Answer::Done);
        assert!(matches!(act(nonce, Action::Lock), Answer::Failed { errno: libc::EBADF, .. }));
    }
}
