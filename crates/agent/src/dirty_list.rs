//! What a managed directory shows while flash holds newer bytes: a list at its top, and an attribute on each file.
//!
//! The list is there before the first byte is absorbed and until all is clean; what it says is at most as old
//! as the agent's period of refreshing it, and its heading says which files were open for writing, of which
//! more may have become dirty since. It is text: lines for people that begin with `#`, then one JSON object a
//! line, the first for the whole.
//!
//! It is replaced whole, synced before it is renamed. Attributes change no time that a fingerprint looks at;
//! file systems without them have the list alone.

mod attributes;
mod listed;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headstart_protocol::DIRTY_LIST_FILE;
use headstart_units::request::Range;
use xattr::FileExt;

use crate::error::{Error, Result};
use crate::node_files::NODES_MAX;
use crate::owner::Owner;
use crate::slow_file::Handle;
use crate::text_file;

use attributes::Attributes;
pub(crate) use attributes::{ATTRIBUTE, attribute_of};
pub use listed::{Entry, Heading, Listed};

/// Longest list that is read: far more than the extents of a full journal come to.
const BYTES_MAX: u64 = 1 << 30;

/// Whether there is a list.
pub fn is_there(slow: &Path) -> bool {
    is_at(&slow.join(DIRTY_LIST_FILE))
}

/// The same of a list by its own path: each node of several has one.
pub(crate) fn is_at(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The list of a managed directory; none if there is none.
pub fn read(slow: &Path) -> Result<Option<Listed>> {
    read_at(&slow.join(DIRTY_LIST_FILE))
}

/// The same of a list by its own path.
pub(crate) fn read_at(path: &Path) -> Result<Option<Listed>> {
    let text = match text_file::read_own(path, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path, error)),
    };
    let bad = |problem| Error::file("understand", path, io::Error::other::<String>(problem));
    Listed::parse(&text).map(Some).map_err(bad)
}

/// The numbers of nodes whose lists a managed directory has.
pub(crate) fn numbers(slow: &Path) -> Result<Vec<u16>> {
    let failed = |error| Error::file("read", slow, error);
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(slow).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(DIRTY_LIST_FILE)) else { continue };
        let number = if rest.is_empty() { Some(0) } else { rest.strip_prefix('.').and_then(|text| text.parse().ok()) };
        numbers.extend(number.filter(|number| *number < NODES_MAX));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Inode; zero while the agent has not opened it.
    pub inode: u64,
    /// Bytes that only flash has.
    pub dirty_bytes: u64,
    /// Where they are.
    pub ranges: Vec<Range>,
    /// Whether the ranges are exact.
    pub exact: bool,
    /// A program has it open for writing.
    pub open_for_writing: bool,
    /// Write-backs of it are under way: its attribute had better wait.
    pub written_back: bool,
    /// The file, for its attribute.
    pub file: Option<Arc<Handle>>,
}

/// The list of one agent and the attributes it set.
pub(crate) struct DirtyList {
    slow: PathBuf,
    /// The list.
    path: PathBuf,
    owner: Owner,
    epoch: u64,
    text: Option<String>,
    attributes: Attributes,
}

