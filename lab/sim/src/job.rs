//! A job: a program's ranks, their barriers, and when they begin and end.

use headstart_units::Nanos;
use headstart_workload::Program;

use crate::phases::Phases;
use crate::scenario::Job;

/// How a scenario has a job run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// It is not measured, and begins again.
    pub interfering: bool,
    /// Its requests are told, as those of a traced run.
    pub traced: bool,
    /// The first rank that ends, ends the others.
    pub stonewall: bool,
    /// Disk servers hold nothing in memory when it begins.
    pub cold: bool,
}

impl Rules {
    /// Those of a job.
    pub fn of(job: &Job) -> Rules {
        let traced = job.traced && !job.interfering;
        Rules { interfering: job.interfering, traced, stonewall: job.stonewall, cold: job.cold }
    }
}

/// A job's rounds: one, or as many as there is time for where it interferes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    first: Option<Nanos>,
    last: Nanos,
    ended: Option<Nanos>,
    count: u64,
}

impl Rounds {
    /// A round begins.
    pub fn begin(&mut self, now: Nanos) {
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// All its ranks went through once more; whether that took time.
    pub fn count_round(&mut self, now: Nanos) -> bool {
        self.count += 1;
        now > self.last
    }

    /// There is none to come, whatever was under way.
    pub fn end(&mut self, now: Nanos) {
        self.ended = Some(now);
    }

    /// The same of a job that does not run; one that has ended keeps its time.
    pub fn end_idle(&mut self, now: Nanos) {
        self.ended.get_or_insert(now);
    }

    /// When the first began.
    pub fn begun(&self) -> Option<Nanos> {
        self.first
    }

    /// When the last was over.
    pub fn ended(&self) -> Option<Nanos> {
        self.ended
    }

    /// How many there were.
    pub fn so_far(&self) -> u64 {
        self.count
    }
}

/// See the module.
pub struct JobState<'a> {
    /// What its ranks do.
    pub program: &'a dyn Program,
    /// Its first rank, over all jobs; the others follow.
    pub first_rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// Its first file, over all jobs.
    pub first_file: u32,
    /// How the scenario has it run.
    pub rules: Rules,
    /// When it may begin, if it waits for no other.
    pub start: Option<Nanos>,
    /// Jobs that begin when it has ended, and how long after.
    pub followers: Vec<(u32, Nanos)>,
    /// When it began and ended.
    pub rounds: Rounds,
    /// Ranks that are not through.
    pub alive: u32,
    /// Ranks at the barrier.
    pub waiting: u32,
    /// Nobody begins anything any more.
    pub stopping: bool,
    /// What its ranks did.
    pub phases: Phases,
}

impl<'a> JobState<'a> {
    /// A job that has not begun.
    pub fn new(program: &'a dyn Program, first_rank: u32, first_file: u32, rules: Rules) -> JobState<'a> {
        let ranks = program.ranks();
        JobState {
            program,
            first_rank,
            ranks,
            first_file,
            rules,
            start: None,
            followers: Vec::new(),
            rounds: Rounds::default(),
            alive: 0,
            waiting: 0,
            stopping: false,
            phases: Phases::new(ranks),
        }
    }

    /// Its ranks, over all jobs.
    pub fn all_ranks(&self) -> std::ops::Range<u32> {
        self.first_rank..self.first_rank + self.ranks
    }

    /// What a barrier of its ranks takes once all are there.
    pub fn barrier(&self, round: Nanos) -> Nanos {
        let rounds = u32::BITS - self.ranks.saturating_sub(1).leading_zeros();
        Nanos(round.0 * u64::from(rounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_took_no_time_is_told_from_one_that_did() {
        let mut rounds = Rounds::default();
        rounds.begin(Nanos(3));
        assert!(rounds.count_round(Nanos(5)));
        rounds.begin(Nanos(5));
        assert!(!rounds.count_round(Nanos(5)));
        rounds.end_idle(Nanos(6));
        rounds.end_idle(Nanos(9));
        assert_eq!((rounds.begun(), rounds.ended(), rounds.so_far()), (Some(Nanos(3)), Some(Nanos(6)), 2));
    }
}
