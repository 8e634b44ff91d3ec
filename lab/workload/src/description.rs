//! Programs as people describe them: in TOML, with the names that the options of `lab/bench/patterns` have.
//!
//! ```toml
//! kind = "ior"
//! ranks = 32
//! transfer = "16KiB"
//! block = "320MiB"
//! order = "zipf_own_block"
//! operation = "read"
//! ```

mod job;
pub mod size;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use job::{Common, Job, Operation};

use crate::pattern::Pattern;
use crate::program::PatternProgram;
use crate::{Btio, Hpio, Ior, Iozone, MpiIoTest, Program, Rate, Repeat, Sequence, Tile};

/// What is wrong with a description, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

impl Problem {
    pub(crate) fn new(text: impl Into<String>) -> Problem {
        Problem(text.into())
    }
}

type Made = Result<Arc<dyn Pattern>, Problem>;

/// A parallel program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Description {
    /// Contiguous blocks per rank, in transfers.
    Ior(Job<Ior>),
    /// Blocks side by side, a barrier before each request.
    MpiIoTest(Job<MpiIoTest>),
    /// Tiles of a dense two-dimensional dataset.
    Tile(Job<Tile>),
    /// Regions that alternate between ranks.
    Hpio(Job<Hpio>),
    /// Dumps of a cube in diagonal cells.
    Btio(Job<Btio>),
    /// One file per rank, several tests.
    Iozone(Job<Iozone>),
    /// Programs one after another.
    Sequence(Sequence),
    /// A program again and again.
    Repeat(Repeat),
}

impl Description {
    /// The program, if the description makes sense.
    pub fn program(&self) -> Result<Box<dyn Program>, Problem> {
        match (self, self.job()) {
            (_, Some((common, pattern))) => Ok(Box::new(PatternProgram::new(common.clone(), pattern?))),
            (Description::Sequence(sequence), _) => Ok(Box::new(sequence.program()?)),
            (Description::Repeat(repeat), _) => Ok(Box::new(repeat.program()?)),
            _ => unreachable!("every other kind is a job"),
        }
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), Problem> {
        self.program().map(drop)
    }

    /// How the benchmark computes its rate; none where there is more than one.
    pub fn rate(&self) -> Option<Rate> {
        self.job().and_then(|(_, pattern)| Some(pattern.ok()?.rate()))
    }

    /// The same with other random orders for each `number`: it is added to every seed.
    pub fn with_seed_added(mut self, number: u64) -> Description {
        self.each_common(&mut |common| common.seed = common.seed.wrapping_add(number));
        self
    }

    /// The same with its reads alone.
    pub(crate) fn reads(mut self) -> Description {
        self.each_common(&mut |common| common.operation = Operation::Read);
        self
    }

    fn each_common(&mut self, change: &mut dyn FnMut(&mut Common)) {
        match self {
            Description::Ior(job) => change(&mut job.common),
            Description::MpiIoTest(job) => change(&mut job.common),
            Description::Tile(job) => change(&mut job.common),
            Description::Hpio(job) => change(&mut job.common),
            Description::Btio(job) => change(&mut job.common),
            Description::Iozone(job) => change(&mut job.common),
            Description::Sequence(sequence) => {
                sequence.instances.iter_mut().for_each(|instance| instance.each_common(change));
            }
            Description::Repeat(repeat) => repeat.program.each_common(change),
        }
    }

    /// What a single job has; none of programs that consist of others.
    pub(crate) fn job(&self) -> Option<(&Common, Made)> {
        fn of(common: &Common, pattern: impl FnOnce(&Common) -> Made) -> Option<(&Common, Made)> {
            Some((common, common.check().and_then(|()| pattern(common))))
        }
        match self {
            Description::Ior(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::MpiIoTest(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::Tile(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::Hpio(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::Btio(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::Iozone(job) => of(&job.common, |common| job.pattern.pattern(common)),
            Description::Sequence(_) | Description::Repeat(_) => None,
        }
    }
}
