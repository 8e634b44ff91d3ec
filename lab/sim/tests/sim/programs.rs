//! Programs of the tests.

use headstart_sim::scenario::{Costs, Job, Policy, Scenario, Size};
use headstart_sim::{Options, Report, run_programs};
use headstart_units::chance::splitmix64;
use headstart_units::request::{Direction, Range};
use headstart_units::{KIB, Nanos};
use headstart_workload::{Program, Step};

/// Steps of every rank, as they are.
#[derive(Clone, Debug)]
pub struct Fixed {
    pub files: Vec<u64>,
    pub ranks: Vec<Vec<Step>>,
}

impl Program for Fixed {
    fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn file_bytes(&self) -> Vec<u64> {
        self.files.clone()
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        Box::new(self.ranks[rank as usize].iter().cloned())
    }
}

/// Each rank works on its own block of a shared file.
#[derive(Clone, Debug)]
pub struct Blocks {
    pub ranks: u32,
    pub block: u64,
    pub transfer: u64,
    pub requests: u64,
    pub order: Order,
    pub directions: Vec<Direction>,
    pub seed: u64,
}

/// Where the next request of a rank goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    Sequential,
    Uniform,
    /// Zipf's law over the transfers of the block, hot ones first.
    Zipf(f64),
}

impl Blocks {
    /// CARL's Zipf program, smaller.
    pub fn zipf(transfer: u64, direction: Direction, seed: u64) -> Blocks {
        let requests = if transfer >= 256 * KIB { 200 } else { 600 };
        let order = Order::Zipf(1.0);
        Blocks { ranks: 16, block: 1021 * 64 * KIB, transfer, requests, order, directions: vec![direction], seed }
    }
}

impl Program for Blocks {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn file_bytes(&self) -> Vec<u64> {
        vec![u64::from(self.ranks) * self.block]
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let pieces = self.block / self.transfer;
        let theta = if let Order::Zipf(theta) = self.order { theta } else { 0.0 };
        let weights: Vec<f64> = (1..=if theta > 0.0 { pieces } else { 0 })
            .scan(0.0, |sum, piece| {
                *sum += (piece as f64).powf(-theta);
                Some(*sum)
            })
            .collect();
        let base = u64::from(rank) * self.block;
        let phases = (0u32..).zip(&self.directions).flat_map(move |(mark, &direction)| {
            let mut random = self.seed ^ (u64::from(rank) << 32) ^ u64::from(mark);
            let weights = weights.clone();
            let requests = (0..self.requests).map(move |k| {
                let unit = splitmix64(&mut random) as f64 / u64::MAX as f64;
                let piece = match self.order {
                    Order::Sequential => k % pieces,
                    Order::Uniform => ((unit * pieces as f64) as u64).min(pieces - 1),
                    Order::Zipf(_) => {
                        let at = unit * weights[weights.len() - 1];
                        weights.partition_point(|weight| *weight < at).min(weights.len() - 1) as u64
                    }
                };
                let range = Range::new(base + piece * self.transfer, self.transfer);
                Step::Request { file: 0, direction, range }
            });
            let writable = direction == Direction::Write;
            let begin = [Step::Barrier, Step::Mark(mark), Step::Open { file: 0, writable }];
            begin.into_iter().chain(requests).chain([Step::Close { file: 0 }])
        });
        Box::new(phases)
    }
}

/// A scenario of one job, its name that of the test.
pub fn scenario(policy: Policy) -> Scenario {
    let mut scenario = Scenario { policy, ..Scenario::default() };
    scenario.jobs.push(Job { name: "job".into(), ..Job::default() });
    scenario
}

/// Figures of idle devices, so that tests of policies need not measure.
pub fn costs() -> Costs {
    toml::from_str(include_str!("costs.toml")).expect("the costs are right")
}

/// Runs programs, one a job, with all checks.
pub fn run(scenario: &Scenario, make: &dyn Fn(usize, u64) -> Box<dyn Program>) -> Report {
    let options = Options { check: true, ..Options::default() };
    run_programs(scenario, &|job, seed| Ok(make(job, seed)), options).unwrap_or_else(|error| panic!("{error}"))
}

/// A region length for small files.
pub const REGION: Size = Size(16 * 64 * KIB);

pub fn read(offset: u64, length: u64) -> Step {
    Step::Request { file: 0, direction: Direction::Read, range: Range::new(offset, length) }
}

pub fn write(offset: u64, length: u64) -> Step {
    Step::Request { file: 0, direction: Direction::Write, range: Range::new(offset, length) }
}

pub fn think(seconds: f64) -> Step {
    Step::Think(Nanos::from_seconds(seconds))
}
