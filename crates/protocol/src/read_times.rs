//! How long reads of a file took on the disks and on flash: threads measure some of them, and the agent
//! judges which side answers sooner ([`headstart_overlay`], `sooner.rs`).
//!
//! Only reads out of order are measured: what the disks serve in order says nothing of the others. Sums of several
//! threads need no order, and one that is read while it grows is a read more or less.

use headstart_policy::order::{Distance, Measured};
use headstart_units::atomics::{AtomicU64, Ordering};

/// Whether a read is measured by which side serves it.
#[inline]
pub fn is_measured(distance: Distance) -> bool {
    !distance.goes_on()
}

/// Which side served a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The slow file.
    Disk,
    /// A data file.
    Flash,
}

/// Sums over the reads of one side that were measured.
#[repr(C)]
#[derive(Debug, Default)]
struct Sums {
    requests: AtomicU64,
    bytes: AtomicU64,
    ns: AtomicU64,
}

/// Those of both sides, for one file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ReadTimes {
    disk: Sums,
    flash: Sums,
}

impl ReadTimes {
    /// A read of so many bytes took so long.
    pub fn add(&self, side: Side, bytes: u64, ns: u64) {
        let sums = self.of(side);
        sums.requests.fetch_add(1, Ordering::Relaxed);
        sums.bytes.fetch_add(bytes, Ordering::Relaxed);
        sums.ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The sums of a side.
    pub fn measured(&self, side: Side) -> Measured {
        let sums = self.of(side);
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        Measured { requests: load(&sums.requests), bytes: load(&sums.bytes), ns: load(&sums.ns) }
    }

    /// The entry is another file's from now on.
    pub fn forget(&self) {
        for sums in [&self.disk, &self.flash] {
            [&sums.requests, &sums.bytes, &sums.ns].into_iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
        }
    }

    fn of(&self, side: Side) -> &Sums {
        match side {
            Side::Disk => &self.disk,
            Side::Flash => &self.flash,
        }
    }
}
