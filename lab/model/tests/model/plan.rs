//! Predicted run times of plans against closed loops on the modelled servers of CARL's cluster.

use headstart_insight::Software;
use headstart_insight::plan::{Choice, Options, Plan, TracedFile, plan};
use headstart_model::cluster::{Cluster, FileRequest, Placement};
use headstart_model::profile::Profile;
use headstart_model::request::{Completion, Operation, Origin};
use headstart_model::server::ServerConfig;
use headstart_policy::client::Request;
use headstart_policy::client::carl::Regions;
use headstart_policy::client::{Decision, Policy, parts};
use headstart_policy::cost::region::{Costs, Parameters};
use headstart_policy::order::Distance;
use headstart_units::Capacity;
use headstart_units::request::{Access, Direction, Range};
use headstart_units::{KIB, Nanos};

use crate::driver::Random;

const STRIPE: u64 = 64 * KIB;

/// A program: each rank has its own block of a shared file and asks for pieces of it.
#[derive(Clone, Copy, Debug)]
struct Program {
    direction: Direction,
    ranks: u32,
    request_bytes: u64,
    requests: u64,
    /// Zipf's exponent; 0 is uniform.
    theta: f64,
    think: Nanos,
    /// Stripes of a rank's block.
    stripes: u64,
    server_cache_bytes: u64,
    /// The drives' read-ahead, which keeps hot blocks as well.
    drive_cache: bool,
    seed: u64,
}

impl Program {
    fn file_bytes(&self) -> u64 {
        u64::from(self.ranks) * self.stripes * STRIPE
    }

    /// Every rank's requests.
    fn offsets(&self) -> Vec<Vec<u64>> {
        let pieces = self.stripes * STRIPE / self.request_bytes;
        let weights: Vec<f64> = (1..=pieces)
            .scan(0.0, |sum, piece| {
                *sum += (piece as f64).powf(-self.theta);
                Some(*sum)
            })
            .collect();
        let total = weights[weights.len() - 1];
        let mut random = Random::new(self.seed);
        let mut draw = move || {
            let at = random.below(1 << 50) as f64 / (1u64 << 50) as f64 * total;
            weights.partition_point(|weight| *weight < at) as u64 * self.request_bytes
        };
        let mut block = |rank: u32| {
            let base = u64::from(rank) * self.stripes * STRIPE;
            (0..self.requests).map(|_| base + draw()).collect()
        };
        (0..self.ranks).map(&mut block).collect()
    }

    fn cluster(&self, profile: Profile, count: u64) -> Cluster {
        let server = |phase_seed| {
            let mut config = ServerConfig::new(profile);
            config.server_cache_bytes = self.server_cache_bytes;
            config.phase_seed = phase_seed;
            if !self.drive_cache {
                config.drive_read_ahead = None;
            }
            config
        };
        Cluster::new((0..count).map(server), STRIPE)
    }

    /// Runs it with `regions` on flash; a request across them is served part by part.
    fn run(&self, regions: &Regions) -> Vec<Access> {
        let mut tiers = [self.cluster(Profile::Seagate250, 8), self.cluster(Profile::RevodriveX2, 4)];
        let places = [8, 4].map(|servers| Placement { first_server: 0, bases: vec![0; servers] });
        let policies: [&dyn Policy; 1] = [regions];
        let offsets = self.offsets();
        let operation = if self.direction == Direction::Read { Operation::Read } else { Operation::Write };
        // Of each rank: parts left of its request, and when that began.
        let mut left: Vec<Vec<(usize, Range)>> = vec![Vec::new(); self.ranks as usize];
        let mut next = vec![0usize; self.ranks as usize];
        let mut began = vec![Nanos::ZERO; self.ranks as usize];
        // Ranks that think, until when.
        let mut thinking: Vec<(Nanos, u32)> =
            (0..self.ranks).map(|rank| (Nanos(u64::from(rank) * 50_000), rank)).collect();
        let (mut accesses, mut completions) = (Vec::new(), Vec::<Completion>::new());
        loop {
            let timers = [tiers[0].next_timer(), tiers[1].next_timer()];
            let think = thinking.iter().copied().min();
            let device = timers.into_iter().flatten().min();
            let Some(now) = think.map(|(at, _)| at).into_iter().chain(device).min() else { return accesses };
            for tier in &mut tiers {
                tier.on_timer(now, &mut completions);
            }
            let mut ready: Vec<u32> = completions.drain(..).map(|done| done.id as u32).collect();
            thinking.retain(|(at, rank)| {
                if *at == now {
                    ready.push(*rank);
                }
                *at != now
            });
            for rank in ready {
                let index = rank as usize;
                if left[index].is_empty() {
                    if next[index] > 0 && began[index] != Nanos::MAX {
                        let range = Range::new(offsets[index][next[index] - 1], self.request_bytes);
                        accesses.push(self.access(rank, range, began[index], now));
                        if self.think > Nanos::ZERO {
                            began[index] = Nanos::MAX;
                            thinking.push((now + self.think, rank));
                            continue;
                        }
                    }
                    if next[index] == offsets[index].len() {
                        continue;
                    }
                    let range = Range::new(offsets[index][next[index]], self.request_bytes);
                    next[index] += 1;
                    began[index] = now;
                    let request = Request { direction: self.direction, range, distance: Distance::default() };
                    left[index] = parts(&policies, request)
                        .map(|(part, what)| (usize::from(!matches!(what, Decision::Disk(_))), part.range))
                        .collect();
                    left[index].reverse();
                }
                let (tier, Range { offset, length }) = left[index].pop().expect("a request has parts");
                let placement = &places[tier];
                tiers[tier].on_request(
                    now,
                    FileRequest { id: rank.into(), operation, placement, offset, length, origin: Origin::default() },
                );
            }
        }
    }