impl DirtyList {
    /// What an earlier agent left is found again.
    pub(crate) fn new(slow: &Path, name: &str, owner: Owner, epoch: u64) -> DirtyList {
        let path = slow.join(name);
        let earlier = read_at(&path).ok().flatten().unwrap_or_default();
        let text = is_at(&path).then(String::new);
        let mut attributes = Attributes::new(&owner.fast, &owner.node);
        for entry in earlier.entries {
            let dirty = slow.join(OsStr::from_bytes(&entry.path_bytes()));
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&dirty);
            if let Ok(file) = opened
                && let Ok(Some(text)) = file.get_xattr(ATTRIBUTE)
            {
                attributes.remember(Arc::new(Handle::new(Arc::new(file))), String::from_utf8_lossy(&text).into_owned());
            }
        }
        DirtyList { slow: slow.to_path_buf(), path, owner, epoch, text, attributes }
    }

    /// The journal of this epoch is durable: it is the one the list belongs to from now on.
    pub(crate) fn continue_in(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether the directory shows anything.
    pub(crate) fn is_shown(&self) -> bool {
        self.text.is_some()
    }

    /// Shows these files and no others.
    pub(crate) fn show(&mut self, files: &[Shown]) -> io::Result<()> {
        let entries: Vec<Entry> = files.iter().map(|file| self.entry(file)).collect();
        let (text, entries) = self.text_of(entries);
        if self.text.as_ref() != Some(&text) || !is_at(&self.path) {
            self.replace(&text)?;
            self.text = Some(text);
        }
        let dirty = files.iter().zip(&entries).filter(|(shown, _)| shown.dirty_bytes > 0);
        let dirty = dirty.filter_map(|(shown, entry)| Some((shown.file.as_ref()?, entry, shown.written_back)));
        self.attributes.show(dirty);
        Ok(())
    }

    /// Nothing is dirty: takes everything away.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.attributes.remove();
        self.text = None;
        remove_at(&self.slow, &self.path)
    }

    fn entry(&self, shown: &Shown) -> Entry {
        let absolute = Path::new(OsStr::from_bytes(&shown.path));
        let path = absolute.strip_prefix(&self.slow).unwrap_or(absolute).as_os_str();
        let path_hex = path.to_str().is_none().then(|| {
            path.as_bytes().iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        });
        Entry {
            path: path.to_string_lossy().into_owned(),
            path_hex,
            inode: shown.inode,
            dirty_bytes: shown.dirty_bytes,
            ranges: shown.ranges.iter().map(|range| (range.offset, range.length)).collect(),
            exact: shown.exact,
            open_for_writing: shown.open_for_writing,
        }
    }

    fn text_of(&self, entries: Vec<Entry>) -> (String, Vec<Entry>) {
        let Owner { user, node, fast, .. } = &self.owner;
        let heading = Heading {
            user: user.clone(),
            node: node.clone(),
            fast: fast.clone(),
            epoch: self.epoch,
            dirty_bytes: entries.iter().map(|entry| entry.dirty_bytes).sum(),
            files: entries.len() as u64,
        };
        let mut text = format!(
            "# Newer bytes of the files below lie on flash: what you read of them here is old, or not there yet.\n\
             # Flash: {fast} of user {user} on node {node}. 'headstart drain' there writes them back; \
             this file goes when all is\n\
             # on disk. 'headstart check {}' says how things stand, and what is lost should that flash be gone.\n\
             # 'open_for_writing': more may have become dirty in the second before the agent died.\n",
            self.slow.display()
        );
        let listed = Listed { heading, entries };
        text.push_str(&listed.to_lines());
        (text, listed.entries)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = self.slow.join(format!(".{name}.new"));
        let attempt = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&fresh, &self.path)?;
            // Later ones take the place of this name.
            if self.text.is_none() { text_file::sync_directory(&self.slow) } else { Ok(()) }
        };
        attempt().inspect_err(|_| drop(std::fs::remove_file(&fresh)))
    }
}

/// Removes the list of a directory.
pub fn remove(slow: &Path) -> io::Result<()> {
    remove_at(slow, &slow.join(DIRTY_LIST_FILE))
}

