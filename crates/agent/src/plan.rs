//! The plan file: a plan of [`headstart_insight::plan`] as a text that people can read and change.
//!
//! ```toml
//! version = 1
//! region_count = 2                # in all files: a plan that was cut short has fewer
//! capacity_bytes = 214748364      # the flash it was made for
//! choice = "gain"                 # or "beside-s4d"; or "random", with seed = "1"
//!
//! [prediction]
//! ranks = 16
//! requests = 24000
//! flash_requests = 20000          # requests, or parts of them, that go to flash
//! measured_s = 11.71              # the traced run; absent if the trace has no times
//! before_s = 11.71
//! after_s = 3.43
//!
//! [[file]]
//! path = "/scratch/hdd/data"
//! inode = "1234"                  # a string, as numbers in TOML end at 2^63
//! size_bytes = 134217728
//! region = [
//!   { offset = 0, length = 67108864, place = true, gain_s = 12.5, reads = 1500, writes = 0, bytes = 12288000 },
//!   { offset = 67108864, length = 67108864, place = false, gain_s = 0.8, reads = 100, writes = 0, bytes = 819200 },
//! ]
//! ```
//!
//! The regions are the gain table; `place` may be changed by hand.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops;
use std::path::Path;

use headstart_insight::plan::Prediction;
use headstart_insight::plan::{Choice, Plan, PlanFile, PlanRegion};
use headstart_units::request::Range;
use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};
use crate::text_file;

/// Of a plan, of some 100 bytes a region.
const BYTES_MAX: u64 = 256 << 20;

/// The version written and read.
const VERSION: i64 = 1;

/// No gain is larger: what fits in nanoseconds.
const GAIN_S_MAX: f64 = 9.2e9;

/// Numbers in TOML.
const NUMBER_MAX: u64 = i64::MAX as u64;

#[derive(Deserialize)]
struct Versioned {
    version: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    #[serde(rename = "version")]
    _version: i64,
    region_count: usize,
    capacity_bytes: u64,
    choice: ChoiceText,
    seed: Option<String>,
    prediction: PredictionText,
    #[serde(default)]
    file: Vec<Spanned<FileText>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ChoiceText {
    Gain,
    BesideS4d,
    Random,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictionText {
    ranks: u64,
    requests: u64,
    flash_requests: u64,
    measured_s: Option<f64>,
    before_s: f64,
    after_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    path: String,
    inode: Option<String>,
    size_bytes: u64,
    #[serde(default)]
    region: Vec<Spanned<RegionText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionText {
    offset: u64,
    length: u64,
    place: bool,
    gain_s: f64,
    reads: u64,
    writes: u64,
    bytes: u64,
}

/// Reads and checks a plan file.
///
/// # Errors
/// It cannot be read, is none, is of another version, was cut short, or makes no sense; the error names the line.
pub fn load(path: &Path) -> Result<Plan> {
    let text = text_file::read(path, BYTES_MAX).map_err(|error| Error::file("read the plan", path, error))?;
    from_toml(&text).map_err(|problem| Error::Plan { path: path.to_path_buf(), problem })
}

/// Writes a plan file, in place of one that is there; what is no file, as a pipe, is written to.
///
/// # Errors
/// The file cannot be written; one that was there is left as it was.
pub fn save(path: &Path, plan: &Plan) -> Result<()> {
    let failed = |error: io::Error| Error::file("write the plan", path, error);
    let text = to_toml(plan);
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let opened = std::fs::OpenOptions::new().write(true).open(path);
        return opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed);
    }
    // Of a link the file that it leads to.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = std::fs::File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| {
        // Whatever there is of it is of no use; that it cannot be removed changes nothing.
        let _ = std::fs::remove_file(&new);
        failed(error)
    })
}

/// The plan's text.
pub fn to_toml(plan: &Plan) -> String {
    let Prediction { ranks, requests, flash_requests, measured_s, before_s, after_s } = plan.prediction;
    let region_count: usize = plan.files.iter().map(|file| file.regions.len()).sum();
    let mut text = String::from("# Regions with place = true belong on flash; place may be changed by hand.\n");
    let choice = match plan.choice {
        Choice::Gain => "choice = \"gain\"".to_string(),
        Choice::BesideS4d => "choice = \"beside-s4d\"".to_string(),
        Choice::Random(seed) => format!("choice = \"random\"\nseed = \"{seed}\""),
    };
    let capacity_bytes = plan.capacity_bytes.min(NUMBER_MAX);
    let measured = measured_s.map(|seconds| format!("measured_s = {seconds:?}\n")).unwrap_or_default();
    let written = write!(
        text,
        "version = {VERSION}\nregion_count = {region_count}\ncapacity_bytes = {capacity_bytes}\n{choice}\n\n\
         [prediction]\nranks = {ranks}\nrequests = {requests}\nflash_requests = {flash_requests}\n{measured}\
         before_s = {before_s:?}\nafter_s = {after_s:?}\n"
    );
    written.expect("a string takes any text");
    for file in &plan.files {
        file_to_toml(file, &mut text).expect("a string takes any text");
    }
    text
}

