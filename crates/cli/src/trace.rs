//! A trace, opened: its requests by start time, whoever wrote it down.
//!
//! ```text
//! directory or file of Headstart --native--\
//! DXT text, fio iolog ------------text------+--> Trace: records in order, table of files, what is lost
//! binary log of Darshan --darshan--> text--/
//! ```
//!
//! Memory does not grow with the trace, but for a path for each file: one block for each thread that
//! recorded, and for texts one chunk to sort and a piece of each chunk that was sorted before.

mod darshan;
mod native;
mod sorting;
mod text;

use std::cell::{Ref, RefCell};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use headstart_trace::dxt;
use headstart_trace::dxt::Layer;
use headstart_trace::header::MAGIC;
use headstart_trace::{Files, Loss, Losses, Record, iolog};

/// The layer of Darshan's traces that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayerName {
    /// What reached the file system
    Posix,
    /// What the program asked of MPI-IO
    Mpiio,
}

impl From<LayerName> for Layer {
    fn from(name: LayerName) -> Layer {
        match name {
            LayerName::Posix => Layer::Posix,
            LayerName::Mpiio => Layer::MpiIo,
        }
    }
}

/// Bytes that tell one kind of trace from another.
const HEAD_BYTES: u64 = 64;

/// What the parts of a trace have in common.
#[derive(Debug, Default)]
struct Common {
    files: Files,
    losses: Losses,
    /// Why reading ended early.
    failed: Option<anyhow::Error>,
}

type Shared = Rc<RefCell<Common>>;

fn lose(common: &Shared, loss: Loss, count: u64) {
    common.borrow_mut().losses.add(loss, count);
}

/// See the module.
pub struct Trace {
    records: Box<dyn Iterator<Item = Record>>,
    common: Shared,
    origin_unix_ns: u64,
}

impl Trace {
    /// Opens a directory that `headstart trace` made, a file of it, or what another tool wrote. `layer`: of
    /// Darshan's traces.
    pub fn open(path: &Path, layer: Layer) -> Result<Trace> {
        let common = Shared::default();
        let (records, origin_unix_ns) =
            if path.is_dir() { native::directory(path, &common)? } else { open_file(path, layer, &common)? };
        Ok(Trace { records, common, origin_unix_ns })
    }

    /// The next request by start time; those that began at the same time come as they were written down.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        let record = self.records.next();
        match self.common.borrow_mut().failed.take() {
            Some(error) => Err(error),
            None => Ok(record),
        }
    }

    /// The files of the requests that were read so far.
    pub fn files(&self) -> Ref<'_, Files> {
        Ref::map(self.common.borrow(), |common| &common.files)
    }

    /// What the part that was read so far does not hold whole; complete after the last request.
    pub fn losses(&self) -> Losses {
        self.common.borrow().losses.clone()
    }

    /// Nanoseconds since 1970 at which the trace's times begin; zero if it does not say.
    pub fn origin_unix_ns(&self) -> u64 {
        self.origin_unix_ns
    }
}

/// Whether a directory holds a trace that Headstart recorded.
pub fn is_recorded(directory: &Path) -> bool {
    native::is_trace(directory)
}

/// A line on stderr for each kind of loss.
pub fn warn(losses: &Losses) {
    for (loss, count) in losses.iter() {
        eprintln!("headstart: warning: {count} {}", loss.text());
    }
}

type Opened = (Box<dyn Iterator<Item = Record>>, u64);

fn open_file(path: &Path, layer: Layer, common: &Shared) -> Result<Opened> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open the trace {shown}"))?;
    let mut head = Vec::new();
    (&file).take(HEAD_BYTES).read_to_end(&mut head).with_context(|| format!("cannot read the trace {shown}"))?;
    let whole = || File::open(path).with_context(|| format!("cannot open the trace {shown}"));
    if head.is_empty() {
        bail!("the trace {shown} is empty");
    }
    if head.starts_with(&MAGIC[..6]) {
        return native::file(path, common);
    }
    if head.starts_with(dxt::FIRST_WORDS) {
        return text::dxt(whole()?, layer, common).with_context(|| format!("{shown}"));
    }
    if head.starts_with(iolog::FIRST_WORDS) {
        return text::iolog(whole()?, common).with_context(|| format!("{shown}"));
    }
    if path.extension().is_some_and(|extension| extension == "darshan") || darshan::is_log(&head) {
        return darshan::read(path, layer, common);
    }
    bail!(
        "{shown} is no trace that is known: not a directory that 'headstart trace' made, the text of darshan-dxt-parser, a log of \
         Darshan, or an I/O log of fio (version 2 or 3)"
    )
}
