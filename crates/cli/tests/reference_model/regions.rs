//! Plans for the files of a run: regions of every kind, cut without regard to pages, that come and go while it lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headstart_agent::plan;
use headstart_insight::plan::Prediction;
use headstart_insight::plan::{Choice, Plan, PlanFile, PlanRegion};
use headstart_units::request::Range;

use super::site::TestSite;
use super::stage::{NAMES, Random, SIZE_MAX};

pub struct Plans {
    pub paths: Vec<String>,
}

impl Plans {
    /// Three plans for files of any inode.
    pub fn draw(site: &TestSite, seed: u64) -> Plans {
        let mut random = Random(seed ^ 0x7265_6769_6f6e);
        let mut draw = |number: u64| {
            let file = |name: usize| PlanFile {
                path: site.slow.join(format!("file-{name}")).to_str().unwrap().into(),
                inode: None,
                size_bytes: SIZE_MAX,
                regions: regions(&mut random),
            };
            let prediction =
                Prediction { ranks: 8, requests: 1, flash_requests: 1, measured_s: None, before_s: 1.0, after_s: 1.0 };
            let files = (0..NAMES).map(file).collect();
            let path = site.path(&format!("plan-{number}.toml"));
            let plan = Plan { capacity_bytes: 1 << 20, choice: Choice::Gain, prediction, files };
            plan::save(&path, &plan).unwrap();
            path.to_str().unwrap().to_string()
        };
        Plans { paths: (0..3).map(&mut draw).collect() }
    }

    /// Places, gives back, and tells of other regions by name, until the run has ended. Files come and go
    /// meanwhile, and so do agents: what a command says of that is not looked at, but for bytes that differ.
    pub fn come_and_go(&self, site: &TestSite, ended: &AtomicBool) {
        for turn in 0.. {
            for _ in 0..20 {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            if site.agent().is_none() {
                continue;
            }
            let plan = &self.paths[turn % self.paths.len()];
            let arguments = match turn % 4 {
                1 => vec!["run", "--policy", "carl", "--plan", plan, "--", "true"],
                3 => vec!["unplace", plan],
                _ => vec!["place", plan],
            };
            let output = site.headstart(&arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("is not what the disk has"), "{}", site.say(&output));
        }
    }
}

/// Some long, some short, some side by side.
fn regions(random: &mut Random) -> Vec<PlanRegion> {
    let (mut regions, mut offset) = (Vec::new(), random.below(5000));
    while offset < SIZE_MAX {
        let length = [1 + random.below(3000), 4096, 1 + random.below(60_000)][random.below(3) as usize];
        let length = length.min(SIZE_MAX - offset);
        regions.push(PlanRegion {
            range: Range::new(offset, length),
            gain_ns: 1 + random.below(1_000_000) as i64,
            reads: 10,
            writes: 10,
            bytes: length,
            place: random.below(4) > 0,
        });
        offset += length + if random.below(2) == 0 { 0 } else { random.below(30_000) };
    }
    regions
}
