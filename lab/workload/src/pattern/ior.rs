//! IOR (hpc/ior). In every segment each rank has one contiguous block, accessed in transfers:
//!
//! ```text
//! offset = segment * ranks * block + rank * block + j * transfer
//! ```
//!
//! With a file per process it is `segment * block + j * transfer`. The order of random accesses is drawn once
//! and used again in every segment, as IOR does. There is no barrier between transfers.

mod orders;

use std::sync::{Arc, OnceLock};

use headstart_units::request::Direction;
use serde::{Deserialize, Serialize};

use super::{Pattern, Rate, check_file_bytes, phases_of};
use crate::description::{Common, Operation, Problem, size};
use crate::permutation::Permutation;
use crate::plan::{Plan, Regions};
use crate::random::Random;
use crate::step::Phase;
use orders::{Dealt, OwnBlock, Slots, deal};

/// In which order a rank makes its transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending.
    #[default]
    Seq,
    /// A permutation of the rank's own transfers: "each process accesses its own 1/n of the file with random offsets".
    PermOwnBlock,
    /// Draws from the rank's own block, with replacement.
    UniformOwnBlock,
    /// Each transfer of the segment is dealt to a random rank, and each rank shuffles its share.
    DealGlobal,
    /// Draws from the rank's own block, where transfer j has weight (j + 1)^-θ.
    ZipfOwnBlock,
}

/// Its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Ior {
    /// Bytes per request.
    #[serde(with = "size")]
    pub transfer: u64,
    /// Contiguous bytes per rank and segment.
    #[serde(with = "size")]
    pub block: u64,
    /// Blocks per rank.
    pub segments: u64,
    /// Of transfers.
    pub order: Order,
    /// θ of `zipf_own_block`.
    pub theta: f64,
    /// Draws per rank and segment where transfers are drawn; 0: as many as a block has transfers.
    pub requests: u64,
    /// The hot region of `zipf_own_block` moves: it has so many places, one after another, each for as many
    /// requests. 0: it stays.
    pub shift_windows: u64,
    /// Number of the first of these places.
    pub shift_first: u64,
    /// Each rank has a file of its own.
    pub file_per_process: bool,
    /// A rank reads what the rank so many further on wrote (IOR's -C).
    pub reorder_tasks: u64,
    /// A rank reads what a random rank wrote, and no two what the same one did (IOR's -Z, for the ranks).
    pub reorder_random: bool,
}

impl Default for Ior {
    fn default() -> Ior {
        Ior {
            transfer: 256 << 10,
            block: 1 << 20,
            segments: 1,
            order: Order::Seq,
            theta: 1.0,
            requests: 0,
            shift_windows: 0,
            shift_first: 0,
            file_per_process: false,
            reorder_tasks: 0,
            reorder_random: false,
        }
    }
}

impl Ior {
    fn draws(&self) -> bool {
        matches!(self.order, Order::UniformOwnBlock | Order::ZipfOwnBlock)
    }

    fn transfers(&self) -> u64 {
        self.block / self.transfer
    }

    /// Requests of a rank in a segment and window.
    fn part(&self) -> u64 {
        if self.requests > 0 { self.requests } else { self.transfers() }
    }

    fn check(&self, common: &Common) -> Result<(), Problem> {
        let file_ranks = if self.file_per_process { 1 } else { u64::from(common.ranks) };
        let is_whole = self.transfer > 0 && (self.draws() || self.block.is_multiple_of(self.transfer));
        if !is_whole || self.block < self.transfer {
            return Err(Problem::new(
                "block must be a multiple of transfer, or no less where requests are drawn, and both above 0",
            ));
        }
        if self.requests > 0 && !self.draws() {
            return Err(Problem::new("requests is for the orders uniform_own_block and zipf_own_block"));
        }
        if self.shift_windows > 0 && (self.order != Order::ZipfOwnBlock || self.segments != 1 || common.collective) {
            return Err(Problem::new(
                "a hot region that shifts is for order zipf_own_block, one segment, not collective",
            ));
        }
        if self.segments == 0 {
            return Err(Problem::new("segments must be at least 1"));
        }
        if self.file_per_process && self.order == Order::DealGlobal {
            return Err(Problem::new("order deal_global needs a shared file, not file-per-process"));
        }
        if !(0.0..=100.0).contains(&self.theta) {
            return Err(Problem::new("theta must be from 0 to 100"));
        }
        let draws = [self.shift_windows.max(1), self.segments].into_iter().try_fold(self.part(), u64::checked_mul);
        if draws.is_none() {
            return Err(Problem::new("there would be more than 2^64 requests; lower requests, segments or windows"));
        }
        check_file_bytes(self.block.saturating_mul(self.segments).saturating_mul(file_ranks))
    }

