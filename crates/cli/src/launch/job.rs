//! Whether this run is a rank of a parallel program: `srun headstart run -- ./app`.
//!
//! Ranks of one node share an agent, and the last of them to end drains for all.

use std::{env, fs};

use headstart_agent::process::start_time;
use headstart_agent::status::Part;
use nix::unistd::getppid;

/// Where launchers tell job and rank: PMIx (Open MPI, Slurm with PMIx), Slurm, Flux.
const TOLD: [(&[&str], &str); 3] = [
    (&["PMIX_NAMESPACE"], "PMIX_RANK"),
    (&["SLURM_JOB_ID", "SLURM_STEP_ID"], "SLURM_PROCID"),
    (&["FLUX_JOB_ID"], "FLUX_TASK_RANK"),
];
/// Where those do that tell no job: ranks of one node are children of one process, which is none (Hydra).
const RANK_ALONE: &str = "PMI_RANK";

/// This run as a rank, if it is one.
pub fn part() -> Option<Part> {
    part_by(|name| env::var(name).ok().filter(|value| !value.is_empty()), launcher)
}

fn part_by(variable: impl Fn(&str) -> Option<String>, launcher: impl Fn() -> u32) -> Option<Part> {
    let rank = |name: &str| variable(name)?.parse::<u32>().ok();
    let told = TOLD.iter().find_map(|(job, name)| {
        let words: Option<Vec<String>> = job.iter().map(|name| Some(format!("{name}={}", variable(name)?))).collect();
        Some((words?.join(" "), rank(name)?))
    });
    let (job, rank) = told.or_else(|| {
        let rank = rank(RANK_ALONE)?;
        let launcher = launcher();
        Some((format!("children of {launcher}.{}", start_time(launcher).unwrap_or(0)), rank))
    })?;
    Some(Part { job, rank, run: std::process::id() })
}

/// The nearest of the processes above this one that is no part of the rank, as a script may be.
fn launcher() -> u32 {
    let is_of_rank = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|text| text.strip_prefix(RANK_ALONE.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    let mut above = getppid().as_raw() as u32;
    while is_of_rank(above)
        && let Some(next) = parent_of(above)
    {
        above = next;
    }
    above
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<(String, u32)> {
        let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value.to_string());
        part_by(value, || 1).map(|part| (part.job, part.rank))
    }

    #[test]
    fn a_rank_is_one_of_the_job_that_its_launcher_names() {
        let step = [("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "3"), ("PMI_RANK", "3")];
        assert_eq!(found(&step), Some(("SLURM_JOB_ID=7 SLURM_STEP_ID=0".into(), 3)));
        assert_eq!(found(&step[..1]), None, "a batch script is no rank");
        assert_eq!(found(&[("PMIX_NAMESPACE", "a"), ("PMIX_RANK", "0")]), Some(("PMIX_NAMESPACE=a".into(), 0)));
        assert!(found(&step[3..]).unwrap().0.starts_with("children of 1."));
        assert_eq!(found(&[]), None);
    }
}
