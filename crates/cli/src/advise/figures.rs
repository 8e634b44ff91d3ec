//! All of it as JSON.

use headstart_insight::advice::pictures::{Pictures, Sizes, latency_s};
use headstart_insight::advice::{FileSummary, Point, RegionSummary};
use serde::Serialize;

use super::names::{name, option};
use super::told::{Told, unknowns};

/// Files that are named.
pub const TOP_FILES: usize = 50;

/// See the module.
#[derive(Debug, Serialize)]
pub struct Figures {
    trace: String,
    requests: u64,
    timed_requests: u64,
    ranks: u64,
    groups: u64,
    files: usize,
    file_bytes: u64,
    measured_s: Option<f64>,
    disk_s: f64,
    policies: Vec<PolicyFigures>,
    knee: Option<Knee>,
    recommended: Option<&'static str>,
    commands: Vec<String>,
    regions: Regions,
    top_files: Vec<FileFigures>,
    sizes: [DirectionFigures; 2],
    not_known: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PolicyFigures {
    policy: &'static str,
    points: Vec<PointFigures>,
    knee_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct PointFigures {
    share: f64,
    capacity_bytes: u64,
    run_s: f64,
    speedup: f64,
    flash_share: f64,
    used_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Knee {
    share: f64,
    capacity_bytes: u64,
    run_s: f64,
    speedup: f64,
}

#[derive(Debug, Serialize)]
struct Regions {
    touched: u64,
    gaining: u64,
    gain_s: f64,
    top: Vec<RegionFigures>,
}

#[derive(Debug, Serialize)]
struct RegionFigures {
    path: String,
    offset: u64,
    length: u64,
    gain_s: f64,
    reads: u64,
    writes: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct FileFigures {
    path: String,
    size_bytes: u64,
    region_bytes: u64,
    gain_s: f64,
    requests: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct DirectionFigures {
    direction: &'static str,
    requests: u64,
    bytes: u64,
    /// Requests of at least so many bytes, and less than twice as many.
    sizes: Vec<(u64, u64)>,
    latency_p50_s: Option<f64>,
    latency_p99_s: Option<f64>,
}

impl Figures {
    pub fn of(told: &Told) -> Figures {
        let advice = told.advice;
        let point = |point: &Point| PointFigures {
            share: point.capacity_bytes as f64 / advice.run.total_bytes.max(1) as f64,
            capacity_bytes: point.capacity_bytes,
            run_s: point.run_s,
            speedup: speedup(advice.disk_s, point.run_s),
            flash_share: point.flash_share,
            used_bytes: point.used_bytes,
        };
        let policies = advice.curves.iter().map(|curve| PolicyFigures {
            policy: name(curve.policy),
            points: curve.points.iter().map(point).collect(),
            knee_bytes: curve.knee.map(|knee| curve.points[knee].capacity_bytes),
        });
        let knee = advised(told).map(|found| {
            let PointFigures { share, capacity_bytes, run_s, speedup, .. } = point(&found);
            Knee { share, capacity_bytes, run_s, speedup }
        });
        let region = |region: &RegionSummary| RegionFigures {
            path: advice.files[region.file].path.clone(),
            offset: region.range.offset,
            length: region.range.length,
            gain_s: region.gain_s,
            reads: region.reads,
            writes: region.writes,
            bytes: region.bytes,
        };
        let file = |file: &FileSummary| FileFigures {
            path: file.path.clone(),
            size_bytes: file.size_bytes,
            region_bytes: file.region_bytes,
            gain_s: file.gain_s,
            requests: file.requests,
            bytes: file.bytes,
        };
        Figures {
            trace: told.trace.display().to_string(),
            requests: advice.run.requests,
            timed_requests: advice.run.timed_requests,
            ranks: advice.run.ranks,
            groups: advice.run.groups,
            files: advice.files.len(),
            file_bytes: advice.run.total_bytes,
            measured_s: advice.run.measured_s,
            disk_s: advice.disk_s,
            policies: policies.collect(),
            knee,
            recommended: advice.recommendation.map(|advised| option(advised.policy)),
            commands: told.commands.next(advice),
            regions: Regions {
                touched: advice.gains.touched_regions,
                gaining: advice.gains.gaining_regions,
                gain_s: advice.gains.gain_s,
                top: advice.gains.regions.iter().map(region).collect(),
            },
            top_files: top_files(told).into_iter().map(|number| file(&advice.files[number])).collect(),
            sizes: [0, 1].map(|class| direction(&advice.pictures, class)),
            not_known: unknowns(advice),
        }
    }
}

/// The point that is advised.
pub fn advised(told: &Told) -> Option<Point> {
    let advised = told.advice.recommendation?;
    told.advice.curves.iter().find(|curve| curve.policy == advised.policy).map(|curve| curve.points[advised.point])
}

/// How many times as fast.
pub fn speedup(before_s: f64, after_s: f64) -> f64 {
    if after_s > 0.0 { before_s / after_s } else { 1.0 }
}

/// Files by gain, then by number.
pub fn top_files(told: &Told) -> Vec<usize> {
    let files = &told.advice.files;
    let mut numbers: Vec<usize> = (0..files.len()).filter(|number| files[*number].requests > 0).collect();
    numbers.sort_by(|a, b| files[*b].gain_s.total_cmp(&files[*a].gain_s).then(a.cmp(b)));
    numbers.truncate(TOP_FILES);
    numbers
}

fn direction(pictures: &Pictures, class: usize) -> DirectionFigures {
    let Sizes { counts, bytes, requests } = &pictures.sizes[class];
    let percentile = |share: f64| {
        let all: u64 = pictures.latencies[class].values().sum();
        let mut below = 0;
        let mut reaches = |count: &u64| {
            below += count;
            below as f64 >= share * all as f64
        };
        pictures.latencies[class].iter().find(|(_, count)| reaches(count)).map(|(step, _)| latency_s(*step))
    };
    DirectionFigures {
        direction: ["read", "write"][class],
        requests: *requests,
        bytes: *bytes,
        sizes: counts.iter().map(|(octave, count)| (1 << octave, *count)).collect(),
        latency_p50_s: percentile(0.5),
        latency_p99_s: percentile(0.99),
    }
}
