//! What a volume asks of its policy: which writes the log takes, and what is written back next.

use crate::request::Range;

/// How full the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Blocks of the ring.
    pub ring_blocks: u32,
    /// Those that may be written.
    pub free_blocks: u32,
    /// Write-backs under way.
    pub write_backs: usize,
    /// A write waits for room.
    pub is_full: bool,
    /// Everything is to be written back.
    pub draining: bool,
}

/// Decides, and keeps no data.
pub trait Policy {
    /// Whether the log takes a write (otherwise the disk does). Asked once, when nothing else writes the range.
    fn absorbs(&mut self, range: Range, load: &Load) -> bool;
    /// Whether a write the log should take goes to the disk instead while there is no room.
    fn bypasses_when_full(&self) -> bool;
    /// Where to look for dirty bytes to write back next, upwards and around; none: no more for now. Asked after each completion until
    /// it says none or nothing is found.
    fn next_write_back(&mut self, load: &Load) -> Option<u64>;
    /// A write-back of this range has begun.
    fn on_write_back(&mut self, range: Range);
}

/// Takes every write up to a size, and sweeps over the disk in address order once the log is half full.
#[derive(Clone, Debug)]
pub struct AddressOrder {
    /// Longer writes go to the disk.
    pub absorbed_bytes_max: u64,
    /// Write-backs at once: as many as a disk sorts (32, the depth of NCQ).
    pub write_backs_max: usize,
    /// Where the sweep is.
    pub cursor: u64,
}

impl Default for AddressOrder {
    fn default() -> AddressOrder {
        // Assumed: from 1 MiB on a disk spends more time on transfer than on positioning.
        AddressOrder { absorbed_bytes_max: 1 << 20, write_backs_max: 32, cursor: 0 }
    }
}

impl Policy for AddressOrder {
    fn absorbs(&mut self, range: Range, _load: &Load) -> bool {
        range.length <= self.absorbed_bytes_max
    }

    fn bypasses_when_full(&self) -> bool {
        true
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        let wanted = load.draining || load.is_full || load.free_blocks < load.ring_blocks / 2;
        (wanted && load.write_backs < self.write_backs_max).then_some(self.cursor)
    }

    fn on_write_back(&mut self, range: Range) {
        self.cursor = range.end();
    }
}

/// Takes nothing; what an earlier policy left is written back.
#[derive(Clone, Debug, Default)]
pub struct WriteThrough;

impl Policy for WriteThrough {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        false
    }

    fn bypasses_when_full(&self) -> bool {
        true
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        (load.write_backs == 0).then_some(0)
    }

    fn on_write_back(&mut self, _range: Range) {}
}
