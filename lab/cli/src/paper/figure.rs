//! A row of the acceptance table: one file for a figure or table of a paper.
//!
//! ```toml
//! id = "C3"
//! where = "CARL, Fig 6a"
//! what = "Zipf reads by request size, gain over disks alone"
//! class = "T1"                  # how near is near enough: see `judgement`
//! role = "prediction"           # calibration | held-out | prediction
//! machines = "carl"             # machines/carl.toml: a scenario without jobs
//! x = "request size"            # axes of the drawing
//! y = "gain over disks alone, %"
//! reduced = "1000 requests a rank"   # what the next table changes, in words
//! seeds = 5                     # with --full, values are means over so many; 1 if absent
//!
//! [smaller]                     # unless --full
//! "job.0.workload.requests" = 1000
//!
//! [scenario]                    # over the machines' tables: jobs, capacity
//!
//! [[run]]                       # simulated at each point
//! name = "stock"
//!
//! [[run]]
//! name = "CARL"
//! set = { policy = "carl" }
//!
//! [[point]]                     # a value of the sweep
//! name = "8 KB"
//! set = { "job.0.workload.transfer" = "8KiB" }
//!
//! [[series]]                    # what is compared, point by point
//! name = "CARL"
//! of = "CARL"
//! over = "stock"
//! paper = [278.7]               # or ["n.p."], or [[107.2, 139.7]] where a range is printed
//! improved = true
//!
//! [window]                      # what is traced: disk and flash of one disk server, for panels and some measures; see `window`
//! server = 0
//!
//! [[panel]]                     # drawn beside each other instead of the series
//! title = "stock"
//! run = "stock"
//! shows = "disk"
//!
//! [[claim]]                     # what the text says of the shape
//! text = "the gain falls with the request size"
//! series = "CARL"
//! must = "fall"
//! ```

use serde::Deserialize;

use super::quantity::Measure;
use super::window::{Panel, Window};

/// See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub id: String,
    #[serde(rename = "where")]
    pub source: String,
    pub what: String,
    pub class: Class,
    pub role: Role,
    pub machines: String,
    pub x: String,
    pub y: String,
    /// What differs from the paper's scale unless all is asked for.
    pub reduced: String,
    /// What is not as printed, or not printed at all, and what was taken for it.
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub smaller: toml::Table,
    /// With --full: values are means over so many seeds, of runs that come out otherwise with the next one.
    #[serde(default = "one")]
    pub seeds: u32,
    #[serde(default)]
    pub scenario: toml::Table,
    pub run: Vec<Run>,
    pub point: Vec<Point>,
    #[serde(default)]
    pub series: Vec<Series>,
    #[serde(default)]
    pub claim: Vec<Claim>,
    pub window: Option<Window>,
    #[serde(default)]
    pub panel: Vec<Panel>,
}

fn one() -> u32 {
    1
}

/// How near is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Class {
    /// A printed figure.
    T1,
    /// A secondary figure, or a printed range.
    T2,
    /// Shape alone.
    T3,
    /// For information, not judged.
    #[serde(rename = "-")]
    Shown,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::T1 => "T1",
            Class::T2 => "T2",
            Class::T3 => "T3",
            Class::Shown => "-",
        }
    }
}

/// What the row was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A knob is fitted to it.
    Calibration,
    /// Stock, and nothing was fitted to it.
    HeldOut,
    /// What a policy gains.
    Prediction,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Calibration => "calibration",
            Role::HeldOut => "held-out",
            Role::Prediction => "prediction",
        }
    }
}

/// What is simulated at each point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub name: String,
    #[serde(default)]
    pub set: toml::Table,
    /// The first job runs twice. The second time is measured; memory is emptied in between, and everything
    /// else is as the first left it.
    #[serde(default)]
    pub again: bool,
}

/// A value of the sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub name: String,
    #[serde(default)]
    pub set: toml::Table,
    /// Set as well unless --full.
    #[serde(default)]
    pub smaller: toml::Table,
    /// Left out of the reduced set.
    #[serde(default)]
    pub full_only: bool,
}

/// How a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The measured value.
    Value,
    /// By how many per cent it is more than that of `over`.
    Gain,
    /// Its ratio to another point's.
    Ratio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Read,
    Write,
}

