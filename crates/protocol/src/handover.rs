//! What an agent keeps in the shared file for the one after it, besides bits, slots and leases: copies under
//! way, and which files the process behind a slot has open. Only agents read it.
//!
//! A record is written before what it tells of begins, and cleared after it has ended. So the next agent may
//! find too much, never too little.

use super::limits::FILES_MAX;
use headstart_units::atomics::{AtomicU32, AtomicU64, Ordering};
use headstart_units::request::Range;

/// Copies that can be under way at once.
pub const COPIES_MAX: usize = 1024;
const WORDS: usize = FILES_MAX / 64;

/// `CopyRecord::kind`: none.
pub(crate) const COPY_NONE: u32 = 0;
/// `CopyRecord::kind`: from disk to flash. It can only hit a place that the next agent never gives away.
pub const COPY_FETCH: u32 = 1;
/// `CopyRecord::kind`: from flash to disk.
pub const COPY_WRITE_BACK: u32 = 2;

/// A copy under way.
#[repr(C)]
#[derive(Debug, Default)]
pub struct CopyRecord {
    /// `COPY_*`.
    pub kind: AtomicU32,
    /// The slow file.
    pub file: AtomicU32,
    /// First byte of the slow file.
    pub offset: AtomicU64,
    /// Length.
    pub length: AtomicU64,
    /// The data file of its first piece.
    pub data_file: AtomicU32,
    reserved: AtomicU32,
    /// Where that piece begins in it.
    pub place: AtomicU64,
}

impl CopyRecord {
    /// Says that a copy begins.
    pub fn begin(&self, kind: u32, file: u32, range: Range, (data_file, place): (u32, u64)) {
        self.file.store(file, Ordering::Relaxed);
        self.offset.store(range.offset, Ordering::Relaxed);
        self.length.store(range.length, Ordering::Relaxed);
        self.data_file.store(data_file, Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Release);
    }

    /// Says that it has ended.
    pub fn end(&self) {
        self.kind.store(COPY_NONE, Ordering::Release);
    }

    /// Whether it tells of no copy.
    pub fn is_free(&self) -> bool {
        self.kind.load(Ordering::Acquire) == COPY_NONE
    }

    /// File and range of the write-back it tells of.
    pub fn write_back(&self) -> Option<(u32, Range)> {
        let range = Range::new(self.offset.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
        let found = (self.file.load(Ordering::Relaxed), range);
        (self.kind.load(Ordering::Acquire) == COPY_WRITE_BACK).then_some(found)
    }
}

/// A set of file numbers.
#[repr(C)]
#[derive(Debug)]
pub struct FileSet([AtomicU64; WORDS]);

impl Default for FileSet {
    fn default() -> FileSet {
        FileSet(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl FileSet {
    fn change(&self, file: u32, change: impl Fn(u64, u64) -> u64) {
        let word = &self.0[file as usize / 64];
        word.store(change(word.load(Ordering::Relaxed), 1 << (file % 64)), Ordering::Release);
    }

    /// Adds a file.
    pub fn insert(&self, file: u32) {
        self.change(file, |word, bit| word | bit);
    }

    /// Removes a file.
    pub fn remove(&self, file: u32) {
        self.change(file, |word, bit| word & !bit);
    }

    /// The files in it.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let set = |word: u64| (0..64).filter(move |bit| word & (1 << bit) != 0);
        self.0
            .iter()
            .enumerate()
            .flat_map(move |(index, word)| set(word.load(Ordering::Acquire)).map(move |bit| index as u32 * 64 + bit))
    }

    /// Adds the files of `other`, and leaves that one empty.
    fn take(&self, other: &FileSet) {
        for (own, others) in self.0.iter().zip(&other.0) {
            let word = others.load(Ordering::Relaxed);
            if word != 0 {
                own.store(own.load(Ordering::Relaxed) | word, Ordering::Release);
                others.store(0, Ordering::Release);
            }
        }
    }

    fn clear(&self) {
        self.0
            .iter()
            .filter(|word| word.load(Ordering::Relaxed) != 0)
            .for_each(|word| word.store(0, Ordering::Release));
    }
}

/// What the agent was told through one slot: the files of the process behind it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct OpenFiles {
    /// Files it has open.
    pub open: FileSet,
    /// Those it may write.
    pub writable: FileSet,
    /// Those it uses unseen until it ends.
    pub bypassed: FileSet,
}

impl OpenFiles {
    /// The process closed a file.
    pub fn close(&self, file: u32) {
        self.open.remove(file);
        self.writable.remove(file);
    }

    /// The slot of `other` is given up, but its process lives on behind this one.
    pub fn take(&self, other: &OpenFiles) {
        self.open.take(&other.open);
        self.writable.take(&other.writable);
        self.bypassed.take(&other.bypassed);
    }

    /// The process is gone.
    pub fn clear(&self) {
        self.open.clear();
        self.writable.clear();
        self.bypassed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_files_holds_what_was_put_in_and_moves_whole() {
        let (one, other) = (OpenFiles::default(), OpenFiles::default());
        for file in [0, 63, 64, FILES_MAX as u32 - 1] {
            one.open.insert(file);
        }
        one.open.remove(63);
        one.writable.insert(64);
        other.open.insert(7);
        other.take(&one);
        assert_eq!(other.open.iter().collect::<Vec<_>>(), [0, 7, 64, FILES_MAX as u32 - 1]);
        assert_eq!(other.writable.iter().collect::<Vec<_>>(), [64]);
        assert_eq!(one.open.iter().count() + one.writable.iter().count(), 0);
        other.close(64);
        assert_eq!((other.open.iter().count(), other.writable.iter().count()), (3, 0));
    }

    #[test]
    fn a_copy_record_tells_of_write_backs_until_they_end() {
        let record = CopyRecord::default();
        record.begin(COPY_FETCH, 1, Range::new(0, 10), (1, 0));
        assert_eq!(record.write_back(), None);
        record.begin(COPY_WRITE_BACK, 1, Range::new(5, 10), (1, 4096));
        assert_eq!(record.write_back(), Some((1, Range::new(5, 10))));
        record.end();
        assert!(record.is_free() && record.write_back().is_none());
    }
}
