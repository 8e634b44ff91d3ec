//! The equations of CARL and S4D-Cache against simulated isolated requests, by request size, as one JSON object.
//!
//! One process reads or writes at random in a file of 16 GB, one request at a time, with pauses, on CARL's
//! and S4D's eight disk and four flash servers. *Bare* parameters are those of the devices: seek, half a
//! turn, outer rate. *Profiled* ones are what `headstart_sim::calibration` finds of the same servers for 1
//! process and for 32.

use headstart_policy::cost::benefit;
use headstart_policy::cost::benefit::SeekPoint;
use headstart_policy::cost::region;
use headstart_sim::scenario::{Costs, Directions, Job, Scenario};
use headstart_sim::{Options, calibration, run_programs};
use headstart_units::request::{Direction, Range};
use headstart_units::{GIB, KIB, Nanos};
use headstart_workload::{Program, Step};
use serde_json::{Map, Value, json};

const FILE_BYTES: u64 = 16 * GIB;
const SIZES: [u64; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB];
const REQUESTS: u64 = 2000;

/// Every rank makes the same requests; one is enough to measure, more are there to be profiled for.
#[derive(Clone, Copy)]
struct Isolated {
    ranks: u32,
    size: u64,
    direction: Direction,
}

impl Isolated {
    fn offsets(self) -> impl Iterator<Item = (u64, u64)> {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        (0..REQUESTS).map(move |_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % (FILE_BYTES / self.size) * self.size, random >> 40)
        })
    }
}

impl Program for Isolated {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn file_bytes(&self) -> Vec<u64> {
        vec![FILE_BYTES]
    }

    fn steps(&self, _: u32) -> Box<dyn Iterator<Item = Step> + Send + '_> {
        let (size, direction) = (self.size, self.direction);
        let steps = move |(offset, pause): (u64, u64)| {
            // Up to 16 ms, so that a request finds the spindle anywhere.
            [Step::Think(Nanos(pause)), Step::Request { file: 0, direction, range: Range::new(offset, size) }]
        };
        Box::new(self.offsets().flat_map(steps))
    }
}

fn machines() -> Scenario {
    let mut scenario = Scenario { drain: false, ..Scenario::default() };
    scenario.jobs.push(Job { name: "isolated".into(), ..Job::default() });
    scenario
}

/// Mean latency of a request, seconds.
fn simulated(scenario: &Scenario, program: Isolated) -> f64 {
    let programs = |_: usize, _: u64| Ok(Box::new(program) as Box<dyn Program>);
    let report = run_programs(scenario, &programs, Options::default()).expect("the scenario runs");
    report.jobs[0].phases[0].latency.mean_ms * 1e-3
}

/// Profile B's figures: seek 0.80 ms + 48.01 us per root of a cylinder up to 17,356, then 6.335 ms + 45.52 ns
/// each; 1.87 MB a cylinder; a turn of 8.33 ms; overhead 0.3 ms. Flash as a file server shows it: reads of
/// 220, writes of 190 MB/s.
fn bare() -> Costs {
    let seek = |cylinders: f64| match cylinders {
        short if short <= 17_356.0 => 0.8e-3 + 48.01e-6 * short.sqrt(),
        long => 6.335e-3 + 45.52e-9 * long,
    };
    let (servers, cylinder_bytes) = (8.0, 1.866e6);
    let point = |k: u32| {
        let distance_bytes = 1u64 << k;
        let seek_s = seek(distance_bytes as f64 / servers / cylinder_bytes);
        SeekPoint { distance_bytes, seek_s }
    };
    let s4d = benefit::Parameters {
        hdd_servers: 8,
        ssd_servers: 4,
        stripe_bytes: 64 * KIB,
        rotation_s: 4.17e-3 + 0.3e-3,
        seek_s_max: 14.2e-3,
        hdd_s_per_byte: 1.0 / 100e6,
        ssd_s_per_byte: 1.0 / 220e6,
        seek_curve: (20..38).map(point).collect(),
        ..benefit::Parameters::default()
    };
    let write = benefit::Parameters { ssd_s_per_byte: 1.0 / 190e6, ..s4d.clone() };
    let carl = |s4d: &benefit::Parameters| region::Parameters {
        hdd_startup_s_min: 0.3e-3,
        hdd_startup_s_max: 0.3e-3 + 14.2e-3 + 8.33e-3,
        ..s4d.into()
    };
    Costs { carl: Some(region::Costs { read: carl(&s4d), write: carl(&write) }), s4d: Directions { read: s4d, write } }
}

fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}

/// What the equations say of these requests on average, and by how much that is off.
fn against(costs: &Costs, program: Isolated, disk_s: f64, flash_s: f64) -> Value {
    let carl = costs.regions();
    let carl = carl.of(program.direction);
    let s4d = if program.direction == Direction::Read { &costs.s4d.read } else { &costs.s4d.write };
    let (mut last, mut sums) = (0, [0.0; 2]);
    for (offset, _) in program.offsets() {
        let range = Range::new(offset, program.size);
        sums[0] += s4d.disk_s(range, offset.abs_diff(last)) / REQUESTS as f64;
        sums[1] += s4d.flash_s(range) / REQUESTS as f64;
        last = range.end();
    }
    let off = |equation: f64, simulated: f64| json!({"ms": rounded(equation * 1e3), "off": rounded(equation / simulated - 1.0)});
    json!({
        "carl_disk": off(carl.disk_s(program.size), disk_s),
        "carl_flash": off(carl.flash_s(program.size), flash_s),
        "s4d_disk": off(sums[0], disk_s),
        "s4d_flash": off(sums[1], flash_s),
    })
}

fn main() {
    let on_disk = machines();
    let on_flash = Scenario { disk: on_disk.flash.clone(), ..on_disk.clone() };
    let profiled = |ranks: u32| {
        let program = Isolated { ranks, size: 64 * KIB, direction: Direction::Read };
        calibration::measure(&on_disk, &[Box::new(program) as Box<dyn Program>]).expect("the tiers can be priced")
    };
    let costs = [("bare", bare()), ("profiled_1", profiled(1)), ("profiled_32", profiled(32))];
    let mut directions = Map::new();
    for (name, direction) in [("read", Direction::Read), ("write", Direction::Write)] {
        let mut sizes = Map::new();
        for size in SIZES {
            let program = Isolated { ranks: 1, size, direction };
            let (disk_s, flash_s) = (simulated(&on_disk, program), simulated(&on_flash, program));
            let mut row = Map::new();
            row.insert("disk_ms".into(), rounded(disk_s * 1e3));
            row.insert("flash_ms".into(), rounded(flash_s * 1e3));
            for (name, costs) in &costs {
                row.insert((*name).into(), against(costs, program, disk_s, flash_s));
            }
            sizes.insert(format!("{}KiB", size / KIB), Value::Object(row));
        }
        directions.insert(name.into(), Value::Object(sizes));
    }
    println!("{}", Value::Object(directions));
}
