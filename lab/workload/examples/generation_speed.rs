//! How fast steps are made: steps and requests a second on one core, and nanoseconds each, for every pattern.
//!
//! `cargo run --release -p headstart-workload --example generation_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use headstart_workload::{Description, Step};

const PATTERNS: [(&str, &str); 12] = [
    ("ior seq", "kind = 'ior'\ntransfer = '16KiB'\nblock = '64GiB'"),
    ("ior perm_own_block", "kind = 'ior'\ntransfer = '16KiB'\nblock = '64GiB'\norder = 'perm_own_block'"),
    ("ior uniform_own_block", "kind = 'ior'\ntransfer = '16KiB'\nblock = '64GiB'\norder = 'uniform_own_block'"),
    ("ior zipf_own_block", "kind = 'ior'\ntransfer = '16KiB'\nblock = '64GiB'\norder = 'zipf_own_block'"),
    ("ior deal_global", "kind = 'ior'\ntransfer = '16KiB'\nblock = '1GiB'\nsegments = 64\norder = 'deal_global'"),
    ("mpi-io-test", "kind = 'mpi-io-test'\nblock = '64KiB'\niterations = 4000000"),
    ("tile, rows", "kind = 'tile'\nsx = 64\nsy = 100000\nnx = 8\nny = 8\nindividual = true\nrepetitions = 50"),
    ("hpio, regions", "kind = 'hpio'\nregion-count = 1000000\nregion-size = 100\nindividual = true\nrepetitions = 4"),
    ("hpio, lists", "kind = 'hpio'\nregion-count = 4096\nregion-size = 100\nrepetitions = 500"),
    ("btio simple", "kind = 'btio'\nclass = 'C'"),
    ("iozone", "kind = 'iozone'\nfile-size = '16GiB'\ntests = [0]"),
    ("iozone random", "kind = 'iozone'\nfile-size = '16GiB'\ntests = [2]"),
];

const ENOUGH: Duration = Duration::from_millis(500);

fn main() {
    println!("{:<24}{:>14}{:>10}{:>16}", "pattern", "steps/s", "ns/step", "ranges/s");
    for (name, text) in PATTERNS {
        let description: Description = toml::from_str(&format!("ranks = 64\n{text}")).expect("a description");
        let program = description.program().expect("it makes sense");
        let mut steps = (0..program.ranks()).cycle().flat_map(|rank| program.steps(rank));
        let (mut made, mut ranges, begin) = (0u64, 0, Instant::now());
        while begin.elapsed() < ENOUGH {
            for step in steps.by_ref().take(1000) {
                made += 1;
                ranges += match black_box(step) {
                    Step::Request { .. } => 1,
                    Step::List { ranges, .. } => ranges.len() as u64,
                    _ => 0,
                };
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let rate = made as f64 / seconds;
        println!("{name:<24}{rate:>14.0}{:>10.1}{:>16.0}", 1e9 / rate, ranges as f64 / seconds);
    }
}
