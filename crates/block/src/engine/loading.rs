//! Segments in memory: loads, and reads of what they bring.
//!
//! A load of a lifted segment orders its body from the disk in four sections and its head from flash, both at
//! once; so flash answers while the disk moves. Without a head the head's part is a section more of the
//! disk's. Whoever waits has his bytes as soon as their section has come. The buffers of these orders *are*
//! the buffer: they stay until the policy evicts the segment.
//!
//! *Valid* is, as of fetches, what the log did not have instead when the load began and no write has touched
//! since, neither one that was unfinished then.

use super::Engine;
use super::loads::{Found, Section};
use super::orders::Purpose;
use super::reads::Source;
use super::waiter::Begun;
use crate::devices::Device;
use crate::order::{Action, OrderId, Part, Tag};
use headstart_policy::server::{Policy, SegmentRead};
use headstart_units::BLOCK_BYTES;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

/// Sections of a body (the paper's four).
const SECTIONS: u64 = 4;

/// Where the first bytes of a part come from.
enum From {
    Buffer { order: OrderId, offset: u64 },
    Load { segment: u64, section: usize },
    Head,
    Disk,
}

impl<P: Policy> Engine<P> {
    /// Tells the policy of a read, loads what it wants and evicts what it gives up.
    pub(super) fn touch_segments(&mut self, range: Range) -> Begun {
        if self.in_force.segments().is_none() || self.condition.is_stopping() {
            return None;
        }
        let mut begun = None;
        for (segment, part) in self.in_force.segments().parts(range) {
            let wanted = self.policy.on_segment_read(SegmentRead { segment, part });
            if wanted.is_some_and(|wanted| self.begin_load(segment, wanted)) {
                let is_lifted = self.map.heads.live(self.head_range(segment)).is_some();
                let in_head = part.length == range.length && part.end() <= self.in_force.segments().head_bytes();
                begun = (is_lifted && in_head).then_some(segment);
            }
        }
        while let Some(segment) = self.policy.next_eviction() {
            self.evict(segment);
        }
        begun
    }

    /// Begins to load what is missing of a part of a segment; whether there is any. A head on flash comes as a whole.
    fn begin_load(&mut self, segment: u64, wanted: Range) -> bool {
        let whole =
            Range::new(segment * self.in_force.segments().segment_bytes(), self.in_force.segments().segment_bytes());
        let whole = Range::between(whole.offset, whole.end().min(self.in_force.disk_bytes()));
        let wanted = Range::new(whole.offset + wanted.offset, wanted.length).intersection(whole);
        let mut missing = Ranges::default();
        missing.insert(wanted, ());
        if let Some(load) = self.copies.loads.get_mut(segment) {
            load.keep(&mut missing);
        }
        if missing.is_empty() || self.condition.disk_failed() {
            return false;
        }
        let missing: Vec<Range> = missing.iter().map(|(range, ())| range).collect();
        missing.into_iter().for_each(|range| self.order_load(segment, range));
        self.counters.loads_total += 1;
        true
    }

