//! Copies under way: bytes that move between the tiers. No two of them share a byte of a file.

use std::collections::BTreeMap;

use headstart_protocol::handover::{COPIES_MAX, COPY_FETCH, COPY_WRITE_BACK};
use headstart_protocol::shared::Shared;
use headstart_units::request::Range;

use crate::flash_space::Run;
use crate::output::{CopyKind, CopyOrder, CopyPiece};

/// A copy under way.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// Which way.
    pub(crate) kind: CopyKind,
    /// The slow file.
    pub(crate) file: u32,
    /// Its bytes.
    pub(crate) range: Range,
    /// Where they lie on flash; none of a write-back of the agent before, of which nothing is expected but that it
    /// ends.
    pub(crate) pieces: Vec<CopyPiece>,
    /// Extents it consists of; those that follow each other on flash as well are one piece.
    pub(crate) extents: u64,
    /// Its longest piece, which is what it is reckoned to ask of flash at once. It may ask a whole run, but for a
    /// part of its time alone: of the disks it needs longer.
    pub(crate) flash_bytes: u64,
    /// What it did does not count.
    pub(crate) cancelled: bool,
    /// When it began.
    pub(crate) since_ns: u64,
    /// Index of its record in the shared file.
    record: usize,
}

impl Copy {
    /// The pages of flash that it reads or writes.
    pub(crate) fn places(&self) -> impl Iterator<Item = Run> + '_ {
        self.pieces.iter().map(|piece| Run::touching(piece.data_file, piece.place, piece.range.length))
    }

    fn writes_back(&self) -> bool {
        self.kind == CopyKind::WriteBack
    }
}

/// What is to be copied.
pub(crate) struct NewCopy {
    /// Which way.
    pub(crate) kind: CopyKind,
    /// The slow file.
    pub(crate) file: u32,
    /// Its bytes.
    pub(crate) range: Range,
    /// Where they lie on flash, or will; one at least.
    pub(crate) pieces: Vec<CopyPiece>,
    /// Extents it consists of.
    pub(crate) extents: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    under_way: BTreeMap<u64, Copy>,
    /// By file and offset.
    by_place: BTreeMap<(u32, u64), u64>,
    next: u64,
    most: usize,
}

impl Copies {
    /// None under way. No more than `most` are begun of our own accord.
    pub(crate) fn new(most: usize) -> Copies {
        Copies { under_way: BTreeMap::new(), by_place: BTreeMap::new(), next: 1, most }
    }

    /// How many may be under way that nobody needs at once.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether fewer than that are.
    pub(crate) fn may_begin(&self) -> bool {
        self.under_way.len() < self.most
    }

    /// Whether the shared file has a record for another one.
    pub(crate) fn can_begin(&self) -> bool {
        self.under_way.len() < COPIES_MAX
    }

    /// Begins a copy: what the runtime has to do. The next agent must know of it, should this one be killed meanwhile.
    pub(crate) fn begin(&mut self, shared: Shared<'_>, new: NewCopy, now_ns: u64) -> CopyOrder {
        let NewCopy { kind, file, range, pieces, extents } = new;
        let record = shared.copies.iter().position(|record| record.is_free());
        let record = record.expect("there is a record for each copy that may be under way");
        let (wire, first) = (if kind == CopyKind::Fetch { COPY_FETCH } else { COPY_WRITE_BACK }, pieces[0]);
        shared.copies[record].begin(wire, file, range, (first.data_file, first.place));
        let flash_bytes = pieces.iter().map(|piece| piece.range.length).max().unwrap_or(0);
        let order = CopyOrder { id: self.next, kind, file, range, pieces: pieces.clone() };
        self.insert(Copy {
            kind,
            file,
            range,
            pieces,
            extents,
            flash_bytes,
            cancelled: false,
            since_ns: now_ns,
            record,
        });
        order
    }

    /// A write-back of the agent before, whose bytes have not landed as far as is known.
    pub(crate) fn adopt(&mut self, file: u32, range: Range, record: usize, now_ns: u64) {
        let (kind, pieces) = (CopyKind::WriteBack, Vec::new());
        let (extents, flash_bytes, cancelled, since_ns) = (0, 0, true, now_ns);
        self.insert(Copy { kind, file, range, pieces, extents, flash_bytes, cancelled, since_ns, record });
    }

    fn insert(&mut self, copy: Copy) {
        debug_assert!(self.within(copy.file, copy.range).next().is_none(), "copies never overlap");
        self.by_place.insert((copy.file, copy.range.offset), self.next);
        self.under_way.insert(self.next, copy);
        self.next += 1;
    }

    /// A copy has ended: what it was, if it is known.
    pub(crate) fn end(&mut self, shared: Shared<'_>, id: u64) -> Option<Copy> {
        let copy = self.under_way.remove(&id)?;
        self.by_place.remove(&(copy.file, copy.range.offset));
        shared.copies[copy.record].end();
        Some(copy)
    }

    /// A copy under way.
    pub(crate) fn get(&self, id: u64) -> Option<&Copy> {
        self.under_way.get(&id)
    }

