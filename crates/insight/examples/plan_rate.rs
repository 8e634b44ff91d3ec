//! How fast a plan is made: `cargo run --release -p headstart-insight --example plan_rate [-- REQUESTS RANKS REGIONS]`.
//!
//! Requests of 8 KiB, half reads, at random regions; they are made on the fly, so that the rate has their
//! making in it, twice.

use std::time::Instant;

use headstart_insight::Software;
use headstart_insight::plan::{Choice, Options, TracedFile, plan};
use headstart_policy::cost::benefit;
use headstart_policy::cost::region::{Costs, Parameters};
use headstart_units::Capacity;
use headstart_units::request::{Access, Direction, Range};
use headstart_units::{MIB, Nanos};

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("arguments are numbers")).collect();
    let number = |index: usize, default: u64| numbers.get(index).copied().unwrap_or(default);
    let (requests, ranks, regions) = (number(0, 20_000_000), number(1, 16), number(2, 640));
    let s4d = benefit::Parameters { hdd_servers: 8, ssd_servers: 4, ..benefit::Parameters::default() };
    let costs = Costs { read: Parameters::from(&s4d), write: Parameters::from(&s4d) };
    let file = TracedFile { path: "data".into(), inode: None, size_bytes: Some(regions * MIB), region_bytes: MIB };
    let access = |number: u64| {
        // Multiplication by an odd number scatters; the square prefers low regions.
        let scattered = ((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * regions) >> 32;
        let step = number / ranks * 10_000_000;
        Access {
            file: 0,
            rank: (number % ranks) as u32,
            direction: if scattered.is_multiple_of(2) { Direction::Read } else { Direction::Write },
            range: Range::new(scattered * scattered / regions * MIB + number % 100 * 8192, 8192),
            start: Nanos(step),
            end: Nanos(step + 8_000_000),
            without_flash: true,
        }
    };
    let options = Options { capacity: Capacity::Share(0.2), choice: Choice::Gain, software: Software::default() };
    let began = Instant::now();
    let plan =
        plan(|| (0..requests).map(access), |_| Some(file.clone()), &costs, options).expect("a plan of sound requests");
    let taken_s = began.elapsed().as_secs_f64();
    println!(
        "{requests} requests, {ranks} ranks, {} regions: {taken_s:.2} s, {:.0} requests/s; \
         predicted {:.0} s, before {:.0} s",
        plan.files[0].regions.len(),
        requests as f64 / taken_s,
        plan.prediction.after_s,
        plan.prediction.before_s
    );
}
