//! A trace as the requests of a plan: opened anew for each of the two passes, without the files that are left out.

use std::cell::RefCell;
use std::path::Path;

use anyhow::Result;
use headstart_trace::Losses;
use headstart_trace::dxt::Layer;
use headstart_units::request::Access;
use indicatif::{ProgressBar, ProgressStyle};

use super::files::PlannedFiles;
use headstart_cli::lanes::Lanes;
use headstart_cli::trace::Trace;

/// Requests between two signs of life.
const PROGRESS_REQUESTS: u64 = 1 << 16;

/// What the passes have in common, and what the first one found.
pub struct Passes<'a> {
    trace: &'a Path,
    layer: Layer,
    pub files: PlannedFiles,
    /// Why a pass ended early.
    failed: Option<anyhow::Error>,
    /// Requests of the trace, and of the files that are not left out.
    pub requests: u64,
    pub planned_requests: u64,
    /// End of each file's last request.
    pub ends: Vec<u64>,
    /// What the trace does not hold whole.
    pub losses: Losses,
    passes: u32,
}

impl<'a> Passes<'a> {
    pub fn new(trace: &'a Path, layer: Layer, files: PlannedFiles) -> Passes<'a> {
        let (losses, ends) = (Losses::default(), Vec::new());
        Passes { trace, layer, files, failed: None, requests: 0, planned_requests: 0, ends, losses, passes: 0 }
    }

    /// Why a pass ended early, if one did.
    pub fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// The requests of a pass, by start. They end early where the trace cannot be read: [`Passes::check`] says so.
pub fn pass<'a, 'b>(passes: &'b RefCell<Passes<'a>>) -> Requests<'a, 'b> {
    let mut shared = passes.borrow_mut();
    shared.passes += 1;
    let trace = if shared.failed.is_some() { None } else { Some(Trace::open(shared.trace, shared.layer)) };
    let trace = trace.transpose().unwrap_or_else(|error| {
        shared.failed = Some(error);
        None
    });
    let progress = if shared.passes == 1 {
        ProgressBar::new_spinner()
    } else {
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} requests").expect("the template is fixed");
        ProgressBar::new(shared.requests).with_style(style)
    };
    Requests {
        passes,
        is_first: shared.passes == 1,
        trace,
        numbers: Vec::new(),
        lanes: Lanes::default(),
        count: 0,
        planned: 0,
        ends: Vec::new(),
        progress,
    }
}

/// See [`pass`].
pub struct Requests<'a, 'b> {
    passes: &'b RefCell<Passes<'a>>,
    is_first: bool,
    trace: Option<Trace>,
    /// Of each file of the trace that had a request, its number among those planned for.
    numbers: Vec<Option<Option<u32>>>,
    lanes: Lanes,
    count: u64,
    planned: u64,
    ends: Vec<u64>,
    progress: ProgressBar,
}

impl Requests<'_, '_> {
    /// The number of a file of the trace, if it is planned for.
    fn number(&mut self, file: u32) -> Option<u32> {
        if let Some(Some(number)) = self.numbers.get(file as usize) {
            return *number;
        }
        let names = self.trace.as_ref()?.files();
        let files = &mut self.passes.borrow_mut().files;
        // The first pass decides which files there are: a trace that is still written may have more of them now.
        let number = if self.is_first { files.number(names.path(file)) } else { files.known(names.path(file)) };
        drop(names);
        self.numbers.resize(self.numbers.len().max(file as usize + 1), None);
        self.numbers[file as usize] = Some(number);
        number
    }

    fn finish(&mut self) {
        let Some(trace) = self.trace.take() else { return };
        self.progress.finish_and_clear();
        if self.is_first {
            let mut shared = self.passes.borrow_mut();
            (shared.requests, shared.planned_requests) = (self.count, self.planned);
            shared.ends = std::mem::take(&mut self.ends);
            shared.losses = trace.losses();
        }
    }

    fn step(&mut self) {
        self.count += 1;
        if self.count.is_multiple_of(PROGRESS_REQUESTS) {
            self.progress.set_position(self.count);
            if self.is_first {
                self.progress.set_message(format!("{} requests", self.count));
            }
        }
    }
}

impl Iterator for Requests<'_, '_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        loop {
            let record = match self.trace.as_mut()?.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.finish();
                    return None;
                }
                Err(error) => {
                    self.finish();
                    self.passes.borrow_mut().failed = Some(error);
                    return None;
                }
            };
            self.step();
            if record.range.is_empty() {
                continue;
            }
            let Some(file) = self.number(record.file) else { continue };
            self.planned += 1;
            self.ends.resize(self.ends.len().max(file as usize + 1), 0);
            let last = &mut self.ends[file as usize];
            *last = record.range.end().max(*last);
            return Some(self.lanes.access(&record, file));
        }
    }
}
