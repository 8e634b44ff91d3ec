//! Requests where chosen regions lie on flash ([`crate::placed`]): part by part.

use headstart_units::request::Range;

use crate::client::Client;
use crate::fabric::{Order, Owner};
use crate::simulation::Simulation;
use crate::tier::TierName;

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
        let order = Order {
            owner: Owner::Rank(rank),
            tier,
            operation: current.direction.into(),
            ..self.order_of(rank, current.file)
        };
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
