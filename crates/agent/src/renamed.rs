//! Slow files that lie elsewhere than the journal says: power failed before the record of a rename was
//! durable, or a stranger renamed them while no agent ran. They are known by what they are.
//!
//! Looked at are the paths that the list of dirty files has for the inode, and the directory where the file
//! was: a file that is replaced whole is written beside its name and renamed. Not searched are other
//! directories.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use headstart_overlay::journal::Identity;
use headstart_overlay::recovery::{Recovered, RecoveredFile};

use crate::dirty_list::{self, Listed};
use crate::identity::ManagedDevice;
use crate::store::as_path;

/// Gives each file of which bytes are dirty the path where it is, if it is not where the journal says. `list` is the name
/// of this node's list of dirty files. Changes no file.
pub(crate) fn find(slow: &Path, list: &str, recovered: &mut Recovered) {
    // A directory that cannot be looked at has no files that could be found.
    let Ok(device) = ManagedDevice::of(slow) else { return };
    let is = |path: &Path, identity: Identity| {
        std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && device.finds(&found, identity))
    };
    let is_dirty = |file: &RecoveredFile| file.map.iter().any(|mapped| mapped.dirty);
    let moved = |file: &&mut RecoveredFile| !file.unlinked && is_dirty(file) && !is(as_path(&file.path), file.identity);
    let moved: Vec<&mut RecoveredFile> = recovered.files.values_mut().filter(moved).collect();
    if moved.is_empty() {
        return;
    }
    let listed = dirty_list::read_at(&slow.join(list)).ok().flatten().unwrap_or_default();
    let inodes: BTreeSet<u64> = moved.iter().map(|file| file.identity.inode).collect();
    let mut beside = BTreeMap::new();
    for file in moved {
        let was = as_path(&file.path);
        let found = by_list(slow, &listed, file.identity, is).or_else(|| {
            let directory = was.parent()?;
            let named = beside.entry(directory.to_path_buf()).or_insert_with(|| names_of(directory, &inodes));
            let mut paths = named.get(&file.identity.inode)?.iter();
            paths.find(|path| is(path, file.identity) && says_so(path, file.identity)).cloned()
        });
        if let Some(found) = found {
            tracing::info!(was = %was.display(), is = %found.display(), "a file was renamed");
            file.path = found.into_os_string().into_encoded_bytes();
        }
    }
}

/// One that only the inode's number tells has to say itself that bytes of it are dirty.
fn says_so(path: &Path, identity: Identity) -> bool {
    identity.birth_ns != 0 || dirty_list::attribute_of(path).is_ok_and(|entry| entry.is_some())
}

fn by_list(slow: &Path, listed: &Listed, identity: Identity, is: impl Fn(&Path, Identity) -> bool) -> Option<PathBuf> {
    let named = listed.entries.iter().filter(|entry| entry.inode == identity.inode);
    let mut paths = named.map(|entry| slow.join(OsStr::from_bytes(&entry.path_bytes())));
    paths.find(|path| is(path, identity))
}

/// The names in a directory that belong to some of these inodes, by inode.
fn names_of(directory: &Path, inodes: &BTreeSet<u64>) -> BTreeMap<u64, Vec<PathBuf>> {
    let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| inodes.contains(&entry.ino())) {
        names.entry(entry.ino()).or_default().push(entry.path());
    }
    names
}
