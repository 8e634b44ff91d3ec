//! What a managed directory shows while flash holds newer bytes: a list at its top, and an attribute on each file.
//!
//! The list is there before the first byte is absorbed and until all is clean; what it says is at most as old
//! as the agent's period of refreshing it, and its heading says which files were open for writing, of which
//! more may have become dirty since. It is text: lines for people that begin with `#`, then one JSON object a
//! line, the first for the whole.
//!
//! It is replaced whole, synced before it is renamed. Attributes change no time that a fingerprint looks at;
//! file systems without them have the list alone.
//!
//! File systems change an attribute as they write a file's end, alone: the call would wait for all
//! write-backs of the file that are under way, and those to come for the call. So attributes follow the list
//! at once only while the file is left alone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headstart_protocol::DIRTY_LIST_FILE;
use headstart_units::request::Range;
use serde::{Deserialize, Serialize};
use xattr::FileExt;

use crate::claim::{self, Owner};
use crate::discarded::EPOCH_MAX;
use crate::error::{Error, Result};
use crate::slow_file::Handle;
use crate::text_file;

/// The attribute's name.
pub const ATTRIBUTE: &str = "user.headstart.dirty";
/// Attributes set or removed in one refresh at most: each is a call on the slow file system.
const ATTRIBUTES_MAX: usize = 256;
/// How long attributes of files that are written back without a pause may lie behind the list.
const ATTRIBUTES_BEHIND: Duration = Duration::from_secs(10);
/// Ranges that an attribute names.
const ATTRIBUTE_RANGES_MAX: usize = 32;
/// Longest list that is read: far more than the extents of a full journal come to.
const BYTES_MAX: u64 = 1 << 30;

/// The list's first object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heading {
    /// Who keeps the bytes.
    pub user: String,
    /// On which node.
    pub node: String,
    /// On which flash.
    pub fast: String,
    /// Epoch of the agent that wrote it: a journal with a lower one is not the journal that belongs to the list.
    pub epoch: u64,
    /// Sum over the files.
    pub dirty_bytes: u64,
    /// Files that follow.
    pub files: u64,
}

/// One file of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Below the managed directory; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// The path's bytes in hexadecimal, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Inode.
    pub inode: u64,
    /// Bytes that only flash has.
    pub dirty_bytes: u64,
    /// First byte and length of each dirty range.
    pub ranges: Vec<(u64, u64)>,
    /// Whether the ranges are exact; else the last one covers clean bytes too.
    pub exact: bool,
    /// A program had it open for writing.
    pub open_for_writing: bool,
}

impl Entry {
    /// The path's own bytes.
    pub fn path_bytes(&self) -> Vec<u8> {
        let pairs = self.path_hex.as_deref().filter(|digits| !digits.is_empty()).map(pairs);
        pairs.flatten().unwrap_or_else(|| self.path.as_bytes().to_vec())
    }

    /// What the text of an attribute says, or why it is none.
    pub fn parse(text: &[u8]) -> std::result::Result<Entry, String> {
        let entry: Entry = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        entry.check()?;
        Ok(entry)
    }

    /// Whether an agent can have written this: bytes that a file can have, and a name that leads nowhere else.
    fn check(&self) -> std::result::Result<(), String> {
        let last = |&(offset, length): &(u64, u64)| offset.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        if let Some((offset, length)) = self.ranges.iter().find(|range| last(range).is_none()) {
            return Err(format!("no file has {length} bytes at {offset}"));
        }
        if self.dirty_bytes > FILE_BYTES_MAX {
            return Err(format!("no file has {} bytes", self.dirty_bytes));
        }
        if self.path_hex.as_deref().is_some_and(|digits| pairs(digits).is_none()) {
            return Err("its path is no pairs of hexadecimal digits".into());
        }
        let bytes = self.path_bytes();
        let leads_up = Path::new(OsStr::from_bytes(&bytes)).components().any(|part| part == Component::ParentDir);
        if leads_up || bytes.contains(&0) {
            return Err(format!("'{}' is no path in a directory", self.path.escape_debug()));
        }
        Ok(())
    }
}

/// One past the last byte that a file can have.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

fn pairs(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (whole, rest) = digits.as_bytes().as_chunks::<2>();
    let bytes = whole.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// A list as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The whole.
    pub heading: Heading,
    /// The files.
    pub entries: Vec<Entry>,
}