/// What is compared, point by point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    /// The run.
    pub of: String,
    /// The run that it is compared to.
    pub over: Option<String>,
    /// The point that it is compared to.
    pub over_point: Option<String>,
    #[serde(default)]
    pub measure: Measure,
    /// Of a job that runs twice: the first time.
    #[serde(default)]
    pub first: bool,
    /// Phases that do this alone.
    pub phases: Option<Way>,
    /// The paper's values by point; what is missing at the end was not printed.
    #[serde(default)]
    pub paper: Vec<Printed>,
    /// The row's, if absent.
    pub class: Option<Class>,
    /// Better than printed is no miss (T1).
    #[serde(default)]
    pub improved: bool,
}

impl Series {
    pub fn form(&self) -> Form {
        match (&self.over, &self.over_point) {
            (Some(_), _) => Form::Gain,
            (None, Some(_)) => Form::Ratio,
            (None, None) => Form::Value,
        }
    }
}

/// What a paper prints.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Printed {
    Value(f64),
    Range([f64; 2]),
    /// "n.p."
    Not(String),
}

/// What must be true of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Must {
    /// No value is lower than the one before.
    Rise,
    /// No value is higher than the one before.
    Fall,
    /// The highest value is neither the first nor the last.
    Peak,
    /// Every value is at least `bound`, or that of the other series.
    Exceed,
    /// Every value is at most `bound`, or that of the other series.
    Stay,
    /// The last value is no more than `bound` times the one before.
    Level,
    /// Beyond the only point of `at`, and not before, the next point adds less than the share `bound`.
    Knee,
    /// The mean of the values is as near to `bound` as the claim's class asks.
    Mean,
    /// The highest value is.
    Best,
}

/// What the text says of the shape.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub text: String,
    pub series: String,
    pub must: Must,
    pub bound: Option<f64>,
    pub than: Option<String>,
    /// The points it is said of; all if absent.
    #[serde(default)]
    pub at: Vec<String>,
    #[serde(default = "shape")]
    pub class: Class,
}

fn shape() -> Class {
    Class::T3
}

impl Figure {
    /// Reads a row; what it refers to within itself is there.
    pub fn from_toml(text: &str) -> Result<Figure, String> {
        let figure: Figure = toml::from_str(text).map_err(|error| error.to_string())?;
        figure.check()?;
        Ok(figure)
    }

    fn check(&self) -> Result<(), String> {
        let run = |name: &String| match self.run.iter().any(|run| run.name == *name) {
            true => Ok(()),
            false => Err(format!("there is no run '{name}'")),
        };
        let point = |name: &String| match self.point.iter().any(|point| point.name == *name) {
            true => Ok(()),
            false => Err(format!("there is no point '{name}'")),
        };
        if self.point.iter().all(|point| point.full_only) {
            return Err("the reduced set has no point of it".into());
        }
        if self.seeds == 0 {
            return Err("seeds is 0; it must be at least 1".into());
        }
        for series in &self.series {
            run(&series.of)?;
            series.over.iter().try_for_each(run)?;
            series.over_point.iter().try_for_each(point)?;
            if series.measure.is_of_window() && self.window.is_none() {
                return Err(format!("series '{}' is of a window, and there is none", series.name));
            }
            if series.paper.len() > self.point.len() {
                return Err(format!("series '{}' has more values than there are points", series.name));
            }
        }
        for panel in &self.panel {
            run(&panel.run)?;
            if self.window.is_none() {
                return Err(format!("panel '{}' is of a window, and there is none", panel.title));
            }
        }
        for claim in &self.claim {
            for name in [Some(&claim.series), claim.than.as_ref()].into_iter().flatten() {
                if !self.series.iter().any(|series| series.name == *name) {
                    return Err(format!("claim '{}': there is no series '{name}'", claim.text));
                }
            }
            claim.at.iter().try_for_each(point)?;
            let needs_bound = match claim.must {
                Must::Rise | Must::Fall | Must::Peak => false,
                Must::Exceed | Must::Stay => claim.than.is_none(),
                Must::Level | Must::Knee | Must::Mean | Must::Best => true,
            };
            if needs_bound && claim.bound.is_none() {
                return Err(format!("claim '{}' needs a bound", claim.text));
            }
            if claim.must == Must::Knee && claim.at.len() != 1 {
                return Err(format!("claim '{}' is of one point: at", claim.text));
            }
        }
        Ok(())
    }
}

/// A value with its unit.
pub fn number(form: Form, value: f64) -> String {
    let digits = if value.abs() >= 100.0 || form == Form::Gain { 1 } else { 2 };
    match form {
        Form::Gain => format!("{value:+.digits$} %"),
        Form::Value | Form::Ratio => format!("{value:.digits$}"),
    }
}
