//! The superblock in force, what its guard hides of the disk, and what is known of the hidden blocks.
//!
//! A checkpoint replaces the superblock; the blocks that were marked as changed meanwhile keep their mark.

use crate::guard::{self, Regions};
use crate::layout::Layout;
use crate::superblock::{GuardState, Superblock};
use headstart_policy::server::segments::Segments;
use headstart_units::request::Range;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    superblock: Superblock,
    regions: Regions,
    written: guard::Written,
}

impl InForce {
    /// Of a volume that was recovered.
    pub(super) fn new(superblock: Superblock) -> InForce {
        InForce { regions: guard::regions(&superblock), written: guard::Written::new(&superblock.guard), superblock }
    }

    /// The superblock.
    pub(super) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The end of the volume.
    pub(super) fn into_superblock(self) -> Superblock {
        self.superblock
    }

    /// Where things lie on flash.
    pub(super) fn layout(&self) -> Layout {
        self.superblock.layout()
    }

    /// Size of the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.superblock.disk_bytes
    }

    /// Segments of the disk and slots for their heads.
    pub(super) fn segments(&self) -> Segments {
        self.superblock.serving.segments
    }

    /// Blocks of the disk that the guard hides while it is on.
    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Whether the guard is on.
    pub(super) fn is_guard_on(&self) -> bool {
        self.superblock.guard.state == GuardState::On
    }

    /// Whether the guard hides any byte of a range.
    pub(super) fn is_guarded(&self, range: Range) -> bool {
        self.is_guard_on() && self.regions.touches(range)
    }

    /// The session whose keystream goes over a range of the disk that lies on one side of the guard's
    /// limits; none: it is plain.
    pub(super) fn session_over(&self, range: Range) -> Option<u32> {
        (!range.is_empty() && self.is_guarded(range)).then_some(self.superblock.guard.session)
    }

    /// A range of the disk in parts that are guarded or not.
    pub(super) fn cuts(&self, range: Range) -> Vec<Range> {
        if !self.is_guard_on() {
            return vec![range];
        }
        let mut rest = range;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let part = self.regions.cut(rest);
            rest = Range::between(part.end(), rest.end());
            parts.push(part);
        }
        parts
    }

    /// The log names a range: its guarded blocks are not what the superblock remembers.
    pub(super) fn mark_changed(&mut self, range: Range) {
        guard::mark_changed(&mut self.superblock.guard, &self.regions, range);
    }

    /// A range was written to the disk, or may have been: its whole guarded blocks have these checksums, if any.
    pub(super) fn note_written(&mut self, range: Range, crc: impl Fn(Range) -> Option<u32>) {
        self.written.write(&self.regions, range, crc);
    }

    /// Begins the superblock of a checkpoint, which leaves out blocks that are not named: they are
    /// remembered as they were written.
    pub(super) fn next(&mut self, is_named: impl Fn(Range) -> bool) -> Superblock {
        self.written.settle(&mut self.superblock.guard, &self.regions, is_named);
        let mut next = self.superblock.clone();
        next.area = 1 - next.area;
        next
    }

    /// A checkpoint is durable: its superblock is in force.
    pub(super) fn replace(&mut self, next: Superblock) {
        let guard = std::mem::replace(&mut self.superblock, next).guard;
        self.superblock.guard = guard;
    }

    /// The guard is off, as if the volume took no writes.
    #[cfg(test)]
    pub fn take_guard_off(&mut self) {
        self.superblock.guard.state = GuardState::Off;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::superblock;
    use super::*;
    use headstart_units::BLOCK_BYTES;

    #[test]
    fn a_range_is_cut_where_the_guard_begins_and_only_while_it_is_on() {
        let mut in_force = InForce::new(superblock(1 << 20, Segments::default()));
        let range = Range::new(0, 3 * BLOCK_BYTES);
        let cuts = in_force.cuts(range);
        assert_eq!(cuts, [Range::new(0, BLOCK_BYTES), Range::new(BLOCK_BYTES, 2 * BLOCK_BYTES)]);
        assert_eq!(cuts.iter().map(|cut| in_force.session_over(*cut)).collect::<Vec<_>>(), [Some(1), None]);
        in_force.take_guard_off();
        assert_eq!((in_force.cuts(range), in_force.session_over(range)), (vec![range], None));
    }

    #[test]
    fn blocks_that_change_while_a_checkpoint_is_made_stay_marked_and_known_ones_are_settled() {
        let mut in_force = InForce::new(superblock(1 << 20, Segments::default()));
        let first = Range::new(0, BLOCK_BYTES);
        in_force.mark_changed(first);
        in_force.note_written(first, |_| Some(77));
        let next = in_force.next(|_| false);
        assert_eq!((next.guard.is_changed(0), next.guard.crcs[0], next.area), (false, 77, 1));
        in_force.mark_changed(first);
        in_force.replace(next);
        assert!(in_force.superblock().guard.is_changed(0) && in_force.superblock().area == 1);
    }
}
