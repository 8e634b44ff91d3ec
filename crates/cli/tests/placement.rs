//! `headstart place`, `unplace`, and runs that go by regions (CARL).

#[path = "support/site.rs"]
mod site;

#[path = "placement/changed_files.rs"]
mod changed_files;
#[path = "placement/following.rs"]
mod following;
#[path = "placement/interrupted.rs"]
mod interrupted;
#[path = "placement/placing.rs"]
mod placing;
#[path = "placement/runs.rs"]
mod runs;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use headstart_agent::plan;
use headstart_insight::plan::Prediction;
use headstart_insight::plan::{Choice, Plan, PlanFile, PlanRegion};
use headstart_units::request::Range;
use serde_json::Value;
use site::{TestSite, content, managed, role};

const MIB: u64 = 1 << 20;
/// Bytes that roles read or write at once.
const PIECE: u64 = 4096;
/// Size of file `a`.
const SIZE: u64 = 8 * MIB;

/// Plays a role: steps separated by `;`. `read NAME GENERATION OFFSET LENGTH` expects bytes, `write` writes
/// them; `say FILE` makes FILE beside the site, `wait FILE` waits for one. Files stay open to the end.
fn play() {
    let role = role().unwrap();
    let mut open = Vec::new();
    for step in role.split(';') {
        let words: Vec<&str> = step.split(' ').collect();
        let number = |k: usize| words[k].parse::<u64>().unwrap();
        let beside = || managed().with_file_name(words[1]);
        match words[0] {
            "say" => fs::write(beside(), b"").unwrap(),
            "wait" => site::wait_for(words[1], || beside().exists()),
            verb => {
                let path = managed().join(words[1]);
                let file = fs::OpenOptions::new().read(true).write(verb == "write").open(path).unwrap();
                for offset in (number(3)..number(3) + number(4)).step_by(PIECE as usize) {
                    let expected = content(number(2), offset, PIECE as usize);
                    if verb == "write" {
                        file.write_all_at(&expected, offset).unwrap();
                        continue;
                    }
                    let mut found = vec![0; PIECE as usize];
                    file.read_exact_at(&mut found, offset).unwrap();
                    assert!(found == expected, "wrong bytes at {offset} of {}", words[1]);
                }
                open.push(file);
            }
        }
    }
}

fn bytes(generation: u64, size: u64) -> Vec<u8> {
    (0..size).step_by(PIECE as usize).flat_map(|offset| content(generation, offset, PIECE as usize)).collect()
}

/// A site with a file `a` of generation 1, whose agent evicts nothing by itself.
fn prepared(capacity: &str) -> TestSite {
    let site = TestSite::with_capacity(capacity);
    fs::write(site.slow.join("a"), bytes(1, SIZE)).unwrap();
    site
}

/// Offsets and lengths; gains fall in this order.
type Regions<'a> = &'a [(u64, u64)];

fn planned(site: &TestSite, name: &str, regions: Regions) -> PlanFile {
    let path = site.slow.join(name);
    let found = fs::metadata(&path).unwrap();
    let mut regions: Vec<PlanRegion> = (0i64..)
        .zip(regions)
        .map(|(k, &(offset, length))| PlanRegion {
            range: Range::new(offset, length),
            gain_ns: 1_000_000_000 - k * 1_000_000,
            reads: 100,
            writes: 0,
            bytes: length,
            place: true,
        })
        .collect();
    regions.sort_by_key(|region| region.range);
    PlanFile { path: path.to_str().unwrap().into(), inode: Some(found.ino()), size_bytes: found.len(), regions }
}

fn save(site: &TestSite, name: &str, choice: Choice, files: Vec<PlanFile>) -> String {
    let prediction =
        Prediction { ranks: 1, requests: 1, flash_requests: 1, measured_s: None, before_s: 1.0, after_s: 1.0 };
    let mut plan = Plan { capacity_bytes: 0, choice, prediction, files };
    plan.capacity_bytes = plan.placed_bytes();
    let path = site.path(name);
    plan::save(&path, &plan).unwrap();
    path.to_str().unwrap().to_string()
}

/// A plan for file `a`.
fn plan_for_a(site: &TestSite, regions: Regions) -> String {
    save(site, "plan.toml", Choice::Gain, vec![planned(site, "a", regions)])
}

/// The report of a run that plays `role`.
fn reported(site: &TestSite, options: &[&str], test: &str, role: &str) -> Value {
    let report = site.path("report.json");
    site.played(&[options, &["--report", report.to_str().unwrap()]].concat(), test, role);
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

fn of(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

fn on_disk(site: &TestSite, name: &str) -> Vec<u8> {
    fs::read(site.slow.join(name)).unwrap()
}

/// Bytes that differ from what a data file held, so that flash differs from the disk.
fn damage(path: &Path, offset: u64) -> PathBuf {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    path.to_path_buf()
}
