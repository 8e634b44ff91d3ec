//! From a report to the figure that a paper prints.

use headstart_sim::Report;
use headstart_sim::report::PhaseReport;

use super::figure::{Measure, Series, Way};

/// What the series measures, of the first job.
pub fn measure(series: &Series, report: &Report) -> f64 {
    let phases: Vec<&PhaseReport> =
        report.jobs.iter().take(1).flat_map(|job| &job.phases).filter(|phase| matches(series.phases, phase)).collect();
    let sum = |of: &dyn Fn(&PhaseReport) -> f64| phases.iter().map(|phase| of(phase)).sum::<f64>();
    let requests = |phase: &PhaseReport| (phase.reads + phase.writes) as f64;
    let bytes = sum(&|phase| (phase.read_bytes + phase.write_bytes) as f64);
    match series.measure {
        Measure::MbPerS => ratio(bytes * 1e-6, sum(&|phase| phase.seconds)),
        Measure::RequestMbPerS => ratio(bytes * 1e-6, sum(&|phase| phase.rank_s_max)),
        Measure::P80Ms => ratio(sum(&|phase| phase.latency.p80_ms * requests(phase)), sum(&requests)),
        Measure::MeanMs => ratio(sum(&|phase| phase.latency.mean_ms * requests(phase)), sum(&requests)),
        Measure::FlashRequestsPercent => {
            100.0 * ratio(sum(&|phase| phase.flash_request_share * requests(phase)), sum(&requests))
        }
        Measure::SeekMLbn => {
            let commands: f64 = report.disk.iter().map(|server| server.commands as f64).sum();
            let distance = report.disk.iter().map(|server| server.seek_bytes_mean * server.commands as f64);
            ratio(distance.sum::<f64>(), commands) / 512e6
        }
    }
}

/// Phases without requests are the time between marks.
fn matches(way: Option<Way>, phase: &PhaseReport) -> bool {
    match way {
        None => phase.reads + phase.writes > 0,
        Some(Way::Read) => phase.reads > 0,
        Some(Way::Write) => phase.writes > 0,
    }
}

pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
