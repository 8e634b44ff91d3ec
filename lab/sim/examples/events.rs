//! How fast the simulator is: events per second on one core, for `SERVERS RANKS REQUESTS` (10 160 1000000 if
//! absent), stock.
//!
//! ```text
//! cargo run --release -p headstart-sim --example events -- 1000 10000 10000000
//! ```

use std::time::Instant;

use headstart_sim::scenario::{Job, Scenario};
use headstart_sim::{Options, run_programs};
use headstart_units::KIB;
use headstart_units::request::{Direction, Range};
use headstart_workload::{Program, Step};

/// Each rank reads its own block of a shared file at random, 64 KiB at a time.
struct Readers {
    ranks: u32,
    requests: u64,
    sequential: bool,
}

const BLOCK_REQUESTS: u64 = 256;

impl Program for Readers {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn file_bytes(&self) -> Vec<u64> {
        vec![u64::from(self.ranks) * BLOCK_REQUESTS * 64 * KIB]
    }

    fn steps(&self, rank: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let mut random = u64::from(rank) << 32 | 1;
        Box::new((0..self.requests).map(move |k| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let block = if self.sequential { k } else { random } % BLOCK_REQUESTS;
            let offset = (u64::from(rank) * BLOCK_REQUESTS + block) * 64 * KIB;
            Step::Request { file: 0, direction: Direction::Read, range: Range::new(offset, 64 * KIB) }
        }))
    }
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (servers, ranks, requests) = (next(10) as u32, next(160) as u32, next(1_000_000));
    let mut scenario = Scenario { drain: false, ..Scenario::default() };
    scenario.disk.servers = servers;
    scenario.clients.nodes = ranks.div_ceil(16);
    scenario.jobs.push(Job { name: "readers".into(), ..Job::default() });
    if let Some(profile) = std::env::var_os("PROFILE") {
        scenario.disk.profile = profile.to_string_lossy().into_owned();
    }
    let sequential = std::env::var_os("SEQUENTIAL").is_some();
    let started = Instant::now();
    let each = requests / u64::from(ranks);
    let programs = |_: usize, _: u64| Ok(Box::new(Readers { ranks, requests: each, sequential }) as Box<dyn Program>);
    let report = run_programs(&scenario, &programs, Options::default()).expect("the scenario runs");
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{servers} servers, {ranks} ranks, {} requests: {:.2} s, {} events, {:.0} events/s, {:.2} us an event, {:.0} MiB at most; \
         {:.1} simulated s, {:.1} MB/s",
        report.requests(),
        seconds,
        report.events,
        report.events as f64 / seconds,
        seconds * 1e6 / report.events as f64,
        peak_mib(),
        report.seconds,
        report.mb_per_s(),
    );
}
