//! A plan: which regions of which files belong on flash, made from the requests of a run that was traced
//! (CARL §III-D and E).
//!
//! How a plan looks as a text is the business of whoever reads and writes files.

mod check;
mod document;
pub(crate) mod planning;
pub(crate) mod prediction;
mod queueing;

pub use check::{PlanError, Where};
pub use document::{Choice, Plan, PlanFile, PlanRegion};
pub use planning::{Options, PlanningError, REGIONS_MAX, TracedFile, plan};
pub use prediction::Prediction;

#[cfg(test)]
mod tests;
