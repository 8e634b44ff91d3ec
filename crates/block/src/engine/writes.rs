//! Writes, and zeros, that are not finished: one per range at a time, in the order they came.
//!
//! ```text
//! Blocked --older ones of its range end--> Logging
//!                                     |--> Waiting --no write-back on its range--> Bypassing
//!                                     '--> Split: its parts are each one or the other
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::order::{Part, Tag};
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// How far a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Older writes of its range are not finished.
    Blocked,
    /// In the log's queue or in flight there.
    Logging,
    /// Waits for write-backs of its range.
    Waiting,
    /// On its way to the disk.
    Bypassing,
    /// Its parts are, or in the log.
    Split,
}

/// A write that is not finished.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub tag: Tag,
    /// Where the data begin that the request brought.
    data_offset: u64,
    pub range: Range,
    /// The one that this is a part of.
    pub whole: Option<u64>,
    pub fua: bool,
    /// CRC32C of each block of payload; none: zeros.
    pub crcs: Option<Vec<u32>>,
    stage: Stage,
    /// Older writes that overlap.
    blockers: usize,
    /// Newer ones that wait for this.
    pub blocked: Vec<u64>,
    /// Records, orders or parts that are missing.
    missing: usize,
    failed: bool,
}

impl Write {
    /// A request, behind so many older ones.
    pub(super) fn new(tag: Tag, range: Range, crcs: Option<Vec<u32>>, fua: bool, blockers: usize) -> Write {
        Write {
            tag,
            data_offset: range.offset,
            range,
            whole: None,
            fua,
            crcs,
            stage: Stage::Blocked,
            blockers,
            blocked: Vec::new(),
            missing: 0,
            failed: false,
        }
    }

    /// A part of this one, named `whole`, that is a write of its own.
    pub(super) fn part_of(&self, whole: u64, range: Range, crcs: Option<Vec<u32>>) -> Write {
        let &Write { tag, data_offset, fua, stage, blockers, failed, .. } = self;
        let blocked = Vec::new();
        let whole = Some(whole);
        Write { tag, data_offset, range, whole, fua, crcs, stage, blockers, blocked, missing: 0, failed }
    }

    /// It is made of so many parts from now on.
    pub(super) fn split(&mut self, parts: usize) {
        (self.stage, self.missing) = (Stage::Split, parts);
    }

    /// Whether it is zeros.
    pub(super) fn is_zero(&self) -> bool {
        self.crcs.is_none()
    }

    /// The parts that make bytes of the disk.
    pub(super) fn part(&self, range: Range) -> Part {
        match self.crcs {
            Some(_) => Part::Request { tag: self.tag, offset: range.offset - self.data_offset, length: range.length },
            None => Part::Zeros(range.length),
        }
    }

    /// An older write of its range has ended; whether it was the last.
    pub(super) fn unblock(&mut self) -> bool {
        self.blockers -= 1;
        self.blockers == 0
    }

    /// The log takes it, in so many items.
    pub(super) fn log(&mut self, items: usize) {
        self.stage = Stage::Logging;
        self.missing += items;
    }

    /// It waits for so many things more.
    pub(super) fn expect(&mut self, count: usize) {
        self.missing += count;
    }

    /// One of them has ended; whether it was the last.
    pub(super) fn end_one(&mut self, ok: bool) -> bool {
        self.missing -= 1;
        self.failed |= !ok;
        self.missing == 0
    }

    /// Whether one of them failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// None of it is in the log: it goes to the disk instead.
    pub(super) fn divert(&mut self) {
        self.missing = 0;
    }

    /// Whether it may go to the disk instead of the log, if so many of its items wait there.
    pub(super) fn is_divertible(&self, items_waiting: impl FnOnce() -> usize) -> bool {
        !self.failed && !self.is_zero() && self.missing == items_waiting()
    }

