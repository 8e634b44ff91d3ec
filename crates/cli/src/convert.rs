//! `headstart convert`: a trace as lines of JSON, or as a table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use headstart_trace::Record;
use indicatif::ProgressBar;
use serde::Serialize;

use headstart_cli::trace::{LayerName, Trace, warn};

/// Requests between two signs of life.
const PROGRESS_RECORDS: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values, with a heading
    Csv,
}

#[derive(Debug, Args)]
pub struct Convert {
    /// A directory that `headstart trace` made, the text of darshan-dxt-parser, a log of Darshan, or an I/O log of fio
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The form [default: csv for a FILE whose name ends so, else jsonl]
    #[arg(long, value_enum)]
    to: Option<Form>,

    /// Which requests of Darshan's traces: those that reached the file system, or those of MPI-IO above
    #[arg(long, value_enum, default_value = "posix")]
    layer: LayerName,
}

/// A request as one line of JSON; times in nanoseconds from the trace's origin.
#[derive(Serialize)]
struct Line<'a> {
    rank: Option<u32>,
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The path where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_hex: Option<String>,
    op: &'static str,
    offset: u64,
    length: u64,
    start_ns: u64,
    end_ns: Option<u64>,
}

impl Convert {
    pub fn execute(&self) -> Result<ExitCode> {
        let mut trace = Trace::open(&self.trace, self.layer.into())?;
        let (output, name): (Box<dyn Write>, String) = match &self.output {
            None => (Box::new(io::stdout()), "standard output".into()),
            Some(path) => {
                self.refuse_trace(path)?;
                let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
                (Box::new(file), path.display().to_string())
            }
        };
        let mut output = Output::begin(self.form(), BufWriter::new(output)).with_context(|| cannot(&name))?;
        let progress = ProgressBar::new_spinner();
        let mut count = 0u64;
        while let Some(record) = trace.next_record()? {
            match output.write(&record, trace.files().path(record.file)) {
                // Whoever reads has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                written => written.with_context(|| cannot(&name))?,
            }
            count += 1;
            if count.is_multiple_of(PROGRESS_RECORDS) {
                progress.set_message(format!("{count} requests"));
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        match output.end() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error).context(cannot(&name)),
            _ => warn(&trace.losses()),
        }
        let (files, origin_s) = (trace.files().paths().count(), trace.origin_unix_ns() as f64 / 1e9);
        let origin =
            if origin_s > 0.0 { format!("; times count from {origin_s:.9} s since 1970") } else { String::new() };
        eprintln!("headstart: {count} requests on {files} files{origin}");
        Ok(ExitCode::SUCCESS)
    }

    /// What is written must not take the place of what is read.
    fn refuse_trace(&self, output: &Path) -> Result<()> {
        let trace = self.trace.canonicalize().with_context(|| format!("cannot find {}", self.trace.display()))?;
        if output.canonicalize().is_ok_and(|output| output.starts_with(&trace)) {
            bail!("-o {}: it is a part of the trace, which would be overwritten; name another file", output.display());
        }
        Ok(())
    }

    fn form(&self) -> Form {
        let is_csv = |path: &Path| path.extension().is_some_and(|extension| extension == "csv");
        self.to.unwrap_or(if self.output.as_deref().is_some_and(is_csv) { Form::Csv } else { Form::Jsonl })
    }
}

fn cannot(name: &str) -> String {
    format!("cannot write to {name}")
}

enum Output<W: Write> {
    Jsonl(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> Output<W> {
    fn begin(form: Form, writer: W) -> io::Result<Output<W>> {
        if form == Form::Jsonl {
            return Ok(Output::Jsonl(writer));
        }
        let mut table = csv::Writer::from_writer(writer);
        table.write_record(["rank", "pid", "file", "op", "offset", "length", "start_ns", "end_ns"])?;
        Ok(Output::Csv(Box::new(table)))
    }

    fn write(&mut self, record: &Record, path: &[u8]) -> io::Result<()> {
        let (operation, range) = (record.operation.name(), record.range);
        match self {
            Output::Jsonl(writer) => {
                let text = std::str::from_utf8(path).ok();
                let hex = || path.iter().map(|byte| format!("{byte:02x}")).collect();
                let line = Line {
                    rank: record.rank,
                    pid: record.process,
                    file: text,
                    file_hex: if text.is_none() { Some(hex()) } else { None },
                    op: operation,
                    offset: range.offset,
                    length: range.length,
                    start_ns: record.start.0,
                    end_ns: record.end.map(|end| end.0),
                };
                serde_json::to_writer(&mut *writer, &line)?;
                writer.write_all(b"\n")
            }
            Output::Csv(table) => {
                let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
                let (rank, pid) = (number(record.rank.map(u64::from)), number(record.process.map(u64::from)));
                let (start, end) = (record.start.0.to_string(), number(record.end.map(|end| end.0)));
                let (offset, length) = (range.offset.to_string(), range.length.to_string());
                let fields = [rank.as_bytes(), pid.as_bytes(), path, operation.as_bytes(), offset.as_bytes()];
                let fields = fields.into_iter().chain([length.as_bytes(), start.as_bytes(), end.as_bytes()]);
                Ok(table.write_record(fields)?)
            }
        }
    }

    fn end(self) -> io::Result<()> {
        match self {
            Output::Jsonl(mut writer) => writer.flush(),
            Output::Csv(mut table) => table.flush(),
        }
    }
}
