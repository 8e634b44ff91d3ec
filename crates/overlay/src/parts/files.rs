//! The known files: who has which number, and when it is free again.
//!
//! A number is an index into the shared table, which has an end. A file keeps its number while somebody has it open
//! or anything of it is on flash; a number is used again as late as possible.

use std::collections::{BTreeMap, BTreeSet};

use headstart_protocol::shared::Shared;
use headstart_units::Capacity;

use crate::file::File;
use crate::journal::Identity;
use crate::parts::looks;

/// One part in so many of the table is kept free (assumed).
const FREE_SHARE: usize = 4;

/// How far the slots were looked at for threads that make a file longer.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    /// Than this, at most.
    size: u64,
    /// Slots before this one are at no such call since the extension was announced.
    until: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    known: BTreeMap<u32, File>,
    by_identity: BTreeMap<Identity, u32>,
    /// As many are known at once, if the shared table has room for them.
    most: usize,
    /// The search for a free number begins here.
    next: u32,
    /// Files nobody has open.
    closed: BTreeSet<u32>,
    /// Files whose size is to be changed once no thread may be changing it: how far the slots were looked at.
    extending: BTreeMap<u32, Looked>,
    /// Files to be forgotten when a barrier has cleared their bits.
    forgetting: BTreeSet<u32>,
    /// Files without a name that are written back for processes that may have them open and never said so.
    left_to_heirs: BTreeSet<u32>,
    capacity: Capacity,
    limit_bytes: u64,
    /// Sum of the sizes they are expected to have.
    known_bytes: u128,
}

impl std::ops::Index<&u32> for Files {
    type Output = File;

    fn index(&self, number: &u32) -> &File {
        self.known.get(number).expect("the file's number was checked")
    }
}

impl Files {
    /// None; at most so many at once, which have so much flash together.
    pub(crate) fn new(most: usize, capacity: Capacity) -> Files {
        Files {
            known: BTreeMap::new(),
            by_identity: BTreeMap::new(),
            most,
            next: 0,
            closed: BTreeSet::new(),
            extending: BTreeMap::new(),
            forgetting: BTreeSet::new(),
            left_to_heirs: BTreeSet::new(),
            capacity,
            limit_bytes: u64::MAX,
            known_bytes: 0,
        }
    }

    /// A known file.
    pub(crate) fn get(&self, number: &u32) -> Option<&File> {
        self.known.get(number)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: &u32) -> Option<&mut File> {
        self.known.get_mut(number)
    }

    /// Whether a file has the number.
    pub(crate) fn contains_key(&self, number: &u32) -> bool {
        self.known.contains_key(number)
    }

