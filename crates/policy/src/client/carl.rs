//! CARL (2013): the regions of a file with the highest gains belong on flash, whoever asks for their bytes.
//!
//! A plan made from a trace holds the gain table (RGT, [`crate::cost::region::gain_table`]). What is on flash
//! already says the map (the paper's RMT is the extent map). Algorithm 1 decides at the first request to a
//! region that has no place yet; [`allocate`] is its outcome, known beforehand, so that every process decides
//! alike without asking:
//!
//! ```text
//!  2- 8   a region with a place is served there                    the map
//! 11-14   c = free flash, the top n regions by gain without place   selection::select
//! 16-21   the request's region is among them, gain > 0: to flash    Regions::on_request
//! 22-25   else to disk                                              Decision::Pass: the next policy is asked
//! ```

pub mod selection;

use super::{Decision, FetchTurn, Policy};
use crate::client::Request;
use headstart_units::request::{Direction, Range};

/// A region that belongs on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its bytes.
    pub range: Range,
    /// What flash saves of one request to it, nanoseconds, on average.
    pub benefit_ns: u64,
    /// What flash saves of all of them, nanoseconds: which region goes first where not all fit.
    pub gain_ns: u64,
}

impl Wanted {
    /// Gain per byte, in nanoseconds per MiB.
    pub fn density(&self) -> u64 {
        let density = (u128::from(self.gain_ns) << 20) / u128::from(self.range.length.max(1));
        u64::try_from(density).unwrap_or(u64::MAX)
    }
}

/// The regions of one file that are on flash or belong there; `carl` and `random` differ only in how they are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// By offset, disjoint, none empty.
    regions: Vec<Wanted>,
}

impl Regions {
    /// None.
    pub const NONE: Regions = Regions { regions: Vec::new() };

    /// From regions in any order.
    ///
    /// # Panics
    /// If two of them share bytes: a plan with such regions is refused before.
    pub fn new(regions: impl IntoIterator<Item = Wanted>) -> Regions {
        let mut regions: Vec<Wanted> = regions.into_iter().filter(|region| !region.range.is_empty()).collect();
        regions.sort_unstable_by_key(|region| region.range);
        let disjoint = regions.windows(2).all(|pair| pair[0].range.end() <= pair[1].range.offset);
        assert!(disjoint, "regions of a file share no byte");
        Regions { regions }
    }

    /// Those regions, by offset.
    pub fn iter(&self) -> impl Iterator<Item = Wanted> + '_ {
        self.regions.iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The region that holds `offset`.
    pub fn holding(&self, offset: u64) -> Option<&Wanted> {
        self.from(offset).filter(|region| region.range.offset <= offset)
    }

    /// Adds one, in place of those it shares bytes with.
    pub fn put(&mut self, region: Wanted) {
        let at = self.remove(region.range);
        self.regions.insert(at, region);
    }

    /// Removes those that share bytes with `range`; how many lie before it.
    pub fn remove(&mut self, range: Range) -> usize {
        let before = self.regions.partition_point(|region| region.range.end() <= range.offset);
        let shared = self.regions[before..].partition_point(|region| region.range.offset < range.end());
        self.regions.drain(before..before + shared);
        before
    }

    /// Those that begin at `offset` or behind it.
    pub fn beginning_from(&self, offset: u64) -> &[Wanted] {
        &self.regions[self.regions.partition_point(|region| region.range.offset < offset)..]
    }

    /// The region that holds `offset`, or the next one.
    fn from(&self, offset: u64) -> Option<&Wanted> {
        self.regions.get(self.regions.partition_point(|region| region.range.end() <= offset))
    }
}

impl Policy for Regions {
    fn on_request(&self, request: &Request) -> Decision {
        let region = self.holding(request.range.offset);
        match (region, request.direction) {
            (None, _) => Decision::Pass,
            (Some(region), Direction::Write) => Decision::Flash { benefit_ns: region.benefit_ns.max(1) },
            (Some(region), Direction::Read) => {
                Decision::Fetch { benefit_ns: region.benefit_ns.max(1), turn: FetchTurn::Soon }
            }
        }
    }

    fn bound(&self, range: Range) -> u64 {
        match self.from(range.offset) {
            Some(region) if region.range.offset <= range.offset => region.range.end().min(range.end()),
            Some(next) => next.range.offset.min(range.end()),
            None => range.end(),
        }
    }
}

#[cfg(test)]
mod tests;