    pub(crate) fn pattern(&self, common: &Common) -> Result<Arc<dyn Pattern>, Problem> {
        self.check(common)?;
        let (ranks, seed, operation) = (common.ranks, common.seed, common.operation);
        Ok(Arc::new(IorPattern { ior: self.clone(), ranks, seed, operation, shares: OnceLock::new() }))
    }
}

struct IorPattern {
    ior: Ior,
    ranks: u32,
    seed: u64,
    operation: Operation,
    /// Of `deal_global`: where each rank's share of the shuffled transfers begins, and the end of the last.
    shares: OnceLock<Vec<u64>>,
}

impl IorPattern {
    /// The rank whose data is accessed.
    fn owner(&self, direction: Direction, rank: u32) -> u32 {
        let ranks = u64::from(self.ranks);
        match direction {
            Direction::Write => rank,
            // The stream behind those of the ranks and the deal.
            Direction::Read if self.ior.reorder_random => {
                Permutation::new(ranks, Random::stream(self.seed, ranks + 1)).at(u64::from(rank)) as u32
            }
            Direction::Read => ((u64::from(rank) + self.ior.reorder_tasks % ranks) % ranks) as u32,
        }
    }

    fn slots(&self) -> u64 {
        self.ior.transfers() * u64::from(self.ranks)
    }

    fn shares(&self) -> &[u64] {
        self.shares.get_or_init(|| deal(self.seed, self.ranks, self.slots()))
    }

    fn own_block(&self, owner: u32) -> (Box<dyn Regions>, u64) {
        let slots = Slots::new(&self.ior, self.seed, owner, self.ior.part());
        let first = if self.ior.file_per_process { 0 } else { u64::from(owner) * self.ior.block };
        let count = self.ior.part() * self.ior.shift_windows.max(1);
        (Box::new(OwnBlock { first, transfer: self.ior.transfer, slots }), count)
    }
}

impl Pattern for IorPattern {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn phases(&self) -> Vec<Phase> {
        phases_of(self.operation)
    }

    fn plan(&self, phase: usize, rank: u32) -> Plan {
        let owner = self.owner(self.phases()[phase].direction, rank);
        let (regions, count): (Box<dyn Regions>, u64) = match self.ior.order {
            Order::DealGlobal => {
                let (first, end) = (self.shares()[owner as usize], self.shares()[owner as usize + 1]);
                (Box::new(Dealt::new(self.seed, self.ranks, self.slots(), first, self.ior.transfer)), end - first)
            }
            _ => self.own_block(owner),
        };
        let period_ranks = if self.ior.file_per_process { 1 } else { u64::from(self.ranks) };
        Plan {
            period_count: self.ior.segments,
            period_bytes: self.ior.block * period_ranks,
            window_count: self.ior.shift_windows,
            file: if self.ior.file_per_process { owner } else { 0 },
            ..Plan::new(regions, count)
        }
    }

    fn file_bytes(&self) -> u64 {
        let ranks = if self.ior.file_per_process { 1 } else { u64::from(self.ranks) };
        self.ior.block * self.ior.segments * ranks
    }

    fn has_file_per_rank(&self) -> bool {
        self.ior.file_per_process
    }

    fn request_bytes_max(&self) -> u64 {
        self.ior.transfer
    }

    fn requests_max(&self, phase: usize) -> u64 {
        match self.ior.order {
            Order::DealGlobal => {
                let largest = self.shares().windows(2).map(|share| share[1] - share[0]).max();
                largest.expect("there is a rank") * self.ior.segments
            }
            _ => self.plan(phase, 0).requests(),
        }
    }

    fn rate(&self) -> Rate {
        Rate::OpenToClose
    }
}
