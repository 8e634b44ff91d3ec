//! Clean copies of the disk: what is staged, or fetched for that; heads in slots, and lifts to them;
//! segments in memory.
//!
//! A copy is clean as long as nothing is written to its range: [`Copies::cancel`] is called when a write
//! begins, and when it ends.

use super::fetches::Fetches;
use super::lifts::Lifts;
use super::loads::Loads;
use super::orders::Purpose;
use crate::heads::Slots;
use crate::order::OrderId;
use crate::staging::Staging;
use headstart_units::request::Range;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    /// What is staged on flash.
    pub staging: Staging,
    /// What is being fetched.
    pub fetches: Fetches,
    /// Which slots are free for heads.
    pub slots: Slots,
    /// Heads on their way to flash.
    pub lifts: Lifts,
    /// Segments in memory.
    pub loads: Loads,
    /// Heads to be read from flash once the disk has its orders.
    head_reads: Vec<(OrderId, Range, Purpose)>,
}

impl Copies {
    /// None but heads.
    pub(super) fn new(staging: Staging, slots: Slots) -> Copies {
        Copies {
            staging,
            fetches: Fetches::default(),
            slots,
            lifts: Lifts::default(),
            loads: Loads::default(),
            head_reads: Vec::new(),
        }
    }

    /// A write of `range` begins or ends.
    pub(super) fn cancel(&mut self, range: Range) {
        self.staging.drop_range(range);
        self.lifts.cancel(range);
        self.loads.cancel(range);
        self.fetches.cancel(range);
    }

    /// Flash is to read a head, behind the orders of the disk, which takes longer.
    pub(super) fn read_head_later(&mut self, order: OrderId, place: Range, purpose: Purpose) {
        self.head_reads.push((order, place, purpose));
    }

    /// The disk has its orders.
    pub(super) fn take_head_reads(&mut self) -> Vec<(OrderId, Range, Purpose)> {
        std::mem::take(&mut self.head_reads)
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::Section;
    use super::*;
    use headstart_units::BLOCK_BYTES;
    use headstart_units::ranges::Ranges;

    #[test]
    fn a_write_ends_every_copy_of_its_range() {
        let mut copies = Copies::new(Staging::new(2, 1), Slots::default());
        let range = Range::new(0, BLOCK_BYTES);
        let mut valid = Ranges::default();
        valid.insert(range, ());
        let slot = copies.staging.allocate(1).unwrap()[0];
        copies.staging.install(slot, range, &[range]);
        copies.fetches.add(range, valid.clone(), 1);
        copies.loads.begin(0).begin(vec![Section::of_disk(range, 2)], &valid);
        copies.cancel(Range::new(512, 512));
        assert_eq!(copies.staging.staged_bytes(), BLOCK_BYTES - 512);
        assert!(!copies.fetches.get(1).is_valid(range) && !copies.loads.of(0).is_valid(range));
    }
}
