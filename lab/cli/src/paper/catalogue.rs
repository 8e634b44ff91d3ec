//! The rows: those that came with the program, or a directory of the same form.
//!
//! ```text
//! lab/scenarios/paper/ID.toml              a row, see `figure`
//! lab/scenarios/paper/machines/NAME.toml   what several rows share: a scenario without jobs
//! lab/scenarios/paper/calibration.toml     what was fitted
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use headstart_sim::Scenario;
use include_dir::{Dir, include_dir};
use toml::{Table, Value};

use super::calibration::Calibration;
use super::figure::{Figure, Point, Run};
use super::overrides::{merge, set_all};

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../scenarios/paper");

/// See the module.
pub struct Catalogue {
    figures: Vec<Figure>,
    machines: BTreeMap<String, Table>,
    pub calibration: Calibration,
}

/// Where an id comes in the order of rows: `L3` before `L19` before `S1`.
fn order(id: &str) -> (String, u64, String) {
    let letters = id.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let number: String = letters.chars().take_while(char::is_ascii_digit).collect();
    let rest = letters[number.len()..].to_string();
    (id[..id.len() - letters.len()].to_string(), number.parse().unwrap_or(0), rest)
}

impl Catalogue {
    /// The rows that came with the program.
    pub fn built_in() -> Result<Catalogue> {
        let text = |file: &include_dir::File<'_>| {
            let path = file.path().display().to_string();
            Ok((path.clone(), file.contents_utf8().ok_or_else(|| anyhow!("{path} is no text"))?.to_string()))
        };
        let files = BUILT_IN.files().chain(BUILT_IN.get_dir("machines").into_iter().flat_map(Dir::files));
        Catalogue::of(files.map(text).collect::<Result<_>>()?)
    }

    /// Those of a directory.
    pub fn in_directory(directory: &Path) -> Result<Catalogue> {
        let mut files = Vec::new();
        for (path, prefix) in [(directory.to_path_buf(), ""), (directory.join("machines"), "machines/")] {
            let entries = std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.ends_with(".toml") {
                    let path = entry.path();
                    let text = std::fs::read_to_string(&path);
                    files.push((
                        format!("{prefix}{name}"),
                        text.with_context(|| format!("cannot read {}", path.display()))?,
                    ));
                }
            }
        }
        Catalogue::of(files)
    }

    fn of(files: Vec<(String, String)>) -> Result<Catalogue> {
        let mut catalogue =
            Catalogue { figures: Vec::new(), machines: BTreeMap::new(), calibration: Calibration::default() };
        for (path, text) in files {
            let wrong = |problem: String| anyhow!("{path}: {problem}");
            if path == "calibration.toml" {
                catalogue.calibration = Calibration::from_toml(&text).map_err(wrong)?;
            } else if let Some(name) = path.strip_prefix("machines/").and_then(|name| name.strip_suffix(".toml")) {
                let table = text.parse::<Table>().map_err(|error| wrong(error.to_string()))?;
                catalogue.machines.insert(name.into(), table);
            } else if let Some(id) = path.strip_suffix(".toml") {
                let figure = Figure::from_toml(&text).map_err(wrong)?;
                if figure.id != id {
                    bail!("{path} says that it is row {}", figure.id);
                }
                catalogue.figures.push(figure);
            }
        }
        catalogue.figures.sort_by_key(|figure| order(&figure.id));
        let Catalogue { figures, machines, calibration } = &mut catalogue;
        for (name, table) in machines {
            calibration.apply(name, table).map_err(|problem| anyhow!("calibration.toml: {problem}"))?;
        }
        for knob in &calibration.knob {
            if !figures.iter().any(|figure| figure.id == knob.row) {
                bail!("calibration.toml: '{}' is fitted to row {}, which is not there", knob.name, knob.row);
            }
        }
        Ok(catalogue)
    }

    /// The rows of these ids, all if there are none.
    pub fn select(&self, ids: &[String]) -> Result<Vec<&Figure>> {
        if let Some(id) = ids.iter().find(|id| !self.figures.iter().any(|figure| figure.id == **id)) {
            let known: Vec<&str> = self.figures.iter().map(|figure| figure.id.as_str()).collect();
            bail!("there is no row {id}; there are {}", known.join(" "));
        }
        Ok(self.figures.iter().filter(|figure| ids.is_empty() || ids.contains(&figure.id)).collect())
    }

    /// What is simulated for a run at a point.
    pub fn scenario(&self, figure: &Figure, run: &Run, point: &Point, full: bool) -> Result<Scenario> {
        let make = || -> Result<Scenario, String> {
            let machines = self.machines.get(&figure.machines);
            let mut table = machines.ok_or_else(|| format!("there are no machines '{}'", figure.machines))?.clone();
            merge(&mut table, &figure.scenario);
            if !full {
                set_all(&mut table, &figure.smaller)?;
            }
            set_all(&mut table, &point.set)?;
            if !full {
                set_all(&mut table, &point.smaller)?;
            }
            set_all(&mut table, &run.set)?;
            if run.again {
                repeat(&mut table)?;
            }
            let text = toml::to_string(&table).map_err(|error| error.to_string())?;
            Scenario::from_toml(&text).map_err(|error| error.to_string())
        };
        make().map_err(|problem| anyhow!("row {}, {}, {}: {problem}", figure.id, run.name, point.name))
    }
}

