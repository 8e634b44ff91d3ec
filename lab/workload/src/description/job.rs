//! One benchmark: what every pattern has, and the pattern's own parameters, side by side in one table.

use std::collections::BTreeMap;

use headstart_units::request::Direction;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use super::Problem;

/// Which phases to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Operation {
    Write,
    Read,
    #[default]
    WriteRead,
}

impl Operation {
    /// Whether phases in that direction are run.
    pub(crate) fn has(self, direction: Direction) -> bool {
        match self {
            Operation::Write => direction == Direction::Write,
            Operation::Read => direction == Direction::Read,
            Operation::WriteRead => true,
        }
    }
}

/// What every pattern has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Common {
    /// Ranks that are started; those that a pattern has no use for idle.
    pub ranks: u32,
    /// Phases to run.
    #[serde(default)]
    pub operation: Operation,
    /// Ranks make their requests together. As steps: they meet before each.
    #[serde(default)]
    pub collective: bool,
    /// Of random orders.
    #[serde(default)]
    pub seed: u64,
    /// Of all phases.
    #[serde(default = "once")]
    pub repetitions: u64,
    /// Computing between requests, in microseconds (BTIO: between dumps).
    #[serde(default)]
    pub think_us: u64,
    /// Each rank syncs what it wrote before it closes.
    #[serde(default)]
    pub sync: bool,
}

fn once() -> u64 {
    1
}

impl Common {
    /// So many ranks, everything else as it is without a word.
    pub fn new(ranks: u32) -> Common {
        let operation = Operation::default();
        Common { ranks, operation, collective: false, seed: 0, repetitions: 1, think_us: 0, sync: false }
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.ranks == 0 {
            return Err(Problem::new("ranks must be at least 1"));
        }
        // Phases and their marks are numbered through all repetitions.
        if !(1..=1 << 20).contains(&self.repetitions) {
            return Err(Problem::new("repetitions must be from 1 to 2^20"));
        }
        if self.think_us > u64::MAX / 1000 {
            return Err(Problem::new("think-us must be below 2^64 ns"));
        }
        Ok(())
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job<P> {
    /// What every pattern has.
    #[serde(flatten)]
    pub common: Common,
    /// The pattern's own.
    #[serde(flatten)]
    pub pattern: P,
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Job<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Job<P>, D::Error> {
        // What the first two leave is known to neither; `deny_unknown_fields` does not go with `flatten`.
        #[derive(Deserialize)]
        struct Table<P> {
            #[serde(flatten)]
            common: Common,
            #[serde(flatten)]
            pattern: P,
            #[serde(flatten)]
            unknown: BTreeMap<String, IgnoredAny>,
        }
        let table = Table::deserialize(deserializer)?;
        match table.unknown.into_keys().next() {
            Some(key) => Err(D::Error::custom(format!("the workload has no key '{key}'"))),
            None => Ok(Job { common: table.common, pattern: table.pattern }),
        }
    }
}
