//! The null policy: the disk takes every write.

use headstart_units::Nanos;
use headstart_units::request::Range;

use super::policy::{Load, Policy};

/// Takes nothing; what an earlier policy left is written back.
#[derive(Clone, Debug, Default)]
pub struct WriteThrough;

impl Policy for WriteThrough {
    fn absorbs(&mut self, _range: Range, _load: &Load) -> bool {
        false
    }

    fn waits_for_room(&self, _load: &Load) -> Nanos {
        Nanos::ZERO
    }

    fn next_write_back(&mut self, load: &Load) -> Option<u64> {
        (load.write_backs == 0).then_some(0)
    }

    fn on_write_back(&mut self, _now: Nanos, _range: Range) {}
}
