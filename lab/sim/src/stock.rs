//! Requests without flash: one transfer on the disks.

use crate::fabric::{Order, Owner};
use crate::simulation::Simulation;
use crate::tier::TierName;

impl Simulation<'_> {
    /// Starts a rank's request.
    pub(crate) fn start_stock(&mut self, rank: u32) {
        let current = self.ranks[rank as usize].current;
        let place = self.files[current.file as usize].place;
        let order = Order {
            owner: Owner::Rank(rank),
            tier: TierName::Disk,
            operation: current.direction.into(),
            ..self.order_of(rank, current.file)
        };
        let range = current.range;
        self.fabric.start(self.now, &mut self.queue, order, place, range);
        self.moving(rank, TierName::Disk, current.file, range.offset, range);
    }
}