/// From the end of the last first run to the begin of the second: time to bring to flash what they have shown
/// to be worth it (assumed).
const PAUSE_S: f64 = 60.0;

/// The first job runs once more after a pause, on the same files, and servers have forgotten what memory
/// held. What runs beside it the second time has had a first run as well, alone, in between.
fn repeat(scenario: &mut Table) -> Result<(), String> {
    let jobs = scenario.get_mut("job").and_then(Value::as_array_mut).ok_or("there is no job to repeat")?;
    let mut tables = jobs.iter().filter_map(Value::as_table).cloned();
    let text = |job: &Table, key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let mut first = tables.next().ok_or("there is no job to repeat")?;
    let name = text(&first, "name");
    first.insert("files".into(), name.clone().into());
    let (mut before, mut beside) = (vec![first.clone()], Vec::new());
    for mut neighbour in tables {
        let files = text(&neighbour, "name");
        neighbour.insert("files".into(), files.clone().into());
        let mut alone = neighbour.clone();
        for key in ["interfering", "start_s"] {
            alone.remove(key);
        }
        alone.insert("name".into(), format!("{files}, alone").into());
        alone.insert("after".into(), before.last().map(|job| text(job, "name")).unwrap_or_default().into());
        before.push(alone);
        beside.push(neighbour);
    }
    let last = before.last().map(|job| text(job, "name")).unwrap_or_default();
    let mut second = first;
    second.insert("name".into(), format!("{name}, again").into());
    second.insert("cold".into(), true.into());
    second.insert("start_s".into(), PAUSE_S.into());
    for job in &mut beside {
        let start_s = job.get("start_s").and_then(Value::as_float).unwrap_or_default();
        job.insert("start_s".into(), (PAUSE_S + start_s).into());
    }
    let again = std::iter::once(second).chain(beside).map(|mut job| {
        job.insert("after".into(), last.clone().into());
        job
    });
    *jobs = before.into_iter().chain(again).map(Value::Table).collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_that_came_with_the_program_makes_sense() {
        let catalogue = Catalogue::built_in().unwrap();
        for figure in catalogue.select(&[]).unwrap() {
            for (run, point) in figure.run.iter().flat_map(|run| figure.point.iter().map(move |point| (run, point))) {
                for full in [false, true] {
                    let scenario = catalogue.scenario(figure, run, point, full).unwrap();
                    for job in &scenario.jobs {
                        headstart_sim::workload::program(job, 1).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_that_goes_again_is_a_second_cold_job_on_the_files_of_the_first() {
        let mut table: Table = "[[job]]\nname = 'a'\nstart_s = 1.0".parse().unwrap();
        repeat(&mut table).unwrap();
        let jobs = table["job"].as_array().unwrap();
        assert_eq!((jobs.len(), jobs[0]["files"].as_str(), jobs[1]["files"].as_str()), (2, Some("a"), Some("a")));
        assert_eq!((jobs[1]["after"].as_str(), jobs[1]["cold"].as_bool()), (Some("a"), Some(true)));
        assert_eq!((jobs[0]["start_s"].as_float(), jobs[1]["start_s"].as_float()), (Some(1.0), Some(PAUSE_S)));
        assert!(repeat(&mut Table::new()).is_err());
    }

    #[test]
    fn what_runs_beside_the_second_run_has_run_alone_before() {
        let beside = "[[job]]\nname = 'b'\ninterfering = true\nstart_s = 0.5";
        let mut table: Table = format!("[[job]]\nname = 'a'\n{beside}").parse().unwrap();
        repeat(&mut table).unwrap();
        let said = |key: &str| -> Vec<String> {
            let jobs = table["job"].as_array().unwrap().iter();
            jobs.map(|job| job.get(key).map(ToString::to_string).unwrap_or_default()).collect()
        };
        assert_eq!(said("name"), ["\"a\"", "\"b, alone\"", "\"a, again\"", "\"b\""]);
        assert_eq!(said("after"), ["", "\"a\"", "\"b, alone\"", "\"b, alone\""]);
        assert_eq!(said("files"), ["\"a\"", "\"b\"", "\"a\"", "\"b\""]);
        assert_eq!(said("start_s"), ["", "", "60.0", "60.5"]);
        assert_eq!(said("interfering"), ["", "", "", "true"]);
        assert_eq!(said("cold"), ["", "", "true", ""]);
    }

    #[test]
    fn there_are_no_more_knobs_than_rows_to_fit_them_to() {
        let knobs = Catalogue::built_in().unwrap().calibration.knob;
        let rows: Vec<&str> = knobs.iter().map(|knob| knob.row.as_str()).collect();
        assert_eq!(rows, ["L19", "L20", "S8"]);
    }

    #[test]
    fn rows_are_in_the_order_of_their_numbers() {
        let catalogue = Catalogue::built_in().unwrap();
        let ids: Vec<&str> = catalogue.select(&[]).unwrap().iter().map(|figure| figure.id.as_str()).collect();
        let place = |id| ids.iter().position(|other| *other == id).unwrap();
        assert!(place("C9") < place("L3") && place("L3") < place("L19") && place("L19") < place("S1"));
    }
}