fn remove_at(slow: &Path, path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => text_file::sync_directory(slow),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn shown(path: &Path, dirty_bytes: u64, ranges: &[(u64, u64)]) -> Shown {
        let file = std::fs::File::open(path).ok();
        Shown {
            path: path.as_os_str().as_bytes().to_vec(),
            inode: file.as_ref().map_or(0, |file| file.metadata().unwrap().ino()),
            dirty_bytes,
            ranges: ranges.iter().map(|&(offset, length)| Range::new(offset, length)).collect(),
            exact: true,
            open_for_writing: false,
            written_back: false,
            file: file.map(|file| Arc::new(Handle::new(Arc::new(file)))),
        }
    }

    fn owner(slow: &Path) -> Owner {
        Owner::this(slow, Path::new("/flash")).unwrap()
    }

    #[test]
    fn a_list_comes_back_with_every_byte_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let slow = directory.path();
        let mut list = DirtyList::new(slow, DIRTY_LIST_FILE, owner(slow), 7);
        assert!(!list.is_shown() && read(slow).unwrap().is_none());
        let odd = slow.join(OsStr::from_bytes(b"odd\xff\n#{\"name"));
        std::fs::write(&odd, b"x").unwrap();
        list.show(&[shown(&odd, 30, &[(0, 10), (4096, 20)]), shown(&slow.join("below/a"), 0, &[])]).unwrap();
        let found = read(slow).unwrap().unwrap();
        assert_eq!((found.heading.epoch, found.heading.dirty_bytes, found.heading.files), (7, 30, 2));
        assert_eq!(found.entries[0].path_bytes(), b"odd\xff\n#{\"name");
        assert_eq!(found.entries[0].ranges, [(0, 10), (4096, 20)]);
        assert_eq!(found.entries[1].path, "below/a");
        list.remove().unwrap();
        assert!(!is_there(slow));
        assert_eq!(std::fs::read_dir(slow).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn attributes_come_and_go_with_dirty_bytes_and_a_copy_of_one_means_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let slow = directory.path();
        let (a, b) = (slow.join("a"), slow.join("b"));
        std::fs::write(&a, b"x").unwrap();
        std::fs::write(&b, b"x").unwrap();
        if xattr::set(&a, "user.headstart.probe", b"1").is_err() {
            return println!("SKIPPED: the file system of the test keeps no attributes");
        }
        let mut list = DirtyList::new(slow, DIRTY_LIST_FILE, owner(slow), 1);
        list.show(&[shown(&a, 5, &[(0, 5)])]).unwrap();
        assert_eq!(attribute_of(&a).unwrap().unwrap().ranges, [(0, 5)]);
        xattr::set(&b, ATTRIBUTE, &xattr::get(&a, ATTRIBUTE).unwrap().unwrap()).unwrap();
        assert_eq!(attribute_of(&b).unwrap(), None);
        // The next agent finds what this one left.
        let mut next = DirtyList::new(slow, DIRTY_LIST_FILE, owner(slow), 2);
        assert!(next.is_shown());
        next.show(&[]).unwrap();
        assert_eq!(attribute_of(&a).unwrap(), None);
        let many: Vec<(u64, u64)> = (0..100).map(|k| (k * 10, 5)).collect();
        next.show(&[shown(&a, 500, &many)]).unwrap();
        let entry = attribute_of(&a).unwrap().unwrap();
        assert!(!entry.exact && entry.ranges.len() == 33 && entry.ranges[32] == (320, 675));
        next.remove().unwrap();
        assert_eq!(attribute_of(&a).unwrap(), None);
    }

    #[test]
    fn attributes_wait_for_write_backs_but_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let slow = directory.path();
        let a = slow.join("a");
        std::fs::write(&a, b"x").unwrap();
        if xattr::set(&a, "user.headstart.probe", b"1").is_err() {
            return println!("SKIPPED: the file system of the test keeps no attributes");
        }
        let dirty = |bytes: u64, written_back: bool| Shown { written_back, ..shown(&a, bytes, &[(0, bytes)]) };
        let said = || attribute_of(&a).unwrap().map(|entry| entry.dirty_bytes);
        let mut list = DirtyList::new(slow, DIRTY_LIST_FILE, owner(slow), 1);
        list.show(&[dirty(5, true)]).unwrap();
        assert_eq!((said(), read(slow).unwrap().unwrap().heading.dirty_bytes), (None, 5));
        list.show(&[dirty(5, false)]).unwrap();
        assert_eq!(said(), Some(5));
        list.show(&[dirty(6, true)]).unwrap();
        assert_eq!((said(), read(slow).unwrap().unwrap().heading.dirty_bytes), (Some(5), 6));
        list.attributes.pass_time();
        list.show(&[dirty(6, true)]).unwrap();
        assert_eq!(said(), Some(6));
        list.show(&[dirty(7, true)]).unwrap();
        assert_eq!(said(), Some(6), "and then it waits again");
        list.show(&[]).unwrap();
        assert_eq!(said(), None, "nothing is written back of a clean file");
    }

    #[test]
    fn a_list_somebody_removed_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let slow = directory.path();
        let mut list = DirtyList::new(slow, DIRTY_LIST_FILE, owner(slow), 1);
        list.show(&[]).unwrap();
        std::fs::remove_file(slow.join(DIRTY_LIST_FILE)).unwrap();
        list.show(&[]).unwrap();
        assert!(is_there(slow));
    }
}