    fn access(&self, rank: u32, range: Range, start: Nanos, end: Nanos) -> Access {
        Access { file: 0, rank, direction: self.direction, range, start, end, without_flash: true }
    }

    fn plan(&self, trace: &[Access], capacity: f64, choice: Choice) -> Plan {
        let file = TracedFile {
            path: "data".into(),
            inode: Some(1),
            size_bytes: Some(self.file_bytes()),
            region_bytes: self.file_bytes() / 640,
        };
        let options = Options { capacity: Capacity::Share(capacity), choice, software: Software::default() };
        plan(|| trace.iter().copied(), |_| Some(file.clone()), &costs(self), options).unwrap()
    }
}

/// Figures of idle devices, as `headstart-lab testbed up` finds them: startup of a disk from overhead and
/// shortest seek to seek and a whole turn, and for writes a millisecond to settle; a byte goes through the
/// device and then the network, which is the slower.
fn costs(program: &Program) -> Costs {
    let network = 1.0 / 117e6;
    let parameters = |settle_s: f64, ssd_s_per_byte: f64, ssd_startup_s| Parameters {
        hdd_servers: 8,
        ssd_servers: 4,
        stripe_bytes: STRIPE,
        hdd_startup_s_min: 0.0015 + settle_s,
        hdd_startup_s_max: 0.0098 + settle_s,
        hdd_s_per_byte: 1.0 / 100e6 + network,
        ssd_s_per_byte: ssd_s_per_byte + network,
        ssd_startup_s,
        ssd_busy_s_per_byte: Some(network),
        near_stays: false,
        interleaved_stays: false,
    };
    // A write that the server's cache takes waits for the network alone.
    let cached = parameters(0.001, 0.0, 0.0002);
    let write = if program.server_cache_bytes > 0 { cached } else { parameters(0.001, 1.0 / 190e6, 0.00045) };
    Costs { read: parameters(0.0, 1.0 / 220e6, 0.0007), write }
}

fn span_s(accesses: &[Access]) -> f64 {
    let begin = accesses.iter().map(|access| access.start).min().unwrap();
    accesses.iter().map(|access| access.end).max().unwrap().since(begin).seconds()
}

/// Plans from one run and compares what is promised with another run of other requests.
fn assert_predicted(name: &str, program: Program, capacity: f64, choice: Choice) {
    let traced = program.run(&Regions::default());
    let plan = program.plan(&traced, capacity, choice);
    assert_eq!(plan.prediction.before_s, span_s(&traced), "the run was measured");
    let other = Program { seed: program.seed + 100, ..program };
    let before_s = span_s(&other.run(&Regions::default()));
    let after_s = span_s(&other.run(&plan.files[0].wanted()));
    let error = plan.prediction.after_s / after_s - 1.0;
    println!(
        "{name:12} {:?} {:3} KiB, {:3} ranks: before {before_s:5.2} s, after {after_s:5.2} s, predicted {:5.2} ({:+5.1} %)",
        program.direction,
        program.request_bytes >> 10,
        program.ranks,
        plan.prediction.after_s,
        error * 100.0
    );
    assert!(error.abs() < 0.15, "{name} {program:?}: {error}");
}

const ZIPF: Program = Program {
    direction: Direction::Read,
    ranks: 16,
    request_bytes: 8 * KIB,
    requests: 1500,
    theta: 1.0,
    think: Nanos::ZERO,
    stripes: 1021,
    server_cache_bytes: 0,
    drive_cache: true,
    seed: 1,
};

fn assert_predicted_at_every_size(direction: Direction) {
    for kib in [8, 16, 32, 256] {
        let requests = if kib == 256 { 400 } else { 1500 };
        let zipf = Program { direction, request_bytes: kib * KIB, requests, ..ZIPF };
        assert_predicted("zipf", zipf, 0.2, Choice::Gain);
        assert_predicted("third", zipf, 1.0 / 3.0, Choice::Gain);
        assert_predicted("uniform", Program { theta: 0.0, ..zipf }, 0.2, Choice::Gain);
        assert_predicted("random", zipf, 0.2, Choice::Random(3));
    }
}

#[test]
fn run_times_of_reads_are_predicted_within_15_percent() {
    assert_predicted_at_every_size(Direction::Read);
    assert_predicted("no cache", Program { drive_cache: false, ..ZIPF }, 0.2, Choice::Gain);
}

#[test]
fn run_times_of_writes_are_predicted_within_15_percent() {
    assert_predicted_at_every_size(Direction::Write);
    let cached = Program { direction: Direction::Write, server_cache_bytes: 8 << 20, ..ZIPF };
    assert_predicted("server cache", Program { request_bytes: 32 * KIB, ..cached }, 0.2, Choice::Gain);
    assert_predicted("server cache", Program { request_bytes: 256 * KIB, ..cached }, 0.2, Choice::Gain);
}

#[test]
fn run_times_are_predicted_within_15_percent_for_any_number_of_ranks() {
    for ranks in [1, 4, 32, 64, 128] {
        let stripes = (1021 * 16 / u64::from(ranks)) | 1;
        assert_predicted("ranks", Program { ranks, stripes, ..ZIPF }, 0.2, Choice::Gain);
    }
}

#[test]
fn think_time_and_a_server_that_has_all_hot_stripes_are_in_the_prediction() {
    assert_predicted("think", Program { think: Nanos(5_000_000), ..ZIPF }, 0.2, Choice::Gain);
    assert_predicted("aligned", Program { stripes: 1024, ..ZIPF }, 0.2, Choice::Gain);
}
