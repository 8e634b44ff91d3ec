//! Binary logs of Darshan, through its own Python package, which prints them as `darshan-dxt-parser` does.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use headstart_trace::dxt::Layer;

use super::{Opened, Shared, text};

/// Prints a log's extended trace.
const SCRIPT: &str = include_str!("dxt_text.py");
/// The script's exit status where the package is missing.
const NO_PACKAGE: i32 = 3;
/// The same where a part of the log is cut or damaged, which stderr names.
const DAMAGED: i32 = 4;

/// Whether a file begins as logs of version 3 do: with the version, as text that a zero ends.
pub fn is_log(head: &[u8]) -> bool {
    matches!(head, [b'3', b'.', a, b, 0, ..] if a.is_ascii_digit() && b.is_ascii_digit())
}

/// Reads a log.
pub fn read(path: &Path, layer: Layer, common: &Shared) -> Result<Opened> {
    let shown = path.display();
    let install =
        "install it with 'pip install darshan' for the python3 in PATH, or convert the log with 'darshan-dxt-parser'";
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| {
            format!("{shown} is a log of Darshan, which python3 reads with the package darshan; {install}")
        })?;
    let mut errors = child.stderr.take().context("no stderr")?;
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let opened = text::dxt(child.stdout.take().context("no stdout")?, layer, common);
    let status = child.wait().context("cannot wait for python3")?;
    let errors = errors.join().unwrap_or_default();
    if status.code() == Some(NO_PACKAGE) {
        bail!("{shown} is a log of Darshan, and python3 lacks the package darshan, which reads it; {install}");
    }
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
    if status.code() == Some(DAMAGED) {
        bail!("{shown}: {last}; nothing of it is used");
    }
    // Darshan's library says so on stderr, and goes on as if the log ended there.
    let failed = errors.lines().find(|line| line.starts_with("Error"));
    if !status.success() || failed.is_some() {
        bail!(
            "{shown}: Darshan's Python package cannot read this log: {}",
            failed.filter(|_| status.success()).unwrap_or(last)
        );
    }
    opened.with_context(|| shown.to_string())
}
