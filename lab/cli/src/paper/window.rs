//! What is traced of a run: disk and flash of one disk server, and its answers, while the measured job runs.
//!
//! ```toml
//! [window]
//! server = 0                    # the disk server
//! at = 0.5                      # where in the job it begins, as a share of its time
//! seconds = 0.2                 # and how long it is; to the job's end if absent
//!
//! [[panel]]
//! title = "stock"
//! run = "stock"
//! shows = "disk"                # disk | flash: addresses against time; latency: of requests against the time of their answers
//! marks = [100, 250]            # what the paper prints, drawn across
//! ```

use headstart_sim::report::JobReport;
use headstart_sim::{Access, Actor, Operation, Report};
use serde::Deserialize;

/// See the module.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    pub server: u32,
    #[serde(default)]
    pub at: f64,
    pub seconds: Option<f64>,
}

/// A drawing of what was traced, at the row's first point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    pub title: String,
    pub run: String,
    pub shows: Shows,
    #[serde(default)]
    pub marks: Vec<f64>,
}

/// What a panel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shows {
    Disk,
    Flash,
    Latency,
}

impl Shows {
    pub fn is_of(self, actor: Actor) -> bool {
        match self {
            Shows::Disk => actor == Actor::Device,
            Shows::Flash => actor == Actor::VolumeFlash,
            Shows::Latency => matches!(actor, Actor::Server { .. }),
        }
    }
}

/// A run: what the simulator says of it, and what one of its disk servers did, if somebody asked for that.
pub struct Outcome {
    pub report: Report,
    pub accesses: Vec<Access>,
}

impl Outcome {
    /// The measured job: of one that runs twice the second time, unless the first is asked for.
    pub fn job(&self, first: bool) -> Option<&JobReport> {
        let mut measured = self.report.jobs.iter().filter(|job| !job.interfering);
        if first { measured.next() } else { measured.next_back() }
    }

    /// What was done in the window, with the seconds since it began.
    pub fn within(&self, window: Window, shows: Shows) -> Vec<(f64, &Access)> {
        let Some(job) = self.job(false) else { return Vec::new() };
        let begin = self.report.placing_s + job.start_s + window.at * job.seconds;
        let end = window.seconds.map_or(self.report.placing_s + job.start_s + job.seconds, |seconds| begin + seconds);
        let timed = self.accesses.iter().map(|access| (access.at.seconds(), access));
        let meant = timed.filter(|(at, access)| {
            (begin..end).contains(at) && shows.is_of(access.actor) && access.operation != Operation::Flush
        });
        meant.map(|(at, access)| (at - begin, access)).collect()
    }
}
