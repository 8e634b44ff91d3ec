//! LiU's Table II, stock side, against an independent reference simulation.
//!
//! Six servers with disks of profile A, seven client nodes, 14 ranks a job. The settings are the reference script's
//! (pure Python, single runs), whose parameters are: server cost 0.65 ms a request, drive overhead 0.2 ms, bus
//! 250 MB/s, drive read-ahead 1 MiB, slice 100 ms, idle 2 ms, windows of 10 stripes, 3 under contention, the
//! second job's file 12.0 or 13.1 GB behind the first on every disk.
//!
//! The driver has what the script has outside its servers: the client nodes' receiving cards, a barrier of
//! 0.3 ms that the timed interval leaves out, and an interfering job that outlives the measured one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headstart_model::cluster::{Cluster, FileRequest, Placement};
use headstart_model::device::config::DeviceConfig;
use headstart_model::device::hdd::HddConfig;
use headstart_model::device::hdd::geometry::Mechanics;
use headstart_model::elevator::{CfqConfig, ElevatorKind};
use headstart_model::file_cache::FileReadAhead;
use headstart_model::nic::{Link, NicConfig};
use headstart_model::profile::Profile;
use headstart_model::request::{Operation, Origin};
use headstart_model::server::ServerConfig;
use headstart_units::{KIB, MIB, Nanos};

use crate::driver::{Random, assert_near};

const STRIPE: u64 = 64 * KIB;
const SERVERS: usize = 6;
const NODES: usize = 7;
const RANKS: u64 = 14;
const BARRIER: Nanos = Nanos(300_000);
/// The second file's address on every disk: 12.0 and 13.1 GB.
const GAPS: [u64; 2] = [STRIPE * 183_105, STRIPE * 200_000];
/// A rank's region in ior-mpi-io: a fourteenth of 10 GB.
const REGION: u64 = 10_000_000_000 / 14 / STRIPE * STRIPE;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Program {
    /// All ranks read neighbouring stripes, then wait for each other.
    MpiIoTest,
    /// Every rank reads a region of its own in order.
    Ior,
}

struct Job {
    program: Program,
    placement: Placement,
    iteration: u64,
    pending: u64,
    positions: Vec<u64>,
    moved: u64,
}

impl Job {
    fn new(program: Program, base: u64) -> Job {
        let placement = Placement { first_server: 0, bases: vec![base; SERVERS] };
        Job { program, placement, iteration: 0, pending: RANKS, positions: vec![0; RANKS as usize], moved: 0 }
    }

    fn offset(&mut self, rank: u64) -> u64 {
        match self.program {
            Program::MpiIoTest => (self.iteration * RANKS + rank) * STRIPE,
            Program::Ior => {
                let position = &mut self.positions[rank as usize];
                let offset = rank * REGION + *position;
                *position = (*position + STRIPE) % REGION;
                offset
            }
        }
    }
}

struct Figures {
    mb_per_s: f64,
    /// Mean distance between disk commands, in millions of sectors.
    seek_m_lbn: f64,
}

fn config(idle: Nanos) -> ServerConfig {
    let DeviceConfig::Hdd(disk) = Profile::Wd1602.device() else { unreachable!("it is a disk") };
    // The script's tracks are no whole number of sectors. Rounded to whole ones, the regions of ior come to
    // lie at other angles where the second file is 13.1 GB away, and row 3 has 58 to 67 MB/s there.
    let mechanics = Mechanics { sector_bytes: 1, ..disk.mechanics };
    ServerConfig {
        device: DeviceConfig::Hdd(HddConfig { command_overhead: Nanos(200_000), mechanics, ..disk }),
        // The script has twice of both on the way to the server and nothing on the way back.
        nic: NicConfig { latency: Nanos(50_000), jitter: Nanos(50_000), ..NicConfig::GIGABIT },
        elevator: ElevatorKind::Cfq,
        cfq: CfqConfig { idle_rank: idle, idle_read_ahead: idle, ..CfqConfig::default() },
        command_bytes_max: MIB,
        file_read_ahead: Some(FileReadAhead::default()),
        drive_read_ahead: Some((1, MIB)),
        drive_queue_depth: Some(1),
        request_cpu: Nanos(650_000),
        ..ServerConfig::new(Profile::Wd1602)
    }
}

