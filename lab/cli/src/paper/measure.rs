//! From a report to the figure that a paper prints.

use headstart_sim::report::PhaseReport;
use headstart_sim::{Access, Actor};

use super::figure::{Series, Way};
use super::quantity::Measure;
use super::window::{Outcome, Shows, Window};

/// Beyond this distance a disk command is none of the same run of bytes: twice the largest command.
const JUMP_BYTES: u64 = 1 << 20;

/// What the series measures, of the measured job.
pub fn measure(series: &Series, window: Option<Window>, outcome: &Outcome) -> f64 {
    let Some(job) = outcome.job(series.first) else { return 0.0 };
    let phases: Vec<&PhaseReport> = job.phases.iter().filter(|phase| matches(series.phases, phase)).collect();
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
        Measure::RanksMbPerS => ratio(bytes * 1e-6, sum(&|phase| phase.rank_s_harmonic)),
        Measure::Seconds => job.seconds,
        Measure::DrainedMbPerS => outcome.report.drained_mb_per_s(),
        Measure::SeekMLbn => {
            let report = &outcome.report;
            let commands: f64 = report.disk.iter().map(|server| server.commands as f64).sum();
            let distance = report.disk.iter().map(|server| server.seek_bytes_mean * server.commands as f64);
            ratio(distance.sum::<f64>(), commands) / 512e6
        }
        measure => window.map_or(0.0, |window| of_window(measure, window, outcome)),
    }
}

/// What is found in the trace.
fn of_window(measure: Measure, window: Window, outcome: &Outcome) -> f64 {
    let commands: Vec<&Access> = outcome.within(window, Shows::Disk).into_iter().map(|(_, access)| access).collect();
    let pairs = || commands.windows(2).map(|pair| (pair[0], pair[1]));
    let distance = |(last, next): (&Access, &Access)| next.address.abs_diff(last.address + last.length);
    let percent = |meant: &dyn Fn((&Access, &Access)) -> bool| {
        100.0 * ratio(pairs().filter(|pair| meant(*pair)).count() as f64, pairs().count() as f64)
    };
    match measure {
        Measure::CommandKb => {
            ratio(commands.iter().map(|access| access.length as f64).sum::<f64>() * 1e-3, commands.len() as f64)
        }
        Measure::JumpsPercent => percent(&|pair| distance(pair) > JUMP_BYTES),
        Measure::BackwardPercent => percent(&|(last, next)| next.address < last.address),
        Measure::WindowSeekMLbn => {
            ratio(pairs().map(|pair| distance(pair) as f64).sum::<f64>(), pairs().count() as f64) / 512e6
        }
        Measure::ServerP50Ms => latency_ms(window, outcome, 0.5),
        Measure::ServerP90Ms => latency_ms(window, outcome, 0.9),
        _ => latency_ms(window, outcome, 1.0),
    }
}

/// Latency at the server, of a share of its requests at most.
fn latency_ms(window: Window, outcome: &Outcome, share: f64) -> f64 {
    let answers = outcome.within(window, Shows::Latency);
    let mut sorted: Vec<f64> = answers.iter().filter_map(|(_, access)| server_ms(access)).collect();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// Of a request that the server has answered.
pub fn server_ms(access: &Access) -> Option<f64> {
    match access.actor {
        Actor::Server { latency } => Some(latency.millis()),
        Actor::Device | Actor::VolumeFlash => None,
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
