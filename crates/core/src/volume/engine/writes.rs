//! Writes, and zeros: one per range at a time (rule 1), in the order they came.
//!
//! A write that overlaps unfinished ones waits for all of them. Then it is decided once whether the log takes it. What the guard hides always
//! goes there; of a longer request it is a write of its own, so that the rest goes where it otherwise would: one of many processes that was
//! answered at once for it would be out of step with the others from then on. A bypass waits until no write-back is under way on its range, and none begins there while it
//! waits.

use super::{Engine, Purpose};
use crate::request::Range;
use crate::volume::engine::log_queue::Item;
use crate::volume::layout::BLOCK_BYTES;
use crate::volume::log_map::Piece;
use crate::volume::order::{Action, Error, Part, Tag};
use crate::volume::policy::Policy;
use crate::volume::record::PAYLOAD_BLOCKS_MAX;

/// Writes that wait for room behind those that have to, among which one is found that need not.
const DIVERTED_MAX: usize = 64;
/// Zeros are written to the disk in orders of this size.
const ZEROS_BYTES: u64 = 1 << 20;

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
}

/// A request of several writes.
#[derive(Clone, Debug)]
pub struct Split {
    /// Unfinished ones.
    left: usize,
    failed: bool,
    /// What the policy says of it, once it was asked.
    is_absorbed: Option<bool>,
}

/// A write that is not finished: a request, or the part of one that the guard hides or does not.
#[derive(Clone, Debug)]
pub struct Write {
    tag: Tag,
    /// Of the whole request.
    request: Range,
    pub range: Range,
    fua: bool,
    /// CRC32C of each block of payload; none: zeros.
    crcs: Option<Vec<u32>>,
    stage: Stage,
    /// Older writes that overlap.
    blockers: usize,
    /// Newer ones that wait for this.
    blocked: Vec<u64>,
    /// Records or orders that are missing.
    missing: usize,
    failed: bool,
}

impl Write {
    /// The parts that make bytes of the disk.
    pub fn part(&self, range: Range) -> Part {
        match self.crcs {
            Some(_) => {
                Part::Request { tag: self.tag, offset: range.offset - self.request.offset, length: range.length }
            }
            None => Part::Zeros(range.length),
        }
    }

    /// Whether the disk is being written, or will be as soon as nothing else is.
    pub fn holds_disk(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Bypassing)
    }
}