/// Runs `measured` until it has read `bytes`, beside `other` whose file lies `gap` further on every disk.
fn run(measured: Program, other: Option<(Program, u64)>, bytes: u64, config: ServerConfig, seed: u64) -> Figures {
    let config = ServerConfig { phase_seed: seed * SERVERS as u64, ..config };
    let mut cluster = Cluster::new(std::iter::repeat_n(config, SERVERS), STRIPE);
    let mut jobs = vec![Job::new(measured, 0)];
    jobs.extend(other.map(|(program, gap)| Job::new(program, gap)));
    let wire = NicConfig { latency: Nanos::ZERO, ..NicConfig::GIGABIT };
    let mut nodes: Vec<Link> = (0..NODES).map(|_| Link::new(wire, 0)).collect();
    let mut random = Random::new(seed);
    // What happens next: a rank sends (kind 1), or has its bytes (kind 0); ties in this order.
    let mut events = BinaryHeap::new();
    for (job, state) in jobs.iter().enumerate() {
        for rank in 0..RANKS {
            let spread = if state.program == Program::Ior { random.below(5_000_000) } else { 0 };
            events.push(Reverse((Nanos(job as u64 * 3_000_000 + spread), 1, job as u64 * RANKS + rank)));
        }
    }
    let mut completions = Vec::new();
    loop {
        let next = events.peek().map(|Reverse((at, ..))| *at);
        let timer = cluster.next_timer();
        if let Some(timer) = timer
            && next.is_none_or(|next| timer <= next)
        {
            cluster.on_timer(timer, &mut completions);
            for completion in completions.drain(..) {
                let rank = completion.id % RANKS;
                let at = nodes[rank as usize % NODES].send(completion.at, STRIPE);
                events.push(Reverse((at, 0, completion.id)));
            }
            continue;
        }
        let Some(Reverse((now, kind, id))) = events.pop() else { unreachable!("ranks never end") };
        let (index, rank) = ((id / RANKS) as usize, id % RANKS);
        let job = &mut jobs[index];
        if kind == 1 {
            let offset = job.offset(rank);
            let origin = Origin { job: index as u32, rank: rank as u32, file: 0 };
            let placement = &job.placement;
            let request = FileRequest { id, operation: Operation::Read, placement, offset, length: STRIPE, origin };
            cluster.on_request(now, request);
            continue;
        }
        job.moved += STRIPE;
        match job.program {
            Program::Ior => events.push(Reverse((now, 1, id))),
            Program::MpiIoTest => {
                job.pending -= 1;
                if job.pending == 0 {
                    (job.pending, job.iteration) = (RANKS, job.iteration + 1);
                    for rank in 0..RANKS {
                        events.push(Reverse((now + BARRIER, 1, index as u64 * RANKS + rank)));
                    }
                }
            }
        }
        if index == 0 && job.moved >= bytes && (job.program == Program::Ior || job.pending == RANKS) {
            let barriers = if job.program == Program::Ior { 0 } else { job.iteration };
            let seconds = now.seconds() - barriers as f64 * BARRIER.seconds();
            let stats = cluster.stats(now).servers;
            let commands: u64 = stats.iter().map(|server| server.device_commands).sum();
            let distance: f64 =
                stats.iter().map(|server| server.seek_distance_bytes_mean * server.device_commands as f64).sum();
            return Figures {
                mb_per_s: job.moved as f64 / seconds / 1e6,
                seek_m_lbn: distance / commands as f64 / 512e6,
            };
        }
    }
}

/// The figures of runs with different random starts.
fn runs(measured: Program, other: Option<(Program, u64)>, bytes: u64, idle: Nanos) -> Vec<Figures> {
    (1..=SEEDS).map(|seed| run(measured, other, bytes, config(idle), seed)).collect()
}

