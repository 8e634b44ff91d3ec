//! The requests of a trace as a program.
//!
//! A program is asked for its steps while others are under way, and a trace belongs to the thread that opened
//! it: each pass is read by a thread of its own, which stays a few thousand requests ahead.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{IntoIter, sync_channel};

use anyhow::{Result, bail};
use headstart_trace::dxt::Layer;
use headstart_units::request::Access;
use headstart_workload::{Program, Replay, Survey};

use headstart_cli::lanes::Lanes;
use headstart_cli::trace::{Trace, warn};

/// Requests that are read ahead.
const AHEAD: usize = 4096;

/// A trace that was read once.
pub struct Surveyed {
    path: PathBuf,
    layer: Layer,
    survey: Survey,
}

impl Surveyed {
    /// Reads a trace for the figures that a program has before it begins.
    pub fn of(path: &Path, layer: Layer) -> Result<Surveyed> {
        let (mut survey, mut accesses) = (Survey::default(), Accesses::open(path, layer)?);
        while let Some(access) = accesses.next()? {
            survey.add(&access);
        }
        warn(&accesses.trace.losses());
        if survey.requests.is_empty() {
            bail!("the trace {} has no request: there is nothing to replay", path.display());
        }
        Ok(Surveyed { path: path.into(), layer, survey })
    }

    /// The program that makes its requests again.
    pub fn program(&self) -> Box<dyn Program> {
        let (path, layer) = (self.path.clone(), self.layer);
        Box::new(Replay::new(self.survey.clone(), move || read_ahead(path.clone(), layer)))
    }
}

fn read_ahead(path: PathBuf, layer: Layer) -> IntoIter<Access> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        // That it can be read whole has been seen.
        let Ok(mut accesses) = Accesses::open(&path, layer) else { return };
        while let Ok(Some(access)) = accesses.next() {
            if sender.send(access).is_err() {
                return;
            }
        }
    });
    receiver.into_iter()
}

/// The requests of a trace, by start.
struct Accesses {
    trace: Trace,
    lanes: Lanes,
}

impl Accesses {
    fn open(path: &Path, layer: Layer) -> Result<Accesses> {
        Ok(Accesses { trace: Trace::open(path, layer)?, lanes: Lanes::default() })
    }

    fn next(&mut self) -> Result<Option<Access>> {
        while let Some(record) = self.trace.next_record()? {
            if record.range.is_empty() {
                continue;
            }
            return Ok(Some(self.lanes.access(&record, record.file)));
        }
        Ok(None)
    }
}
