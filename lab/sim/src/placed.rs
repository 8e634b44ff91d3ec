//! CARL and RANDOM as their paper lays them out: chosen regions lie on the flash servers, everything else on
//! the disks, from the begin.
//!
//! The decision is core's ([`Regions`] as a policy, cut where its answer changes); parts of a request go one
//! after the other. A region's bytes have the same offset in the file's flash part as in the file.

use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::client::{Decision, parts};
use headstart_policy::order::Distance;
use headstart_units::request::{Direction, Range};

use crate::check::Space;
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