fn mean(figures: &[Figures], of: fn(&Figures) -> f64) -> f64 {
    figures.iter().map(of).sum::<f64>() / figures.len() as f64
}

const IDLE: Nanos = Nanos(2_000_000);
const SEEDS: u64 = 8;

/// Compares the mean of the runs with the table's figure, which is of one run, and with the mean that the
/// script itself has over sixteen runs with other random starts and spindles at random angles.
#[track_caller]
fn assert_row(figures: &[Figures], table: (f64, f64), script: (f64, f64)) {
    let value = mean(figures, |run| run.mb_per_s);
    assert_near("MB/s, the table's run", value, table.0, table.1, 0.1);
    assert_near("MB/s, mean of the script", value, script.0, script.1, 0.1);
}

/// The script has 263.4 to 266.7 MB/s.
#[test]
fn mpi_io_test_alone_is_read_ahead_in_order() {
    let figures = runs(Program::MpiIoTest, None, 400_000_000, IDLE);
    assert_row(&figures, (266.8, 2.0), (265.6, 2.0));
    assert!(mean(&figures, |run| run.seek_m_lbn) < 0.01, "the reference has 0.0 M LBN");
}

/// The script has 116.4 to 123.2 and 120.1 to 128.6 MB/s. This model is up to 6 % above: a command takes the
/// same time to 0.4 ms, but 1.91 windows are read in a turn where the script reads 1.84, because the next one
/// is there before the patience with it begins more often; the latency's share of the two ways is not why.
#[test]
fn a_second_mpi_io_test_shares_the_disks_turn_by_turn() {
    for (gap, table, script, seek_m_lbn) in [(GAPS[0], 119.6, 119.0, 12.6), (GAPS[1], 124.1, 123.7, 13.6)] {
        let figures = runs(Program::MpiIoTest, Some((Program::MpiIoTest, gap)), 300_000_000, IDLE);
        assert_row(&figures, (table, 8.0), (script, 8.0));
        assert_near("M LBN", mean(&figures, |run| run.seek_m_lbn), seek_m_lbn, 8.0, 0.1);
    }
}

/// The script has 45.1 to 68.3 and 42.9 to 62.6 MB/s: how long the arm takes between ior's 14 regions is a
/// matter of where these lie on their tracks and of who comes first. The table's 45.4 is among the lowest.
#[test]
fn an_ior_beside_it_takes_the_arm_away() {
    for (gap, table, script, seek_m_lbn) in [(GAPS[0], 45.4, 54.1, 6.9), (GAPS[1], 50.0, 51.9, 8.1)] {
        let figures = runs(Program::MpiIoTest, Some((Program::Ior, gap)), 200_000_000, IDLE);
        assert_row(&figures, (table, 20.0), (script, 8.0));
        assert_near("M LBN", mean(&figures, |run| run.seek_m_lbn), seek_m_lbn, 16.0, 0.1);
    }
}

/// The script has 32.7 to 38.4 MB/s, and without patience 38.5 to 50.9.
#[test]
fn ior_alone_seeks_for_every_stripe() {
    for (idle, table, script) in [(IDLE, 32.7, 35.4), (Nanos::ZERO, 46.4, 43.4)] {
        let figures = runs(Program::Ior, None, 60_000_000, idle);
        assert_row(&figures, (table, 10.0), (script, 5.0));
    }
}

/// "No server read-ahead at all gives 66 MB/s alone, so server read-ahead is mandatory": the rows need the cache.
#[test]
fn without_reading_files_ahead_an_mpi_io_test_alone_is_slow() {
    let config = ServerConfig { file_read_ahead: None, ..config(IDLE) };
    let figures = run(Program::MpiIoTest, None, 100_000_000, config, 1);
    assert!(figures.mb_per_s < 0.45 * 266.8, "{:.1} MB/s", figures.mb_per_s);
}
