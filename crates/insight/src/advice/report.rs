//! What advice says, and of how much at most.

use headstart_policy::cost::benefit;

use super::gains::Gains;
use super::pictures::Pictures;

/// Regions at most: an eighth of those of a plan, as more is kept of each.
pub(super) const REGIONS_MAX: u64 = 1 << 17;

/// Capacities of a curve: every 20th of the files, and none.
pub const POINTS: usize = 21;

/// Who decides what goes to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Nobody: everything stays on disk.
    Off,
    /// Regions of a plan, chosen by gain.
    Carl,
    /// Requests, by S4D's cost model, when the same run comes again and finds on flash what it left there.
    S4d,
    /// The same on empty flash.
    S4dFirst,
    /// Regions of a plan, and S4D for what they leave.
    CarlS4d,
    /// Regions drawn at random.
    Random,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] =
        [Policy::Off, Policy::Carl, Policy::S4d, Policy::S4dFirst, Policy::CarlS4d, Policy::Random];
}

/// What a policy does with a capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The flash there is.
    pub capacity_bytes: u64,
    /// Predicted run time, seconds.
    pub run_s: f64,
    /// Share of the requests, or parts of those that are cut, that flash serves.
    pub flash_share: f64,
    /// Of the flash, what is used.
    pub used_bytes: u64,
}

/// A policy by capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Who.
    pub policy: Policy,
    /// By rising capacity.
    pub points: Vec<Point>,
    /// The point beyond which more flash buys little; none where flash buys nothing.
    pub knee: Option<usize>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// Which policy; [`Policy::S4dFirst`] is S4D, judged by its first run.
    pub policy: Policy,
    /// Which point of its curve.
    pub point: usize,
}

/// One file and what it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSummary {
    /// Where it was; its number in the trace is its index.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Length of its regions.
    pub region_bytes: u64,
    /// Sum of the gains of the regions that gain, seconds.
    pub gain_s: f64,
    /// Requests, parts of longer ones included.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What the trace says of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedRun {
    /// Requests.
    pub requests: u64,
    /// Those with times.
    pub timed_requests: u64,
    /// Ranks that issued them.
    pub ranks: u64,
    /// Groups into which ranks were taken together; as many as ranks if each was looked at by itself.
    pub groups: u64,
    /// Requests over several regions that were taken as of one.
    pub rounded_requests: u64,
    /// What the run took, seconds, if the trace has times.
    pub measured_s: Option<f64>,
    /// Sizes of all files.
    pub total_bytes: u64,
}

/// All that is known of a run, and what flash would do for it.
#[derive(Clone, Debug)]
pub struct Advice {
    /// What the trace says.
    pub run: TracedRun,
    /// What the run takes on the disks alone, seconds: the same where it was measured.
    pub disk_s: f64,
    /// By policy.
    pub curves: Vec<Curve>,
    /// What to do; none where flash buys nothing.
    pub recommendation: Option<Recommendation>,
    /// By number.
    pub files: Vec<FileSummary>,
    /// Which regions gain, and how much.
    pub gains: Gains,
    /// What it looked like.
    pub pictures: Pictures,
}

/// S4D's cost model.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalCosts {
    /// Of reads.
    pub read: benefit::Parameters,
    /// Of writes.
    pub write: benefit::Parameters,
}
