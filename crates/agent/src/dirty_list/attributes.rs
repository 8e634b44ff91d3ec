//! The attribute `user.headstart.dirty` of slow files of which bytes are dirty.
//!
//! File systems change an attribute as they write a file's end, alone: the call would wait for all
//! write-backs of the file that are under way, and those to come for the call. So attributes follow the list
//! at once only while the file is left alone.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::listed::Entry;
use crate::error::{Error, Result};
use crate::slow_file::Handle;

/// The attribute's name.
pub(crate) const ATTRIBUTE: &str = "user.headstart.dirty";
/// Attributes set or removed in one refresh at most: each is a call on the slow file system.
const ATTRIBUTES_MAX: usize = 256;
/// How long attributes of files that are written back without a pause may lie behind the list.
const ATTRIBUTES_BEHIND: Duration = Duration::from_secs(10);
/// Ranges that an attribute names.
const ATTRIBUTE_RANGES_MAX: usize = 32;

struct Mark {
    file: Arc<Handle>,
    text: String,
}

/// The attributes of one agent's files.
pub(super) struct Attributes {
    fast: String,
    node: String,
    /// By device and inode.
    marks: BTreeMap<(u64, u64), Mark>,
    /// The slow file system keeps attributes, as far as is known.
    are_kept: bool,
    /// When no attribute was spared last.
    all_set: Instant,
}

impl Attributes {
    /// None yet. They name flash and node.
    pub(super) fn new(fast: &str, node: &str) -> Attributes {
        Attributes {
            fast: fast.into(),
            node: node.into(),
            marks: BTreeMap::new(),
            are_kept: true,
            all_set: Instant::now(),
        }
    }

    /// The file has one that says this.
    pub(super) fn remember(&mut self, file: Arc<Handle>, text: String) {
        if let Ok(found) = file.file().attributes() {
            self.marks.insert((found.device, found.inode), Mark { file, text });
        }
    }

    /// Removes all.
    pub(super) fn remove(&mut self) {
        self.marks.values().for_each(|mark| drop(mark.file.file().remove_extended(ATTRIBUTE)));
        self.marks.clear();
    }

    /// Time passes until none is spared any more.
    #[cfg(test)]
    pub(crate) fn pass_time(&mut self) {
        self.all_set -= ATTRIBUTES_BEHIND;
    }

    /// Sets the attributes of these files, of which the last part says whether they are being written back,
    /// and removes others. Where the file system keeps none the list alone shows what is dirty.
    pub(super) fn show<'a>(&mut self, shown: impl Iterator<Item = (&'a Arc<Handle>, &'a Entry, bool)>) {
        if self.are_kept
            && let Err(error) = self.set(shown)
        {
            tracing::info!(%error, "the slow file system keeps no attributes: the list alone shows what is dirty");
            self.are_kept = false;
        }
    }

    /// Sets what differs of these files, a bounded number at a time, but where one is being written back and
    /// it was done lately; and removes those of others.
    fn set<'a>(&mut self, shown: impl Iterator<Item = (&'a Arc<Handle>, &'a Entry, bool)>) -> io::Result<()> {
        let mut left = ATTRIBUTES_MAX;
        let mut dirty = Vec::new();
        let spares = self.all_set.elapsed() < ATTRIBUTES_BEHIND;
        if !spares {
            self.all_set = Instant::now();
        }
        for (file, entry, is_written_back) in shown {
            let found = file.file().attributes()?;
            let key = (found.device, found.inode);
            dirty.push(key);
            let text = self.text(entry);
            let is_spared = spares && is_written_back;
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
    fn text(&self, entry: &Entry) -> String {
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
            "fast": self.fast,
            "node": self.node,
        })
        .to_string()
    }
}

/// What the attribute of a file says; nothing if it has none, or one that was copied with another file.
///
/// # Errors
/// It has one that cannot be understood.
pub(crate) fn attribute_of(path: &Path) -> Result<Option<Entry>> {
    let Some(text) = xattr::get(path, ATTRIBUTE).ok().flatten() else { return Ok(None) };
    let bad = |problem| {
        Error::file("understand the attribute user.headstart.dirty of", path, io::Error::other::<String>(problem))
    };
    let entry = Entry::parse(&text).map_err(bad)?;
    let found = std::fs::symlink_metadata(path);
    Ok(found.is_ok_and(|found| entry.inode == found.ino()).then_some(entry))
}