fn file_to_toml(file: &PlanFile, text: &mut String) -> std::fmt::Result {
    writeln!(text, "\n[[file]]\npath = {}", toml::Value::String(file.path.clone()))?;
    if let Some(inode) = file.inode {
        writeln!(text, "inode = \"{inode}\"")?;
    }
    writeln!(text, "size_bytes = {}\nregion = [", file.size_bytes)?;
    for PlanRegion { range: Range { offset, length }, gain_ns, reads, writes, bytes, place } in &file.regions {
        let (whole, part) = (gain_ns.unsigned_abs() / 1_000_000_000, gain_ns.unsigned_abs() % 1_000_000_000);
        let sign = if *gain_ns < 0 { "-" } else { "" };
        let bytes = bytes.min(&NUMBER_MAX);
        writeln!(
            text,
            "  {{ offset = {offset}, length = {length}, place = {place}, gain_s = {sign}{whole}.{part:09}, \
             reads = {reads}, writes = {writes}, bytes = {bytes} }},"
        )?;
    }
    writeln!(text, "]")
}

/// A plan from its text.
///
/// # Errors
/// What is wrong with it, and in which line.
pub fn from_toml(text: &str) -> std::result::Result<Plan, String> {
    let malformed = |error: toml::de::Error| error.to_string().trim_end().to_string();
    match toml::from_str::<Versioned>(text).map_err(malformed)?.version {
        Some(toml::Value::Integer(VERSION)) => {}
        Some(other) => {
            return Err(format!(
                "it is of version {other}, and {VERSION} is read here; make it anew with 'headstart plan'"
            ));
        }
        None => return Err("it is no plan: it has no version".into()),
    }
    let parsed: PlanText = toml::from_str(text).map_err(malformed)?;
    let at = |span: ops::Range<usize>, problem: String| {
        let line = text.as_bytes()[..span.start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {problem}")
    };
    let count: usize = parsed.file.iter().map(|file| file.get_ref().region.len()).sum();
    if count != parsed.region_count {
        let problem = format!("it has {count} regions, and region_count is {}", parsed.region_count);
        return Err(format!("{problem}: it was cut short or changed; make it anew with 'headstart plan'"));
    }
    let choice = match (parsed.choice, parsed.seed) {
        (ChoiceText::Gain, None) => Choice::Gain,
        (ChoiceText::BesideS4d, None) => Choice::BesideS4d,
        (ChoiceText::Random, Some(seed)) => Choice::Random(number("seed", &seed)?),
        (ChoiceText::Gain | ChoiceText::BesideS4d, Some(_)) => {
            return Err("seed is for choice = \"random\" alone".into());
        }
        (ChoiceText::Random, None) => return Err("choice = \"random\" needs a seed".into()),
    };
    let mut plan = Plan {
        capacity_bytes: parsed.capacity_bytes,
        choice,
        prediction: prediction(parsed.prediction)?,
        files: Vec::with_capacity(parsed.file.len()),
    };
    let (mut file_spans, mut region_spans) = (Vec::new(), Vec::new());
    for file in parsed.file {
        file_spans.push(file.span());
        let file = file.into_inner();
        let inode = file.inode.as_deref().map(|inode| number("inode", inode)).transpose();
        let inode = inode.map_err(|problem| at(file_spans[file_spans.len() - 1].clone(), problem))?;
        let (mut regions, mut spans) = (Vec::with_capacity(file.region.len()), Vec::with_capacity(file.region.len()));
        for region in file.region {
            let span = region.span();
            regions.push(plan_region(&region.into_inner()).map_err(|problem| at(span.clone(), problem))?);
            spans.push(span);
        }
        region_spans.push(spans);
        plan.files.push(PlanFile { path: file.path, inode, size_bytes: file.size_bytes, regions });
    }
    plan.check().map_err(|error| {
        let span = match error.place.region {
            Some((region, _)) => &region_spans[error.place.file][region],
            None => &file_spans[error.place.file],
        };
        at(span.clone(), error.to_string())
    })?;
    Ok(plan)
}

fn number(name: &str, text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| format!("{name} is \"{text}\"; it is a whole number"))
}

fn plan_region(text: &RegionText) -> std::result::Result<PlanRegion, String> {
    if !(-GAIN_S_MAX..=GAIN_S_MAX).contains(&text.gain_s) {
        return Err(format!("gain_s is {}; it is seconds, at most {GAIN_S_MAX}", text.gain_s));
    }
    if text.length > NUMBER_MAX - text.offset.min(NUMBER_MAX) {
        return Err(format!(
            "a region of {} bytes at {} is impossible: no file is that long",
            text.length, text.offset
        ));
    }
    Ok(PlanRegion {
        range: Range::new(text.offset, text.length),
        gain_ns: (text.gain_s * 1e9).round() as i64,
        reads: text.reads,
        writes: text.writes,
        bytes: text.bytes,
        place: text.place,
    })
}

fn prediction(text: PredictionText) -> std::result::Result<Prediction, String> {
    let PredictionText { ranks, requests, flash_requests, measured_s, before_s, after_s } = text;
    let all = [("measured_s", measured_s.unwrap_or(0.0)), ("before_s", before_s), ("after_s", after_s)];
    for (name, seconds) in all {
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(format!("[prediction] {name} is {seconds}; it is seconds, not negative"));
        }
    }
    Ok(Prediction { ranks, requests, flash_requests, measured_s, before_s, after_s })
}

#[cfg(test)]
mod tests;
