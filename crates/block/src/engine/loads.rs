//! Segments in memory, or on their way there.
//!
//! ```text
//! Reading --the order ends--> Ready --evicted--> released
//!    |  reads wait for it      |  reads take parts of it
//!    '--failed, or not what its checksums say--> Lost: reads go elsewhere
//! ```

use std::collections::BTreeMap;

use super::payload::matches;
use super::waiter::Waiter;
use crate::order::OrderId;
use headstart_units::ranges::Ranges;
use headstart_units::request::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reading,
    Ready,
    Lost,
}

/// A part of a segment that one order reads.
#[derive(Clone, Debug)]
pub(super) struct Section {
    range: Range,
    order: OrderId,
    stage: Stage,
    waiters: Vec<Waiter>,
    /// From flash: the slot, pinned, and its checksums.
    head: Option<(u32, Vec<u32>)>,
}

impl Section {
    /// What the disk reads.
    pub(super) fn of_disk(range: Range, order: OrderId) -> Section {
        Section { range, order, stage: Stage::Reading, waiters: Vec::new(), head: None }
    }

    /// A head that flash reads.
    pub(super) fn of_head(range: Range, order: OrderId, slot: u32, crcs: Vec<u32>) -> Section {
        Section { range, order, stage: Stage::Reading, waiters: Vec::new(), head: Some((slot, crcs)) }
    }
}

/// What a section was when its order ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub range: Range,
    pub waiters: Vec<Waiter>,
    /// The slot it was read from.
    pub slot: Option<u32>,
    /// Whether its bytes are there.
    pub is_good: bool,
    /// A head was there before the first part of the body: the disk's way to it is hidden.
    pub hides_seek: bool,
}

/// Where the first bytes of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In a buffer, from this byte on.
    Buffer { order: OrderId, offset: u64 },
    /// On their way, in this section.
    Coming { section: usize },
    /// Nowhere in memory.
    Nowhere,
}

/// A segment in memory, or on its way there.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadedSegment {
    sections: Vec<Section>,
    /// What is the newest there is.
    valid: Ranges<()>,
    reading: usize,
    is_evicted: bool,
}

impl LoadedSegment {
    /// Whether a byte of a range is there, or was lost.
    pub(super) fn has(&self, range: Range) -> bool {
        self.sections.iter().any(|section| section.range.overlaps(range))
    }

    /// It stays; what it has of a range is taken out of `missing`.
    pub(super) fn keep(&mut self, missing: &mut Ranges<()>) {
        self.is_evicted = false;
        self.sections.iter().for_each(|section| _ = missing.carve(section.range));
    }

    /// More of it is being read, of which this is valid.
    pub(super) fn begin(&mut self, sections: Vec<Section>, valid: &Ranges<()>) {
        self.reading += sections.len();
        self.sections.extend(sections);
        valid.iter().for_each(|(range, ())| self.valid.insert(range, ()));
    }

    /// Whether all of a range is valid.
    pub(super) fn is_valid(&self, range: Range) -> bool {
        let covered: u64 = self.valid.overlapping(range).map(|(held, _)| held.intersection(range).length).sum();
        covered == range.length
    }

    /// A read waits for a section.
    pub(super) fn wait(&mut self, section: usize, waiter: Waiter) {
        self.sections[section].waiters.push(waiter);
    }

    /// The order of a section has ended.
    pub(super) fn end_read(&mut self, order: OrderId, result: Result<&[u8], ()>) -> Ended {
        self.reading -= 1;
        let index = self.sections.iter().position(|section| section.order == order).expect("it reads this");
        let section = &mut self.sections[index];
        let (range, head) = (section.range, section.head.take());
        let waiters = std::mem::take(&mut section.waiters);
        let is_good = match (&result, &head) {
            (Ok(data), Some((_, crcs))) => matches(data, crcs),
            (result, _) => result.is_ok(),
        };
        section.stage = if is_good { Stage::Ready } else { Stage::Lost };
        if !is_good {
            self.valid.carve(range);
        }
        let mut others = self.sections.iter().enumerate().filter(|(other, _)| *other != index);
        let hides_seek = head.is_some() && is_good && others.all(|(_, other)| other.stage == Stage::Reading);
        Ended { range, waiters, slot: head.map(|(slot, _)| slot), is_good, hides_seek }
    }

