//! D-CARL at work ([`headstart_policy::client::d_carl`]): regions follow what programs read, without a plan.
//!
//! Reads count, wherever they are served: those from flash as they are granted, those from disk by their
//! hints. Writes do not: what is worth it of them is absorbed whatever its region. Such regions are not in
//! the journal. When nobody follows any more, their bytes stay as all others do.

use crate::limits::FILE_BYTES_MAX;
use crate::overlay::Overlay;
use crate::recency::Access;
use headstart_policy::client::carl::{Regions, Wanted};
use headstart_policy::client::d_carl::{DCarl, Move, Settings, Verb};
use headstart_policy::cost::region::Costs;
use headstart_protocol::shared::Shared;
use headstart_units::Nanos;
use headstart_units::request::{Direction, Range};

/// Regions of the known files, about. CARL's figures had 640.
const REGIONS: u64 = 512;
/// A region is worth a seek, and a matter of moments.
const REGION_BYTES_MIN: u64 = 256 << 10;
const REGION_BYTES_MAX: u64 = 64 << 20;
/// When the files have become so many times as long, regions of another length are chosen.
const GROWTH: u64 = 4;

/// D-CARL, and what it has under way.
#[derive(Debug)]
pub(crate) struct Online {
    costs: Costs,
    region_bytes: u64,
    d_carl: DCarl,
    placing: Vec<Move>,
}

fn region_bytes(known_bytes: u128) -> u64 {
    let length = u64::try_from(known_bytes).unwrap_or(u64::MAX) / REGIONS;
    length.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX).next_power_of_two()
}

impl Online {
    fn new(costs: Costs, region_bytes: u64, now: Nanos) -> Online {
        let settings = Settings { region_bytes, ..Settings::new(costs.clone()) };
        Online { costs, region_bytes, d_carl: DCarl::new(now, settings), placing: Vec::new() }
    }
}

impl Overlay {
    /// Lets regions follow what programs read, at these costs, in place of all regions there are; `None` ends that.
    pub fn follow(&mut self, shared: Shared<'_>, costs: Option<Costs>) {
        if costs.is_none() && self.online.is_none() {
            return;
        }
        self.end_following();
        if let Some(costs) = costs {
            let planned: Vec<u32> = self.placements().map(|placement| placement.file).collect();
            planned.into_iter().for_each(|file| self.set_regions(shared, file, Regions::default()));
            self.online = Some(Online::new(costs, region_bytes(self.known_bytes), Nanos(self.measured_ns)));
        }
        self.poll(shared);
    }

    /// Whether regions follow what programs read.
    pub fn is_following(&self) -> bool {
        self.online.is_some()
    }

    /// What is mapped of the regions becomes as all else.
    pub(crate) fn end_following(&mut self) {
        if self.online.take().is_none() {
            return;
        }
        self.placing.on = false;
        for number in self.files.keys().copied().collect::<Vec<_>>() {
            let regions = std::mem::take(&mut self.file(number).regions);
            self.forget_regions(number, &regions);
            for mapped in regions.iter().flat_map(|region| self.begun_in(number, region.range)).collect::<Vec<_>>() {
                let stamp = self.stamp(number, mapped.range.offset, Access::Random);
                self.restamp(number, &mapped, stamp);
            }
        }
    }

    /// A program reads.
    pub(crate) fn note_read(&mut self, file: u32, range: Range) {
        let now = Nanos(self.measured_ns);
        if let Some(online) = &mut self.online {
            let known = &self.files[&file];
            // The last region of a file, or the only one, takes and costs no more than there is of it. Who
            // writes may have made it longer.
            let size = if known.writers.is_empty() { known.size.max(range.end()) } else { FILE_BYTES_MAX };
            online.d_carl.on_size(file, size);
            online.d_carl.on_request(now, file, Direction::Read, range);
        }
    }

    /// The file is forgotten, and with it what was to be moved of it.
    pub(crate) fn forget_moves(&mut self, number: u32) {
        if let Some(online) = &mut self.online {
            online.d_carl.remove_file(number);
            online.placing.retain(|one| one.id.0 != number);
        }
    }

    /// Decides which regions move, when it is time to.
    pub(crate) fn follow_programs(&mut self, shared: Shared<'_>) {
        let now = Nanos(self.measured_ns);
        let Some(mut online) = self.online.take_if(|online| now >= online.d_carl.next_timer()) else { return };
        if region_bytes(self.known_bytes) >= online.region_bytes.saturating_mul(GROWTH) {
            let costs = online.costs.clone();
            self.online = Some(online);
            return self.follow(shared, Some(costs));
        }
        for one in std::mem::take(&mut online.placing) {
            let missing = self.is_missing(one.id.0, one.range);
            if missing && self.is_placing() {
                online.placing.push(one);
                continue;
            }
            if missing {
                // There was no room, or the file is shorter.
                self.unplace(one.id.0, one.range);
            }
            online.d_carl.on_completion(now, one, !missing);
        }
        // Dirty bytes of other regions need room too; a burst of writes passes.
        let capacity = self.space.capacity_bytes().saturating_sub(self.reserve_beside(None));
        let room = capacity.saturating_sub(self.mapping.dirty_bytes).max(capacity / 2);
        let moves = online.d_carl.on_timer(now, room);
        let count = moves.len() as u64;
        for (one, order) in moves.into_iter().zip(0..) {
            let (file, range) = (one.id.0, one.range);
            match one.verb {
                Verb::Place if self.files.contains_key(&file) => {
                    // Those named first gain most.
                    let gain_ns = (count - order).saturating_mul(range.length);
                    self.want(file, Wanted { range, benefit_ns: 1, gain_ns });
                    online.placing.push(one);
                }
                Verb::Place => online.d_carl.on_completion(now, one, false),
                Verb::Unplace => {
                    self.unplace(file, range);
                    online.d_carl.on_completion(now, one, true);
                }
            }
        }
        if !online.placing.is_empty() {
            self.begin_placing(true);
        }
        self.online = Some(online);
    }
}