    /// All copies under way, in the order of their beginning.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Copy> {
        self.under_way.values()
    }

    /// Those that share a byte with `range`, last first.
    pub(crate) fn within(&self, file: u32, range: Range) -> impl Iterator<Item = &Copy> {
        self.by_place
            .range((file, 0)..(file, range.end()))
            .rev()
            .map(|(_, id)| &self.under_way[id])
            .take_while(move |copy| copy.range.end() > range.offset)
    }

    /// Whether one of the file is under way.
    pub(crate) fn any_of(&self, file: u32) -> bool {
        self.within(file, Range::new(0, u64::MAX)).next().is_some()
    }

    /// Whether bytes of `range` are being written back.
    pub(crate) fn write_back(&self, file: u32, range: Range) -> bool {
        self.within(file, range).any(Copy::writes_back)
    }

    /// Whether any bytes are being written back.
    pub(crate) fn any_write_back(&self) -> bool {
        self.iter().any(Copy::writes_back)
    }

    /// How many bytes are being written back.
    pub(crate) fn write_back_bytes(&self) -> u64 {
        self.iter().filter(|copy| copy.writes_back()).map(|copy| copy.range.length).sum()
    }

    /// The number of the copy that begins next.
    pub(crate) fn next_id(&self) -> u64 {
        self.next
    }

    /// Whether all write-backs with numbers below `end` have ended.
    pub(crate) fn have_written_back(&self, end: u64) -> bool {
        self.under_way.range(..end).all(|(_, copy)| !copy.writes_back())
    }

    /// The write-backs of the agent before.
    pub(crate) fn of_before(&self) -> Vec<u64> {
        self.under_way.iter().filter(|(_, copy)| copy.pieces.is_empty()).map(|(&id, _)| id).collect()
    }

    /// What copies of the file have done within `range` does not count.
    pub(crate) fn cancel_within(&mut self, file: u32, range: Range) {
        let touched = |copy: &&mut Copy| copy.file == file && copy.range.overlaps(range);
        self.under_way.values_mut().filter(touched).for_each(|copy| copy.cancelled = true);
    }

    /// What copies from or to the data file have done does not count.
    pub(crate) fn cancel_data_file(&mut self, data_file: u32) {
        let touched = |copy: &Copy| copy.pieces.iter().any(|piece| piece.data_file == data_file);
        self.under_way.values_mut().filter(|copy| touched(copy)).for_each(|copy| copy.cancelled = true);
    }
}

#[cfg(test)]
mod tests {
    use headstart_protocol::memory::Memory;

    use super::*;

    fn piece(range: Range, data_file: u32) -> CopyPiece {
        CopyPiece { range, data_file, place: range.offset }
    }

    fn write_back(offset: u64, data_file: u32) -> NewCopy {
        let range = Range::new(offset, 4096);
        NewCopy { kind: CopyKind::WriteBack, file: 1, range, pieces: vec![piece(range, data_file)], extents: 1 }
    }

    #[test]
    fn a_copy_under_way_is_found_by_its_bytes_and_stands_in_the_shared_file_until_it_ends() {
        let memory = Memory::new(4, 1, 4);
        let mut copies = Copies::new(2);
        let first = copies.begin(memory.view(), write_back(0, 1), 7).id;
        let second = copies.begin(memory.view(), write_back(8192, 2), 7).id;
        assert!(!copies.may_begin() && copies.can_begin());
        assert!(copies.write_back(1, Range::new(4000, 5000)) && !copies.write_back(1, Range::new(4096, 4096)));
        assert!(!copies.write_back(2, Range::new(0, 4096)));
        assert_eq!(copies.write_back_bytes(), 8192);
        assert_eq!(memory.copies.iter().filter(|record| !record.is_free()).count(), 2);
        assert!(!copies.have_written_back(second) && copies.end(memory.view(), first).is_some());
        assert!(copies.have_written_back(second) && !copies.have_written_back(copies.next_id()));
        assert!(copies.end(memory.view(), first).is_none(), "it has ended");
        assert_eq!(memory.copies.iter().filter(|record| !record.is_free()).count(), 1);
    }

    #[test]
    fn cancelling_a_data_file_or_a_range_leaves_other_copies_alone() {
        let memory = Memory::new(4, 1, 4);
        let mut copies = Copies::new(4);
        let ids =
            [(0, 1), (8192, 2), (16384, 3)].map(|(at, file)| copies.begin(memory.view(), write_back(at, file), 0).id);
        copies.cancel_data_file(2);
        copies.cancel_within(1, Range::new(16384, 1));
        assert_eq!(ids.map(|id| copies.get(id).unwrap().cancelled), [false, true, true]);
    }

    #[test]
    fn a_write_back_of_the_agent_before_holds_its_range_and_counts_for_nothing() {
        let memory = Memory::new(4, 1, 4);
        let mut copies = Copies::new(4);
        copies.adopt(1, Range::new(0, 10), 0, 0);
        let own = copies.begin(memory.view(), write_back(4096, 1), 0).id;
        let before = copies.of_before();
        assert_eq!(before.len(), 1);
        assert!(before[0] != own && copies.get(before[0]).unwrap().cancelled && copies.any_of(1));
    }
}