    /// Whether it waits until it may be written to the disk.
    pub(super) fn waits_for_disk(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Whether it is on its way to the disk.
    fn is_bypassing(&self) -> bool {
        self.stage == Stage::Bypassing
    }

    /// Whether the disk is being written, or will be as soon as nothing else is.
    fn holds_disk(&self) -> bool {
        self.waits_for_disk() || self.is_bypassing()
    }
}

/// Checksums of the blocks of payload that hold `data`, zeros around it.
pub(super) fn checksums(offset: u64, data: &[u8]) -> Vec<u32> {
    let (mut crcs, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let skip = ((offset + at as u64) % BLOCK_BYTES) as usize;
        let end = data.len().min(at + BLOCK_BYTES as usize - skip);
        let zeros = [0; BLOCK_BYTES as usize];
        let crc = crc32c::crc32c_append(crc32c::crc32c(&zeros[..skip]), &data[at..end]);
        crcs.push(crc32c::crc32c_append(crc, &zeros[skip + end - at..]));
        at = end;
    }
    crcs
}

/// All of them, by age.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes {
    unfinished: BTreeMap<u64, Write>,
    begun: u64,
    /// Bytes of requests that are not finished.
    bytes: u64,
    /// Those that wait until they may be written to the disk.
    waiting: BTreeSet<u64>,
    /// Those that began when flash had failed.
    refused: Vec<u64>,
    /// How many are on their way to the disk.
    bypasses: usize,
    /// One that waits for the disk waits for room in a checkpoint.
    is_crowded: bool,
}

