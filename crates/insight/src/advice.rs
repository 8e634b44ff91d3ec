//! What flash would do for a run that was traced: its predicted run time by capacity and policy, and what goes there.
//!
//! ```text
//! requests --once--> Survey (gain tables of both halves)          --> regions of each capacity
//!                    Cells  (demand by rank, region and kind)     --> network by policy and capacity --> run times
//!                    Reuse  (sampled stack distances)             --> what S4D finds on flash
//!                    Pictures (sizes, latencies, maps, sample)
//! ```
//!
//! For CARL and RANDOM the prediction is that of a plan ([`crate::plan::prediction`]) with the same choice of
//! regions; what differs is that one pass collects what every capacity needs. Memory is bounded by regions,
//! groups of ranks and sample sizes.

mod cells;
mod collector;
mod curves;
mod gains;
mod knee;
pub mod pictures;
mod recommendation;
mod report;
mod reuse;
mod room;

use crate::software::Software;
use headstart_policy::cost::region::Costs;
use headstart_units::request::Access;

use crate::plan::{PlanningError, TracedFile};
use collector::Collector;
pub use gains::{Gains, RegionSummary};
pub use report::{Advice, CriticalCosts, Curve, FileSummary, POINTS, Point, Policy, Recommendation, TracedRun};

/// Looks at requests, once, in order of start. Ranks are numbered from 0 in the order of their first
/// requests; `file` is asked as by [`crate::plan::plan`].
///
/// # Errors
/// As for a plan.
pub fn advise(
    requests: impl Iterator<Item = Access>,
    mut file: impl FnMut(u32) -> Option<TracedFile>,
    costs: &Costs,
    critical: &CriticalCosts,
    software: Software,
) -> Result<Advice, PlanningError> {
    costs.check().map_err(|(direction, error)| PlanningError::Costs { direction, error })?;
    let mut collector = Collector::new(costs, critical);
    for access in requests {
        collector.add(&access, &mut file)?;
    }
    collector.finish().advice(software)
}

#[cfg(test)]
mod tests;