impl Listed {
    /// What the text of a list says, or why it is none.
    pub fn parse(text: &str) -> std::result::Result<Listed, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let heading: Heading =
            serde_json::from_str(lines.next().unwrap_or("")).map_err(|error| format!("its heading: {error}"))?;
        let entries: Vec<Entry> =
            lines.map(|line| Entry::parse(line.as_bytes())).collect::<std::result::Result<_, _>>()?;
        if heading.files != entries.len() as u64 {
            return Err(format!("its heading counts {} files, and {} follow", heading.files, entries.len()));
        }
        let sum = entries.iter().try_fold(0u64, |sum, entry| sum.checked_add(entry.dirty_bytes));
        if sum != Some(heading.dirty_bytes) {
            return Err(format!("its heading counts {} dirty bytes, and others follow", heading.dirty_bytes));
        }
        if heading.epoch > EPOCH_MAX {
            return Err(format!("no agent has the epoch {}", heading.epoch));
        }
        Ok(Listed { heading, entries })
    }

    /// The lines that say it.
    pub fn to_lines(&self) -> String {
        let mut text = String::new();
        let mut line = |json: std::result::Result<String, serde_json::Error>| {
            text.push_str(&json.expect("it has a JSON form"));
            text.push('\n');
        };
        line(serde_json::to_string(&self.heading));
        self.entries.iter().for_each(|entry| line(serde_json::to_string(entry)));
        text
    }

    /// Whether flash may hold bytes that the disk does not have.
    pub fn owes(&self) -> bool {
        self.heading.dirty_bytes > 0 || self.entries.iter().any(|entry| entry.dirty_bytes > 0 || entry.open_for_writing)
    }
}

/// Whether there is a list.
pub fn is_there(slow: &Path) -> bool {
    slow.join(DIRTY_LIST_FILE).symlink_metadata().is_ok()
}

/// The list of a managed directory; none if there is none.
pub fn read(slow: &Path) -> Result<Option<Listed>> {
    let path = slow.join(DIRTY_LIST_FILE);
    let text = match text_file::read_own(&path, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", &path, error)),
    };
    let bad = |problem| Error::file("understand", &path, io::Error::other::<String>(problem));
    Listed::parse(&text).map(Some).map_err(bad)
}

/// A file to be shown.
#[derive(Clone, Debug)]
pub struct Shown {
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

struct Mark {
    file: Arc<Handle>,
    text: String,
}

/// The list of one agent and the attributes it set.
pub struct DirtyList {
    slow: PathBuf,
    owner: Owner,
    epoch: u64,
    text: Option<String>,
    marks: BTreeMap<(u64, u64), Mark>,
    attributes: bool,
    /// When no attribute was spared last.
    all_set: Instant,
}

impl DirtyList {
    /// What an earlier agent left is found again.
    pub fn new(slow: &Path, owner: Owner, epoch: u64) -> DirtyList {
        let earlier = read(slow).ok().flatten().unwrap_or_default();
        let text = is_there(slow).then(String::new);
        let (slow_path, marks, all_set) = (slow.to_path_buf(), BTreeMap::new(), Instant::now());
        let mut list = DirtyList { slow: slow_path, owner, epoch, text, marks, attributes: true, all_set };
        for entry in earlier.entries {
            let path = slow.join(OsStr::from_bytes(&entry.path_bytes()));
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
            if let Ok(file) = opened
                && let Ok(Some(text)) = file.get_xattr(ATTRIBUTE)
            {
                list.remember(Arc::new(Handle::new(Arc::new(file))), String::from_utf8_lossy(&text).into_owned());
            }
        }
        list
    }

