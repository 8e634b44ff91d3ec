//! The programs of a scenario on a real file, in real time: a thread a rank, O_DIRECT, one request at a time each.
//!
//! `streams SCENARIO FILE [REQUESTS]` carries out the jobs of `SCENARIO` (as `headstart-lab sim` does in virtual
//! time) on `FILE`, no more than so many requests of each rank, and prints one JSON object. The programs'
//! files follow each other in `FILE` behind its first two MiB.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use headstart_units::request::{Direction, Range};
use headstart_volume::block::Buffer;
use headstart_volume::storage::buffers::zeroed;
use headstart_workload::{Description, Program, Step};
use serde::Deserialize;

/// Files begin here, and at multiples of it: what a volume guards lies in front.
const ALIGNMENT: u64 = 2 << 20;

#[derive(Deserialize)]
struct Scenario {
    job: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    workload: Description,
}

/// A program, and where its files begin.
struct Placed {
    program: Box<dyn Program>,
    bases: Vec<u64>,
    barrier: Barrier,
}

/// What a rank did: times of its requests in seconds, and their bytes.
#[derive(Default)]
struct Done {
    times: Vec<f64>,
    bytes: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, path, ..] = &arguments[..] else { panic!("a scenario and a file") };
    let requests_max = arguments.get(2).map_or(usize::MAX, |text| text.parse().expect("a number"));
    let text = std::fs::read_to_string(scenario).expect("the scenario can be read");
    let scenario: Scenario = toml::from_str(&text).expect("the scenario has jobs");
    let mut next = ALIGNMENT;
    let place = |job: &Job| {
        let program = job.workload.program().expect("the scenario's programs make sense");
        let base = |bytes: u64| {
            let base = next;
            next = (base + bytes).next_multiple_of(ALIGNMENT);
            base
        };
        let bases = program.file_bytes().into_iter().map(base).collect();
        Placed { barrier: Barrier::new(program.ranks() as usize), program, bases }
    };
    let placed: Vec<Placed> = scenario.job.iter().map(place).collect();
    let options = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).clone();
    let file = options.open(path).expect("the file can be opened");
    let begun = Instant::now();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let ranks = placed.iter().flat_map(|placed| (0..placed.program.ranks()).map(move |rank| (placed, rank)));
        let run = |(placed, rank): (_, u32)| {
            let file = &file;
            scope.spawn(move || run_rank(placed, rank, file, requests_max))
        };
        let threads: Vec<_> = ranks.map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank fails")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut times: Vec<f64> = done.iter().flat_map(|done| done.times.iter().copied()).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |part: f64| times[((times.len() - 1) as f64 * part) as usize] * 1e3;
    let figures = serde_json::json!({
        "seconds": seconds,
        "bytes": done.iter().map(|done| done.bytes).sum::<u64>(),
        "requests": times.len(),
        "p50_ms": quantile(0.5),
        "p99_ms": quantile(0.99),
    });
    println!("{figures}");
}

fn run_rank(placed: &Placed, rank: u32, file: &File, requests_max: usize) -> Done {
    let mut done = Done::default();
    let mut buffer = zeroed(4096);
    let mut carry_out = |number: u32, direction: Direction, range: Range| {
        if done.times.len() < requests_max {
            let begun = Instant::now();
            request(file, &mut buffer, direction, placed.bases[number as usize] + range.offset, range.length);
            done.times.push(begun.elapsed().as_secs_f64());
            done.bytes += range.length;
        }
    };
    for step in placed.program.steps(rank) {
        match step {
            Step::Request { file, direction, range } => carry_out(file, direction, range),
            Step::List { file, direction, ranges } => {
                ranges.into_iter().for_each(|range| carry_out(file, direction, range));
            }
            Step::Sync { .. } => file.sync_data().expect("the file can be synced"),
            Step::Barrier => drop(placed.barrier.wait()),
            Step::Think(time) => std::thread::sleep(Duration::from_nanos(time.0)),
            Step::Open { .. } | Step::Close { .. } | Step::Mark(_) => {}
        }
    }
    done
}

fn request(file: &File, buffer: &mut Buffer, direction: Direction, offset: u64, length: u64) {
    if buffer.len() < length as usize {
        *buffer = zeroed(length as usize);
        buffer.iter_mut().zip(0u8..=250).for_each(|(byte, value)| *byte = value);
    }
    let bytes = &mut buffer[..length as usize];
    match direction {
        Direction::Read => file.read_exact_at(bytes, offset),
        Direction::Write => file.write_all_at(bytes, offset),
    }
    .expect("the file takes the request");
}
