//! The files of a trace that a plan is made for, as they are now: regular ones below the slow directory,
//! unless excluded. Names of one file are one file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headstart_agent::selection::Selection;
use headstart_agent::site::resolved;
use headstart_insight::plan::TracedFile;

/// Why files are left out, and how many.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Not below the slow directory.
    pub outside: u64,
    /// By the site's patterns.
    pub excluded: u64,
    /// Directories, devices, pipes.
    pub irregular: u64,
    /// Their names: a plan is a text.
    pub unnameable: Vec<PathBuf>,
    /// Below the slow directory and not there any more; not left out.
    pub vanished: u64,
}

/// What distinguishes files: device and inode, or a path where there is none.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    Inode(u64, u64),
    Path(PathBuf),
}

/// See the module.
#[derive(Debug)]
pub struct PlannedFiles {
    slow: PathBuf,
    selection: Selection,
    region_bytes: u64,
    files: Vec<TracedFile>,
    identities: HashMap<Identity, u32>,
    inodes: HashSet<u64>,
    paths: HashMap<Box<[u8]>, Option<u32>>,
    left_out: LeftOut,
}

impl PlannedFiles {
    /// None yet. `slow` has no symbolic links.
    pub fn new(slow: PathBuf, selection: Selection, region_bytes: u64) -> PlannedFiles {
        PlannedFiles {
            slow,
            selection,
            region_bytes,
            files: Vec::new(),
            identities: HashMap::new(),
            inodes: HashSet::new(),
            paths: HashMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// The number of a file by a name of it, if it is not left out.
    pub fn number(&mut self, path: &[u8]) -> Option<u32> {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        let number = self.classify(Path::new(OsStr::from_bytes(path)));
        self.paths.insert(path.into(), number);
        number
    }

    /// The number of a file whose name came before.
    pub fn known(&self, path: &[u8]) -> Option<u32> {
        self.paths.get(path).copied().flatten()
    }

    /// A file.
    pub fn get(&self, number: u32) -> Option<&TracedFile> {
        self.files.get(number as usize)
    }

    /// What was left out so far.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    fn classify(&mut self, name: &Path) -> Option<u32> {
        let path = resolved(name);
        let Ok(relative) = path.strip_prefix(&self.slow) else {
            self.left_out.outside += 1;
            return None;
        };
        if self.selection.excludes(relative) {
            self.left_out.excluded += 1;
            return None;
        }
        let found = fs::metadata(&path).ok();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            self.left_out.irregular += 1;
            return None;
        }
        let Some(text) = path.to_str().map(str::to_string) else {
            self.left_out.unnameable.push(path);
            return None;
        };
        self.left_out.vanished += u64::from(found.is_none());
        let identity = match &found {
            Some(found) => Identity::Inode(found.dev(), found.ino()),
            None => Identity::Path(path),
        };
        let next = self.files.len() as u32;
        let number = *self.identities.entry(identity).or_insert(next);
        if number == next {
            // A plan tells files by their inodes: one of another device may have the same.
            let inode = found.as_ref().map(MetadataExt::ino);
            let inode = inode.filter(|inode| self.inodes.insert(*inode));
            let size_bytes = found.map(|found| found.len());
            self.files.push(TracedFile { path: text, inode, size_bytes, region_bytes: self.region_bytes });
        }
        Some(number)
    }
}