    /// Orders a part of a segment of which nothing was ordered.
    fn order_load(&mut self, segment: u64, wanted: Range) {
        let head = self.head_range(segment).intersection(Range::new(0, self.in_force.disk_bytes()));
        let is_cut = self.copies.loads.get(segment).is_some_and(|load| load.has(head));
        let lifted = self.map.heads.live(head).filter(|live| live.range == head && head.overlaps(wanted) && !is_cut);
        let lifted = lifted.map(|live| (live.slot, live.crcs.to_vec()));
        let wanted = if lifted.is_some() { wanted.hull(head) } else { wanted };
        let mut valid = Ranges::default();
        valid.insert(wanted, ());
        for piece in self.map.pieces(wanted).into_iter().filter(|piece| piece.dirty) {
            valid.carve(piece.range);
        }
        for written in self.writes.overlapping(wanted) {
            valid.carve(written);
        }
        let body = Range::between(wanted.offset.max(head.end()), wanted.end());
        let of_head = head.intersection(wanted);
        let step = body.length.div_ceil(SECTIONS).next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES);
        let starts = (body.offset..body.end()).step_by(step as usize);
        let parts = starts.map(|at| Range::between(at, (at + step).min(body.end())));
        let of_disk = (lifted.is_none() && !of_head.is_empty()).then_some(of_head).into_iter().chain(parts);
        let mut sections = Vec::new();
        for range in of_disk.flat_map(|range| self.in_force.cuts(range)).collect::<Vec<_>>() {
            let order = self.queue_disk(Action::Read, range, Purpose::LoadFromDisk(segment));
            self.counters.loaded_disk_bytes_total += range.length;
            sections.push(Section::of_disk(range, order));
        }
        if let Some((slot, crcs)) = lifted {
            self.copies.slots.pin(slot);
            let order = self.orders.name();
            let place = Range::new(self.slot_offset(slot), head.length);
            self.copies.read_head_later(order, place, Purpose::LoadFromFlash(segment));
            self.counters.loaded_head_bytes_total += head.length;
            sections.push(Section::of_head(head, order, slot, crcs));
        }
        self.copies.loads.begin(segment).begin(sections, &valid);
    }

    /// Flash gets its orders behind the disk, which takes longer.
    pub(super) fn pump_loads(&mut self) {
        for (order, range, purpose) in self.copies.take_head_reads() {
            self.emit(order, Device::Flash, Action::Read, range, purpose);
        }
        if self.condition.is_stopping() && self.reads.is_empty() {
            self.evict_all();
        }
    }

    pub(super) fn on_load(&mut self, segment: u64, order: OrderId, result: Result<&[u8], ()>) {
        let ended = self.copies.loads.of(segment).end_read(order, result);
        let range = ended.range;
        self.counters.seeks_hidden_total += u64::from(ended.hides_seek);
        self.orders.hold(order);
        for waiter in ended.waiters {
            let is_valid = self.copies.loads.of(segment).is_valid(waiter.range);
            let part = is_valid.then(|| self.hold(order, waiter.range.offset - range.offset, waiter.range.length));
            self.on_fetched(waiter, part);
        }
        if let Some(slot) = ended.slot {
            self.copies.slots.unpin(slot);
            if !ended.is_good {
                self.drop_bad_head(range, slot);
            }
        } else if let Ok(data) = result
            && range == self.head_range(segment)
            && self.copies.loads.of(segment).is_valid(range)
        {
            self.lift_from_load(segment, order, data);
        }
        if !ended.is_good {
            self.orders.release(order);
        }
        if self.copies.loads.may_leave(segment) {
            self.evict(segment);
        }
    }

    /// A part of a buffer that is held for somebody.
    fn hold(&mut self, order: OrderId, offset: u64, length: u64) -> Part {
        self.orders.share(order);
        Part::Buffer { order, offset, length }
    }

    /// A segment leaves the buffer, once it is there.
    fn evict(&mut self, segment: u64) {
        self.copies.loads.evict(segment).into_iter().for_each(|order| self.orders.release(order));
    }

    pub(super) fn evict_all(&mut self) {
        self.copies.loads.segments().into_iter().for_each(|segment| self.evict(segment));
    }

    /// What is neither in the log nor staged: from the buffer, a load under way, a head, or else.
    pub(super) fn plan_segments(&mut self, tag: Tag, range: Range, begun: Begun) {
        let mut at = range.offset;
        let mut disk = Range::between(at, at);
        while at < range.end() {
            let (part, from) = self.source_of(Range::between(at, range.end()), begun);
            at = part.end();
            if let From::Disk = from {
                disk = Range::between(if disk.is_empty() { part.offset } else { disk.offset }, part.end());
                continue;
            }
            if !disk.is_empty() {
                self.plan_disk(tag, disk);
                disk = Range::between(at, at);
            }
            match from {
                From::Buffer { order, offset } => {
                    self.counters.buffer_read_bytes_total += part.length;
                    let held = self.hold(order, offset, part.length);
                    let segment = self.reads.of(tag).add_segment();
                    self.reads.of(tag).push(segment, held);
                }
                From::Load { segment, section } => {
                    self.counters.buffer_read_bytes_total += part.length;
                    let waiter = self.wait(tag, part);
                    self.copies.loads.of(segment).wait(section, waiter);
                }
                From::Head => self.plan_head(tag, part),
                From::Disk => unreachable!("parts of the disk were put together"),
            }
        }
        if !disk.is_empty() {
            self.plan_disk(tag, disk);
        }
    }

    /// The first part of a range that comes from one place, and which.
    fn source_of(&self, range: Range, begun: Begun) -> (Range, From) {
        let segment = range.offset / self.in_force.segments().segment_bytes();
        let end = ((segment + 1) * self.in_force.segments().segment_bytes()).min(range.end());
        let range = Range::between(range.offset, end);
        let found = self.copies.loads.get(segment).and_then(|load| load.find(range, begun == Some(segment)));
        match found {
            Some((part, Found::Buffer { order, offset })) => (part, From::Buffer { order, offset }),
            Some((part, Found::Coming { section })) => (part, From::Load { segment, section }),
            Some((part, Found::Nowhere)) => self.source_apart(part),
            None => self.source_apart(range),
        }
    }

    fn source_apart(&self, range: Range) -> (Range, From) {
        match self.map.heads.live(range) {
            Some(head) if head.range.offset <= range.offset => (range.intersection(head.range), From::Head),
            Some(head) => (Range::between(range.offset, head.range.offset), From::Disk),
            None => (range, From::Disk),
        }
    }

    /// Reads a part of a head from its slot.
    fn plan_head(&mut self, tag: Tag, part: Range) {
        let head = self.map.heads.live(part).expect("it was found");
        let down = part.offset / BLOCK_BYTES * BLOCK_BYTES;
        let blocks = Range::between(down, part.end().next_multiple_of(BLOCK_BYTES));
        let (slot, crcs) = (head.slot, head.crcs_of(blocks).to_vec());
        let at = self.slot_offset(slot) + (blocks.offset - head.range.offset);
        self.copies.slots.pin(slot);
        self.counters.head_read_bytes_total += part.length;
        self.plan_copy(tag, part, at, Source::Head(slot), crcs);
    }
}
