//! Which runs are ranks of a parallel program, so that the last of them to end can be told from the others.

use std::collections::BTreeMap;

use crate::status::Part;

/// See the module. By connection: a run may have several.
#[derive(Default)]
pub(super) struct RunsOfJobs(BTreeMap<u64, Part>);

impl RunsOfJobs {
    /// A run takes part as long as the connection.
    pub(super) fn join(&mut self, connection: u64, part: Part) {
        self.0.insert(connection, part);
    }

    /// A run has nothing more to do, whatever connections it has; how many other ranks of its job there are. Two runs
    /// of one rank do not wait for each other.
    pub(super) fn leave(&mut self, leaving: &Part) -> u64 {
        self.0.retain(|_, part| part != leaving);
        self.0.values().filter(|part| part.job == leaving.job && part.rank != leaving.rank).count() as u64
    }

    /// A connection is gone.
    pub(super) fn forget(&mut self, connection: u64) {
        self.0.remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(job: &str, rank: u32, run: u32) -> Part {
        Part { job: job.into(), rank, run }
    }

    #[test]
    fn the_last_rank_of_a_job_leaves_nobody_behind() {
        let mut runs = RunsOfJobs::default();
        for (connection, part) in [(1, part("a", 0, 7)), (2, part("a", 1, 8)), (3, part("b", 0, 9))] {
            runs.join(connection, part);
        }
        // It has connected once more meanwhile.
        runs.join(4, part("a", 0, 7));
        assert_eq!(runs.leave(&part("a", 0, 7)), 1);
        assert_eq!(runs.leave(&part("a", 1, 8)), 0);
        assert_eq!(runs.leave(&part("b", 0, 9)), 0);
    }

    #[test]
    fn whoever_is_gone_or_is_the_same_rank_is_not_waited_for() {
        let mut runs = RunsOfJobs::default();
        runs.join(1, part("a", 0, 7));
        runs.join(2, part("a", 0, 8));
        runs.join(3, part("a", 1, 9));
        runs.forget(3);
        assert_eq!(runs.leave(&part("a", 0, 7)), 0);
    }
}
