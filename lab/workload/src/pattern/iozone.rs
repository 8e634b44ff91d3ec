//! IOzone's throughput mode, one rank per thread of the original. Each rank has its own file of `file-size`
//! bytes, accessed in records. The order of random accesses is the same in every rank.
//!
//! All ranks begin together. "Stonewall", by which the first to finish stops the clock of all, is a matter of
//! whoever has one: it ends a phase at the first rank's mark.

use std::sync::Arc;

use headstart_units::request::{Direction, Range};
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes};
use crate::description::{Common, Problem, size};
use crate::permutation::Permutation;
use crate::plan::{Plan, Regions};
use crate::random::Random;
use crate::step::Phase;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Iozone {
    /// 0 write and rewrite, 1 read and reread, 2 random read and write, 3 reverse read; always in this order.
    pub tests: Vec<u8>,
    /// Bytes per request.
    #[serde(with = "size")]
    pub record: u64,
    /// Bytes per rank.
    #[serde(with = "size")]
    pub file_size: u64,
}

impl Default for Iozone {
    fn default() -> Iozone {
        Iozone { tests: vec![0, 1], record: 4 << 10, file_size: 1 << 20 }
    }
}

#[derive(Clone, Copy)]
enum Traversal {
    Forward,
    Random,
    Reverse,
}

const READ: Direction = Direction::Read;
const WRITE: Direction = Direction::Write;

const PASSES: [(u8, Phase, Traversal); 7] = [
    (0, Phase { name: "write", direction: WRITE }, Traversal::Forward),
    (0, Phase { name: "rewrite", direction: WRITE }, Traversal::Forward),
    (1, Phase { name: "read", direction: READ }, Traversal::Forward),
    (1, Phase { name: "reread", direction: READ }, Traversal::Forward),
    (2, Phase { name: "random_read", direction: READ }, Traversal::Random),
    (2, Phase { name: "random_write", direction: WRITE }, Traversal::Random),
    (3, Phase { name: "reverse_read", direction: READ }, Traversal::Reverse),
];

impl Iozone {
    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        if self.record == 0 || self.file_size == 0 || !self.file_size.is_multiple_of(self.record) {
            return Err(Problem::new("file-size must be a multiple of record, and both above 0"));
        }
        if common.collective {
            return Err(Problem::new("iozone has one file per rank, so it cannot be collective"));
        }
        if self.tests.is_empty() || self.tests.iter().any(|test| *test > 3) {
            return Err(Problem::new("tests is a list of numbers from 0 to 3"));
        }
        check_file_bytes(self.file_size)?;
        let is_run = |(test, phase, _): &(u8, Phase, Traversal)| {
            self.tests.contains(test) && common.operation.has(phase.direction)
        };
        let passes: Vec<_> =
            PASSES.into_iter().filter(is_run).map(|(_, phase, traversal)| (phase, traversal)).collect();
        if passes.is_empty() {
            return Err(Problem::new("none of these tests does that operation"));
        }
        let (record, file_bytes) = (self.record, self.file_size);
        Ok(Arc::new(IozonePattern { record, file_bytes, passes, ranks: common.ranks, seed: common.seed }))
    }
}

struct IozonePattern {
    record: u64,
    file_bytes: u64,
    passes: Vec<(Phase, Traversal)>,
    ranks: u32,
    seed: u64,
}

enum Records {
    Forward { bytes: u64 },
    Reverse { bytes: u64, last: u64 },
    Random { bytes: u64, permutation: Permutation },
}

impl Regions for Records {
    fn range(&self, index: u64) -> Range {
        let (bytes, record) = match self {
            Records::Forward { bytes } => (bytes, index),
            Records::Reverse { bytes, last } => (bytes, last - index),
            Records::Random { bytes, permutation } => (bytes, permutation.at(index)),
        };
        Range { offset: record * bytes, length: *bytes }
    }
}

impl Pattern for IozonePattern {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn phases(&self) -> Vec<Phase> {
        self.passes.iter().map(|(phase, _)| *phase).collect()
    }

    fn plan(&self, phase: usize, rank: u32) -> Plan {
        let (bytes, count) = (self.record, self.file_bytes / self.record);
        let records = match self.passes[phase].1 {
            Traversal::Forward => Records::Forward { bytes },
            Traversal::Reverse => Records::Reverse { bytes, last: count - 1 },
            Traversal::Random => {
                Records::Random { bytes, permutation: Permutation::new(count, Random::stream(self.seed, 0)) }
            }
        };
        Plan { period_bytes: self.file_bytes, file: rank, ..Plan::new(Box::new(records), count) }
    }

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn has_file_per_rank(&self) -> bool {
        true
    }

    fn request_bytes_max(&self) -> u64 {
        self.record
    }

    fn rate(&self) -> Rate {
        Rate::SumOfRanks
    }
}
