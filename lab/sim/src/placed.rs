//! CARL and RANDOM as their paper lays them out: chosen regions lie on the flash servers, everything else on
//! the disks, from the begin.
//!
//! The decision is core's ([`Regions`] as a policy, cut where its answer changes); parts of a request go one
//! after the other. A region's bytes have the same offset in the file's flash part as in the file.

use headstart_model::request::Operation;
use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::client::{Decision, parts};
use headstart_policy::order::Distance;
use headstart_units::request::{Direction, Range};

use crate::check::Space;
use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::simulation::Simulation;
use crate::tier::{Place, TierName};

/// See the module.
pub struct Placed {
    /// Of each file, the regions on flash.
    pub regions: Vec<Regions>,
    /// Where each file's flash part lies.
    pub places: Vec<Place>,
}

impl Placed {
    /// The first part of a range that lies in one tier.
    pub fn first_part(&self, file: u32, direction: Direction, range: Range) -> (TierName, Range) {
        let request = Request { direction, range, distance: Distance::default() };
        let (part, decision) = parts(&[&self.regions[file as usize]], request).next().expect("the range is not empty");
        let on_disk = matches!(decision, Decision::Disk(_) | Decision::Pass);
        (if on_disk { TierName::Disk } else { TierName::Flash }, part.range)
    }

    /// Where a part of a file lies, for the checker.
    pub fn spaces(&self, file: u32, range: Range) -> Vec<(Range, Space)> {
        let mut rest = range;
        std::iter::from_fn(|| {
            (!rest.is_empty()).then(|| {
                let (tier, part) = self.first_part(file, Direction::Read, rest);
                rest = Range::between(part.end(), rest.end());
                (part, if tier == TierName::Disk { Space::Disk(file) } else { Space::Flash(file) })
            })
        })
        .collect()
    }
}

impl Simulation<'_> {
    /// The next part of a rank's request; false if there is none.
    pub(crate) fn next_placed(&mut self, rank: u32) -> bool {
        let current = self.ranks[rank as usize].current;
        let rest = Range::between(current.range.offset + current.done, current.range.end());
        let Client::Placed(placed) = &self.client else { unreachable!("the policy does not change") };
        if rest.is_empty() {
            return false;
        }
        let (tier, part) = placed.first_part(current.file, current.direction, rest);
        let place = match tier {
            TierName::Disk => self.files[current.file as usize].place,
            TierName::Flash => placed.places[current.file as usize],
        };
        let operation = operation(current.direction);
        let order = Order { owner: Owner::Rank(rank), tier, operation, ..self.order_of(rank, current.file) };
        let state = &mut self.ranks[rank as usize].current;
        state.done += part.length;
        if tier == TierName::Flash {
            state.flash_bytes += part.length;
        }
        self.fabric.start(self.now, &mut self.queue, order, place, part);
        self.moving(rank, tier, current.file, part.offset, part);
        true
    }
}

/// A direction as servers call it.
pub fn operation(direction: Direction) -> Operation {
    match direction {
        Direction::Read => Operation::Read,
        Direction::Write => Operation::Write,
    }
}
