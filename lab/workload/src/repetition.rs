//! A program again and again: an interfering job, which outlives the one that is measured.

use serde::{Deserialize, Serialize};

use crate::description::{Description, Problem};
use crate::step::{Phase, Program, Step};

/// As it is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// What is repeated, on the same files.
    pub program: Box<Description>,
    /// How often; without it, until whoever runs it stops.
    #[serde(default)]
    pub times: Option<u64>,
}

impl Repeat {
    pub(crate) fn program(&self) -> Result<Repetition, Problem> {
        if self.times == Some(0) {
            return Err(Problem::new(
                "times must be at least 1; leave it out for a program that goes on until it is stopped",
            ));
        }
        Ok(Repetition { program: self.program.program()?, times: self.times })
    }
}

/// The program. Its marks are those of what it repeats, the same each time.
pub struct Repetition {
    /// What is repeated.
    pub program: Box<dyn Program>,
    /// How often; none: without end.
    pub times: Option<u64>,
}

impl Program for Repetition {
    fn ranks(&self) -> u32 {
        self.program.ranks()
    }

    fn file_bytes(&self) -> Vec<u64> {
        self.program.file_bytes()
    }

    fn phases(&self) -> Vec<Phase> {
        self.program.phases()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let times = self.times.unwrap_or(u64::MAX);
        Box::new((0..times).flat_map(move |_| self.program.steps(rank)))
    }
}
