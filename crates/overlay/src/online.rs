//! D-CARL at work ([`headstart_policy::client::d_carl`]): regions follow what programs read, without a plan.
//!
//! Reads count, wherever they are served: those from flash as they are granted, those from disk by their
//! hints. Writes do not: what is worth it of them is absorbed whatever its region. Such regions are not in
//! the journal. When nobody follows any more, their bytes stay as all others do.

use crate::limits::FILE_BYTES_MAX;
use crate::overlay::Overlay;
use crate::parts::online::Online;
use crate::recency::Access;
use headstart_policy::client::carl::{Regions, Wanted};
use headstart_policy::client::d_carl::Verb;
use headstart_policy::cost::region::Costs;
use headstart_protocol::shared::Shared;
use headstart_units::Nanos;
use headstart_units::request::Range;

impl Overlay {
    /// Lets regions follow what programs read, at these costs, in place of all regions there are; `None` ends that.
    pub fn follow(&mut self, shared: Shared<'_>, costs: Option<Costs>) {
        if costs.is_none() && !self.placing.is_following() {
            return;
        }
        self.end_following();
        if let Some(costs) = costs {
            let planned: Vec<u32> = self.placements().map(|placement| placement.file).collect();
            planned.into_iter().for_each(|file| self.set_regions(shared, file, Regions::default()));
            let online = Online::new(costs, self.files.known_bytes(), Nanos(self.measured_ns));
            self.placing.set_online(Some(online));
        }
        self.poll(shared);
    }

    /// Whether regions follow what programs read.
    pub fn is_following(&self) -> bool {
        self.placing.is_following()
    }

    /// What is mapped of the regions becomes as all else.
    pub(crate) fn end_following(&mut self) {
        if self.placing.take_online().is_none() {
            return;
        }
        self.placing.stop();
        for number in self.files.keys().copied().collect::<Vec<_>>() {
            let regions = self.file(number).placed.replace(Regions::default());
            self.forget_regions(number, &regions);
            for mapped in regions.iter().flat_map(|region| self.begun_in(number, region.range)).collect::<Vec<_>>() {
                let stamp = self.stamp(number, mapped.range.offset, Access::Random);
                self.restamp(number, &mapped, stamp);
            }
        }
    }

    /// A program reads.
    pub(crate) fn note_read(&mut self, file: u32, range: Range) {
        if !self.placing.is_following() {
            return;
        }
        let known = &self.files[&file];
        // The last region of a file, or the only one, takes and costs no more than there is of it. Who writes may
        // have made it longer.
        let size = if !known.users.may_write() { known.length.size().max(range.end()) } else { FILE_BYTES_MAX };
        self.placing.note_read(Nanos(self.measured_ns), file, size, range);
    }

    /// Decides which regions move, when it is time to.
    pub(crate) fn follow_programs(&mut self, shared: Shared<'_>) {
        let now = Nanos(self.measured_ns);
        let Some(mut online) = self.placing.take_online_if_due(now) else { return };
        if let Some(costs) = online.outgrown(self.files.known_bytes()) {
            self.placing.set_online(Some(online));
            return self.follow(shared, Some(costs));
        }
        for one in online.take_moves() {
            let missing = self.is_missing(one.id.0, one.range);
            if missing && self.is_placing() {
                online.keep(one);
                continue;
            }
            if missing {
                // There was no room, or the file is shorter.
                self.unplace(one.id.0, one.range);
            }
            online.complete(now, one, !missing);
        }
        // Dirty bytes of other regions need room too; a burst of writes passes.
        let capacity = self.space.capacity_bytes().saturating_sub(self.reserve_beside(None));
        let room = capacity.saturating_sub(self.mapping.dirty_bytes()).max(capacity / 2);
        let moves = online.decide(now, room);
        let count = moves.len() as u64;
        for (one, order) in moves.into_iter().zip(0..) {
            let (file, range) = (one.id.0, one.range);
            match one.verb {
                Verb::Place if self.files.contains_key(&file) => {
                    // Those named first gain most.
                    let gain_ns = (count - order).saturating_mul(range.length);
                    self.want(file, Wanted { range, benefit_ns: 1, gain_ns });
                    online.keep(one);
                }
                Verb::Place => online.complete(now, one, false),
                Verb::Unplace => {
                    self.unplace(file, range);
                    online.complete(now, one, true);
                }
            }
        }
        if online.has_moves() {
            self.placing.begin(true);
        }
        self.placing.set_online(Some(online));
    }
}
