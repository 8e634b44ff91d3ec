//! mpi-io-test (PVFS2). The ranks' blocks lie side by side, iteration after iteration:
//!
//! ```text
//! offset = iteration * ranks * block + rank * block        own file (-I): iteration * block        single region (-S): 0
//! ```
//!
//! with a barrier before each request, outside the timed call. Without `collective` each rank opens the
//! shared file for itself.

use std::sync::Arc;

use headstart_units::request::Range;
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes, phases_of};
use crate::description::{Common, Operation, Problem, size};
use crate::plan::{Plan, Regions};
use crate::step::Phase;

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct MpiIoTest {
    /// Bytes per request.
    #[serde(with = "size")]
    pub block: u64,
    /// Requests per rank.
    pub iterations: u64,
    /// Each rank has a file of its own (-I).
    pub file_per_process: bool,
    /// Every request of every rank is for the first block of the file (-S).
    pub single_region: bool,
}

impl Default for MpiIoTest {
    fn default() -> MpiIoTest {
        MpiIoTest { block: 16 << 20, iterations: 1, file_per_process: false, single_region: false }
    }
}

impl MpiIoTest {
    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        if self.block == 0 || self.iterations == 0 {
            return Err(Problem::new("block and iterations must be above 0"));
        }
        if self.file_per_process && common.collective {
            return Err(Problem::new("a file-per-process is opened by one rank, not collective"));
        }
        check_file_bytes(self.block.saturating_mul(u64::from(common.ranks)).saturating_mul(self.iterations))?;
        Ok(Arc::new(MpiIoTestPattern { test: self.clone(), ranks: common.ranks, operation: common.operation }))
    }
}

struct MpiIoTestPattern {
    test: MpiIoTest,
    ranks: u32,
    operation: Operation,
}

impl MpiIoTestPattern {
    fn period_bytes(&self) -> u64 {
        match (self.test.single_region, self.test.file_per_process) {
            (true, _) => 0,
            (false, true) => self.test.block,
            (false, false) => self.test.block * u64::from(self.ranks),
        }
    }
}

/// The same block in each period.
struct Block(Range);

impl Regions for Block {
    fn range(&self, _: u64) -> Range {
        self.0
    }
}

impl Pattern for MpiIoTestPattern {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn phases(&self) -> Vec<Phase> {
        phases_of(self.operation)
    }

    fn plan(&self, _: usize, rank: u32) -> Plan {
        let is_first = self.test.single_region || self.test.file_per_process;
        let offset = if is_first { 0 } else { u64::from(rank) * self.test.block };
        Plan {
            period_count: self.test.iterations,
            period_bytes: self.period_bytes(),
            requests_per_barrier: 1,
            file: if self.test.file_per_process { rank } else { 0 },
            ..Plan::new(Box::new(Block(Range { offset, length: self.test.block })), 1)
        }
    }

    fn file_bytes(&self) -> u64 {
        if self.test.single_region { self.test.block } else { self.period_bytes() * self.test.iterations }
    }

    fn has_file_per_rank(&self) -> bool {
        self.test.file_per_process
    }

    fn request_bytes_max(&self) -> u64 {
        self.test.block
    }

    fn rate(&self) -> Rate {
        Rate::SlowestRequests
    }
}
