//! What is stored: as everybody sees it now, as a power loss would leave it, and the changes in between.
//!
//! Copies share what they have in common, so that one can be taken before every operation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::crash_tests::rings::Rings;
use headstart_units::chance::Random;

const PAGE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;

/// Sparse bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES as usize]>>,
    pub size: u64,
}

impl Contents {
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let (page, within, count) = part(offset, at, bytes.len());
            match self.pages.get(&page) {
                Some(page) => bytes[at..at + count].copy_from_slice(&page[within..within + count]),
                None => bytes[at..at + count].fill(0),
            }
            at += count;
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let (page, within, count) = part(offset, at, bytes.len());
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[within..within + count].copy_from_slice(&bytes[at..at + count]);
            at += count;
        }
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    fn erase(&mut self, offset: u64, end: u64) {
        let touched: Vec<u64> = self.pages.range(offset / PAGE_BYTES..).map(|(page, _)| *page).collect();
        for page in touched.into_iter().take_while(|page| page * PAGE_BYTES < end) {
            let from = offset.max(page * PAGE_BYTES) - page * PAGE_BYTES;
            let until = end.min((page + 1) * PAGE_BYTES) - page * PAGE_BYTES;
            if (from, until) == (0, PAGE_BYTES) {
                self.pages.remove(&page);
            } else if let Some(bytes) = self.pages.get_mut(&page) {
                Arc::make_mut(bytes)[from as usize..until as usize].fill(0);
            }
        }
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => self.write(bytes, *offset),
            Change::Size(size) => {
                self.erase(*size, u64::MAX);
                self.size = *size;
            }
            Change::Grow(size) => self.size = self.size.max(*size),
            Change::Punch { offset, length } => self.erase(*offset, (offset + length).min(self.size)),
        }
    }
}

fn part(offset: u64, at: usize, length: usize) -> (u64, usize, usize) {
    let position = offset + at as u64;
    let within = (position % PAGE_BYTES) as usize;
    (position / PAGE_BYTES, within, (PAGE_BYTES as usize - within).min(length - at))
}

/// One change of a file.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    Size(u64),
    Grow(u64),
    Punch { offset: u64, length: u64 },
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub now: Contents,
    pub modified_ns: u64,
    stable: Contents,
    stable_modified_ns: u64,
    unsynced: Vec<Change>,
    /// A sync failed: the kernel calls pages clean that no later sync writes.
    forgetful: bool,
    /// Syncs that failed; each handle that was open then is told once.
    pub errors: u64,
    /// Nobody was told of the last of them.
    untold: bool,
    /// Up to where it has space, where that is counted.
    pub room: u64,
}

impl Inode {
    pub(crate) fn change(&mut self, change: Change, now_ns: u64) {
        self.now.apply(&change);
        self.modified_ns = now_ns;
        self.unsynced.push(change);
    }

    pub(crate) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            self.stable.apply(&change);
        }
        self.stable_modified_ns = self.modified_ns;
    }

    /// What was written since the last sync is forgotten; reads still see it until it is evicted.
    pub(crate) fn fail_sync(&mut self) {
        self.errors += 1;
        let size = self.now.size;
        let (resized, written): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unsynced).into_iter().partition(|change| matches!(change, Change::Size(_)));
        // Some had reached the disk before the error.
        written.iter().step_by(2).for_each(|change| self.stable.apply(change));
        self.forgetful |= !written.is_empty();
        self.unsynced = resized;
        self.unsynced.push(Change::Grow(size));
    }

    /// The same without a sync.
    pub(crate) fn fail_to_write(&mut self) {
        self.fail_sync();
        self.untold = true;
    }

    /// Errors that a handle opened now is not told of.
    pub(crate) fn errors_told(&self) -> u64 {
        self.errors - u64::from(self.untold)
    }

    /// Somebody was told of all errors.
    pub(crate) fn errors_are_told(&mut self) {
        self.untold = false;
    }

    fn evict(&mut self) {
        if self.forgetful {
            let size = self.now.size;
            self.now = self.stable.clone();
            self.unsynced.iter().for_each(|change| self.now.apply(change));
            self.now.size = size;
        }
    }

    fn lose_power(&mut self, random: &mut Random) {
        let mood = random.below(4);
        for change in std::mem::take(&mut self.unsynced) {
            let keep = match mood {
                0 => false,
                1 => true,
                _ => random.chance(50),
            };
            match change {
                Change::Write { offset, bytes } if mood == 3 => {
                    let end = offset + bytes.len() as u64;
                    let mut at = offset;
                    while at < end {
                        let until = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                        if random.chance(50) {
                            self.stable.write(&bytes[(at - offset) as usize..(until - offset) as usize], at);
                        }
                        at = until;
                    }
                }
                change if keep => self.stable.apply(&change),
                _ => {}
            }
        }
        if random.chance(50) {
            self.stable_modified_ns = self.modified_ns;
        }
        self.now = self.stable.clone();
        self.modified_ns = self.stable_modified_ns;
        self.errors = 0;
        self.untold = false;
    }

    fn settle(&mut self) {
        self.stable = self.now.clone();
        self.unsynced.clear();
        self.forgetful = false;
    }
}

