//! Whether writes follow each other closely and keep the disk busy, as a client's write-back in address order does.
//!
//! There is no positioning to hide then: the disk passes over a head in the time of a positioning, so that what lies no
//! farther from the last write costs it less, if it is there before the disk has turned on. One of several streams is
//! far from the others' writes, and does not count.

use headstart_units::request::Range;

/// With less under way the disk has done it before the next write comes, and misses a turn (assumed: two requests of
/// 64 KiB; without this condition mpi-io-test, `compose/test-write`, takes 9.8 instead of 8.9 s).
const BUSY_BYTES_MIN: u64 = 128 << 10;
/// All of the last writes,
const ALL: u32 = 256;
/// and most of them: three quarters, chosen on S4D's write-back over LiU (`compose/ior-random-write` and
/// `compose/tile-write`, of S4D alone 0.91 and 0.93 without, 0.98 and 0.96 with it).
const MOST: u32 = 192;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrailingWrites {
    /// Where the last write was.
    last: u64,
    /// How many of the last sixteen, in the mean, followed closely behind others: [`ALL`] is all.
    share: u32,
}

impl TrailingWrites {
    /// A write comes while so many bytes of writes are under way; it follows closely within `near_bytes`.
    pub(crate) fn on_write(&mut self, range: Range, near_bytes: u64, under_way_bytes: u64) {
        let is_near = self.last.abs_diff(range.offset) <= near_bytes;
        let follows = is_near && under_way_bytes >= BUSY_BYTES_MIN;
        self.share = (self.share * 15 + if follows { ALL } else { 0 }) / 16;
        self.last = range.offset;
    }

    /// Whether most of the last writes did: the disk serves them well.
    pub(crate) fn are_most(&self) -> bool {
        self.share >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: u64 = 1 << 20;

    fn are_most(under_way_bytes: u64, offsets: impl Iterator<Item = u64>) -> bool {
        let mut writes = TrailingWrites::default();
        offsets.for_each(|at| writes.on_write(Range::new(at, 16384), NEAR, under_way_bytes));
        writes.are_most()
    }

    #[test]
    fn writes_in_order_trail_each_other_while_they_keep_the_disk_busy_and_streams_do_not() {
        // Two at a time change places.
        let in_order = |step: u64| (0..100u64).map(move |write| (write ^ 1) * step);
        assert!(are_most(128 << 10, in_order(16384)) && are_most(1 << 20, in_order(300 << 10)), "with gaps as well");
        assert!(!are_most(1 << 20, in_order(NEAR)), "farther than that every other time");
        assert!(!are_most(64 << 10, in_order(16384)), "the disk waits for the next");
        let streams = (0..400u64).map(|write| write % 4 * (1 << 30) + write / 4 * 65536);
        assert!(!are_most(1 << 20, streams), "four streams");
    }
}