impl Writes {
    /// A name for one that comes.
    pub(super) fn name(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// One waits for all older ones that overlap its range; how many there are.
    pub(super) fn block(&mut self, id: u64, range: Range) -> usize {
        let mut blockers = 0;
        for older in self.unfinished.values_mut().filter(|older| older.range.overlaps(range)) {
            older.blocked.push(id);
            blockers += 1;
        }
        blockers
    }

    /// One comes.
    pub(super) fn add(&mut self, id: u64, write: Write) {
        if write.whole.is_none() {
            self.bytes += write.range.length;
        }
        self.unfinished.insert(id, write);
    }

    /// One that is unfinished.
    pub(super) fn get(&self, id: u64) -> &Write {
        &self.unfinished[&id]
    }

    /// One that is unfinished.
    pub(super) fn get_mut(&mut self, id: u64) -> &mut Write {
        self.unfinished.get_mut(&id).expect("it is unfinished")
    }

    /// One has ended.
    pub(super) fn end(&mut self, id: u64) -> Write {
        self.unfinished.remove(&id).expect("it is unfinished")
    }

    /// A request of so many bytes is answered.
    pub(super) fn note_answered(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// One waits until it may be written to the disk; its length.
    pub(super) fn wait(&mut self, id: u64) -> u64 {
        self.waiting.insert(id);
        let write = self.get_mut(id);
        write.stage = Stage::Waiting;
        write.range.length
    }

    /// One does not wait any more.
    pub(super) fn end_wait(&mut self, id: u64) {
        self.waiting.remove(&id);
    }

    /// Those that wait.
    pub(super) fn waiting(&self) -> Vec<u64> {
        self.waiting.iter().copied().collect()
    }

    /// One that waited goes to the disk.
    pub(super) fn begin_bypass(&mut self, id: u64) {
        self.get_mut(id).stage = Stage::Bypassing;
        self.waiting.remove(&id);
        self.bypasses += 1;
    }

    /// The disk has it, or has failed.
    pub(super) fn end_bypass(&mut self) {
        self.bypasses -= 1;
    }

    /// How many are on their way to the disk.
    pub(super) fn bypasses(&self) -> usize {
        self.bypasses
    }

    /// One has begun though flash had failed.
    pub(super) fn refuse(&mut self, id: u64) {
        self.refused.push(id);
    }

    /// The last of those.
    pub(super) fn pop_refused(&mut self) -> Option<u64> {
        self.refused.pop()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Bytes of requests that are not finished.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ranges of those that overlap one.
    pub(super) fn overlapping(&self, range: Range) -> impl Iterator<Item = Range> {
        self.unfinished.values().map(|write| write.range).filter(move |other| other.overlaps(range))
    }

    /// Whether any overlaps a range.
    pub(super) fn touch(&self, range: Range) -> bool {
        self.overlapping(range).next().is_some()
    }

    fn any_of(&self, range: Range, is_meant: impl Fn(&Write) -> bool) -> bool {
        self.unfinished.values().any(|write| is_meant(write) && write.range.overlaps(range))
    }

    /// Whether some of a range is on its way to the disk, or will be as soon as nothing else is.
    pub(super) fn hold_disk(&self, range: Range) -> bool {
        self.any_of(range, Write::holds_disk)
    }

    /// Whether some of a range waits until it may be written to the disk.
    pub(super) fn wait_for_disk(&self, range: Range) -> bool {
        self.any_of(range, Write::waits_for_disk)
    }

    /// Whether some of a range is on its way to the disk.
    pub(super) fn bypass(&self, range: Range) -> bool {
        self.any_of(range, Write::is_bypassing)
    }

    /// The oldest that waits until it may be written to the disk.
    pub(super) fn first_waiting(&self) -> Option<u64> {
        self.unfinished.iter().find_map(|(id, write)| write.waits_for_disk().then_some(*id))
    }

    /// Whether one that waits for the disk waits for room in a checkpoint.
    pub(super) fn are_crowded(&self) -> bool {
        self.is_crowded
    }

    /// One waits for room in a checkpoint, or none does; whether one did before.
    pub(super) fn set_crowded(&mut self, is_crowded: bool) -> bool {
        std::mem::replace(&mut self.is_crowded, is_crowded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(writes: &mut Writes, range: Range) -> u64 {
        let id = writes.name();
        let blockers = writes.block(id, range);
        writes.add(id, Write::new(id, range, None, false, blockers));
        id
    }

    #[test]
    fn a_write_waits_for_all_older_ones_of_its_range() {
        let mut writes = Writes::default();
        let [first, second] = [0, 8192].map(|offset| add(&mut writes, Range::new(offset, 4096)));
        let third = add(&mut writes, Range::new(0, 16384));
        assert_eq!(writes.bytes(), 24576);
        assert_eq!(writes.end(first).blocked, [third]);
        writes.note_answered(4096);
        assert!(!writes.get_mut(third).unblock());
        writes.end(second);
        assert!(writes.get_mut(third).unblock() && writes.touch(Range::new(12288, 1)));
        assert_eq!((writes.end(third).blocked.len(), writes.bytes(), writes.is_empty()), (0, 20480, true));
    }

    #[test]
    fn a_write_holds_its_place_on_the_disk_from_when_it_waits_for_it() {
        let mut writes = Writes::default();
        let range = Range::new(4096, 4096);
        let id = add(&mut writes, range);
        assert!(!writes.hold_disk(range));
        assert_eq!((writes.wait(id), writes.waiting(), writes.first_waiting()), (4096, vec![id], Some(id)));
        assert!(writes.hold_disk(range) && writes.wait_for_disk(range) && !writes.bypass(range));
        writes.begin_bypass(id);
        assert!(writes.hold_disk(range) && !writes.wait_for_disk(range) && writes.bypass(range));
        assert_eq!((writes.bypasses(), writes.waiting()), (1, vec![]));
    }

    #[test]
    fn a_write_may_go_to_the_disk_instead_of_the_log_while_all_of_it_waits_there() {
        let mut write = Write::new(1, Range::new(0, 4096), Some(vec![0]), false, 0);
        write.log(2);
        assert!(write.is_divertible(|| 2) && !write.is_divertible(|| 1), "one is in flight");
        assert!(!write.end_one(false) && write.has_failed() && !write.is_divertible(|| 1));
        write.divert();
        write.expect(1);
        assert!(write.end_one(true));
    }
}
