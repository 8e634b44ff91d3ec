//! Programs as scenarios describe them.

use headstart_workload::Program;

use crate::scenario::{Job, ScenarioError};

/// The program of a job; `seed` is added to those of its description.
///
/// # Errors
/// No workload, or one that makes no sense.
pub fn program(job: &Job, seed: u64) -> Result<Box<dyn Program>, ScenarioError> {
    let wrong = |problem: String| ScenarioError::new(format!("[job.workload] of '{}'", job.name), problem);
    let Some(description) = &job.workload else {
        return Err(wrong("it is missing: say what the job does, for example kind = \"ior\"".into()));
    };
    description.clone().with_seed_added(seed).program().map_err(|problem| wrong(problem.to_string()))
}
