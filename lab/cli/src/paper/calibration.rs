//! What was fitted: no more knobs than rows to fit them to, all in `lab/scenarios/paper/calibration.toml`,
//! each with its range and reason.

use serde::Deserialize;
use toml::{Table, Value};

use super::overrides;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub knob: Vec<Knob>,
}

/// A value that no paper prints and that was chosen for one row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    pub name: String,
    /// Machines that it belongs to.
    pub machines: Vec<String>,
    /// Where in their scenario.
    pub key: Vec<String>,
    pub value: f64,
    pub unit: String,
    /// What would still make sense.
    pub range: [f64; 2],
    /// The row that it is fitted to.
    pub row: String,
    pub reason: String,
}

impl Knob {
    /// Whole values are integers in a scenario.
    fn toml(&self) -> Value {
        if self.value.fract() == 0.0 && matches!(self.unit.as_str(), "stripes" | "bytes") {
            Value::Integer(self.value as i64)
        } else {
            Value::Float(self.value)
        }
    }
}

impl Calibration {
    pub fn from_toml(text: &str) -> Result<Calibration, String> {
        let calibration: Calibration = toml::from_str(text).map_err(|error| error.to_string())?;
        match calibration.knob.iter().find(|knob| !(knob.range[0]..=knob.range[1]).contains(&knob.value)) {
            Some(knob) => Err(format!("{}: {} is outside of its range {:?}", knob.name, knob.value, knob.range)),
            None => Ok(calibration),
        }
    }

    /// Turns the knobs of these machines.
    pub fn apply(&self, machines: &str, table: &mut Table) -> Result<(), String> {
        for knob in self.knob.iter().filter(|knob| knob.machines.iter().any(|name| name == machines)) {
            knob.key.iter().try_for_each(|key| overrides::set(table, key, &knob.toml()))?;
        }
        Ok(())
    }
}
