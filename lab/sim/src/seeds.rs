//! Seeds: random numbers of one purpose do not depend on how many another one took.

use headstart_units::chance::splitmix64;

/// What random numbers are for; each has a sequence of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Where spindles stand at the begin.
    Spindles,
    /// Servers of files' first stripes.
    Placement,
    /// Requests of programs.
    Programs,
    /// Loads that tiers are measured with.
    Calibration,
    /// The run that a plan is made from.
    Traced,
    /// Regions of RANDOM.
    Regions,
}

/// The seed of a purpose.
pub fn seed_of(seed: u64, purpose: Purpose) -> u64 {
    let mut state = seed ^ ((purpose as u64 + 1) << 56);
    splitmix64(&mut state)
}
