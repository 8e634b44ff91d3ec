//! Zeros on the disk: made by itself where it can, written where it cannot.

use super::Engine;
use crate::order::{Action, Part};
use headstart_policy::server::Policy;
use headstart_units::BLOCK_BYTES;
use headstart_units::request::Range;

/// Zeros are written to the disk in orders of this size.
const ZEROS_BYTES: u64 = 1 << 20;

impl<P: Policy> Engine<P> {
    /// What makes a range of the disk zeros that lies on one side of the guard's limits: orders to the disk to do it,
    /// or writes where it cannot.
    pub(super) fn zero_orders(&self, range: Range) -> Vec<(Range, Action)> {
        let whole = match self.in_force.is_guarded(range) {
            // Zeros that are hidden are other bytes on the disk.
            true => Range::default(),
            false => self.zeroed_by_disk(range),
        };
        let mut orders = Vec::new();
        let edges = if whole.is_empty() {
            [range, whole]
        } else {
            [Range::between(range.offset, whole.offset), Range::between(whole.end(), range.end())]
        };
        let pieces = |range: Range, bytes_max: u64| {
            let begins = (range.offset..range.end()).step_by(bytes_max as usize);
            begins.map(move |offset| Range::between(offset, range.end().min(offset + bytes_max)))
        };
        let write = |part: Range| (part, Action::Write(vec![Part::Zeros(part.length)]));
        orders.extend(pieces(edges[0], ZEROS_BYTES).map(write));
        orders.extend(pieces(whole, self.settings.zero_bytes_max.max(BLOCK_BYTES)).map(|part| (part, Action::Zero)));
        orders.extend(pieces(edges[1], ZEROS_BYTES).map(write));
        orders
    }

    /// The part of a range that the disk can make zeros by itself: whole blocks, so that it does whatever its sectors
    /// are.
    pub(super) fn zeroed_by_disk(&self, range: Range) -> Range {
        if self.settings.zero_bytes_max == 0 {
            return Range::default();
        }
        let end = range.end() / BLOCK_BYTES * BLOCK_BYTES;
        Range::between(range.offset.next_multiple_of(BLOCK_BYTES).min(end), end)
    }
}