/// Names set or removed by one operation: all of them or none survive.
type NameChange = Vec<(PathBuf, Option<u64>)>;

/// All files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    inodes: BTreeMap<u64, Arc<Inode>>,
    names: BTreeMap<PathBuf, u64>,
    stable_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<NameChange>,
    next_inode: u64,
    pub clock_ns: u64,
    /// What the shared file has in its rings, which vanishes likewise.
    pub rings: Rings,
}

/// What lies here vanishes with the machine's memory.
pub(crate) const MEMORY: &str = "/run";

impl Disk {
    pub(crate) fn find(&self, path: &Path) -> Option<u64> {
        self.names.get(path).copied()
    }

    pub(crate) fn inode(&self, number: u64) -> &Inode {
        &self.inodes[&number]
    }

    pub(crate) fn inode_mut(&mut self, number: u64) -> &mut Inode {
        Arc::make_mut(self.inodes.get_mut(&number).expect("an open file exists"))
    }

    /// The inode leaves the kernel's memory, and what it knew of errors with it.
    pub(crate) fn leave_memory(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number).filter(|inode| inode.untold) {
            Arc::make_mut(inode).untold = false;
        }
    }

    pub(crate) fn links(&self, number: u64) -> u64 {
        self.names.values().filter(|named| **named == number).count() as u64
    }

    pub(crate) fn create(&mut self, path: &Path) -> u64 {
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Arc::default());
        self.rename_all(vec![(path.to_path_buf(), Some(self.next_inode))]);
        self.next_inode
    }

    pub(crate) fn rename_all(&mut self, change: NameChange) {
        apply_names(&mut self.names, &change);
        self.unsynced_names.push(change);
    }

    pub(crate) fn list(&self, directory: &Path) -> Vec<PathBuf> {
        self.names.keys().filter(|path| path.parent() == Some(directory)).cloned().collect()
    }

    pub(crate) fn sync_directory(&mut self, directory: &Path) {
        let (synced, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.unsynced_names)
            .into_iter()
            .partition(|change| change.iter().any(|(path, _)| path.parent() == Some(directory)));
        synced.iter().for_each(|change| apply_names(&mut self.stable_names, change));
        self.unsynced_names = kept;
    }

    pub(crate) fn sync_all(&mut self) {
        self.inodes.values_mut().for_each(|inode| Arc::make_mut(inode).sync());
        for change in std::mem::take(&mut self.unsynced_names) {
            apply_names(&mut self.stable_names, &change);
        }
    }

    /// Pages whose sync failed leave the cache.
    pub(crate) fn evict(&mut self) {
        self.inodes.values_mut().for_each(|inode| Arc::make_mut(inode).evict());
    }

    /// Any part of what was not synced is lost.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        self.rings = Rings::default();
        let mood = random.below(3);
        for change in std::mem::take(&mut self.unsynced_names) {
            if mood == 0 || (mood == 1 && random.chance(50)) {
                apply_names(&mut self.stable_names, &change);
            }
        }
        self.stable_names.retain(|path, _| !path.starts_with(MEMORY));
        self.names = self.stable_names.clone();
        let named: Vec<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| named.contains(number));
        for inode in self.inodes.values_mut() {
            Arc::make_mut(inode).lose_power(random);
        }
    }

    /// Everything as it is now is durable.
    pub(crate) fn settle(&mut self) {
        self.unsynced_names.clear();
        self.stable_names = self.names.clone();
        self.inodes.values_mut().for_each(|inode| Arc::make_mut(inode).settle());
    }

    /// All bytes of a file.
    pub(crate) fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let inode = self.inode(self.find(path)?);
        let mut bytes = vec![0; inode.now.size as usize];
        inode.now.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Replaces the bytes of a file, durably.
    pub(crate) fn put(&mut self, path: &Path, bytes: &[u8]) {
        let number = self.find(path).unwrap_or_else(|| self.create(path));
        let now_ns = self.clock_ns;
        let inode = self.inode_mut(number);
        inode.change(Change::Size(0), now_ns);
        inode.change(Change::Write { offset: 0, bytes: bytes.into() }, now_ns);
        self.settle();
    }
}

fn apply_names(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    for (path, inode) in change {
        match inode {
            Some(inode) => drop(names.insert(path.clone(), *inode)),
            None => drop(names.remove(path)),
        }
    }
}