    /// All files, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u32, &File)> {
        self.known.iter()
    }

    /// Their numbers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &u32> {
        self.known.keys()
    }

    /// All files, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.known.values_mut()
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// A file has the number from now on, and the identity.
    pub(crate) fn insert(&mut self, number: u32, file: File) {
        self.by_identity.insert(file.identity(), number);
        self.insert_followed(number, file);
    }

    /// One whose identity is another's by now.
    pub(crate) fn insert_followed(&mut self, number: u32, file: File) {
        self.known.insert(number, file);
    }

    /// The file is forgotten: its number is free.
    pub(crate) fn remove(&mut self, number: u32) -> File {
        let file = self.known.remove(&number).expect("the caller found it");
        if self.has_identity(number, file.identity()) {
            self.by_identity.remove(&file.identity());
        }
        self.closed.remove(&number);
        file
    }

    /// The file with this identity.
    pub(crate) fn of_identity(&self, identity: Identity) -> Option<u32> {
        self.by_identity.get(&identity).copied()
    }

    /// Whether the file is the one that has this identity now.
    pub(crate) fn has_identity(&self, number: u32, identity: Identity) -> bool {
        self.of_identity(identity) == Some(number)
    }

    /// The identity is to be another's.
    pub(crate) fn release_identity(&mut self, identity: Identity) {
        self.by_identity.remove(&identity);
    }

    /// The files with identities in this range, in order.
    pub(crate) fn between(&self, from: Identity, to: Identity) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.by_identity.range(from..=to).map(|(_, &number)| number)
    }

    /// Nobody has the file open.
    pub(crate) fn close(&mut self, number: u32) {
        self.closed.insert(number);
    }

    /// Somebody has it open.
    pub(crate) fn reopen(&mut self, number: u32) {
        self.closed.remove(&number);
    }

    /// The files nobody has open, from the oldest numbers on.
    pub(crate) fn closed(&self) -> impl Iterator<Item = u32> + '_ {
        self.closed.range(self.next..).chain(self.closed.range(..self.next)).copied()
    }

    /// How many numbers a table of so many entries gives out.
    pub(crate) fn numbers(&self, table: usize) -> usize {
        table.min(self.most)
    }

    /// How many files more than there should be in such a table are not about to be forgotten.
    pub(crate) fn excess(&self, table: usize) -> usize {
        let most = self.numbers(table) - self.numbers(table) / FREE_SHARE;
        self.known.len().saturating_sub(most + self.forgetting.len())
    }

    /// The next file gets the first free number from here on round the table that `is_usable`; false if none is.
    pub(crate) fn seek_number(&mut self, table: usize, mut is_usable: impl FnMut(u32) -> bool) -> bool {
        let count = self.numbers(table) as u32;
        let first = self.next % count;
        let found =
            (first..count).chain(0..first).find(|number| !self.known.contains_key(number) && is_usable(*number));
        self.next = found.unwrap_or(first);
        found.is_some()
    }

    /// The first free number from the last one given on, round the table.
    pub(crate) fn free_number(&mut self, table: usize) -> Option<u32> {
        let count = self.numbers(table) as u32;
        let first = self.next % count;
        let gap = |numbers: std::ops::Range<u32>| {
            let taken = self.known.range(numbers.clone()).map(|(number, _)| *number);
            let after = numbers.clone().zip(taken).take_while(|(number, taken)| number == taken).count();
            numbers.clone().nth(after)
        };
        let number = gap(first..count).or_else(|| gap(0..first))?;
        self.next = number + 1;
        Some(number)
    }

    /// The file is to be forgotten when a barrier has cleared its bits.
    pub(crate) fn forget_after_barrier(&mut self, number: u32) {
        self.forgetting.insert(number);
    }

    /// A barrier has ended: those that may be forgotten now.
    pub(crate) fn take_forgetting(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.forgetting)
    }

    /// Whether the file is to be forgotten.
    pub(crate) fn is_forgetting(&self, number: u32) -> bool {
        self.forgetting.contains(&number)
    }

    /// Whether any is.
    pub(crate) fn any_forgetting(&self) -> bool {
        !self.forgetting.is_empty()
    }

    /// The file's size is to be changed.
    pub(crate) fn await_extension(&mut self, number: u32) {
        self.extending.insert(number, Looked::default());
    }

    /// Whether a thread is at a call that makes the file longer than `size` and asked nobody. The extension was
    /// announced.
    pub(crate) fn are_extended_unasked(&mut self, shared: Shared<'_>, number: u32, size: u64) -> bool {
        let looked = self.extending.get_mut(&number).expect("an announced extension is waited for");
        if size < looked.size {
            *looked = Looked::default();
        }
        let found = shared.extending_from(number, size, looked.until);
        looks::note(shared, looked.until, found);
        *looked = Looked { size, until: found.unwrap_or_else(|| shared.used_slots().len()) };
        found.is_some()
    }

    /// It is being changed, or no longer to be.
    pub(crate) fn end_wait_for_extension(&mut self, number: u32) {
        self.extending.remove(&number);
    }

    /// The files whose sizes are to be changed.
    pub(crate) fn extending(&self) -> Vec<u32> {
        self.extending.keys().copied().collect()
    }

    /// How many there are.
    pub(crate) fn extending_count(&self) -> usize {
        self.extending.len()
    }

    /// Processes may have the file inherited: it is written back for them.
    pub(crate) fn leave_to_heirs(&mut self, number: u32) {
        self.left_to_heirs.insert(number);
    }

    /// That is over.
    pub(crate) fn end_leave_to_heirs(&mut self, number: u32) {
        self.left_to_heirs.remove(&number);
    }

    /// The files that are written back for heirs.
    pub(crate) fn left_to_heirs(&self) -> Vec<u32> {
        self.left_to_heirs.iter().copied().collect()
    }

    /// A file is expected to have another size than before.
    pub(crate) fn resized(&mut self, before: u64, now: u64) {
        self.known_bytes = self.known_bytes - u128::from(before) + u128::from(now);
    }

    /// Sum of the sizes that they are expected to have.
    pub(crate) fn known_bytes(&self) -> u128 {
        self.known_bytes
    }

    /// Changes how much flash they may have.
    pub(crate) fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// How much flash they may have, as it was said.
    pub(crate) fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// They may not have more than this, whatever was said.
    pub(crate) fn limit_capacity(&mut self, bytes: u64) {
        self.limit_bytes = bytes;
    }

    /// How much that is now.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        let said = match self.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Share(share) => (self.known_bytes as f64 * share) as u64,
        };
        said.min(self.limit_bytes)
    }

    /// Where the search for a free number begins.
    #[cfg(test)]
    pub(crate) fn next_mut(&mut self) -> &mut u32 {
        &mut self.next
    }
}

