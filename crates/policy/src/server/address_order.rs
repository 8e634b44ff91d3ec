//! The null policy that absorbs: any write up to a size, and back in address order. iTransformer and LiU are compared
//! with it.

use headstart_units::Nanos;
use headstart_units::request::Range;

use super::policy::{Load, Policy};

/// Longer writes go to the disk (assumed: from 1 MiB on it spends more time on transfer than on positioning).
const ABSORBED_BYTES_MAX: u64 = 1 << 20;
/// Write-backs at once: as many as a disk sorts (the depth of NCQ).
const WRITE_BACKS_MAX: usize = 32;

/// Takes every write up to a size, and sweeps over the disk in address order once the log is half full.
#[derive(Clone, Debug)]
pub struct AddressOrder {
    /// Longer writes go to the disk.
    pub absorbed_bytes_max: u64,
    /// Write-backs at once.
    pub write_backs_max: usize,
    /// Nothing of the foreground for so long: what is dirty is written back. `Nanos::MAX`: for no time is.
    pub idle: Nanos,
    /// Where the sweep is.
    pub cursor: u64,
}

impl Default for AddressOrder {
    fn default() -> AddressOrder {
        AddressOrder {
            absorbed_bytes_max: ABSORBED_BYTES_MAX,
            write_backs_max: WRITE_BACKS_MAX,
            idle: Nanos::MAX,
            cursor: 0,
        }
    }
}

impl AddressOrder {
    /// Takes no write, and writes back what others took, when the disk is idle too.
    pub(crate) fn of_nothing() -> AddressOrder {
        AddressOrder { absorbed_bytes_max: 0, idle: Nanos(100_000_000), ..AddressOrder::default() }
    }

    fn is_idle(&self, load: &Load) -> bool {
        load.waiting == 0 && load.in_flight == 0 && load.now >= load.foreground_at + self.idle
    }
}

impl Policy for AddressOrder {
    fn absorbs(&mut self, range: Range, _load: &Load) -> bool {
        range.length <= self.absorbed_bytes_max
    }

    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        let filling = load.is_full || load.free_blocks < load.ring_blocks / 2;
        let wanted = load.draining || filling || self.is_idle(load);
        (wanted && load.write_backs < self.write_backs_max).then_some(self.cursor)
    }

    fn on_write_back(&mut self, _now: Nanos, range: Range) {
        self.cursor = range.end();
    }

    fn on_zeroing(&mut self, range: Range) {
        self.cursor = range.end();
    }

    fn next_timer(&self, load: &Load) -> Option<Nanos> {
        let idle = load.foreground_at + self.idle;
        (load.is_dirty && idle < Nanos::MAX && idle > load.now).then_some(idle)
    }
}
