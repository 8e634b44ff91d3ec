//! A job: a program's ranks, their barriers, and when they begin and end.

use headstart_units::Nanos;
use headstart_workload::Program;

use crate::phases::Phases;

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
    /// It is not measured, and begins again.
    pub interfering: bool,
    /// Its requests are told, as those of a traced run.
    pub traced: bool,
    /// The first rank that ends, ends the others.
    pub stonewall: bool,
    /// Disk servers hold nothing in memory when it begins.
    pub cold: bool,
    /// Jobs that begin when it has ended, and how long after.
    pub followers: Vec<(u32, Nanos)>,
    /// When it first began.
    pub begun: Option<Nanos>,
    /// When it last began.
    pub began_again: Nanos,
    /// When its last rank had ended.
    pub ended: Option<Nanos>,
    /// How often all its ranks went through.
    pub rounds: u64,
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
    pub fn new(program: &'a dyn Program, first_rank: u32, first_file: u32) -> JobState<'a> {
        let ranks = program.ranks();
        JobState {
            program,
            first_rank,
            ranks,
            first_file,
            interfering: false,
            traced: true,
            stonewall: false,
            cold: false,
            followers: Vec::new(),
            begun: None,
            began_again: Nanos::ZERO,
            ended: None,
            rounds: 0,
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