#[cfg(test)]
mod tests {
    use headstart_protocol::memory::Memory;
    use headstart_protocol::shared::{KIND_EXTEND, KIND_WRITE};
    use headstart_units::request::Range;

    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity { inode, ..Identity::default() }
    }

    fn files(numbers: &[u32]) -> Files {
        let mut files = Files::new(8, Capacity::Share(0.5));
        for &number in numbers {
            files.insert(number, File::new(identity(number.into()), Vec::new(), 0));
        }
        files
    }

    #[test]
    fn threads_that_extend_a_file_are_looked_for_once_unless_the_file_becomes_shorter() {
        let (memory, mut files) = (Memory::new(1, 3, 1), files(&[0]));
        let shared = memory.view();
        memory.slots[0].publish_cheap(KIND_WRITE, 0, Range::new(0, 150));
        memory.slots[2].publish_cheap(KIND_EXTEND, 0, Range::new(300, 10));
        files.await_extension(0);
        assert!(files.are_extended_unasked(shared, 0, 200));
        looks::take();
        assert!(files.are_extended_unasked(shared, 0, 200));
        assert_eq!(looks::take(), 1, "who is in the way");
        memory.slots[2].free();
        assert!(files.are_extended_unasked(shared, 0, 100), "it ends behind the new size");
        memory.slots[0].free();
        assert!(!files.are_extended_unasked(shared, 0, 100));
    }

    #[test]
    fn a_number_is_used_again_as_late_as_possible() {
        let mut files = files(&[0, 1, 3]);
        assert_eq!([(); 3].map(|()| files.free_number(5)), [Some(2), Some(4), Some(2)], "round a table of five");
        files.insert(2, File::new(identity(9), Vec::new(), 0));
        files.insert(4, File::new(identity(8), Vec::new(), 0));
        assert_eq!(files.free_number(5), None);
        assert_eq!(files.free_number(100), Some(5), "no more than eight, whatever the table");
    }

    #[test]
    fn an_identity_is_the_file_s_that_came_last() {
        let mut files = files(&[1]);
        files.insert(2, File::new(identity(1), Vec::new(), 0));
        files.remove(1);
        assert_eq!(files.of_identity(identity(1)), Some(2));
        files.remove(2);
        assert_eq!(files.of_identity(identity(1)), None);
    }

    #[test]
    fn a_share_of_the_known_sizes_follows_them() {
        let mut files = files(&[]);
        files.resized(0, 1000);
        files.resized(400, 300);
        assert_eq!((files.known_bytes(), files.capacity_bytes()), (900, 450));
        files.set_capacity(Capacity::Bytes(7));
        assert_eq!(files.capacity_bytes(), 7);
        files.limit_capacity(5);
        assert_eq!((files.capacity_bytes(), files.capacity()), (5, Capacity::Bytes(7)));
    }
}
