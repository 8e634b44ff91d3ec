//! The one pass over the requests.

use std::collections::BTreeMap;

use super::cells::{CellId, Cells, Crossing, CrossingId, Kind};
use super::pictures::Pictures;
use super::report::{CriticalCosts, REGIONS_MAX};
use super::reuse::{Residence, Reuse};
use crate::plan::planning::{Survey, Surveyed};
use crate::plan::prediction::{Portion, Presence};
use crate::plan::{PlanningError, TracedFile};
use headstart_policy::client::Request;
use headstart_policy::client::s4d::S4d;
use headstart_policy::client::{Decision, Policy};
use headstart_policy::cost::region::Costs;
use headstart_units::request::{Access, Direction};

/// Groups of ranks at the end: the network is solved for each in thousands of rounds.
const GROUPS_MAX: usize = 32;

/// See the module.
pub(crate) struct Collector {
    costs: Costs,
    critical: S4d,
    survey: Survey,
    cells: Cells,
    reuse: Reuse,
    pictures: Pictures,
    /// Of each rank.
    ranks: Vec<Presence>,
    requests: u64,
    timed: u64,
}

/// What was collected.
pub(crate) struct Collected {
    pub costs: Costs,
    pub surveyed: Surveyed,
    pub cells: Vec<(CellId, Portion)>,
    pub crossings: Vec<(CrossingId, Crossing)>,
    pub residence: Residence,
    pub pictures: Pictures,
    /// Of each group of ranks.
    pub presences: BTreeMap<u32, Presence>,
    pub ranks: u64,
    pub requests: u64,
    pub timed: u64,
    pub rounded: u64,
}

impl Collector {
    pub(crate) fn new(costs: &Costs, critical: &CriticalCosts) -> Collector {
        let CriticalCosts { read, write } = critical.clone();
        Collector {
            costs: costs.clone(),
            critical: S4d { read, write },
            survey: Survey::new(costs, REGIONS_MAX),
            cells: Cells::new(costs.clone()),
            reuse: Reuse::default(),
            pictures: Pictures::default(),
            ranks: Vec::new(),
            requests: 0,
            timed: 0,
        }
    }

    pub(crate) fn add(
        &mut self,
        access: &Access,
        file: &mut impl FnMut(u32) -> Option<TracedFile>,
    ) -> Result<(), PlanningError> {
        let rank = access.rank as usize;
        assert!(rank <= self.ranks.len(), "ranks are numbered in the order of their first requests");
        if access.range.is_empty() {
            return Ok(());
        }
        let (half, distance) = self.survey.add(access, file)?;
        if rank == self.ranks.len() {
            self.ranks.push(Presence::default());
        }
        self.ranks[rank].add(access);
        self.requests += 1;
        self.timed += u64::from(access.end > access.start);
        let (direction, range) = (access.direction, access.range);
        let request = Request { direction, range, distance };
        let benefit_ns = match self.critical.on_request(&request) {
            Decision::Flash { benefit_ns } | Decision::Fetch { benefit_ns, .. } => Some(benefit_ns),
            Decision::Disk(_) | Decision::Pass => None,
        };
        let kind = Kind { half: half as u8, direction, is_critical: benefit_ns.is_some() };
        self.cells.add(access, kind, self.survey.region_bytes(access.file));
        self.reuse.add(access.file, direction, range, benefit_ns);
        if kind.is_critical && direction == Direction::Write {
            self.reuse.add_stretch(range.length, request.distance.bytes == 0);
        }
        self.pictures.add(access);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Collected {
        while self.ranks.len().div_ceil(1 << self.cells.shift()) > GROUPS_MAX {
            self.cells.coarsen();
        }
        let mut presences: BTreeMap<u32, Presence> = BTreeMap::new();
        for (number, rank) in (0u32..).zip(&self.ranks) {
            presences.entry(number >> self.cells.shift()).or_default().join(rank);
        }
        self.pictures.finish();
        let rounded = self.cells.rounded();
        let (cells, crossings) = self.cells.finish();
        Collected {
            costs: self.costs,
            surveyed: self.survey.finish(),
            cells,
            crossings,
            residence: self.reuse.finish(),
            pictures: self.pictures,
            presences,
            ranks: self.ranks.len() as u64,
            requests: self.requests,
            timed: self.timed,
            rounded,
        }
    }
}
