//! What is wanted of a run, and why there is none.

use headstart_units::Nanos;

use crate::fabric::ServerAccess;
use crate::scenario::ScenarioError;

/// What is wanted of a run beside its report.
#[derive(Default)]
pub struct Options<'a> {
    /// Checks what happens as well; memory then grows with the number of distinct ranges written.
    pub check: bool,
    /// Is told now and then what is done: which run this is, requests so far, virtual time.
    pub progress: Option<&'a mut dyn FnMut(&'static str, u64, Nanos)>,
    /// Is told what servers and their devices do, in the order of time. Memory does not grow with the run.
    pub accesses: Option<&'a mut dyn FnMut(&ServerAccess)>,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The scenario makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The tiers cannot be priced.
    #[error("the tiers' costs cannot be measured: {0}; give them as [costs]")]
    Costs(String),
    /// There is no plan.
    #[error("no plan from the traced run: {0}")]
    Plan(String),
    /// The checkers disagree with what happened.
    #[error("{} checks failed: {}", .0.len(), .0.join("; "))]
    Check(Vec<String>),
}
