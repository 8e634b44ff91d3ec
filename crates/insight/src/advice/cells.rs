//! What ranks ask of regions: one cell for each rank, region and kind of request, with what its requests ask
//! of the disks and would ask of flash.
//!
//! Cells are bounded: when there are too many, ranks are taken in pairs of two, and so on; what a group's
//! cells hold is shared among its members. Requests that lie in several regions are kept apart, by place and
//! length, as what they ask depends on where they are cut; when there are too many different ones they count
//! as wholly of the region that has most of them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::plan::prediction::Portion;
use headstart_policy::cost::region::Costs;
use headstart_policy::cost::region::gain_table::parts;
use headstart_units::request::{Access, Direction, Range};

/// Cells at most while there is more than one group of ranks, some 400 bytes each with eight disks and four
/// flash servers.
const CELLS_MAX: usize = 1 << 18;

/// Different requests over several regions at most, and regions of all of them.
const CROSSINGS_MAX: usize = 1 << 16;
const CROSSED_MAX: u64 = 1 << 20;

/// What kind of request: which half of the trace it belongs to, its direction, and whether S4D finds it critical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    /// Which half.
    pub half: u8,
    /// Reading or writing.
    pub direction: Direction,
    /// By S4D's cost model.
    pub is_critical: bool,
}

/// Whose, where and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellId {
    /// Group of ranks.
    pub group: u32,
    /// File and number of the region.
    pub region: (u32, u64),
    /// Which kind.
    pub kind: Kind,
}

/// A request over several regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrossingId {
    /// Group of ranks.
    pub group: u32,
    /// The file.
    pub file: u32,
    /// Its place.
    pub range: Range,
    /// Which kind.
    pub kind: Kind,
}

/// How often a request over several regions was there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crossing {
    /// With times.
    pub timed: u64,
    /// What those took together, seconds.
    pub latency_s: f64,
    /// Without times.
    pub untimed: u64,
}

/// Cells, and requests over several regions.
pub(crate) type Finished = (Vec<(CellId, Portion)>, Vec<(CrossingId, Crossing)>);

/// See the module.
#[derive(Debug)]
pub(super) struct Cells {
    costs: Costs,
    /// A group is this many bits of a rank's number less.
    shift: u32,
    places: FxHashMap<CellId, u32>,
    portions: Vec<Portion>,
    /// The last cell of each group and half: programs stay in a region for a while.
    recent: BTreeMap<(u32, u8), (CellId, u32)>,
    crossings: BTreeMap<CrossingId, Crossing>,
    crossed: u64,
    /// Requests over several regions that were taken as of one.
    rounded: u64,
}

impl Cells {
    /// None yet.
    pub(crate) fn new(costs: Costs) -> Cells {
        Cells {
            costs,
            shift: 0,
            places: FxHashMap::default(),
            portions: Vec::new(),
            recent: BTreeMap::new(),
            crossings: BTreeMap::new(),
            crossed: 0,
            rounded: 0,
        }
    }

    /// Adds a request to a file with such regions.
    pub(crate) fn add(&mut self, access: &Access, kind: Kind, region_bytes: u64) {
        let Range { offset, length } = access.range;
        let (first, last) = (offset / region_bytes, (access.range.end() - 1) / region_bytes);
        let group = access.rank >> self.shift;
        let latency_s = (access.end > access.start).then(|| access.end.since(access.start).seconds());
        if first == last {
            let id = CellId { group, region: (access.file, first), kind };
            return self.add_to(id, access.range, latency_s);
        }
        let id = CrossingId { group, file: access.file, range: access.range, kind };
        let is_full = self.crossings.len() >= CROSSINGS_MAX || self.crossed + (last - first) > CROSSED_MAX;
        if is_full && !self.crossings.contains_key(&id) {
            let most = parts(access.range, region_bytes).take(3).max_by_key(|(_, part)| part.length);
            self.rounded += 1;
            let region = most.map_or(first, |(number, _)| number);
            return self.add_to(
                CellId { group, region: (access.file, region), kind },
                Range::new(offset, length),
                latency_s,
            );
        }
        let crossing = self.crossings.entry(id).or_default();
        if crossing.timed + crossing.untimed == 0 {
            self.crossed += last - first;
        }
        match latency_s {
            Some(latency_s) => {
                (crossing.timed, crossing.latency_s) = (crossing.timed + 1, crossing.latency_s + latency_s)
            }
            None => crossing.untimed += 1,
        }
    }