    /// The first part of a range that is in one place, and where. Who began the load does not wait for a
    /// head as a whole.
    pub(super) fn find(&self, range: Range, has_begun_it: bool) -> Option<(Range, Found)> {
        let covers = |section: &Section| section.range.contains(Range::new(range.offset, 1));
        let index = self.sections.iter().position(covers)?;
        let section = &self.sections[index];
        let part = range.intersection(section.range);
        let is_alone = has_begun_it && section.head.is_some();
        let found = match section.stage {
            Stage::Ready if self.is_valid(part) => {
                Found::Buffer { order: section.order, offset: part.offset - section.range.offset }
            }
            Stage::Reading if self.is_valid(part) && !is_alone => Found::Coming { section: index },
            Stage::Reading | Stage::Ready | Stage::Lost => Found::Nowhere,
        };
        Some((part, found))
    }
}

/// All of them, by segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Loads(BTreeMap<u64, LoadedSegment>);

impl Loads {
    /// A segment, if anything of it is or was to be there.
    pub(super) fn get(&self, segment: u64) -> Option<&LoadedSegment> {
        self.0.get(&segment)
    }

    /// Likewise.
    pub(super) fn get_mut(&mut self, segment: u64) -> Option<&mut LoadedSegment> {
        self.0.get_mut(&segment)
    }

    /// A segment of which something is being read.
    pub(super) fn of(&mut self, segment: u64) -> &mut LoadedSegment {
        self.0.get_mut(&segment).expect("it stays while it is read")
    }

    /// A segment of which something will be.
    pub(super) fn begin(&mut self, segment: u64) -> &mut LoadedSegment {
        self.0.entry(segment).or_default()
    }

    /// A write of `range` begins or ends.
    pub(super) fn cancel(&mut self, range: Range) {
        self.0.values_mut().for_each(|load| _ = load.valid.carve(range));
    }

    /// A segment is to leave memory. As soon as nothing of it is being read it does, and these are the
    /// orders whose buffers go.
    pub(super) fn evict(&mut self, segment: u64) -> Vec<OrderId> {
        let Some(load) = self.0.get_mut(&segment) else { return Vec::new() };
        load.is_evicted = true;
        if load.reading > 0 {
            return Vec::new();
        }
        let load = self.0.remove(&segment).expect("it was there");
        let ready = load.sections.iter().filter(|section| section.stage == Stage::Ready);
        ready.map(|section| section.order).collect()
    }

    /// Whether a segment was to leave and can by now.
    pub(super) fn may_leave(&self, segment: u64) -> bool {
        let load = &self.0[&segment];
        load.is_evicted && load.reading == 0
    }

    /// All segments.
    pub(super) fn segments(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(range: Range) -> Ranges<()> {
        let mut valid = Ranges::default();
        valid.insert(range, ());
        valid
    }

    fn loads() -> Loads {
        let mut loads = Loads::default();
        let head = Section::of_head(Range::new(0, 4096), 1, 9, vec![crc32c::crc32c(&[3; 4096])]);
        let body = Section::of_disk(Range::new(4096, 8192), 2);
        loads.begin(0).begin(vec![body, head], &valid(Range::new(0, 12288)));
        loads
    }

    #[test]
    fn a_segment_that_is_evicted_while_it_is_read_leaves_afterwards() {
        let mut loads = loads();
        assert_eq!(loads.evict(0), []);
        assert!(loads.of(0).end_read(1, Ok(&[3; 4096])).hides_seek && !loads.may_leave(0));
        let ended = loads.of(0).end_read(2, Err(()));
        assert!(!ended.is_good && !ended.hides_seek && loads.may_leave(0));
        assert_eq!(loads.evict(0), [1], "what was lost has no buffer");
        assert!(loads.segments().is_empty());
    }

    #[test]
    fn a_part_is_found_where_it_is_or_comes_and_what_was_written_is_not() {
        let mut loads = loads();
        let find =
            |loads: &Loads, offset, begun| loads.get(0).and_then(|load| load.find(Range::new(offset, 512), begun));
        assert_eq!(
            find(&loads, 512, true).map(|(_, found)| found),
            Some(Found::Nowhere),
            "it reads the head's part itself"
        );
        assert_eq!(find(&loads, 512, false).map(|(_, found)| found), Some(Found::Coming { section: 1 }));
        assert!(!loads.of(0).end_read(1, Ok(&[4; 4096])).is_good, "the slot does not hold what it should");
        loads.of(0).end_read(2, Ok(&[0; 8192]));
        assert_eq!(find(&loads, 5120, false).map(|(_, found)| found), Some(Found::Buffer { order: 2, offset: 1024 }));
        loads.cancel(Range::new(5000, 300));
        assert_eq!(find(&loads, 5120, false).map(|(_, found)| found), Some(Found::Nowhere));
        assert_eq!(
            (find(&loads, 0, false).map(|(_, found)| found), find(&loads, 12288, false)),
            (Some(Found::Nowhere), None)
        );
    }
}
