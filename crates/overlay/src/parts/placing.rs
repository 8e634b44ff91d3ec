//! The regions of all files in order of what they gain, where placing them stands, and which the programs choose
//! themselves.

use std::collections::BTreeSet;

use headstart_policy::client::carl::Wanted;
use headstart_units::Nanos;
use headstart_units::request::Range;

use super::online::Online;

/// Regions in order of their gain per byte, then address: gain per byte, file, offset.
pub(crate) type Rank = (u64, u32, u64);

/// More than any region's.
const FIRST: Rank = (u64::MAX, u32::MAX, u64::MAX);

/// The rank of a region.
pub(crate) fn rank(file: u32, region: &Wanted) -> Rank {
    (region.density(), file, region.range.offset)
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    ranks: BTreeSet<Rank>,
    /// No region below this one has clean extents.
    giving: Rank,
    /// Regions are being placed.
    on: bool,
    /// This pass has come to this region, and so far in its file; none if it begins with the first.
    at: Option<(Rank, u64)>,
    /// A copy of this pass came to nothing as somebody wrote.
    missed: bool,
    /// Regions follow what programs read.
    online: Option<Online>,
}

impl Placing {
    /// A region belongs on flash.
    pub(crate) fn insert(&mut self, file: u32, region: &Wanted) {
        self.ranks.insert(rank(file, region));
    }

    /// It no longer does.
    pub(crate) fn remove(&mut self, file: u32, region: &Wanted) {
        self.ranks.remove(&rank(file, region));
    }

    /// Whether any does.
    pub(crate) fn has_regions(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// Begins to place all that is missing, or ends that.
    pub(crate) fn begin(&mut self, on: bool) {
        (self.on, self.at, self.missed) = (on, None, false);
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.on = false;
    }

    /// Whether regions are being placed.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A copy came to nothing.
    pub(crate) fn miss(&mut self) {
        self.missed = true;
    }

    /// Nothing of this pass is left or under way: there is another one if a copy came to nothing.
    pub(crate) fn end_pass(&mut self) {
        (self.on, self.at) = (std::mem::take(&mut self.missed), None);
    }

    /// The pass has come to this offset of a region's file.
    pub(crate) fn go_on_at(&mut self, rank: Rank, offset: u64) {
        self.at = Some((rank, offset));
    }

    /// The regions that it has not come through, most gain first, and where each goes on.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (Rank, u64)> + '_ {
        let (first, from) = self.at.unwrap_or((FIRST, 0));
        self.ranks.range(..=first).rev().map(move |rank| (*rank, if *rank == first { from } else { 0 }))
    }

    /// A region has something on flash, which may be clean.
    pub(crate) fn may_give(&mut self, file: u32, region: &Wanted) {
        self.giving = self.giving.min(rank(file, region));
    }

    /// All regions, from the one on that is looked at first for what gives way.
    pub(crate) fn giving(&self) -> impl Iterator<Item = Rank> + '_ {
        self.ranks.range(self.giving..).chain(self.ranks.range(..self.giving)).copied()
    }

    /// No region below this one has clean extents.
    pub(crate) fn give_from(&mut self, rank: Rank) {
        self.giving = rank;
    }

    /// Regions follow what programs read from now on, at these costs, or no longer.
    pub(crate) fn set_online(&mut self, online: Option<Online>) {
        self.online = online;
    }

    /// D-CARL taken out, if regions follow what programs read.
    pub(crate) fn take_online(&mut self) -> Option<Online> {
        self.online.take()
    }

    /// The same if it is time to decide.
    pub(crate) fn take_online_if_due(&mut self, now: Nanos) -> Option<Online> {
        self.online.take_if(|online| online.is_due(now))
    }

    /// Whether regions follow what programs read.
    pub(crate) fn is_following(&self) -> bool {
        self.online.is_some()
    }

    /// A program reads of a file that is so long.
    pub(crate) fn note_read(&mut self, now: Nanos, file: u32, size: u64, range: Range) {
        if let Some(online) = &mut self.online {
            online.note_read(now, file, size, range);
        }
    }

    /// The file is forgotten, and with it what was to be moved of it.
    pub(crate) fn forget_file(&mut self, file: u32) {
        if let Some(online) = &mut self.online {
            online.forget_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64, gain_ns: u64) -> Wanted {
        Wanted { range: Range::new(offset, 1000), benefit_ns: 1, gain_ns }
    }

    fn offsets(ranks: impl Iterator<Item = Rank>) -> Vec<u64> {
        ranks.map(|(_, _, offset)| offset).collect()
    }

    fn three() -> Placing {
        let mut placing = Placing::default();
        [(0, 20_000_000), (1000, 30_000_000), (2000, 10_000_000)]
            .iter()
            .for_each(|(offset, gain_ns)| placing.insert(1, &region(*offset, *gain_ns)));
        placing
    }

    #[test]
    fn regions_are_placed_most_gain_first_and_a_pass_goes_on_where_it_was() {
        let mut placing = three();
        placing.begin(true);
        assert_eq!(offsets(placing.rest().map(|(rank, _)| rank)), [1000, 0, 2000]);
        placing.go_on_at(rank(1, &region(0, 20_000_000)), 500);
        let rest: Vec<(u64, u64)> = placing.rest().map(|((_, _, offset), from)| (offset, from)).collect();
        assert_eq!(rest, [(0, 500), (2000, 0)]);
        placing.miss();
        placing.end_pass();
        assert!(placing.is_on() && placing.rest().count() == 3, "what was missed is tried again");
        placing.end_pass();
        assert!(!placing.is_on());
    }

    #[test]
    fn what_gives_way_is_looked_for_from_the_least_gain_on_that_may_have_any() {
        let mut placing = three();
        assert_eq!(offsets(placing.giving()), [2000, 0, 1000]);
        placing.give_from(rank(1, &region(0, 20_000_000)));
        assert_eq!(offsets(placing.giving()), [0, 1000, 2000]);
        placing.may_give(1, &region(2000, 10_000_000));
        assert_eq!(offsets(placing.giving()), [2000, 0, 1000]);
        placing.remove(1, &region(0, 20_000_000));
        assert_eq!(offsets(placing.giving()), [2000, 1000]);
    }
}