/// Checksums of the blocks of payload that hold `data`, zeros around it.
fn checksums(offset: u64, data: &[u8]) -> Vec<u32> {
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

impl<P: Policy> Engine<P> {
    /// A request to write `data`, or zeros.
    pub(super) fn write(&mut self, tag: Tag, request: Range, data: Option<&[u8]>, fua: bool) {
        // Zeros go to the log in any case.
        let cuts = if data.is_some() { self.cuts(request) } else { vec![request] };
        if cuts.len() > 1 {
            self.splits.insert(tag, Split { left: cuts.len(), failed: false, is_absorbed: None });
        }
        for range in cuts {
            let from = (range.offset - request.offset) as usize;
            let data = data.map(|data| &data[from..from + range.length as usize]);
            self.add_write(tag, request, range, data, fua);
        }
    }

    fn add_write(&mut self, tag: Tag, request: Range, range: Range, data: Option<&[u8]>, fua: bool) {
        self.writes_begun += 1;
        let id = self.writes_begun;
        let mut blockers = 0;
        for older in self.writes.values_mut().filter(|older| older.range.overlaps(range)) {
            older.blocked.push(id);
            blockers += 1;
        }
        let crcs = data.map(|data| checksums(range.offset, data));
        let stage = Stage::Blocked;
        let (blocked, missing, failed) = (Vec::new(), 0, false);
        let write = Write { tag, request, range, fua, crcs, stage, blockers, blocked, missing, failed };
        self.written_bytes += write.range.length;
        self.writes.insert(id, write);
        if blockers == 0 {
            self.begin_write(id);
        }
    }

    fn begin_write(&mut self, id: u64) {
        let range = self.writes[&id].range;
        self.cancel_copies(range);
        if self.flash_failed {
            // The log may name the range, and nothing can say that it no longer holds.
            self.end_write(id, false);
            return;
        }
        let is_zero = self.writes[&id].crcs.is_none();
        if self.absorbs() && (self.is_guarded(range) || is_zero || self.is_wanted(id)) {
            self.counters.absorbed(range.length);
            self.queue_write(id);
        } else {
            match self.absorbs() {
                true => self.counters.bypassed_unwanted(range.length),
                false => self.counters.bypassed_off(range.length),
            }
            self.writes.get_mut(&id).expect("it has just begun").stage = Stage::Waiting;
        }
    }

    /// Whether the policy absorbs the request of a write.
    fn is_wanted(&mut self, id: u64) -> bool {
        let (tag, request) = (self.writes[&id].tag, self.writes[&id].request);
        if let Some(known) = self.splits.get(&tag).and_then(|split| split.is_absorbed) {
            return known;
        }
        let load = self.load();
        let is_absorbed = self.policy.absorbs(request, &load);
        if let Some(split) = self.splits.get_mut(&tag) {
            split.is_absorbed = Some(is_absorbed);
        }
        is_absorbed
    }

    /// Cuts a write into what records have room for.
    fn queue_write(&mut self, id: u64) {
        let blocks_max = PAYLOAD_BLOCKS_MAX.min(u64::from(self.map.ring.blocks()) / 8);
        let write = self.writes.get_mut(&id).expect("it has begun");
        write.stage = Stage::Logging;
        let Some(crcs) = &write.crcs else {
            write.missing = 1;
            self.log_queue.push(Item { write: id, range: write.range, crcs: None, since: self.now });
            return;
        };
        let first = write.range.offset / BLOCK_BYTES;
        for (index, chunk) in crcs.chunks(blocks_max as usize).enumerate() {
            let blocks = Range::new((first + index as u64 * blocks_max) * BLOCK_BYTES, blocks_max * BLOCK_BYTES);
            let range = write.range.intersection(blocks);
            self.log_queue.push(Item { write: id, range, crcs: Some(chunk.to_vec()), since: self.now });
            write.missing += 1;
        }
    }

    /// A part of a write is in the log.
    pub(super) fn on_logged(&mut self, id: u64, ok: bool) {
        let write = self.writes.get_mut(&id).expect("it is unfinished");
        write.missing -= 1;
        write.failed |= !ok;
        if write.missing == 0 {
            let ok = !write.failed;
            self.end_write(id, ok);
        }
    }

    /// The first write in the log's queue that has waited for long enough goes to the disk
    /// instead, if nothing of it is in flight and it may.
    pub(super) fn divert(&mut self) -> bool {
        let wait = self.policy.waits_for_room(&self.load());
        let aged = self.log_queue.iter_by_age().take(DIVERTED_MAX).filter(|item| self.now.since(item.since) >= wait);
        let may = |item: &&Item| {
            let write = &self.writes[&item.write];
            write.missing == self.log_queue.count_of(item.write)
                && !write.failed
                && write.crcs.is_some()
                && !self.is_guarded(write.range)
        };
        let Some(id) = aged.filter(may).map(|item| item.write).next() else { return false };
        self.log_queue.remove_write(id);
        let write = self.writes.get_mut(&id).expect("it is unfinished");
        write.missing = 0;
        write.stage = Stage::Waiting;
        self.counters.diverted(write.range.length);
        self.moves += 1;
        true
    }

    pub(super) fn pump_writes(&mut self) {
        let waiting = self.writes.iter().filter(|(_, write)| write.stage == Stage::Waiting);
        let waiting: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        for id in waiting {
            let range = self.writes[&id].range;
            if self.disk_failed {
                self.end_write(id, false);
                continue;
            }
            if self.map.heads.touches(range) {
                if self.flash_failed {
                    self.end_write(id, false);
                } else {
                    self.end_heads(range);
                }
                continue;
            }
            let in_write_back = self.write_backs.values().any(|write_back| write_back.range().overlaps(range));
            // The log's extents there will be cut in two at most twice.
            let room = self.room_in_checkpoint() >= 4 * Piece::encoded_bytes(Range::default());
            if !in_write_back && room {
                self.bypass(id, range);
            }
        }
    }

    fn bypass(&mut self, id: u64, range: Range) {
        let is_zero = self.writes[&id].crcs.is_none();
        for cut in self.cuts(range) {
            let mut rest = cut;
            while !rest.is_empty() {
                let length = if is_zero { rest.length.min(ZEROS_BYTES) } else { rest.length };
                let part = Range::new(rest.offset, length);
                rest = Range::between(part.end(), rest.end());
                let parts = vec![self.writes[&id].part(part)];
                self.queue_disk(Action::Write(parts), part, Purpose::Bypass(vec![(id, part)]));
                self.writes.get_mut(&id).expect("it waits").missing += 1;
            }
        }
        self.writes.get_mut(&id).expect("it waits").stage = Stage::Bypassing;
    }

    /// Fails the first write that waits for room while nothing is under way that could make some; whether there was one.
    pub(super) fn fail_stalled(&mut self) -> bool {
        if !self.orders.is_empty() || self.next_timer().is_some() {
            return false;
        }
        let first = self.log_queue.iter_by_age().next().map(|item| item.write);
        if let Some(id) = first {
            (0..self.log_queue.remove_write(id)).for_each(|_| self.on_logged(id, false));
            return true;
        }
        let waits = |(id, write): (&u64, &Write)| (write.stage == Stage::Waiting).then_some(*id);
        let stalled = self.writes.iter().find_map(waits);
        stalled.inspect(|id| self.end_write(*id, false)).is_some()
    }

    /// One that was gathered of several and failed is tried again part by part: others' bad sectors are not theirs.
    pub(super) fn on_bypass(&mut self, parts: Vec<(u64, Range)>, ok: bool) {
        if ok || parts.len() == 1 {
            parts.into_iter().for_each(|(id, _)| self.on_bypassed(id, ok));
            return;
        }
        for (id, range) in parts {
            let action = Action::Write(vec![self.writes[&id].part(range)]);
            self.queue_disk_as(action, range, Purpose::Bypass(vec![(id, range)]), true);
        }
    }

    fn on_bypassed(&mut self, id: u64, ok: bool) {
        let write = self.writes.get_mut(&id).expect("it is unfinished");
        write.missing -= 1;
        write.failed |= !ok;
        self.disk_writes += 1;
        if write.missing > 0 {
            return;
        }
        let (range, ok) = (write.range, !write.failed);
        if ok {
            // Rule 1: no record of the range is in flight, so that all there are are older.
            let upto = self.seq_next - 1;
            if self.map.set_clean(range, upto) {
                self.owed.raise(range, upto);
            }
            self.stuck.carve(range);
        }
        // A bypass that failed may have written some of it, and reads may have seen that.
        self.bypassed = true;
        self.end_write(id, ok);
    }

    /// A write of a request has ended; whether the request has, and well.
    fn end_request(&mut self, tag: Tag, ok: bool) -> Option<bool> {
        let Some(split) = self.splits.get_mut(&tag) else { return Some(ok) };
        split.left -= 1;
        split.failed |= !ok;
        let ok = !split.failed;
        (split.left == 0).then(|| {
            self.splits.remove(&tag);
            ok
        })
    }

    /// Acknowledges a write, if it is the last of its request, and lets those behind it go on.
    fn end_write(&mut self, id: u64, ok: bool) {
        let write = self.writes.remove(&id).expect("it is unfinished");
        self.written_bytes -= write.range.length;
        self.cancel_copies(write.range);
        match (self.end_request(write.tag, ok), write.fua) {
            (None, _) => {}
            (Some(true), true) => self.add_flush(write.tag),
            (Some(true), false) => self.reply(write.tag, Ok(Vec::new())),
            (Some(false), _) => self.reply(write.tag, Err(Error::Io)),
        }
        for blocked in write.blocked {
            let next = self.writes.get_mut(&blocked).expect("it waits");
            next.blockers -= 1;
            if next.blockers == 0 {
                self.begin_write(blocked);
            }
        }
    }
}