    /// The journal of this epoch is durable: it is the one the list belongs to from now on.
    pub fn continue_in(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Whether the directory shows anything.
    pub fn is_shown(&self) -> bool {
        self.text.is_some()
    }

    fn remember(&mut self, file: Arc<Handle>, text: String) {
        if let Ok(found) = file.file().attributes() {
            self.marks.insert((found.device, found.inode), Mark { file, text });
        }
    }

    /// Shows these files and no others.
    pub fn show(&mut self, files: &[Shown]) -> io::Result<()> {
        let entries: Vec<Entry> = files.iter().map(|file| self.entry(file)).collect();
        let (text, entries) = self.text_of(entries);
        if self.text.as_ref() != Some(&text) || !is_there(&self.slow) {
            self.replace(&text)?;
            self.text = Some(text);
        }
        if self.attributes
            && let Err(error) = self.set_attributes(files, &entries)
        {
            tracing::info!(%error, "the slow file system keeps no attributes: the list alone shows what is dirty");
            self.attributes = false;
        }
        Ok(())
    }

    /// Nothing is dirty: takes everything away.
    pub fn remove(&mut self) -> io::Result<()> {
        self.marks.values().for_each(|mark| drop(mark.file.file().remove_extended(ATTRIBUTE)));
        self.marks.clear();
        self.text = None;
        remove(&self.slow)
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
             # Flash: {fast} of user {user} on node {node}. 'headstart drain' there writes them back; this file goes when all is\n\
             # on disk. 'headstart check {}' says how things stand, and what is lost should that flash be gone.\n\
             # 'open_for_writing': more may have become dirty in the second before the agent died.\n",
            self.slow.display()
        );
        let listed = Listed { heading, entries };
        text.push_str(&listed.to_lines());
        (text, listed.entries)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let fresh = self.slow.join(format!(".{DIRTY_LIST_FILE}.new"));
        let attempt = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&fresh, self.slow.join(DIRTY_LIST_FILE))?;
            // Later ones take the place of this name.
            if self.text.is_none() { claim::sync(&self.slow) } else { Ok(()) }
        };
        attempt().inspect_err(|_| drop(std::fs::remove_file(&fresh)))
    }

    /// Sets what differs, a bounded number at a time, but where write-backs are under way and it was done
    /// lately; and removes what is dirty no more.
    fn set_attributes(&mut self, files: &[Shown], entries: &[Entry]) -> io::Result<()> {
        let mut left = ATTRIBUTES_MAX;
        let mut dirty = Vec::new();
        let spares = self.all_set.elapsed() < ATTRIBUTES_BEHIND;
        if !spares {
            self.all_set = Instant::now();
        }
        for (shown, entry) in files.iter().zip(entries).filter(|(shown, _)| shown.dirty_bytes > 0) {
            let Some(file) = &shown.file else { continue };
            let found = file.file().attributes()?;
            let key = (found.device, found.inode);
            dirty.push(key);
            let text = self.attribute(entry);
            let is_spared = spares && shown.written_back;
            if left == 0 || is_spared || self.marks.get(&key).is_some_and(|mark| mark.text == text) {
                continue;
            }
            left -= 1;
            match file.file().set_extended(ATTRIBUTE, text.as_bytes()) {
                Ok(()) => drop(self.marks.insert(key, Mark { file: file.clone(), text })),
                // A file of somebody else's.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {}
                Err(error) => return Err(error),
            }
        }
        dirty.sort_unstable();
        let clean: Vec<_> = self.marks.keys().filter(|key| dirty.binary_search(key).is_err()).copied().collect();
        for key in clean.into_iter().take(left) {
            if let Some(mark) = self.marks.remove(&key) {
                let _ = mark.file.file().remove_extended(ATTRIBUTE);
            }
        }
        Ok(())
    }

    /// An attribute holds the same as a line of the list, with fewer ranges, and where the flash is.
    fn attribute(&self, entry: &Entry) -> String {
        let mut ranges = entry.ranges.clone();
        if let Some(&(from, _)) = ranges.get(ATTRIBUTE_RANGES_MAX) {
            let (last, length) = ranges[ranges.len() - 1];
            ranges.truncate(ATTRIBUTE_RANGES_MAX);
            ranges.push((from, last + length - from));
        }
        serde_json::json!({
            "inode": entry.inode,
            "dirty_bytes": entry.dirty_bytes,
            "exact": entry.exact && ranges.len() == entry.ranges.len(),
            "ranges": ranges,
            "fast": self.owner.fast,
            "node": self.owner.node,
        })
        .to_string()
    }
}

/// Removes the list of a directory.
pub fn remove(slow: &Path) -> io::Result<()> {
    match std::fs::remove_file(slow.join(DIRTY_LIST_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => claim::sync(slow),
    }
}

/// What the attribute of a file says; nothing if it has none, or one that was copied with another file.
///
/// # Errors
/// It has one that cannot be understood.
pub fn attribute_of(path: &Path) -> Result<Option<Entry>> {
    let Some(text) = xattr::get(path, ATTRIBUTE).ok().flatten() else { return Ok(None) };
    let bad = |problem| {
        Error::file("understand the attribute user.headstart.dirty of", path, io::Error::other::<String>(problem))
    };
    let entry = Entry::parse(&text).map_err(bad)?;
    let found = std::fs::symlink_metadata(path);
    Ok(found.is_ok_and(|found| entry.inode == found.ino()).then_some(entry))
}

#[cfg(test)]
mod tests {
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
        let mut list = DirtyList::new(slow, owner(slow), 7);
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
        let mut list = DirtyList::new(slow, owner(slow), 1);
        list.show(&[shown(&a, 5, &[(0, 5)])]).unwrap();
        assert_eq!(attribute_of(&a).unwrap().unwrap().ranges, [(0, 5)]);
        xattr::set(&b, ATTRIBUTE, &xattr::get(&a, ATTRIBUTE).unwrap().unwrap()).unwrap();
        assert_eq!(attribute_of(&b).unwrap(), None);
        // The next agent finds what this one left.
        let mut next = DirtyList::new(slow, owner(slow), 2);
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
        let mut list = DirtyList::new(slow, owner(slow), 1);
        list.show(&[dirty(5, true)]).unwrap();
        assert_eq!((said(), read(slow).unwrap().unwrap().heading.dirty_bytes), (None, 5));
        list.show(&[dirty(5, false)]).unwrap();
        assert_eq!(said(), Some(5));
        list.show(&[dirty(6, true)]).unwrap();
        assert_eq!((said(), read(slow).unwrap().unwrap().heading.dirty_bytes), (Some(5), 6));
        list.all_set -= ATTRIBUTES_BEHIND;
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
        let mut list = DirtyList::new(slow, owner(slow), 1);
        list.show(&[]).unwrap();
        std::fs::remove_file(slow.join(DIRTY_LIST_FILE)).unwrap();
        list.show(&[]).unwrap();
        assert!(is_there(slow));
    }
}