    fn add_to(&mut self, id: CellId, range: Range, latency_s: Option<f64>) {
        let place = self.place(id);
        let parameters = self.costs.of(id.kind.direction);
        let portion = &mut self.portions[place as usize];
        portion.add_disk(range, parameters, latency_s.unwrap_or_else(|| parameters.disk_s(range.length)));
        portion.add_flash(id.kind.direction, range, parameters);
    }

    fn place(&mut self, id: CellId) -> u32 {
        let key = (id.group, id.kind.half);
        if let Some((recent, place)) = self.recent.get(&key)
            && *recent == id
        {
            return *place;
        }
        if self.places.len() >= CELLS_MAX && id.group > 0 {
            self.coarsen();
            return self.place(CellId { group: id.group >> 1, ..id });
        }
        let next = self.portions.len() as u32;
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            self.portions.push(Portion::default());
        }
        self.recent.insert(key, (id, place));
        place
    }

    /// Takes the groups two by two.
    pub(crate) fn coarsen(&mut self) {
        self.shift += 1;
        self.recent.clear();
        let cells = std::mem::take(&mut self.portions);
        let mut ids: Vec<(CellId, u32)> = self.places.drain().collect();
        ids.sort_unstable();
        for (id, old) in ids {
            let place = self.place_of(CellId { group: id.group >> 1, ..id });
            self.portions[place].add_share(&cells[old as usize], 1.0);
        }
        for (id, crossing) in std::mem::take(&mut self.crossings) {
            let sum = self.crossings.entry(CrossingId { group: id.group >> 1, ..id }).or_default();
            sum.timed += crossing.timed;
            sum.latency_s += crossing.latency_s;
            sum.untimed += crossing.untimed;
        }
    }

    fn place_of(&mut self, id: CellId) -> usize {
        let next = self.portions.len() as u32;
        let place = *self.places.entry(id).or_insert(next);
        if place == next {
            self.portions.push(Portion::default());
        }
        place as usize
    }

    /// A group is this many bits of a rank's number less.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Requests over several regions that were taken as of one.
    pub(crate) fn rounded(&self) -> u64 {
        self.rounded
    }

    /// The cells in the order of their names, and the requests over several regions.
    pub(crate) fn finish(mut self) -> Finished {
        let mut ids: Vec<(CellId, u32)> = self.places.drain().collect();
        ids.sort_unstable();
        let cells = ids.into_iter().map(|(id, place)| (id, std::mem::take(&mut self.portions[place as usize])));
        (cells.collect(), self.crossings.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headstart_units::Nanos;

    const READ: Kind = Kind { half: 0, direction: Direction::Read, is_critical: true };

    fn access(rank: u32, offset: u64, length: u64) -> Access {
        let (direction, range) = (Direction::Read, Range::new(offset, length));
        Access { file: 0, rank, direction, range, start: Nanos(5), end: Nanos(9), without_flash: true }
    }

    #[test]
    fn groups_of_ranks_have_what_their_members_had() {
        let mut cells = Cells::new(Costs::of_a_test());
        for rank in 0..4 {
            cells.add(&access(rank, 0, 4096), READ, 1 << 20);
            cells.add(&access(rank, (1 << 20) - 10, 20), READ, 1 << 20);
        }
        cells.coarsen();
        cells.add(&access(3, 0, 4096), READ, 1 << 20);
        let (cells, crossings) = cells.finish();
        let of: Vec<(u32, f64)> = cells.iter().map(|(id, portion)| (id.group, portion.disk.requests)).collect();
        assert_eq!(of, [(0, 2.0), (1, 3.0)]);
        assert_eq!(crossings.iter().map(|(_, crossing)| crossing.timed).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn cells_are_bounded_by_taking_ranks_together() {
        let mut cells = Cells::new(Costs::of_a_test());
        for rank in 0..1024 {
            for region in 0..512 {
                cells.add(&access(rank, region << 20, 4096), READ, 1 << 20);
            }
        }
        assert!(cells.places.len() <= CELLS_MAX && cells.shift() >= 1, "{} {}", cells.places.len(), cells.shift());
        let requests: f64 = cells.finish().0.iter().map(|(_, portion)| portion.disk.requests).sum();
        assert_eq!(requests, 1024.0 * 512.0);
    }

    #[test]
    fn too_many_different_requests_over_borders_count_as_of_one_region() {
        let mut cells = Cells::new(Costs::of_a_test());
        let count = CROSSINGS_MAX as u64 + 7;
        (0..count).for_each(|k| cells.add(&access(0, (k << 20) + (1 << 19), 1 << 20), READ, 1 << 20));
        assert_eq!((cells.rounded(), cells.finish().1.len()), (7, CROSSINGS_MAX));
    }
}
